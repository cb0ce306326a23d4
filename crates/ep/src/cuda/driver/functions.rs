//! Functions of the host's that the driver is to call.
//!
//! The driver is given a number and not the function, which stays in a table of this process: should
//! the device be lost, the driver never calls, and the function can still be dropped, with all that it
//! holds. A call with a number that is no longer in the table does nothing.

use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// A function that is called once.
pub(super) type Function = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Table {
    /// What was last given as a number, to a function or to a stream.
    last: usize,
    /// Functions that were not called, by number, with that of their stream.
    waiting: HashMap<usize, (usize, Function)>,
}

fn table() -> MutexGuard<'static, Table> {
    static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions that a stream is to call.
pub(super) struct Functions {
    stream: usize,
}

impl Functions {
    pub(super) fn new() -> Functions {
        let mut table = table();
        table.last += 1;
        Functions { stream: table.last }
    }

    /// Keeps a function. Its number is what [`call`] takes.
    pub(super) fn keep(&self, function: Function) -> *mut c_void {
        let mut table = table();
        table.last += 1;
        let number = table.last;
        table.waiting.insert(number, (self.stream, function));
        std::ptr::without_provenance_mut(number)
    }

    /// Drops a function that the driver has not taken.
    pub(super) fn take_back(&self, number: *mut c_void) {
        // The lock is let go of before the function is.
        let function = table().waiting.remove(&number.addr());
        drop(function);
    }

    /// Drops all functions that the driver will not call any more.
    pub(super) fn clear(&self) {
        let own = |_: &usize, (stream, _): &mut (usize, Function)| *stream == self.stream;
        let functions: Vec<_> = table().waiting.extract_if(own).collect();
        drop(functions);
    }
}

/// Calls the function of a number, once.
pub(super) extern "C" fn call(number: *mut c_void) {
    let waiting = table().waiting.remove(&number.addr());
    if let Some((_, function)) = waiting {
        // A panic must not get into the driver. Functions report their own.
        let _ = catch_unwind(AssertUnwindSafe(function));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn each_is_called_once_or_dropped() {
        let (one, other) = (Functions::new(), Functions::new());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let keep = |of: &Functions, name: &'static str| {
            let calls = calls.clone();
            of.keep(Box::new(move || calls.lock().unwrap().push(name)))
        };
        let (called, refused) = (keep(&one, "called"), keep(&one, "refused"));
        let (lost, kept) = (keep(&one, "lost"), keep(&other, "kept"));
        call(called);
        call(called);
        one.take_back(refused);
        one.clear();
        assert_eq!(Arc::strong_count(&calls), 2, "the other stream's is left");
        for number in [refused, lost, kept] {
            call(number);
        }
        assert_eq!(*calls.lock().unwrap(), ["called", "kept"]);
        assert_eq!(Arc::strong_count(&calls), 1);
    }
}
