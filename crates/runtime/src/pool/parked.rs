//! The parked workers of the pools, of which any may be woken.

use std::sync::PoisonError;
use std::time::Duration;

use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Thread, park, park_timeout};

/// A worker, as its wakers see it.
pub(super) struct ParkedWorker {
    parked: AtomicBool,
    thread: Thread,
}

impl ParkedWorker {
    pub(super) fn new(thread: Thread) -> ParkedWorker {
        ParkedWorker { parked: AtomicBool::new(false), thread }
    }

    /// Parks until woken, or for at most `limit`. Returns whether it was woken.
    pub(super) fn park(&self, limit: Option<Duration>) -> bool {
        // Acquire: pairs with the store of `wake_one`.
        match limit {
            // After a spurious wake-up the worker checks a little early, which does no harm.
            Some(limit) if self.parked.load(Ordering::Acquire) => park_timeout(limit),
            Some(_) => {}
            None => {
                while self.parked.load(Ordering::Acquire) {
                    park();
                }
            }
        }
        !self.parked.load(Ordering::Acquire)
    }
}

/// The parked workers, the one that parked last at the end: its caches are the warmest.
#[derive(Default)]
pub(super) struct ParkedWorkers(Mutex<Vec<Arc<ParkedWorker>>>);

impl ParkedWorkers {
    /// Announces that a worker is about to park. It may be woken from now on.
    pub(super) fn enter(&self, parker: &Arc<ParkedWorker>) {
        // Relaxed: the lock orders it with the wakers.
        parker.parked.store(true, Ordering::Relaxed);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(parker.clone());
    }

    /// Removes a worker that woke by itself, or does not park after all.
    pub(super) fn leave(&self, parker: &Arc<ParkedWorker>) {
        let mut parked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parked.retain(|other| !Arc::ptr_eq(other, parker));
        parker.parked.store(false, Ordering::Relaxed);
    }

    /// Wakes one worker. Returns false if none is parked.
    pub(super) fn wake_one(&self) -> bool {
        let chosen = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(parker) = chosen else { return false };
        // Release: pairs with the loads of `park`.
        parker.parked.store(false, Ordering::Release);
        parker.thread.unpark();
        true
    }

    /// Returns whether a worker is parked.
    pub(super) fn has_parked(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
