//! Machines on the CUDA backend and the stand-in, in tests that run concurrently: the memory cases,
//! and every recorded program.

/// The helpers of the memory cases, for machines with a simulated device.
#[allow(dead_code)]
#[path = "../../../../tests/machine/common.rs"]
mod base;
mod common;
mod device_errors;
#[path = "../../../../tests/machine/memory_cases.rs"]
mod memory_cases;
#[path = "../../../../tests/machine/memory_tests.rs"]
mod memory_tests;
mod programs;
