//! Event slots.
//!
//! An event is used by its record and by the waits that name it. Its stream's list of recent events
//! and the user who asked for it hold it. Its slot is reused once both have released it, and the
//! record and the waits have completed.

use std::collections::VecDeque;

use millstream_types::{EventId, Point};

use crate::builder::Sink;
use crate::builder::clock::Clock;
use crate::frontier::Frontier;

/// The most events without holders that devices may still use.
pub(super) const MOST_EVENTS: usize = 256;

/// An event that a user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRef {
    /// Its slot.
    pub id: EventId,
    /// The point of its record.
    pub at: Point,
    /// The clock at the record, the record included.
    pub(super) passed: Clock,
}

#[derive(Clone, Debug)]
struct Slot {
    /// The record and the waits.
    uses: Frontier,
    /// The number of its holders: the stream's list, the user.
    holders: u32,
}

#[derive(Debug, Default)]
pub(super) struct EventTable {
    slots: Vec<Slot>,
    free: VecDeque<EventId>,
}

impl EventTable {
    /// Returns a slot with this many holders, and whether the slot is new.
    pub(super) fn take(&mut self, holders: u32, sink: &dyn Sink) -> (EventId, bool) {
        for _ in 0..2.min(self.free.len()) {
            let Some(id) = self.free.pop_front() else { break };
            if self.slots[id.index()].uses.iter().all(|p| sink.reached(p)) {
                self.slots[id.index()] = Slot { uses: Frontier::new(), holders };
                return (id, false);
            }
            self.free.push_back(id);
        }
        self.slots.push(Slot { uses: Frontier::new(), holders });
        (EventId((self.slots.len() - 1) as u32), true)
    }

    /// Whether [`MOST_EVENTS`] slots are free.
    #[inline]
    pub(super) fn are_many_free(&self) -> bool {
        self.free.len() >= MOST_EVENTS
    }

    /// Returns the uses of the slot that has been free the longest, if [`MOST_EVENTS`] are free and
    /// that one cannot be reused yet.
    pub(super) fn backpressure_frontier(&self, sink: &dyn Sink) -> Option<&Frontier> {
        if !self.are_many_free() {
            return None;
        }
        let uses = &self.slots[self.free.front()?.index()].uses;
        (!uses.iter().all(|p| sink.reached(p))).then_some(uses)
    }

    /// Records a use of the event: its record, or a wait.
    pub(super) fn used(&mut self, id: EventId, at: Point) {
        self.slots[id.index()].uses.add(at);
    }

    /// Releases the event for one holder.
    pub(super) fn release(&mut self, id: EventId) {
        let slot = &mut self.slots[id.index()];
        slot.holders -= 1;
        if slot.holders == 0 {
            self.free.push_back(id);
        }
    }
}
