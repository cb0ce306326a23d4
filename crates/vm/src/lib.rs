//! The virtual machine: emission of instructions, their workers, and the handles that programs
//! hold.
//!
//! # Contract
//! A [`Machine`] takes calls from any thread, emits them in one order, and runs them on the workers
//! of their streams. Results depend neither on the driver, nor on the number of workers or threads,
//! nor on the moment at which a device finishes. A kernel that fails or panics fails its
//! instruction alone; every waiter for data that the instruction would have written gets the error.
//!
//! # Invariants
//! - One lock, the emission's, covers hazards, sequence numbers, placement and enqueueing. Only the
//!   lock of memory growth may be held when it is taken. No thread waits while it holds the lock,
//!   except the inline driver, which runs the program under it.
//! - After emission no lock is taken by all instructions, and no thread handles all of them.
//! - No device, stream, memory or thread exists before the first instruction that needs it.
//! - Unsafe code lives in the files that `tests/tidy.rs` lists.
//!
//! # Map
//! Upper layers call lower ones; `sync` is the lowest.
//!
//! | folder | holds |
//! |---|---|
//! | `api` | machines, streams, tensors, events, calls: the types that a program holds |
//! | `gradient` | tapes, the table of derivatives, optimisers |
//! | `tensor` | the typed front of tensors: methods of ops, elements, indexing, operators |
//! | [`lowering`] | transfers and host reads as calls, with a machine or without |
//! | `capture` | functions of the program whose calls are captured once, and replayed |
//! | `executable` | lists captured once, compiled to tapes, and launched many times |
//! | `engine` | functions of the program, ordered by variables and tensors |
//! | `emission` | the critical section, the router, cancellation, the refusal of reentrant calls |
//! | `driver` | who runs the workers: threads, the caller in program order, the caller by seed |
//! | `pool` | the graph of the streams that run in any order, and its workers |
//! | `worker` | the loop of one worker: queue entries, inbox, launch, retire |
//! | `profile` | the times of a run, recorded while it runs |
//! | `host` | callbacks, reads, and the threads that run them |
//! | `tables` | the state that all workers of a machine share: slots, poison, failures, backlog |
//! | `sync` | the primitives that models replace, the fence, the queue, progress of streams |
#![deny(missing_docs)]

mod api;
mod capture;
mod driver;
mod emission;
mod engine;
mod executable;
mod gradient;
mod host;
pub mod lowering;
mod pool;
mod profile;
mod sync;
mod tables;
mod tensor;
mod worker;

pub use api::batch::Batch;
pub use api::handle::{Completion, Event, Section, Stream, Tensor, with_stream};
pub use api::machine::{
    CallBuilder, DriverKind, Machine, MachineConfig, Profiling, RangeGuard, ShutdownReport,
    StreamOptions,
};
pub use api::prepared::{Prepared, TensorHandle};
pub use capture::{CaptureLimits, Traced, TracedCall, TracedReport};
pub use driver::{Schedule, Simulation};
pub use emission::cancel::Cancellation;
pub use emission::origin::with_origin;
pub use engine::{Bulk, ClosureResult, Engine, Operator, Prop, Push, RunContext, Var};
pub use executable::{
    Executable, GraphStatus, LaunchBuilder, Launched, OfflineLaunch, OfflineLaunches, Recorded,
    RecordedCall, RecordedLaunch, RecordedTensor, Recorder, USUAL_PASSES, accepts,
};
pub use gradient::{Tape, no_grad, optimisers};
pub use host::Blob;
pub use profile::{
    InstructionTimes, LaunchTimes, Outcome, Pause, Range, RunTimes, StepTimes, StreamTimes,
};
pub use tables::functions::OnComplete;
pub use tensor::{
    Bounded, Dims, DlPack, Generator, GeneratorState, Index, Indices, Int, Ints, NEW, OneDim,
    Operand, Place, REST, Real, Seed, options,
};
