//! Programs from files: run in every way, proven, simulated, predicted.

mod examples;
mod executables;
mod execution_traces;
mod needless_waits;
mod prediction;
mod profile;
mod proofs;
mod run_trace;
mod simulation;
