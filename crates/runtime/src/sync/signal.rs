//! The wait for a variable: a function that reads it sets a signal.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::sync::{AtomicBool, Condvar, Mutex, Ordering};

#[derive(Debug, Default)]
struct State {
    is_set: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

/// A signal that one thread waits for.
#[derive(Debug)]
pub struct Signal(Arc<State>);

/// Sets its signal when it is dropped: with the function that holds it, whether that ran or not.
#[derive(Debug)]
pub struct Mark(Arc<State>);

impl Signal {
    pub fn new() -> Signal {
        Signal(Arc::default())
    }

    /// Returns the mark that sets the signal.
    pub fn mark(&self) -> Mark {
        Mark(self.0.clone())
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Blocks until the signal is set, for no longer than `timeout`. Returns whether it is set.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_set() {
            let waited = self.0.wake.wait_timeout(guard, timeout);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
        self.is_set()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.is_set.store(true, Ordering::Release);
        self.0.wake.notify_one();
    }
}
