//! Locks, atomics, parking and threads, as the crate uses them. The crate imports these primitives
//! from here alone, so that models can replace them: `tests/loom` compiles the lock-free parts on
//! loom's primitives of the same names, `tests/shuttle` the whole threaded machine on shuttle's.

pub mod asymmetric_fence;
pub mod inbox;
pub mod points;
#[cfg(test)]
mod points_tests;
pub mod ring;
pub mod signal;
pub mod spsc_queue;
#[cfg(test)]
mod spsc_queue_tests;

pub use millstream_backoff as backoff;
pub use std::hint::spin_loop;
pub use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
pub use std::thread::{Builder, JoinHandle, Thread, current, park, park_timeout};
pub use std::thread_local;

pub use crate::sync::asymmetric_fence::{heavy_fence, light_fence};

/// Items in a block of a queue. At about 90 bytes an item, a block is about three pages.
pub(crate) const BLOCK: usize = 128;

/// Places of a ring: the drops of a thread between two emissions. More of them are emitted at once.
pub(crate) const RING: usize = 16;

/// Streams without handles that the workers keep open, of each kind.
pub(crate) const FREE_STREAMS: usize = 32;

/// Returns how often a loop checks before it parks. A model needs fewer checks to reach the same
/// states.
pub(crate) const fn spins(checks: u32) -> u32 {
    checks
}

/// Returns how much work a worker claims at once. A model's calls take long, so it claims several
/// regardless of time.
pub(crate) const fn share(time: std::time::Duration) -> std::time::Duration {
    time
}

/// A cell that lends its content to closures, so that a model sees each use begin and end.
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
