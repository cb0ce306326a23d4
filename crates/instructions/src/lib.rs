//! Instructions as plain values, the builder that emits them, and their text form.
//!
//! # Contract
//! An [`Instruction`] is data: no closure, no device handle, no lock. The printer, the parser, the
//! verifier and the machine read the same value. Nothing in this crate opens a device or starts a
//! thread: the builder asks a [`StreamCatalog`] about streams, a pure [`Planner`] places memory,
//! and emitted instructions go to a [`Sink`].
//!
//! The builder is deterministic: the same calls, with the same host waits between them, emit the
//! same list. The progress of devices does not enter.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`table`] | the master table: every instruction, its operands, its facts, its meaning |
//! | [`ids`] | visiting and renumbering the ids of an instruction |
//! | [`instruction`] | the parts of instructions |
//! | [`frontier`] | sparse vector clocks |
//! | [`catalog`] | questions about streams and memory |
//! | [`passes`] | lists that compute the same with less |
//! | [`planner`] | placement of tensors in memory |
//! | [`builder`] | calls in, ordered instructions out |
//! | [`list`] | lists with their headers |
//! | [`recorder`] | a machine's emissions as a list |
//! | [`scalar`] | the numbers that each launch of a list gives |
//! | [`text`] | printing and parsing |
//! | [`mod@reference`] | docs/instructions.md, from the table |
#![deny(missing_docs)]

pub mod assigner;
pub mod builder;
pub mod catalog;
pub mod frontier;
pub mod ids;
pub mod instruction;
pub mod list;
pub mod passes;
pub mod planner;
pub mod recorder;
pub mod reference;
pub mod scalar;
pub mod table;
pub mod text;

pub use builder::{
    BuilderConfig, Call, InstructionsBuilder, Need, Outcome, Protection, Sink, SyncPolicy,
    TensorRef,
};
pub use catalog::{Arenas, StreamCatalog, StreamFacts};
pub use frontier::Frontier;
pub use ids::{Id, Remap, Role};
pub use instruction::{
    Accesses, Class, Operand, Operands, Placement, Priority, Resolution, RunsOn, Via,
};
pub use list::{CheckedList, External, InstructionList, StreamDecl};
pub use planner::{Answer, ArenaId, Planner};
pub use recorder::ListRecorder;
pub use scalar::{GeneratorDecl, ScalarDecl, check_uses};
pub use table::{Body, Instruction, Kind};

/// The example of the README is compiled and run, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
