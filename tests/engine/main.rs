//! The dependency engine: order, failures, properties and lifetimes of pushed functions. `panics`
//! is about all code of the program.

mod bulk;
mod failures;
mod lifetimes;
mod lists;
mod mxnet;
mod nested;
mod order;
mod panics;
mod properties;
mod scopes;
mod simulated;
mod waits;

use std::sync::{Arc, Mutex};

use millstream_vm::{DriverKind, Machine, MachineConfig};

/// What functions have noted, in order.
#[derive(Clone, Default)]
struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T: Send + 'static> Log<T> {
    fn new() -> Log<T> {
        Log(Arc::default())
    }

    /// Returns a function that notes `value`.
    fn note(&self, value: T) -> impl FnOnce() + Send + 'static {
        let log = self.0.clone();
        move || log.lock().unwrap().push(value)
    }

    fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn machine(driver: DriverKind) -> Machine {
    Machine::new(MachineConfig::default().driver(driver).host_workers(2)).unwrap()
}

fn threaded() -> Machine {
    machine(DriverKind::Threaded)
}
