//! The virtual machine: emission of instructions, their workers, and the handles that programs
//! hold.
//!
//! # Contract
//! A [`Machine`] takes calls from any thread, emits them in one order, and runs them on the workers
//! of their streams. Results depend neither on the driver, nor on the number of workers or threads,
//! nor on the moment at which a device finishes. A kernel that fails or panics fails its
//! instruction alone; every waiter for data that the instruction would have written gets the error.
//!
//! The machine itself is below: `millstream_runtime` holds emission, workers and drivers, and
//! makes tapes of lists. It states its invariants.
//!
//! # Map
//! Upper layers call lower ones.
//!
//! | folder | holds |
//! |---|---|
//! | `engine` | functions of the program, ordered by variables and tensors |
//! | `capture` | functions of the program whose calls are captured once, and replayed |
//! | `executable` | lists recorded or given, and their launches |
//! | `gradient` | tapes, the table of derivatives, optimisers |
//! | `tensor` | the typed front of tensors: methods of ops, elements, indexing, operators |
//! | [`lowering`] | transfers and host reads as calls |
//! | `handle` | machines, streams, tensors, events, calls: the types that a program holds |
#![deny(missing_docs)]

mod capture;
mod dependency_engine;
mod executable;
mod gradient;
mod handle;
mod tensor;

pub use capture::{CaptureLimits, Traced, TracedCall, TracedReport};
pub use dependency_engine::{Bulk, ClosureResult, DependencyEngine, Operator, Prop, Push, Var};
pub use executable::{
    Executable, FoldedCalls, LaunchBuilder, Launched, Recorded, RecordedCall, RecordedLaunch,
    RecordedTensor, Recorder, ShardBuilder, Sharded, USUAL_PASSES, Workspace, accepts,
};
pub use gradient::{Tape, autocast, no_grad, optimisers};
pub use handle::batch::Batch;
pub use handle::generator::{Generator, GeneratorState};
pub use handle::global::{CallLayout, GlobalFormals, Layouts};
pub use handle::lowering;
pub use handle::machine::{CallBuilder, Machine, MachineConfig, Profiling, RangeGuard};
pub use handle::prepared::{Prepared, TensorHandle};
pub use handle::seed::Seed;
pub use handle::{Completion, Event, Section, Stream, Tensor, with_stream};
pub use millstream_runtime::driver::{DriverKind, Schedule, Simulation};
pub use millstream_runtime::engine::{ShutdownReport, StreamOptions};
pub use millstream_runtime::host::Blob;
pub use millstream_runtime::profile::{
    InstructionTimes, LaunchTimes, Outcome, Pause, Range, RunTimes, StepTimes, StreamTimes,
    TapeTimes,
};
pub use millstream_runtime::scope::cancel::Cancellation;
pub use millstream_runtime::scope::origin::with_origin;
pub use millstream_runtime::tables::functions::OnComplete;
pub use millstream_runtime::tables::run_context::RunContext;
pub use millstream_runtime::tapes::cache::CacheCounts;
pub use millstream_runtime::tapes::graph::GraphStatus;
pub use tensor::{
    Bounded, Dims, DlPack, Index, Indices, Int, Ints, NEW, Number, OneDim, Operand, Place, REST,
    Real, options,
};
