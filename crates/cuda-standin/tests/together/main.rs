//! Machines on the CUDA backend and the stand-in, in tests that run beside one another: the memory
//! cases, and every recorded program.

mod common;
mod memory;
mod programs;
mod verdicts;
