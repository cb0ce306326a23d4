//! Machines on the CUDA backend and the stand-in, in tests that run concurrently: the memory cases,
//! and every recorded program.

mod common;
mod device_errors;
mod memory;
mod profile;
mod programs;
