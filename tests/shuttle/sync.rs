//! Shuttle's primitives, by the names of the runtime's `sync/mod.rs`.

#[path = "../../crates/backoff/src/backoff.rs"]
pub(crate) mod backoff;
#[path = "../../crates/runtime/src/sync/inbox.rs"]
pub(crate) mod inbox;
#[path = "../../crates/runtime/src/sync/points.rs"]
pub(crate) mod points;
#[path = "../../crates/runtime/src/sync/ring.rs"]
pub(crate) mod ring;
#[path = "../../crates/runtime/src/sync/signal.rs"]
pub(crate) mod signal;
#[path = "../../crates/runtime/src/sync/spsc_queue.rs"]
pub(crate) mod spsc_queue;

pub(crate) use shuttle::hint::spin_loop;
pub(crate) use shuttle::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard};
pub(crate) use shuttle::thread::{
    Builder, JoinHandle, Thread, current, park, park_timeout, sleep, yield_now,
};
pub(crate) use shuttle::thread_local;

use std::sync::PoisonError;

/// With sequentially consistent accesses a fence orders nothing more.
pub(crate) fn light_fence() {
    fence(Ordering::SeqCst);
}

pub(crate) fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    true
}

/// Small, so that programs cross the border of a block.
pub(crate) const BLOCK: usize = 2;

/// Small, so that drops find it full.
pub(crate) const RING: usize = 2;

/// Small, so that dropped streams are closed.
pub(crate) const FREE_STREAMS: usize = 1;

/// No time passes, so no yield is long.
pub(crate) const fn nanos() -> u64 {
    0
}

/// Two checks: one that finds nothing, and one after other threads have run.
pub(crate) const fn spins(_looks: u32) -> u32 {
    2
}

/// So much that a pool worker claims its whole share, and has some to hand over.
pub(crate) const fn share(_time: std::time::Duration) -> std::time::Duration {
    std::time::Duration::from_secs(1)
}

/// A cell that is lent out by closures.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn with<R>(&self, use_it: impl FnOnce(*const T) -> R) -> R {
        use_it(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, use_it: impl FnOnce(*mut T) -> R) -> R {
        use_it(self.0.get())
    }
}

/// A value that is set once and can be waited for.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    lock: Mutex<()>,
    is_set: Condvar,
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock { value: std::sync::OnceLock::new(), lock: Mutex::new(()), is_set: Condvar::new() }
    }
}

impl<T> OnceLock<T> {
    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let set = self.value.set(value);
        self.is_set.notify_all();
        set
    }

    pub(crate) fn get(&self) -> Option<&T> {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.value.get()
    }

    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let value = self.value.get_or_init(init);
        self.is_set.notify_all();
        value
    }

    pub(crate) fn wait(&self) -> &T {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(value) = self.value.get() {
                return value;
            }
            guard = self.is_set.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
