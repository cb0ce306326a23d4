//! The numbers of the calls in the tables's table.

use std::collections::VecDeque;

use millstream_instructions::Priority;
use millstream_types::Point;

use crate::sync::Ordering;
use crate::sync::points::Milestone;
use crate::tables::Tables;
use crate::tables::slots::CallSlot;

/// Gives out numbers of calls. It is the emission's, under whose lock it is used.
#[derive(Debug, Default)]
pub(crate) struct CallNumbers {
    next: u32,
    /// Numbers that were let go of, each with all that had been given out until then.
    free: VecDeque<(u32, Vec<Point>)>,
}

impl CallNumbers {
    /// Puts a call into the table.
    pub(crate) fn insert(&mut self, tables: &Tables, call: CallSlot) -> u32 {
        if call.priority != Priority::default() {
            tables.has_priorities.store(true, Ordering::Relaxed);
        }
        let reached = |p: &Point| tables.points.reached(*p, Milestone::Completed);
        let free = self.free.front().is_some_and(|(_, last)| last.iter().all(reached));
        let old = if free { self.free.pop_front() } else { None };
        let number = old.map_or(self.next, |(number, _)| number);
        self.next = self.next.max(number + 1);
        // SAFETY: whoever has this is in the critical section, and the number is a new one or all
        // that named it has completed.
        unsafe { tables.calls.set(number as usize, call) };
        number
    }

    /// Takes a number back that nobody will name again; whatever named it lies before `tails`.
    pub(crate) fn release(&mut self, number: u32, tails: Vec<Point>) {
        self.free.push_back((number, tails));
    }
}
