//! The count of calls that a worker has begun of those that it claimed, for workers that may take
//! over the rest.
//!
//! # Rules
//! 1. Before a worker begins a call, it counts the call, fences, and checks whether it was stopped.
//! 2. A worker that takes over stops the other one, fences, and reads how many calls it has begun:
//!    all others are now its own. One of the two fences comes first, so either the stopped worker
//!    sees that it was stopped, or the other sees that the call was begun. In the latter case the
//!    call belongs to the stopped worker, which checks under the pool's lock.
//! 3. The counting worker executes the cheap half of the asymmetric fence: it begins calls all the
//!    time, and is rarely stopped.

use crate::sync::{AtomicBool, AtomicU64, Ordering, heavy_fence, light_fence};

/// A worker's count. On its own cache lines, since the worker writes it all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ClaimCounter {
    begun: AtomicU64,
    stopped: AtomicBool,
}

impl ClaimCounter {
    /// Returns how many calls were ever begun.
    pub(crate) fn begun(&self) -> u64 {
        // Acquire: a thread that sees a call begun sees the effects of those before it.
        self.begun.load(Ordering::Acquire)
    }

    /// Claims calls, and begins the first. Called under the pool's lock. Returns how many had been
    /// begun before.
    pub(crate) fn take(&self) -> u64 {
        let before = self.begun.load(Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
        self.begun.store(before + 1, Ordering::Release);
        before
    }

    /// Begins another call, so that `count` are begun. Returns false if the worker has to check
    /// whether the call is still its own.
    #[inline]
    pub(crate) fn begin(&self, count: u64) -> bool {
        // Release: pairs with the load of `begun`.
        self.begun.store(count, Ordering::Release);
        // Pairs with the fence in `stop`.
        light_fence();
        !self.stopped.load(Ordering::Relaxed)
    }

    /// Stops the worker, and returns how many calls it has begun. Called under the pool's lock.
    /// Returns none if the fence failed.
    pub(crate) fn stop(&self) -> Option<u64> {
        self.stopped.store(true, Ordering::Relaxed);
        // Pairs with the fence in `begin`.
        heavy_fence().then(|| self.begun())
    }
}
