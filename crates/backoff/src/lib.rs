//! How a thread waits: it pauses, then yields its core while that is cheap, then sleeps.
//!
//! # Contract
//! The crate passes time between two checks of a condition, and decides when the thread should
//! sleep. The condition, and the wake-up from that sleep, belong to the caller. It depends on no
//! other crate.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`backoff`] | the rules, [`Backoff`] |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod backoff;
mod sync;

pub use backoff::{Backoff, POLLS, PROGRAM_POLLS, wait_until};
