//! Execution providers: devices, their streams, events and memory, and the backends behind them.
//!
//! # Contract
//!
//! **Who validates.** The layers above have checked ids, shapes, orders and lifetimes. A backend
//! is handed only work whose operands are in its memory and whose order is right. Its errors
//! therefore cover only what the layers above cannot foresee: memory that is not there, a launch
//! that the driver refuses, a device that is lost.
//!
//! **Ownership.** A [`Device`] is shared; a [`Stream`] belongs to one worker thread, which alone
//! calls it; an [`Event`] is shared, and goes back to its [`EventPool`] when the last handle is
//! dropped. [`Memory`] frees itself when dropped, and is dropped only when no stream uses it.
//!
//! **Launched and completed are two things.** `submit`, `record` and `wait` hand a command to the
//! device and answer [`Progress::Done`] only if it has run to its end; otherwise they answer
//! [`Progress::Pending`] with the command's ticket, and a later [`Stream::poll`] reports it. A
//! stream completes its commands in the order they were given, and reports each exactly once.
//!
//! **Never blocking.** No call here waits for the device. `query` and
//! `poll` look and return. "Not yet" is a value, never an error, and an error is never "not yet".
//!
//! **Polling and sleeping.** A worker polls a stream after it has handed something over, and sleeps
//! only after a poll that reported nothing: some devices move only when they are looked at. A
//! notify function says that polling again is worth while, from any thread and without locks held;
//! it may come early, and more than once for the same news.
//!
//! **Waiting on the device.** `wait` orders the stream after the record that the event carries at
//! the time of the call. The caller launches the record first: a wait for an event that was never
//! recorded is refused with an error, since on real devices it would be no wait at all.
//!
//! **Whose work it is.** A device that computes by itself calls `run` as the work is handed over,
//! and `run` launches. Work that the host does ([`Work::runs_on_host`]) is called when the stream
//! gets there.
//!
//! **What a backend cannot do** is a capability to ask for ([`Capabilities`]), never a panic.
//!
//! **Errors of work.** A command whose work returns an error has completed; its result is handed
//! over with its completion. Records and waits have no result of their own: a device that
//! cannot keep their order is lost. An error of `poll` itself means that the device is lost: no command
//! of it will complete any more.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`device`] | the traits |
//! | [`registry`] | backends by kind |
//! | [`event_pool`] | events used again and again |
//! | [`cpu`] | the host: runs work at once |
//! | `cuda` | NVIDIA devices, by their driver (feature `cuda`) |
//! | [`pinned`] | pinned host memory, for simulated devices |
//! | [`sim`] | a simulated asynchronous device, steered by tests |
//! | [`run`] | runs work so that its panic becomes its error |
//! | [`faults`] | a wrapper of any backend that fails as planned |
//! | `conformance` | the checks that every backend passes (feature `conformance`) |
//! | `account`, `host_memory` | memory of the backends that compute on the host |
#![deny(missing_docs)]

mod account;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod event_pool;
#[cfg(test)]
mod event_pool_tests;
pub mod faults;
mod host_memory;
pub mod pinned;
pub mod registry;
pub mod run;
pub mod sim;
mod sync;

pub use device::{
    Backend, Capabilities, Device, Event, MEMORY_ALIGN, Memory, Notify, Progress, Stream, Ticket,
    Work, WorkResult,
};
pub use event_pool::{EventPool, PooledEvent};
pub use registry::Registry;
pub use run::{Panicked, caught, run_caught};
