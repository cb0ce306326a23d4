//! The machine whose kernel or callback a thread runs.
//!
//! A kernel or callback that submits to its own machine, or waits for it, might wait for itself.
//! Such a call gets an error instead.

use std::cell::{Cell, RefCell};

use millstream_types::{Error, Result};

use crate::scope::fork;
use crate::sync::thread_local;

thread_local! {
    /// The machine whose work this thread runs; 0 for none.
    static WITHIN: Cell<u64> = const { Cell::new(0) };
}

/// Runs `work` as a part of `machine`'s work.
#[inline]
pub(crate) fn enter<T>(machine: u64, work: impl FnOnce() -> T) -> T {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            WITHIN.with(|within| within.set(self.0));
        }
    }
    let _restore = Restore(WITHIN.with(|within| within.replace(machine)));
    work()
}

/// Marks all work of this thread as `machine`'s.
pub fn mark_thread(machine: u64) {
    WITHIN.with(|within| within.set(machine));
}

thread_local! {
    /// The machines whose critical sections this thread holds, each for a batch.
    static HELD: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

thread_local! {
    /// Whether this thread holds any. Every emission reads it.
    static HOLDS_ANY: Cell<bool> = const { Cell::new(false) };
}

/// A mark that this thread holds a machine's critical section for a batch.
pub struct BatchGuard(u64);

/// Marks that this thread holds `machine`'s critical section for a batch.
pub fn enter_batch(machine: u64) -> BatchGuard {
    HELD.with(|held| held.borrow_mut().push(machine));
    HOLDS_ANY.with(|any| any.set(true));
    BatchGuard(machine)
}

impl Drop for BatchGuard {
    fn drop(&mut self) {
        let is_last = HELD.with(|held| {
            let mut held = held.borrow_mut();
            held.retain(|machine| *machine != self.0);
            held.is_empty()
        });
        HOLDS_ANY.with(|any| any.set(!is_last));
    }
}

/// Checks that this thread does not hold `machine`'s critical section for a batch.
///
/// # Errors
/// [`Error::InBatch`].
#[inline]
pub(crate) fn check_batch(machine: u64) -> Result<()> {
    let holds = HOLDS_ANY.with(Cell::get) && HELD.with(|held| held.borrow().contains(&machine));
    if holds { Err(Error::InBatch) } else { Ok(()) }
}

thread_local! {
    /// Whether the thread has woken a worker since its last wait.
    static WOKE_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the thread has woken a parked worker.
#[cold]
pub(crate) fn note_wakeup() {
    WOKE_WORKER.with(|woke| woke.set(true));
}

/// Returns whether the thread has woken a worker since the last call.
pub(crate) fn take_wakeup() -> bool {
    WOKE_WORKER.with(|woke| woke.replace(false))
}

/// Returns whether this thread runs `machine`'s own work.
#[inline]
pub fn is_within(machine: u64) -> bool {
    WITHIN.with(Cell::get) == machine
}

/// Checks that this thread does not run `machine`'s own work, and is in the process that made it.
/// `what` names the refused action.
///
/// # Errors
/// [`Error::Reentrant`] and [`Error::Forked`].
#[inline]
pub fn check(machine: u64, what: &'static str) -> Result<()> {
    fork::check(machine)?;
    if WITHIN.with(Cell::get) == machine { Err(Error::Reentrant { what }) } else { Ok(()) }
}
