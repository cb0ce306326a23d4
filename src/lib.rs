//! Millstream: a virtual machine for asynchronous devices.
//!
//! A program is a series of calls on tensors. The machine finds out what must wait for what, puts
//! each call on its stream, inserts only the waits that the data needs, and runs streams side by
//! side.
//!
//! ```
//! use millstream::{DType, DeviceId, Machine, MachineConfig, TensorSpec};
//!
//! # fn main() -> millstream::Result<()> {
//! let machine = Machine::new(MachineConfig::default())?;
//! let (a, b) = (machine.compute(&DeviceId::cpu(0), 0)?, machine.compute(&DeviceId::cpu(0), 1)?);
//! let spec = TensorSpec::contiguous(DType::F32, &[2])?;
//! let x = machine.upload(&a, spec, [1.0f32, -2.0].map(f32::to_ne_bytes).concat())?;
//! let y = machine.call("relu", &[&x]).on(&b)?.remove(0); // waits for x's stream by itself
//! let z = machine.call("add", &[&x, &y]).attr("alpha", 10.0).on(&a)?.remove(0);
//! assert_eq!(z.read()?, [11.0f32, -2.0].map(f32::to_ne_bytes).concat());
//! # Ok(())
//! # }
//! ```
#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub use millstream_ep as ep;
pub use millstream_instructions as instructions;
pub use millstream_kernels as kernels;
pub use millstream_ops as ops;
pub use millstream_stream_policy as stream_policy;
pub use millstream_types as types;
pub use millstream_vm as vm;

pub use millstream_instructions::{InstructionList, Protection, SyncPolicy};
pub use millstream_types::{
    Access, AttrValue, Attrs, DType, DeviceId, Element, Error, Layout, Origin, Result, StreamKey,
    StreamMode, StreamType, TensorSpec,
};
pub use millstream_vm::{
    AutoCaptureReport, Batch, Blob, CallBuilder, Cancellation, CaptureLimits, Completion, Dims,
    DriverKind, Event, Executable, Generator, GraphStatus, Index, Indices, Int, Ints,
    LaunchBuilder, Launched, Machine, MachineConfig, NEW, OneDim, Operand, Place, Prepared, REST,
    RankBarrier, Real, Recorded, RecordedTensor, Recorder, Schedule, Section, Seed, ShutdownReport,
    Simulation, Stream, Tape, Tensor, TensorHandle, Traced, TracedCall, TracedReport, no_grad,
    optimisers, options, with_origin, with_stream,
};

/// The example of the README is compiled and run, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
