//! Programs from files: run in every way, proven, simulated, predicted.

mod assigner;
mod composites;
mod devices;
mod examples;
mod executables;
mod execution_traces;
mod files;
mod needless_waits;
mod profile;
mod proofs;
mod random_replays;
mod remat;
mod run_trace;
mod sharding_rules;
mod simulation;
