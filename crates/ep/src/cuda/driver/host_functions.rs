//! Host functions that the driver calls.
//!
//! The driver gets a number instead of the function, which stays in a table of this process. If the
//! device is lost and the driver never calls, the function can still be dropped, with everything
//! that it owns. A call with a number that is no longer in the table does nothing.
//!
//! A function that is running when the device is lost runs to its end. The table contains the
//! streams of running functions, so that a stream reports its loss only afterwards: see
//! [`HostFunctions::drop_pending`].

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use millstream_types::catch_unit;

/// A function that is called once.
pub(super) type HostFunction = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Table {
    /// The last number assigned to a function or to a stream.
    last: usize,
    /// Functions that were not called, by number, each with the number of its stream.
    pending: HashMap<usize, (usize, HostFunction)>,
    /// The streams of the functions that are running.
    running: Vec<usize>,
}

fn table() -> MutexGuard<'static, Table> {
    static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host functions of one stream.
pub(super) struct HostFunctions {
    stream: usize,
}

impl HostFunctions {
    pub(super) fn new() -> HostFunctions {
        let mut table = table();
        table.last += 1;
        HostFunctions { stream: table.last }
    }

    /// Adds a function and returns its number, the argument of [`call`].
    pub(super) fn insert(&self, function: HostFunction) -> *mut c_void {
        let mut table = table();
        table.last += 1;
        let number = table.last;
        table.pending.insert(number, (self.stream, function));
        std::ptr::without_provenance_mut(number)
    }

    /// Drops a function that the driver has refused.
    pub(super) fn remove(&self, number: *mut c_void) {
        // The table's lock is released before the function is dropped.
        let function = table().pending.remove(&number.addr());
        drop(function);
    }

    /// Drops all pending functions of the stream: later calls of them do nothing. Returns whether
    /// no function of the stream is running.
    pub(super) fn drop_pending(&self) -> bool {
        let own = |_: &usize, (stream, _): &mut (usize, HostFunction)| *stream == self.stream;
        let mut table = table();
        let functions: Vec<_> = table.pending.extract_if(own).collect();
        let is_idle = !table.running.contains(&self.stream);
        // The table's lock is released before the functions are dropped.
        drop(table);
        drop(functions);
        is_idle
    }
}

/// Calls the function of a number, once.
pub(super) extern "C" fn call(number: *mut c_void) {
    let taken = {
        let mut table = table();
        let taken = table.pending.remove(&number.addr());
        table.running.extend(taken.iter().map(|(stream, _)| stream));
        taken
    };
    let Some((stream, function)) = taken else { return };
    // A panic must not unwind into the driver. The functions report their own panics.
    let _ = catch_unit(function);
    let mut table = table();
    let index = table.running.iter().position(|running| *running == stream);
    index.map(|index| table.running.swap_remove(index));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_function_is_called_once_or_dropped() {
        let (one, other) = (HostFunctions::new(), HostFunctions::new());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let insert = |functions: &HostFunctions, name: &'static str| {
            let calls = calls.clone();
            functions.insert(Box::new(move || calls.lock().unwrap().push(name)))
        };
        let (called, refused) = (insert(&one, "called"), insert(&one, "refused"));
        let (lost, kept) = (insert(&one, "lost"), insert(&other, "kept"));
        call(called);
        call(called);
        one.remove(refused);
        assert!(one.drop_pending());
        assert_eq!(Arc::strong_count(&calls), 2, "the other stream's function remains");
        for number in [refused, lost, kept] {
            call(number);
        }
        assert_eq!(*calls.lock().unwrap(), ["called", "kept"]);
        assert_eq!(Arc::strong_count(&calls), 1);
    }

    #[test]
    fn a_stream_with_a_running_function_is_not_idle() {
        let functions = Arc::new(HostFunctions::new());
        let seen = Arc::new(Mutex::new(None));
        let (inner, to) = (functions.clone(), seen.clone());
        let function = move || *to.lock().unwrap() = Some(inner.drop_pending());
        call(functions.insert(Box::new(function)));
        assert_eq!(*seen.lock().unwrap(), Some(false), "the function is running");
        assert!(functions.drop_pending());
        call(functions.insert(Box::new(|| std::panic::resume_unwind(Box::new(())))));
        assert!(functions.drop_pending(), "a panic ends the function as well");
    }
}
