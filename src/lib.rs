//! Millstream: a virtual machine for asynchronous devices.
//!
//! A program is a series of calls on tensors. The machine finds out what must wait for what, puts
//! each call on its stream, inserts only the waits the data dependencies require, and runs streams
//! side by side.
//!
//! ```
//! use millstream::{Machine, MachineConfig, Tensor};
//!
//! # fn main() -> millstream::Result<()> {
//! let machine = Machine::new(MachineConfig::default())?;
//! let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
//! let w = Tensor::from_slice(&[0.5f32, -1.0], (2, 1), &machine)?.with_grad()?;
//!
//! let tape = machine.tape();
//! let loss = (x.matmul(&w)? - 1.0)?.pow(2)?.mean(..)?; // nothing waits
//! tape.backward(&loss)?;
//! assert_eq!(loss.item::<f32>()?, 9.25); // reading waits
//! assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [-13.0, -19.0]);
//! # Ok(())
//! # }
//! ```
//!
//! Ops can be called by name on any stream as well. The machine inserts the waits between streams:
//!
//! ```
//! # use millstream::{DeviceId, Machine, MachineConfig, Tensor};
//! # fn main() -> millstream::Result<()> {
//! # let machine = Machine::new(MachineConfig::default())?;
//! let (a, b) = (machine.compute(&DeviceId::cpu(0), 0)?, machine.compute(&DeviceId::cpu(0), 1)?);
//! let x = Tensor::from_slice(&[1.0f32, -2.0], 2, &a)?;
//! let y = machine.call("relu", &[&x]).on(&b)?.remove(0); // waits for x's stream by itself
//! let z = machine.call("add", &[&x, &y]).attr("alpha", 10.0).on(&a)?.remove(0);
//! assert_eq!(z.to_vec::<f32>()?, [11.0, -2.0]);
//! # Ok(())
//! # }
//! ```
//!
//! | to | begin with |
//! |---|---|
//! | make, compute with and read tensors | [`Tensor`], [`options`] |
//! | take gradients | [`Tape`], [`optimisers`] |
//! | divide tensors among ranks | [`Mesh`], [`Sharding`], [`Tensor::redistribute`] |
//! | choose streams and order | [`Stream`], [`Event`], [`with_stream`] |
//! | order any function by what it reads and writes | [`DependencyEngine`] |
//! | run a program many times | [`Recorder`], [`Traced`], [`Executable`] |
//! | add an op | [`ops::Def`], [`MachineConfig::op`], [`kernels::typed()`] |
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub use millstream_comm as comm;
#[cfg(feature = "conformance")]
pub use millstream_conformance as conformance;
pub use millstream_ep as ep;
pub use millstream_instructions as instructions;
pub use millstream_kernels as kernels;
pub use millstream_ops as ops;
pub use millstream_stream_policy as stream_policy;
pub use millstream_types as types;
pub use millstream_vm as vm;

pub use millstream_instructions::{InstructionList, Protection, SyncPolicy};
pub use millstream_types::{
    Access, AttrValue, Attrs, DType, DeviceId, Element, Error, Layout, Mesh, Origin, Result, Sbp,
    Sharding, StreamKey, StreamMode, StreamType, TensorSpec, sbp,
};
pub use millstream_vm::{
    Batch, Blob, Bounded, Bulk, CacheCounts, CallBuilder, Cancellation, CaptureLimits,
    ClosureResult, Completion, DependencyEngine, Dims, DlPack, DriverKind, Event, Executable,
    FoldedCalls, Generator, GeneratorState, GraphStatus, Index, Indices, Int, Ints, LaunchBuilder,
    Launched, Layouts, Machine, MachineConfig, NEW, Number, OnComplete, OneDim, Operand, Operator,
    Place, Prepared, Prop, Push, REST, Real, Recorded, RecordedTensor, Recorder, RunContext,
    Schedule, Section, Seed, ShardBuilder, Sharded, ShutdownReport, Simulation, Stream,
    StreamOptions, Tape, Tensor, TensorHandle, Traced, TracedCall, TracedReport, Var, Workspace,
    autocast, no_grad, optimisers, options, with_origin, with_stream,
};

/// The example of the README is compiled and run, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// So are those of the page on the dependency engine.
#[cfg(doctest)]
#[doc = include_str!("../docs/engine.md")]
struct EnginePage;
