//! Which machine's kernel or callback a thread is running.
//!
//! A kernel or callback that submits to its own machine, or waits for it, might wait for itself.
//! It is refused instead.

use std::cell::{Cell, RefCell};

use millstream_types::{Error, Result};

use crate::sync::thread_local;

thread_local! {
    /// The machine whose work this thread runs; 0 for none.
    static WITHIN: Cell<u64> = const { Cell::new(0) };
}

/// Runs `work` as a part of `machine`'s work.
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

/// All that this thread ever does is a part of `machine`'s work.
pub(crate) fn mark_thread(machine: u64) {
    WITHIN.with(|within| within.set(machine));
}

thread_local! {
    /// The machines whose critical sections this thread is in, each for a batch.
    static HELD: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Says, while it lives, that the thread is in a machine's critical section for a batch.
pub(crate) struct BatchGuard(u64);

/// The thread is in `machine`'s critical section for a batch.
pub(crate) fn enter_batch(machine: u64) -> BatchGuard {
    HELD.with(|held| held.borrow_mut().push(machine));
    BatchGuard(machine)
}

impl Drop for BatchGuard {
    fn drop(&mut self) {
        HELD.with(|held| held.borrow_mut().retain(|machine| *machine != self.0));
    }
}

/// Refuses to enter `machine`'s critical section where the thread is in it.
///
/// # Errors
/// [`Error::InBatch`].
#[inline]
pub(crate) fn check_batch(machine: u64) -> Result<()> {
    if HELD.with(|held| held.borrow().contains(&machine)) { Err(Error::InBatch) } else { Ok(()) }
}

thread_local! {
    /// Whether the thread has woken a worker since it last waited.
    static WOKE_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// The thread has woken a worker that was asleep.
#[cold]
pub(crate) fn note_wakeup() {
    WOKE_WORKER.with(|woke| woke.set(true));
}

/// Whether the thread has woken a worker since this was last asked.
pub(crate) fn take_wakeup() -> bool {
    WOKE_WORKER.with(|woke| woke.replace(false))
}

/// Refuses to go on from within `machine`'s own work.
///
/// # Errors
/// [`Error::Reentrant`].
pub(crate) fn check(machine: u64, what: &'static str) -> Result<()> {
    if WITHIN.with(Cell::get) == machine { Err(Error::Reentrant { what }) } else { Ok(()) }
}
