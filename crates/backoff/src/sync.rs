//! The primitives of `backoff`, which models replace by names of their own.

use std::sync::LazyLock;
use std::time::Instant;

pub(crate) use std::hint::spin_loop;
pub(crate) use std::thread::{sleep, yield_now};

/// Returns how often a loop checks. A model needs fewer checks to reach the same states.
pub(crate) const fn spins(checks: u32) -> u32 {
    checks
}

/// Returns the nanoseconds since the first call.
pub(crate) fn nanos() -> u64 {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(BEGIN.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
