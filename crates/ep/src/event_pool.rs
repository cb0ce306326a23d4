//! Events of one device, used again and again.
//!
//! # Rules
//! 1. A slot holds one native event. It is either free, and then in the list, or handed out, and
//!    then held by handles ([`PooledEvent`]); never both.
//! 2. `handles` counts the handles of a slot that is handed out. The last handle puts the slot back
//!    when it is dropped: the one that finds itself alone, or that takes the count to zero. There
//!    is exactly one such handle, and it leaves the count for the next [`EventPool::take`] to set.
//! 3. `generation` changes only under the pool's lock, when the slot is handed out. A handle keeps
//!    the number that it was made with.
//! 4. Slots hold the pool's shared part, and its list holds free slots. Dropping the pool empties
//!    the list and closes it; slots that come back later are freed.

use std::fmt;
use std::sync::{Arc, PoisonError};

use intrusive_collections::{SinglyLinkedList, SinglyLinkedListAtomicLink, intrusive_adapter};

use millstream_types::Result;

use crate::device::{Device, Event};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};

/// A pool of events of one device. Events are made when the pool is empty and kept for good, so
/// none is made or destroyed once a program has reached its steady state.
pub struct EventPool {
    device: Arc<dyn Device>,
    shared: Arc<Shared>,
}

/// An event taken from a pool. It goes back when its last clone is dropped.
pub struct PooledEvent {
    /// Present until the drop takes it.
    slot: Option<Arc<Slot>>,
    generation: u64,
}

struct Slot {
    link: SinglyLinkedListAtomicLink,
    native: Arc<dyn Event>,
    number: u32,
    generation: AtomicU64,
    handles: AtomicUsize,
    shared: Arc<Shared>,
}

intrusive_adapter!(FreeSlot = Arc<Slot>: Slot { link => SinglyLinkedListAtomicLink });

struct Shared(Mutex<Slots>);

struct Slots {
    free: SinglyLinkedList<FreeSlot>,
    created: u32,
    in_use: usize,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        // Nothing that can panic runs under the lock, so a poisoned list is still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventPool {
    /// An empty pool of `device`'s events.
    pub fn new(device: Arc<dyn Device>) -> EventPool {
        let free = SinglyLinkedList::new(FreeSlot::new());
        let slots = Slots { free, created: 0, in_use: 0, closed: false };
        EventPool { device, shared: Arc::new(Shared(Mutex::new(slots))) }
    }

    /// Hands out an event, with a generation that its slot never had before.
    ///
    /// # Errors
    /// None is free, and the device makes no new one.
    pub fn take(&self) -> Result<PooledEvent> {
        {
            let mut slots = self.shared.lock();
            if let Some(slot) = slots.free.pop_front() {
                slots.in_use += 1;
                let generation = slot.generation.load(Ordering::Relaxed) + 1;
                slot.generation.store(generation, Ordering::Relaxed);
                drop(slots);
                // The slot left the list, so nobody else looks at the count.
                slot.handles.store(1, Ordering::Relaxed);
                return Ok(PooledEvent { slot: Some(slot), generation });
            }
        }
        // The device is asked without the lock: it may be slow, and others only want to give back.
        let native = self.device.create_event()?;
        let mut slots = self.shared.lock();
        let number = slots.created;
        slots.created += 1;
        slots.in_use += 1;
        drop(slots);
        let slot = Slot {
            link: SinglyLinkedListAtomicLink::new(),
            native,
            number,
            generation: AtomicU64::new(1),
            handles: AtomicUsize::new(1),
            shared: self.shared.clone(),
        };
        Ok(PooledEvent { slot: Some(Arc::new(slot)), generation: 1 })
    }

    /// The device whose events these are.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// How many events were made so far.
    pub fn created(&self) -> usize {
        self.shared.lock().created as usize
    }

    /// How many events are handed out now.
    pub fn in_use(&self) -> usize {
        self.shared.lock().in_use
    }
}

impl Drop for EventPool {
    fn drop(&mut self) {
        let free = {
            let mut slots = self.shared.lock();
            slots.closed = true;
            slots.free.take()
        };
        // Native events are destroyed without the lock.
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

    /// The device's event, to be recorded, waited for and queried.
    pub fn native(&self) -> &Arc<dyn Event> {
        &self.slot().native
    }

    /// The slot's number in its pool, counted from 0.
    pub fn number(&self) -> u32 {
        self.slot().number
    }

    /// Which time it is that the slot was handed out, counted from 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Clone for PooledEvent {
    fn clone(&self) -> PooledEvent {
        let slot = self.slot().clone();
        // This handle keeps the count above zero. The clone of the Arc guards against overflow.
        slot.handles.fetch_add(1, Ordering::Relaxed);
        PooledEvent { slot: Some(slot), generation: self.generation }
    }
}

impl Drop for PooledEvent {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        // A count of one is this handle's own: nobody is left to clone or drop another, so the
        // common case needs no read-modify-write. Otherwise the handle that takes the count to
        // zero is the last. Release: what this handle did comes before the slot's next use.
        // Acquire: the last handle has seen what all others did.
        let alone = slot.handles.load(Ordering::Acquire) == 1;
        if !alone && slot.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        // SAFETY: the slot holds the shared part. It moves into the list below only while the pool
        // is open, which holds another reference and closes under the lock that is held here until
        // the end of the block; else the slot itself lives until after the block.
        let shared = unsafe { &*Arc::as_ptr(&slot.shared) };
        let closed = {
            let mut slots = shared.lock();
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
