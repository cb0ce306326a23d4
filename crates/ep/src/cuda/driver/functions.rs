//! Functions of the host's that the driver is to call.
//!
//! The driver is given a number and not the function, which stays in a table of this process: should
//! the device be lost, the driver never calls, and the function can still be dropped, with all that it
//! holds. A call with a number that is no longer in the table does nothing.
//!
//! A function that the driver is calling when the device is lost runs to its end all the same. The
//! table names the streams of such functions, so that a stream reports its loss after them:
//! see [`Functions::withdraw`].

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
    /// The streams of the functions that are being called.
    running: Vec<usize>,
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

    /// Drops the stream's functions that the driver has not called: a later call does nothing.
    /// Returns whether none of the stream's functions is running.
    pub(super) fn withdraw(&self) -> bool {
        let own = |_: &usize, (stream, _): &mut (usize, Function)| *stream == self.stream;
        let mut table = table();
        let functions: Vec<_> = table.waiting.extract_if(own).collect();
        let is_idle = !table.running.contains(&self.stream);
        // The lock is let go of before the functions are.
        drop(table);
        drop(functions);
        is_idle
    }
}

/// Calls the function of a number, once.
pub(super) extern "C" fn call(number: *mut c_void) {
    let taken = {
        let mut table = table();
        let taken = table.waiting.remove(&number.addr());
        table.running.extend(taken.iter().map(|(stream, _)| stream));
        taken
    };
    let Some((stream, function)) = taken else { return };
    // A panic must not get into the driver. Functions report their own.
    let _ = catch_unwind(AssertUnwindSafe(function));
    let mut table = table();
    let at = table.running.iter().position(|running| *running == stream);
    at.map(|at| table.running.swap_remove(at));
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
        assert!(one.withdraw());
        assert_eq!(Arc::strong_count(&calls), 2, "the other stream's is left");
        for number in [refused, lost, kept] {
            call(number);
        }
        assert_eq!(*calls.lock().unwrap(), ["called", "kept"]);
        assert_eq!(Arc::strong_count(&calls), 1);
    }

    #[test]
    fn a_function_that_runs_is_known() {
        let functions = Arc::new(Functions::new());
        let seen = Arc::new(Mutex::new(None));
        let (within, to) = (functions.clone(), seen.clone());
        let number =
            functions.keep(Box::new(move || *to.lock().unwrap() = Some(within.withdraw())));
        call(number);
        assert_eq!(*seen.lock().unwrap(), Some(false), "it runs");
        assert!(functions.withdraw());
        call(functions.keep(Box::new(|| std::panic::resume_unwind(Box::new(())))));
        assert!(functions.withdraw(), "a panic ends it as well");
    }
}
