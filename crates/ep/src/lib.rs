//! Execution providers: devices, their streams, events and memory, and the backends behind them.
//!
//! # Contract
//!
//! **Validation.** The layers above a backend check ids, shapes, orders and lifetimes. A backend
//! receives only work whose operands are in its memory and whose order is right. Its errors cover
//! only failures that the layers above cannot foresee: missing memory, a launch that the driver
//! refuses, a lost device.
//!
//! **Ownership.** A [`Device`] is shared. A [`Stream`] belongs to one worker thread, and only that
//! thread calls it. An [`Event`] is shared, and returns to its [`EventPool`] when the last handle
//! is dropped. [`Memory`] frees itself when it is dropped, and is dropped only when no stream uses
//! it.
//!
//! **Launched is not completed.** `submit`, `record` and `wait` pass a command to the device. They
//! return [`Progress::Done`] only if the command has run to its end. Otherwise they return
//! [`Progress::Pending`] with the command's ticket, and a later [`Stream::poll`] reports it. A
//! stream completes its commands in the order of submission, and reports each exactly once.
//!
//! **Nothing blocks.** No call waits for the device. `query` and `poll` return at once. "Not yet"
//! is a value, never an error, and an error is never "not yet".
//!
//! **Polling and parking.** A worker polls a stream after it has submitted a command, and parks
//! only after a poll that reported nothing: some devices progress only when they are polled. A
//! notify function signals that another poll is worth while. The device calls it from any thread,
//! without holding locks. It may be called early, and several times for one completion.
//!
//! **Waits on the device.** `wait` orders the stream after the newest record of the event at the
//! time of the call. The caller submits the record first: a wait for an event that was never
//! recorded is refused with an error, because a real device would not wait at all.
//!
//! **Where work runs.** A device that computes by itself calls [`Work::run`] inside `submit`, and
//! `run` launches kernels. Work of the host ([`Work::runs_on_host`]) runs when the stream reaches
//! it.
//!
//! **Capabilities.** An operation that a backend lacks is a capability to query
//! ([`Capabilities`]), never a panic.
//!
//! **Errors of work.** A command whose work returns an error has completed, and its result is
//! reported with its completion. Records and waits have no result of their own: a device that
//! cannot keep their order is lost. An error of `poll` itself means that the device is lost: none
//! of its commands will complete any more.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`device`] | the traits |
//! | [`graph`] | captured work that is launched as one command |
//! | [`registry`] | backends by kind |
//! | [`event_pool`] | a pool of reusable events |
//! | [`cpu`] | the host: runs work inside `submit` |
//! | `cuda` | NVIDIA devices, through their driver (feature `cuda`) |
//! | [`pinned`] | pinned host memory, for simulated devices |
//! | [`sim`] | a simulated asynchronous device under the control of tests |
//! | [`faults`] | a wrapper of any backend that injects planned faults |
//! | `account`, `host_memory` | memory of the backends that compute on the host |
//! | `sync` | the synchronization primitives of `event_pool`, replaced in loom models |
#![deny(missing_docs)]

mod account;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod device;
pub mod event_pool;
#[cfg(test)]
mod event_pool_tests;
pub mod faults;
pub mod graph;
mod host_memory;
pub mod pinned;
pub mod registry;
pub mod sim;
mod sync;

pub use device::{
    Backend, Capabilities, Device, Event, HostClock, MEMORY_ALIGN, Memory, Notify, Progress,
    Stream, Ticket, Work, WorkResult,
};
pub use event_pool::{EventPool, PooledEvent};
pub use graph::{Captured, FailedWork, Graph, GraphStream};
pub use registry::Registry;
