//! An unbounded queue from the engine to a worker: one producer, one consumer, memory in blocks.
//!
//! # Rules
//! 1. The producer alone writes slots at or past `pushed`, the consumer alone reads slots below it.
//!    `pushed` is stored with release order after the slot, and loaded with acquire order.
//! 2. A block is reached through its predecessor's `next`, stored before the first slot of the
//!    block is published.
//! 3. The consumer returns a block to the spare list after it has read all of it and moved on. The
//!    producer is then in a later block, so nothing points to the returned one.
//! 4. Either end may be dropped first. The end that is dropped last drops the remaining items and
//!    frees the last block. `ends` says which end that is, and hands it the read cursor.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::PoisonError;

use intrusive_collections::{SinglyLinkedList, SinglyLinkedListAtomicLink, intrusive_adapter};

use crate::sync::{Arc, AtomicPtr, AtomicU64, BLOCK, Mutex, Ordering, UnsafeCell};

/// The most empty blocks that are kept.
pub(crate) const SPARE: usize = 16;

struct Block<T> {
    link: SinglyLinkedListAtomicLink,
    next: AtomicPtr<Block<T>>,
    slots: [UnsafeCell<MaybeUninit<T>>; BLOCK],
}

intrusive_adapter!(Spare<T> = Box<Block<T>>: Block<T> { link => SinglyLinkedListAtomicLink });

impl<T> Block<T> {
    fn boxed() -> Box<Block<T>> {
        Box::new(Block {
            link: SinglyLinkedListAtomicLink::new(),
            next: AtomicPtr::new(ptr::null_mut()),
            slots: std::array::from_fn(|_| UnsafeCell::new(MaybeUninit::uninit())),
        })
    }
}

struct SpareBlocks<T> {
    list: SinglyLinkedList<Spare<T>>,
    count: usize,
}

/// The position of the next read.
struct Cursor<T> {
    block: NonNull<Block<T>>,
    at: usize,
    popped: u64,
    seen: u64,
}

enum Ends<T> {
    Both,
    ConsumerLeft,
    ProducerLeft(Cursor<T>),
}

#[repr(align(128))]
struct Shared<T> {
    pushed: AtomicU64,
    spare: Mutex<SpareBlocks<T>>,
    ends: Mutex<Ends<T>>,
}

// SAFETY: the list holds blocks without items in them, and a cursor is stored here only after the
// consumer is gone; the mutexes admit one thread at a time.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

/// The end that pushes items.
pub(crate) struct Producer<T> {
    shared: Arc<Shared<T>>,
    block: NonNull<Block<T>>,
    at: usize,
    pushed: u64,
}

/// The end that pops items.
pub(crate) struct Consumer<T> {
    shared: Arc<Shared<T>>,
    cursor: Cursor<T>,
}

// SAFETY: by rule 1 the two ends never touch the same slot at the same time, and items cross
// threads only if `T: Send`.
unsafe impl<T: Send> Send for Producer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Consumer<T> {}

/// Creates an empty queue.
pub(crate) fn queue<T>() -> (Producer<T>, Consumer<T>) {
    let spare = SpareBlocks { list: SinglyLinkedList::new(Spare::new()), count: 0 };
    let shared = Arc::new(Shared {
        pushed: AtomicU64::new(0),
        spare: Mutex::new(spare),
        ends: Mutex::new(Ends::Both),
    });
    let block = NonNull::from(Box::leak(Block::boxed()));
    let cursor = Cursor { block, at: 0, popped: 0, seen: 0 };
    let consumer = Consumer { shared: shared.clone(), cursor };
    (Producer { shared, block, at: 0, pushed: 0 }, consumer)
}

impl<T> Producer<T> {
    pub(crate) fn push(&mut self, item: T) {
        self.push_with(|| item);
    }

    /// Pushes the item that `make` returns, written in place: a large item with few initialized
    /// bytes is not moved.
    #[inline(always)]
    pub(crate) fn push_with(&mut self, make: impl FnOnce() -> T) {
        if self.at == BLOCK {
            self.next_block();
        }
        // SAFETY: the consumer frees a block only after it has moved on to a later block, which
        // exists only once the producer is there; so the block is alive. The slot is at `pushed`,
        // so the producer owns it.
        unsafe { self.block.as_ref().slots[self.at].with_mut(|slot| (*slot).write(make())) };
        self.at += 1;
        self.pushed += 1;
        // Release: pairs with the load of `find`.
        self.shared.pushed.store(self.pushed, Ordering::Release);
    }

