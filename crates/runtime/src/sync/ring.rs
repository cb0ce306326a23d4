//! A bounded queue: one producer, one consumer, a fixed number of places, no allocation.
//!
//! # Rules
//! 1. The producer alone writes places, and only those that are free: `pushed - popped < PLACES`.
//!    The consumer alone reads places, and only those below `pushed`.
//! 2. `pushed` is stored with release order after its place was written, and loaded with acquire
//!    order before the place is read. `popped` is stored with release order after its place was
//!    read, and loaded with acquire order before the place is written again.
//! 3. Either end may be dropped first. Items that are left are dropped with the last end.

use std::mem::MaybeUninit;

use crate::sync::{Arc, AtomicU64, Ordering, RING, UnsafeCell};

struct Shared<T> {
    pushed: AtomicU64,
    popped: AtomicU64,
    places: [UnsafeCell<MaybeUninit<T>>; RING],
}

// SAFETY: by rule 1 the two ends never touch the same place at the same time, and items cross
// threads only if `T: Send`.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let (first, end) =
            (self.popped.load(Ordering::Acquire), self.pushed.load(Ordering::Acquire));
        for number in first..end {
            let place = &self.places[number as usize % RING];
            // SAFETY: the place is below `pushed` and was not read; both ends are gone.
            place.with_mut(|place| unsafe { (*place).assume_init_drop() });
        }
    }
}

/// The end that pushes items.
pub(crate) struct RingProducer<T> {
    shared: Arc<Shared<T>>,
    pushed: u64,
    /// The last known number of popped items.
    popped: u64,
}

/// The end that pops items.
pub(crate) struct RingConsumer<T> {
    shared: Arc<Shared<T>>,
    popped: u64,
}

/// Creates an empty ring.
pub(crate) fn ring<T>() -> (RingProducer<T>, RingConsumer<T>) {
    let shared = Arc::new(Shared {
        pushed: AtomicU64::new(0),
        popped: AtomicU64::new(0),
        places: std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
    });
    (
        RingProducer { shared: shared.clone(), pushed: 0, popped: 0 },
        RingConsumer { shared, popped: 0 },
    )
}

impl<T> RingProducer<T> {
    /// Pushes an item, or returns it if all places are taken.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
        if self.pushed - self.popped == RING as u64 {
            self.popped = self.shared.popped.load(Ordering::Acquire);
            if self.pushed - self.popped == RING as u64 {
                return Err(item);
            }
        }
        let place = &self.shared.places[self.pushed as usize % RING];
        // SAFETY: by rule 1 the place is free, and no other thread writes places.
        place.with_mut(|place| unsafe { (*place).write(item) });
        self.pushed += 1;
        self.shared.pushed.store(self.pushed, Ordering::Release);
        Ok(())
    }

    /// Returns whether the other end still exists.
    pub(crate) fn has_consumer(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }
}

impl<T> RingConsumer<T> {
    /// Pops the oldest item.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.popped == self.shared.pushed.load(Ordering::Acquire) {
            return None;
        }
        let place = &self.shared.places[self.popped as usize % RING];
        // SAFETY: by rule 1 the producer has written the place, and does not touch it before
        // `popped` has moved past it; so it is read once.
        let item = place.with(|place| unsafe { (*place).assume_init_read() });
        self.popped += 1;
        self.shared.popped.store(self.popped, Ordering::Release);
        Some(item)
    }

    /// Returns whether nothing is left to pop.
    pub(crate) fn is_empty(&self) -> bool {
        self.popped == self.shared.pushed.load(Ordering::Acquire)
    }

    /// Returns whether the other end still exists.
    pub(crate) fn has_producer(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }
}
