//! The numbers of the calls in the table of stored calls.

use std::collections::VecDeque;

use millstream_instructions::Priority;
use millstream_types::Point;

use crate::sync::Ordering;
use crate::sync::points::Milestone;
use crate::tables::Tables;
use crate::tables::slots::CallSlot;

/// Assigns numbers to stored calls. Part of the engine, under its lock.
#[derive(Debug, Default)]
pub(crate) struct CallNumbers {
    next: u32,
    /// Released numbers, each with the tails of all streams at its release.
    free: VecDeque<(u32, Vec<Point>)>,
}

impl CallNumbers {
    /// Puts a call into the table and returns its number.
    pub(crate) fn insert(&mut self, tables: &Tables, call: CallSlot) -> u32 {
        if call.call.priority != Priority::default() {
            tables.has_priorities.store(true, Ordering::Relaxed);
        }
        let reached = |p: &Point| tables.points.reached(*p, Milestone::Completed);
        let free = self.free.front().is_some_and(|(_, last)| last.iter().all(reached));
        let old = if free { self.free.pop_front() } else { None };
        let number = old.map_or(self.next, |(number, _)| number);
        self.next = self.next.max(number + 1);
        // SAFETY: the caller is in the critical section, and the number is new, or every
        // instruction that named it has completed.
        unsafe { tables.calls.set(number as usize, call) };
        number
    }

    /// Releases a number. Every instruction that names it lies before `tails`.
    pub(crate) fn release(&mut self, number: u32, tails: Vec<Point>) {
        self.free.push_back((number, tails));
    }
}
