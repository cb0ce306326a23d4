//! The sleepers of a crew, of whom any will do.

use std::sync::PoisonError;
use std::time::Duration;

use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Thread, park, park_timeout};

/// A worker of a crew, as those see it who wake it.
pub(super) struct Sleeper {
    asleep: AtomicBool,
    thread: Thread,
}

impl Sleeper {
    pub(super) const fn new(thread: Thread) -> Sleeper {
        Sleeper { asleep: AtomicBool::new(false), thread }
    }

    /// Sleeps until woken, or for as long as `limit`. Returns whether it was woken.
    pub(super) fn sleep(&self, limit: Option<Duration>) -> bool {
        // Acquire: pairs with the store of `wake_one`.
        match limit {
            // Should anything else end it, the worker looks a little early, which does no harm.
            Some(limit) if self.asleep.load(Ordering::Acquire) => park_timeout(limit),
            Some(_) => {}
            None => {
                while self.asleep.load(Ordering::Acquire) {
                    park();
                }
            }
        }
        !self.asleep.load(Ordering::Acquire)
    }
}

/// The workers of a crew that sleep, the one that fell asleep last at the end: it is the likeliest to
/// have what it needs near.
#[derive(Default)]
pub(super) struct Crew(Mutex<Vec<Arc<Sleeper>>>);

impl Crew {
    /// A worker is going to sleep. Whoever wakes one may choose it from now on.
    pub(super) fn enter(&self, sleeper: &Arc<Sleeper>) {
        // Relaxed: the lock orders it with those who wake.
        sleeper.asleep.store(true, Ordering::Relaxed);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sleeper.clone());
    }

    /// A worker has woken by itself, or does not sleep after all.
    pub(super) fn leave(&self, sleeper: &Arc<Sleeper>) {
        let mut sleepers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sleepers.retain(|other| !Arc::ptr_eq(other, sleeper));
        sleeper.asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes one. Returns false if nobody sleeps.
    pub(super) fn wake_one(&self) -> bool {
        let chosen = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(sleeper) = chosen else { return false };
        // Release: pairs with the loads of `sleep`.
        sleeper.asleep.store(false, Ordering::Release);
        sleeper.thread.unpark();
        true
    }

    /// Whether somebody sleeps.
    pub(super) fn has_sleepers(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}
