//! How far a worker is with the calls that it has taken, for those who may take over the others.
//!
//! # Rules
//! 1. Before a worker begins a call it says so, fences, and spin_limit whether it was stopped.
//! 2. Who takes over says that the worker is stopped, fences, and spin_limit how many it has begun: the
//!    others are now its own. Of the two fences one comes first, so either the worker sees that it
//!    was stopped, or the other sees that the call was begun. Then the call is the worker's, which a
//!    worker that sees itself stopped finds out under the crew's lock.
//! 3. The worker's fence is the light one: it begins calls all the time, and is seldom stopped.

use crate::sync::{AtomicBool, AtomicU64, Ordering, heavy_fence, light_fence};

/// A worker's progress. On its own cache lines, since the worker writes it all the time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ClaimCounter {
    begun: AtomicU64,
    stopped: AtomicBool,
}

impl ClaimCounter {
    /// How many calls were ever begun.
    pub(crate) fn begun(&self) -> u64 {
        // Acquire: who sees a call begun sees what those before it did.
        self.begun.load(Ordering::Acquire)
    }

    /// The worker takes calls, and begins the first. Called under the crew's lock. Returns how many
    /// had been begun before.
    pub(crate) fn take(&self) -> u64 {
        let before = self.begun.load(Ordering::Relaxed);
        self.stopped.store(false, Ordering::Relaxed);
        self.begun.store(before + 1, Ordering::Release);
        before
    }

    /// The worker begins another call, so that `count` are begun. Returns false if it has to ask
    /// whether that is still its own.
    #[inline]
    pub(crate) fn begin(&self, count: u64) -> bool {
        // Release: pairs with the load of `begun`.
        self.begun.store(count, Ordering::Release);
        // Pairs with the fence in `stop`.
        light_fence();
        !self.stopped.load(Ordering::Relaxed)
    }

    /// Stops the worker, and says how many calls it has begun. Called under the crew's lock. None if
    /// nothing can be said.
    pub(crate) fn stop(&self) -> Option<u64> {
        self.stopped.store(true, Ordering::Relaxed);
        // Pairs with the fence in `begin`.
        heavy_fence().then(|| self.begun())
    }
}
