//! The current stream: the stream of calls that name none.

use std::cell::RefCell;
use std::sync::Arc;

use millstream_types::DeviceId;

use crate::api::machine::Machine;
use crate::sync::thread_local;

use super::Stream;

thread_local! {
    /// The streams of this thread's scopes, the innermost last.
    static SCOPES: RefCell<Vec<Stream>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with `stream` as the current stream of its machine, on this thread. Afterwards, also
/// after a panic, the former stream is current again. With `None`, only runs `work`.
///
/// A future made by `work` is polled later, with the current stream of its polling thread.
pub fn with_stream<'a, T>(stream: impl Into<Option<&'a Stream>>, work: impl FnOnce() -> T) -> T {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            // Dropped outside the borrow: a machine may end with its last stream.
            drop(SCOPES.with(|scopes| scopes.borrow_mut().pop()));
        }
    }
    let Some(stream) = stream.into() else { return work() };
    SCOPES.with(|scopes| scopes.borrow_mut().push(stream.clone()));
    let _restore = Restore;
    work()
}

/// Returns the stream of the innermost scope of this thread and `machine`.
pub(crate) fn innermost(machine: &Machine) -> Option<Stream> {
    let of_machine = |s: &&Stream| Arc::ptr_eq(&s.machine.shared, &machine.shared);
    SCOPES.with(|scopes| scopes.borrow().iter().rev().find(of_machine).cloned())
}

/// Returns the stream of the innermost scope of this thread on `device` of `machine`.
pub(crate) fn innermost_on(machine: &Machine, device: &DeviceId) -> Option<Stream> {
    let of_machine =
        |s: &&Stream| Arc::ptr_eq(&s.machine.shared, &machine.shared) && s.key.device == *device;
    SCOPES.with(|scopes| scopes.borrow().iter().rev().find(of_machine).cloned())
}
