//! The current stream: where calls go that name none.

use std::cell::RefCell;
use std::sync::Arc;

use crate::api::machine::Machine;
use crate::sync::thread_local;

use super::Stream;

thread_local! {
    /// The streams of the scopes that this thread is in, the innermost last.
    static SCOPES: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with `stream` as the current stream of its machine, on this thread. What was current
/// before is so again afterwards, also after a panic. With `None`, only `work` is run.
///
/// A future made by `work` is polled later, and then by its own thread's current stream.
pub fn with_stream<'a, T>(stream: impl Into<Option<&'a Stream>>, work: impl FnOnce() -> T) -> T {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            // Dropped with the list let go of: a machine may end with its last stream.
            drop(SCOPES.with(|scopes| scopes.borrow_mut().pop()));
        }
    }
    let Some(stream) = stream.into() else { return work() };
    SCOPES.with(|scopes| scopes.borrow_mut().push(stream.clone()));
    let _restore = Restore;
    work()
}

/// The stream of the innermost scope of this thread, of those of `machine`.
pub(crate) fn innermost(machine: &Machine) -> Option<Stream> {
    let of_machine = |s: &&Stream| Arc::ptr_eq(&s.machine.shared, &machine.shared);
    SCOPES.with(|scopes| scopes.borrow().iter().rev().find(of_machine).cloned())
}
