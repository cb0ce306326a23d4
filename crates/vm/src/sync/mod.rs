//! What threads meet at: locks, atomics, sleep, threads themselves. The tables takes these from here
//! alone, so that models can put others in their place: `tests/loom` compiles the lock-free parts on
//! loom's primitives of the same names, `tests/shuttle` the whole tables on shuttle's.

pub(crate) mod asymmetric_fence;
pub(crate) mod points;
#[cfg(test)]
mod points_tests;
pub(crate) mod spsc_queue;
#[cfg(test)]
mod spsc_queue_tests;

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
pub(crate) use std::thread::{Builder, JoinHandle, Thread, current, park, park_timeout, sleep};
pub(crate) use std::thread_local;

pub(crate) use crate::sync::asymmetric_fence::{heavy_fence, light_fence};

/// Items in a block of a queue. At about 90 bytes an item, a block is about three pages.
pub(crate) const BLOCK: usize = 128;

/// How often a loop looks before it sleeps; a model needs fewer looks to see the same.
pub(crate) const fn spins(looks: u32) -> u32 {
    looks
}

/// How much work is taken at once; where a model's calls take long, several are still to be taken.
pub(crate) const fn share(time: std::time::Duration) -> std::time::Duration {
    time
}

/// A cell that is lent out by closures, so that a model can see each use begin and end.
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
