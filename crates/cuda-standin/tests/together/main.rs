//! Machines on the CUDA backend and the stand-in, in tests that run beside one another: the memory
//! cases, and every recorded program.

/// The cases' own helpers, for machines with a simulated device.
#[allow(dead_code)]
#[path = "../../../../tests/machine/common.rs"]
mod base;
mod common;
#[path = "../../../../tests/machine/memory_cases.rs"]
mod memory_cases;
#[path = "../../../../tests/machine/memory_tests.rs"]
mod memory_tests;
mod programs;
mod verdicts;
