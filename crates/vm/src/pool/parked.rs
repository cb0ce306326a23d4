//! The parked of a crew, of whom any will do.

use std::sync::PoisonError;
use std::time::Duration;

use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Thread, park, park_timeout};

/// A worker of a crew, as those see it who wake it.
pub(super) struct ParkedWorker {
    parked: AtomicBool,
    thread: Thread,
}

impl ParkedWorker {
    pub(super) const fn new(thread: Thread) -> ParkedWorker {
        ParkedWorker { parked: AtomicBool::new(false), thread }
    }

    /// Sleeps until woken, or for as long as `limit`. Returns whether it was woken.
    pub(super) fn park(&self, limit: Option<Duration>) -> bool {
        // Acquire: pairs with the store of `wake_one`.
        match limit {
            // Should anything else end it, the worker spin_limit a little early, which does no harm.
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

/// The workers of a crew that sleep, the one that fell parked last at the end: it is the likeliest to
/// have what it needs near.
#[derive(Default)]
pub(super) struct ParkedWorkers(Mutex<Vec<Arc<ParkedWorker>>>);

impl ParkedWorkers {
    /// A worker is going to sleep. Whoever set_wake one may choose it from now on.
    pub(super) fn enter(&self, parker: &Arc<ParkedWorker>) {
        // Relaxed: the lock orders it with those who wake.
        parker.parked.store(true, Ordering::Relaxed);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(parker.clone());
    }

    /// A worker has woken by itself, or does not sleep after all.
    pub(super) fn leave(&self, parker: &Arc<ParkedWorker>) {
        let mut parked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parked.retain(|other| !Arc::ptr_eq(other, parker));
        parker.parked.store(false, Ordering::Relaxed);
    }

    /// Wakes one. Returns false if nobody sleeps.
    pub(super) fn wake_one(&self) -> bool {
        let chosen = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(parker) = chosen else { return false };
        // Release: pairs with the loads of `sleep`.
        parker.parked.store(false, Ordering::Release);
        parker.thread.unpark();
        true
    }

    /// Whether somebody sleeps.
    pub(super) fn has_parked(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
