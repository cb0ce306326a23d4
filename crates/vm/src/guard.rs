//! Which machine's kernel or callback a thread is running.
//!
//! A kernel or callback that submits to its own machine, or waits for it, might wait for itself.
//! It is refused instead.

use std::cell::Cell;

use millstream_types::{Error, Result};

thread_local! {
    /// The machine whose work this thread runs; 0 for none.
    static WITHIN: Cell<u64> = const { Cell::new(0) };
}

/// Runs `work` as a part of `machine`'s work.
pub(crate) fn within<T>(machine: u64, work: impl FnOnce() -> T) -> T {
    struct Restore(u64);
    impl Drop for Restore {
        fn drop(&mut self) {
            WITHIN.set(self.0);
        }
    }
    let _restore = Restore(WITHIN.replace(machine));
    work()
}

/// All that this thread ever does is a part of `machine`'s work.
pub(crate) fn forever(machine: u64) {
    WITHIN.set(machine);
}

/// Refuses to go on from within `machine`'s own work.
///
/// # Errors
/// [`Error::Reentrant`].
pub(crate) fn refuse_within(machine: u64, what: &'static str) -> Result<()> {
    if WITHIN.get() == machine { Err(Error::Reentrant { what }) } else { Ok(()) }
}
