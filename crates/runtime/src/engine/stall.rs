//! Whether all of the program's threads wait, which makes this rank wait for the others.
//!
//! A rank can go on as long as one of its threads can submit. Which threads may do so later is
//! known to the program alone, so it states their number (`MachineConfig::submitters`).
//!
//! 1. A thread is among `waiting` from before the first time that it looks for a stall until its
//!    wait returns. A wait with a time limit is not: its thread goes on by itself.
//! 2. [`Submitters::all_wait`] asks all threads' waits under the lock, so none leaves meanwhile. It
//!    is called once nothing runs: then no wait that is not over can end before another rank acts.

use std::sync::PoisonError;

use millstream_types::Point;

use crate::sync::{Mutex, MutexGuard};

/// What a thread of the program waits for.
pub(super) enum Awaited {
    /// The completion of a point.
    Point(Point),
    /// Room for more instructions.
    Room,
}

/// The threads that submit to a machine.
pub struct Submitters {
    /// How many there are; none if that is not known.
    count: Option<usize>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// The waits under way, each with its number.
    waits: Vec<(u64, Awaited)>,
    next: u64,
}

impl Submitters {
    pub fn new(count: Option<usize>) -> Submitters {
        Submitters { count, waiting: Mutex::default() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the calling thread as waiting until the result is dropped. Returns none if no stall
    /// is detected.
    pub(super) fn wait(&self, awaited: Awaited) -> Option<Registered<'_>> {
        self.count?;
        let mut waiting = self.waiting();
        let number = waiting.next;
        waiting.next += 1;
        waiting.waits.push((number, awaited));
        Some(Registered { submitters: self, number })
    }

    /// Returns whether every thread that may submit waits for something that is not over.
    pub(super) fn all_wait(&self, is_over: impl Fn(&Awaited) -> bool) -> bool {
        let waiting = self.waiting();
        self.count.is_some_and(|count| waiting.waits.len() >= count)
            && !waiting.waits.iter().any(|(_, awaited)| is_over(awaited))
    }
}

/// A thread's wait, which ends when this is dropped.
pub(super) struct Registered<'a> {
    submitters: &'a Submitters,
    number: u64,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.submitters.waiting().waits.retain(|(number, _)| *number != self.number);
    }
}
