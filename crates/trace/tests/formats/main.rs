//! The file formats: native traces, execution traces, their sidecars, and damaged files of each.

mod bad_executables;
mod bad_input;
mod data;
mod examples;
mod execution_traces;
mod files;
mod hints;
mod mutations;
mod process_groups;
mod random_ops;
mod single_calls;
mod unknown_elements;
