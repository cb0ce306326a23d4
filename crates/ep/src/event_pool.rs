//! The event pool: reusable events of one device.
//!
//! # Rules
//! 1. A slot holds one native event. It is either free and in the free list, or in use and held by
//!    handles ([`PooledEvent`]); never both.
//! 2. `handles` counts the handles of a slot in use. The last handle returns the slot when it is
//!    dropped: the handle that finds the count at one, or decrements it to zero. Exactly one handle
//!    does so, and it leaves the count for the next [`EventPool::take`] to set.
//! 3. `generation` changes only under the free list's lock, when the slot is taken. A handle keeps
//!    the generation with which it was taken.
//! 4. Slots refer to the free list, and the list holds the free slots. Dropping the pool empties
//!    and closes the list, which breaks the cycle; slots that return later are freed.

use std::fmt;
use std::sync::{Arc, PoisonError};

use intrusive_collections::{SinglyLinkedList, SinglyLinkedListAtomicLink, intrusive_adapter};

use millstream_types::Result;
use millstream_types::panics::{Guarded, catch_panic};

use crate::device::{Device, Event};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};

/// A pool of events of one device. The pool creates an event when no free one is left and keeps it
/// until the pool is dropped, so a program in its steady state creates and destroys none.
pub struct EventPool {
    device: Arc<dyn Device>,
    /// Whether the events keep the times of their records, if the device has a clock.
    timed: bool,
    free_list: Arc<FreeList>,
}

/// An event taken from a pool. It returns to the pool when its last clone is dropped.
pub struct PooledEvent {
    /// None only while the value is being dropped.
    slot: Option<Arc<Slot>>,
    generation: u64,
}

struct Slot {
    link: SinglyLinkedListAtomicLink,
    native: Guarded<Arc<dyn Event>>,
    number: u32,
    generation: AtomicU64,
    handles: AtomicUsize,
    free_list: Arc<FreeList>,
}

intrusive_adapter!(FreeSlot = Arc<Slot>: Slot { link => SinglyLinkedListAtomicLink });

struct FreeList(Mutex<FreeListState>);

struct FreeListState {
    free: SinglyLinkedList<FreeSlot>,
    created: u32,
    in_use: usize,
    closed: bool,
}

impl FreeList {
    fn lock(&self) -> MutexGuard<'_, FreeListState> {
        // No code that can panic runs under the lock, so a poisoned list is still consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventPool {
    /// Creates an empty pool of `device`'s events.
    pub fn new(device: Arc<dyn Device>) -> EventPool {
        EventPool::with(device, false)
    }

    /// Creates an empty pool of `device`'s timed events ([`Device::create_timed_event`]).
    pub fn timed(device: Arc<dyn Device>) -> EventPool {
        EventPool::with(device, true)
    }

    fn with(device: Arc<dyn Device>, timed: bool) -> EventPool {
        let free = SinglyLinkedList::new(FreeSlot::new());
        let slots = FreeListState { free, created: 0, in_use: 0, closed: false };
        EventPool { device, timed, free_list: Arc::new(FreeList(Mutex::new(slots))) }
    }

    /// Takes an event from the pool, with a generation that its slot never had before.
    ///
    /// # Errors
    /// No event is free, and the device creates no new one.
    pub fn take(&self) -> Result<PooledEvent> {
        {
            let mut slots = self.free_list.lock();
            if let Some(slot) = slots.free.pop_front() {
                slots.in_use += 1;
                let generation = slot.generation.load(Ordering::Relaxed) + 1;
                slot.generation.store(generation, Ordering::Relaxed);
                drop(slots);
                // The slot has left the list, so no other thread reads the count.
                slot.handles.store(1, Ordering::Relaxed);
                return Ok(PooledEvent { slot: Some(slot), generation });
            }
        }
        // The lock is not held: the device may be slow, and other threads must be able to return
        // their events meanwhile.
        let native = catch_panic(|| match self.timed {
            true => self.device.create_timed_event(),
            false => self.device.create_event(),
        })?;
        let mut slots = self.free_list.lock();
        let number = slots.created;
        slots.created += 1;
        slots.in_use += 1;
        drop(slots);
        let slot = Slot {
            link: SinglyLinkedListAtomicLink::new(),
            native: Guarded::new(native),
            number,
            generation: AtomicU64::new(1),
            handles: AtomicUsize::new(1),
            free_list: self.free_list.clone(),
        };
        Ok(PooledEvent { slot: Some(Arc::new(slot)), generation: 1 })
    }

    /// Returns the device of the events.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Returns the number of events that the pool has created.
    pub fn created(&self) -> usize {
        self.free_list.lock().created as usize
    }

    /// Returns the number of events in use.
    pub fn in_use(&self) -> usize {
        self.free_list.lock().in_use
    }
}

impl Drop for EventPool {
    fn drop(&mut self) {
        let free = {
            let mut slots = self.free_list.lock();
            slots.closed = true;
            slots.free.take()
        };
        // Destroys the native events after the lock was released.
        drop(free);
    }
}

impl fmt::Debug for EventPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventPool")
            .field("device", self.device.id())
            .field("created", &self.created())
            .field("in_use", &self.in_use())
            .finish()
    }
}

impl PooledEvent {
    fn slot(&self) -> &Arc<Slot> {
        self.slot.as_ref().expect("only drop takes the slot")
    }

    /// Returns the device's event, to be recorded, waited for and queried.
    pub fn native(&self) -> &Arc<dyn Event> {
        &self.slot().native
    }

    /// Returns the slot's number in its pool, counted from 0.
    pub fn number(&self) -> u32 {
        self.slot().number
    }

    /// Returns how often the slot had been taken when this handle was, counted from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Clone for PooledEvent {
    fn clone(&self) -> PooledEvent {
        let slot = self.slot().clone();
        // Relaxed: this handle keeps the count above zero. The clone of the Arc guards against
        // overflow.
        slot.handles.fetch_add(1, Ordering::Relaxed);
        PooledEvent { slot: Some(slot), generation: self.generation }
    }
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        // A count of one is this handle's own: no other handle exists that could be cloned or
        // dropped, so the common case needs no read-modify-write. Otherwise the handle that
        // decrements the count to zero is the last. Release: this handle's uses happen before the
        // slot's next use. Acquire: the last handle has seen the uses of all others.
        let alone = slot.handles.load(Ordering::Acquire) == 1;
        if !alone && slot.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        // SAFETY: the slot refers to the free list. The slot moves into the list below only while
        // the list is open. The pool holds another reference to an open list, and closes it under
        // the lock that is held here until the end of the block. If the list is closed, the slot
        // itself keeps it until after the block.
        let free_list = unsafe { &*Arc::as_ptr(&slot.free_list) };
        let closed = {
            let mut slots = free_list.lock();
            slots.in_use -= 1;
            match slots.closed {
                true => Some(slot),
                false => {
                    slots.free.push_front(slot);
                    None
                }
            }
        };
        drop(closed);
    }
}

impl fmt::Debug for PooledEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event slot {} generation {}", self.number(), self.generation)
    }
}
