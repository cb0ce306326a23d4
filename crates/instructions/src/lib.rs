//! Instructions as plain values, the builder that emits them, and their text form.
//!
//! # Contract
//! An [`Instruction`] is data: no closure, no device handle, no lock. The printer, the parser,
//! the checker and the engine all read the same value. Nothing in this crate opens a device or
//! starts a thread: what streams there are is asked of a [`StreamCatalog`], memory is planned by a
//! pure [`Planner`], and what the builder emits goes to a [`Sink`].
//!
//! The builder is deterministic: the same calls, with the same host waits between them, emit the
//! same list. What a device happens to have completed by then never enters.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`table`] | the master table: every instruction, its operands and its meaning |
//! | [`ids`] | visiting and renumbering the ids of an instruction |
//! | [`instruction`] | what instructions are made of |
//! | [`frontier`] | sparse vector clocks |
//! | [`catalog`] | which streams there are, who can wait for whom |
//! | [`planner`] | where tensors lie in memory |
//! | [`builder`] | ops in, ordered instructions out |
//! | [`list`] | a list with its header |
//! | [`recorder`] | a machine's emissions as a list |
//! | [`text`] | printing and parsing |
//! | [`mod@reference`] | docs/instructions.md, from the table |
#![deny(missing_docs)]

pub mod builder;
pub mod catalog;
pub mod frontier;
pub mod ids;
pub mod instruction;
pub mod list;
pub mod planner;
pub mod recorder;
pub mod reference;
pub mod table;
pub mod text;

pub use builder::{
    Builder, BuilderConfig, Call, Need, Outcome, Protection, Sink, SyncPolicy, TensorRef,
};
pub use catalog::{Arenas, StreamCatalog, StreamFacts};
pub use frontier::Frontier;
pub use ids::{Id, Remap, Role};
pub use instruction::{Effect, Operand, Operands, Placement, Priority, Resolution, RunsOn, Via};
pub use list::{CheckedList, External, InstructionList, StreamDecl};
pub use planner::{Answer, ArenaId, Planner};
pub use recorder::ListRecorder;
pub use table::{Body, Instruction, Kind};
