//! The tables, its drivers, and the machine that users hold.
//!
//! # Contract
//! A [`Machine`] takes calls from any thread, emits them in one order, and runs them on the
//! workers of their streams. Results do not depend on the driver, the number of workers or
//! threads, or the moment at which a device finishes. A kernel that fails, or panics, fails its
//! instruction alone; the error comes to whoever waits for what it would have written.
//!
//! # Invariants
//! - One lock, the emission's, covers hazards, sequence numbers, placement and enqueueing. Only
//!   the lock of memory's growth may be held when it is taken. Nothing waits while it is held, but
//!   for the inline driver, which runs the program under it.
//! - After emission there is no lock that all instructions take, and no thread that all pass by.
//! - No device, stream, memory or thread exists before the first instruction that needs it.
//! - Unsafe code lives in the files that `tests/tidy.rs` lists.
//!
//! # Map
//! Upper layers call lower ones; `sync` is the lowest.
//!
//! | folder | holds |
//! |---|---|
//! | `api` | machines, streams, tensors, events, calls: the types that a program holds |
//! | `jobs` | stored lists: recorded, checked, rewritten to a machine's ids |
//! | `emission` | the critical section, the router behind it, cancellation, the refusal of reentrant calls |
//! | `driver` | who runs the workers: threads, the caller in program order, or in an order chosen by seed |
//! | `pool` | the graph of instructions of streams that run in any order, and its workers |
//! | `worker` | the loop over the streams of one worker: queue entries, inbox, launch, retire |
//! | `host` | callbacks, reads, and the threads that run them |
//! | `tables` | the state that all workers of a machine share: slots, points, poison, backlog |
//! | `sync` | primitives that models replace, the fence, the queue, progress of streams |
#![deny(missing_docs)]

mod api;
mod driver;
mod emission;
mod host;
mod jobs;
mod pool;
mod sync;
mod tables;
mod worker;

pub use api::batch::Batch;
pub use api::handle::{Completion, Event, Section, Stream, Tensor, with_stream};
pub use api::machine::{CallBuilder, DriverKind, Machine, MachineConfig, OpHandle, ShutdownReport};
pub use api::prepared::{Prepared, TensorHandle};
pub use driver::{Schedule, Simulation};
pub use emission::cancel::Cancellation;
pub use host::Blob;
pub use jobs::{Job, JobRecorder, JobTensor};
pub use tables::{RankBarrier, SingleRank};
