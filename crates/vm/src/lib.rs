//! The engine, its drivers, and the machine that users hold.
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
//! - Unsafe code lives in `ring`, `slots`, `host` and `core/launch`, and where slots are looked up in
//!   `router` and `engine`.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`machine`] | the machine: making one, calls, waits, shutdown |
//! | [`handle`] | streams, tensors, events, sections as users hold them |
//! | `emission`, `inside` | the critical section, and what it needs from outside |
//! | `router` | from emitted instructions to workers' queues |
//! | `driver` | worker threads, the caller's own in program order, or in an order chosen by seed |
//! | `core` | one worker's engine |
//! | `points` | progress of streams, and who waits for it |
//! | `ring`, `inbox` | the ways to a worker |
//! | `sync`, `barrier` | the primitives under those, which models replace |
//! | `slots`, `poison` | tensors and stored calls as workers see them |
//! | `host` | callbacks, reads, and their threads |
//! | [`job`] | stored lists |
//! | [`prepared`], [`batch`], `calls` | calls made many times, and many calls in a row |
//! | `cancel` | giving up what was submitted |
//! | `guard` | refuses a machine's own work to wait for it |
#![deny(missing_docs)]

mod barrier;
pub mod batch;
mod calls;
mod cancel;
mod core;
mod driver;
mod emission;
mod engine;
mod guard;
pub mod handle;
mod host;
mod inbox;
mod inside;
pub mod job;
pub mod machine;
mod points;
#[cfg(test)]
mod points_tests;
mod poison;
mod pool;
pub mod prepared;
mod ring;
#[cfg(test)]
mod ring_tests;
mod router;
mod slots;
mod sync;
mod task;
mod watch;

pub use batch::Batch;
pub use cancel::Cancellation;
pub use driver::{Schedule, Simulation};
pub use engine::{Alone, Rendezvous};
pub use handle::{Completion, Event, Section, Stream, Tensor, with_stream};
pub use host::Blob;
pub use job::{Job, JobRecorder, JobTensor, accepts};
pub use machine::{CallBuilder, DriverKind, Machine, MachineConfig, OpHandle, Report};
pub use prepared::{Prepared, TensorHandle};
