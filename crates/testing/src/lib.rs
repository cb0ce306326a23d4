//! Fixtures that several test programs share.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`machine`] | machines with simulated devices, tensors of f32, lists as text |
//! | [`memory_cases`] | when released memory may be placed again: cases for any device |
//! | [`faults`] | small programs, the fault matrix over them, its oracle |
//! | [`programs`] | programs of random steps |

#![deny(missing_docs)]

pub mod faults;
pub mod machine;
pub mod memory_cases;
pub mod programs;
