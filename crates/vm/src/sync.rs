//! The primitives under the lock-free parts. The models in `tests/loom` compile those parts on
//! loom's primitives of the same names in place of these.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Arc, Condvar, Mutex};

pub(crate) use crate::barrier::{heavy_fence, light_fence};
pub(crate) use std::thread::{Thread, park};

/// Items in a block of a queue. At about 90 bytes an item, a block is about three pages.
pub(crate) const BLOCK: usize = 128;

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