    #[cold]
    fn next_block(&mut self) {
        let spare = {
            let mut spare = self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner);
            let block = spare.list.pop_front();
            spare.count -= usize::from(block.is_some());
            block
        };
        let next = NonNull::from(Box::leak(spare.unwrap_or_else(Block::boxed)));
        // SAFETY: the consumer frees a block only after it has moved on through `next`, which this
        // very store makes possible; so the block is alive.
        let block = unsafe { self.block.as_ref() };
        block.next.store(next.as_ptr(), Ordering::Release);
        self.block = next;
        self.at = 0;
    }
}

/// Reads the number of pushed items.
pub(crate) struct Watcher<T>(Arc<Shared<T>>);

impl<T> Watcher<T> {
    /// Returns how many items were ever pushed.
    pub(crate) fn pushed(&self) -> u64 {
        self.0.pushed.load(Ordering::Acquire)
    }
}

impl<T> Consumer<T> {
    /// Returns a view of the number of pushed items, for threads that pop nothing.
    pub(crate) fn watcher(&self) -> Watcher<T> {
        Watcher(self.shared.clone())
    }

    /// Returns how many items were ever popped.
    pub(crate) const fn popped(&self) -> u64 {
        self.cursor.popped
    }

    /// Returns how many empty blocks are kept.
    #[cfg(test)]
    pub(crate) fn spare(&self) -> usize {
        self.shared.spare.lock().unwrap_or_else(PoisonError::into_inner).count
    }

    /// Returns whether nothing is left to pop.
    pub(crate) fn is_empty(&self) -> bool {
        self.cursor.popped == self.shared.pushed.load(Ordering::Acquire)
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.cursor.pop(&self.shared)
    }
}

impl<T> Cursor<T> {
    /// Moves the cursor to the next item. Returns false if there is none.
    #[inline]
    fn find(&mut self, shared: &Shared<T>) -> bool {
        if self.popped == self.seen {
            self.seen = shared.pushed.load(Ordering::Acquire);
            if self.popped == self.seen {
                return false;
            }
        }
        if self.at == BLOCK {
            self.leave_block(shared);
        }
        true
    }

    fn pop(&mut self, shared: &Shared<T>) -> Option<T> {
        if !self.find(shared) {
            return None;
        }
        // SAFETY: `popped < pushed`, so the producer has written the slot and will not touch it;
        // it is read once, as `popped` moves past it.
        let item =
            unsafe { self.block.as_ref().slots[self.at].with(|slot| (*slot).assume_init_read()) };
        self.at += 1;
        self.popped += 1;
        Some(item)
    }

    /// Moves to the next block, which holds at least one item.
    fn leave_block(&mut self, shared: &Shared<T>) {
        // SAFETY: the consumer's block is alive until the consumer leaves it here.
        let next = unsafe { self.block.as_ref() }.next.load(Ordering::Acquire);
        let Some(next) = NonNull::new(next) else {
            unreachable!("an item was published past a block without a next one")
        };
        // SAFETY: the block came from a box, and by rule 3 nothing else points to it any more.
        let old = unsafe { Box::from_raw(self.block.as_ptr()) };
        old.next.store(ptr::null_mut(), Ordering::Relaxed);
        self.block = next;
        self.at = 0;
        let mut spare = shared.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.count < SPARE {
            spare.list.push_front(old);
            spare.count += 1;
        }
    }
}

impl<T> Cursor<T> {
    /// Drops the remaining items and frees the last block.
    fn finish(mut self, shared: &Shared<T>) {
        while self.pop(shared).is_some() {}
        // SAFETY: by rule 4 both ends are gone; all pushed items have been read, so this is the
        // producer's last block, and nothing else points to it.
        drop(unsafe { Box::from_raw(self.block.as_ptr()) });
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
        let Cursor { block, at, popped, seen } = self.cursor;
        let cursor = Cursor { block, at, popped, seen };
        let mut ends = self.shared.ends.lock().unwrap_or_else(PoisonError::into_inner);
        match *ends {
            Ends::ConsumerLeft => {
                drop(ends);
                cursor.finish(&self.shared);
            }
            _ => *ends = Ends::ProducerLeft(cursor),
        }
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        let mut ends = self.shared.ends.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *ends, Ends::ConsumerLeft) {
            Ends::ProducerLeft(cursor) => {
                drop(ends);
                cursor.finish(&self.shared);
            }
            Ends::Both | Ends::ConsumerLeft => {}
        }
    }
}
