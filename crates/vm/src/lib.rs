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
//! | `engine` | functions of the program, ordered by variables and tensors |
//! | `capture` | functions of the program whose calls are captured once, and replayed |
//! | `executable` | lists recorded or given, and their launches |
//! | `gradient` | tapes, the table of derivatives, optimisers |
//! | `tensor` | the typed front of tensors: methods of ops, elements, indexing, operators |
//! | [`lowering`] | transfers and host reads as calls, with a machine or without |
//! | `handle` | machines, streams, tensors, events, calls: the types that a program holds |
//! | `replay` | from lists to tapes; the private memory of launches |
//! | `emission` | the critical section, the router, pushes, releases |
//! | `driver` | who runs the workers: threads, the caller in program order, the caller by seed |
//! | `pool` | the graph of the streams that run in any order, and its workers |
//! | `worker` | the loop of one worker: queue entries, launch, retire |
//! | `tapes` | compiled lists as workers read them, and the state of launches |
//! | `profile` | the times of a run, recorded while it runs |
//! | `tables` | the state that all workers of a machine share: slots, poison, failures, backlog |
//! | `host` | callbacks, reads, and the threads that run them |
//! | `scope` | the surroundings of a call: its place, cancellation, reentrancy |
//! | `sync` | primitives that models replace, the fence, queues, inboxes, progress of streams |
#![deny(missing_docs)]

mod capture;
mod driver;
mod emission;
mod engine;
mod executable;
mod gradient;
mod handle;
mod host;
pub mod lowering;
mod pool;
mod profile;
mod replay;
mod scope;
mod sync;
mod tables;
mod tapes;
mod tensor;
mod worker;

pub use capture::{CaptureLimits, Traced, TracedCall, TracedReport};
pub use driver::{DriverKind, Schedule, Simulation};
pub use emission::{ShutdownReport, StreamOptions};
pub use engine::{Bulk, ClosureResult, Engine, Operator, Prop, Push, Var};
pub use executable::{
    Executable, LaunchBuilder, Launched, OfflineLaunch, OfflineLaunches, Recorded, RecordedCall,
    RecordedLaunch, RecordedTensor, Recorder, USUAL_PASSES, accepts,
};
pub use gradient::{Tape, no_grad, optimisers};
pub use handle::batch::Batch;
pub use handle::generator::{Generator, GeneratorState};
pub use handle::machine::{CallBuilder, Machine, MachineConfig, Profiling, RangeGuard};
pub use handle::prepared::{Prepared, TensorHandle};
pub use handle::seed::Seed;
pub use handle::{Completion, Event, Section, Stream, Tensor, with_stream};
pub use host::Blob;
pub use profile::{
    InstructionTimes, LaunchTimes, Outcome, Pause, Range, RunTimes, StepTimes, StreamTimes,
};
pub use scope::cancel::Cancellation;
pub use scope::origin::with_origin;
pub use tables::functions::OnComplete;
pub use tables::run_context::RunContext;
pub use tapes::graph::GraphStatus;
pub use tensor::{
    Bounded, Dims, DlPack, Index, Indices, Int, Ints, NEW, OneDim, Operand, Place, REST, Real,
    options,
};
