//! What a file states about order and memory, without guesses: the base of a proof.
//!
//! A fact names what it knows. A wait that names no event, or no stream, stays one, so that a proof
//! can rest on what is certain, and a race on all that is possible.

use std::collections::HashSet;

use millstream_profile::model::Operand;

use crate::Unknown;

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// The record of this call.
    Record(u64),
    /// One of the records before it, or none of the file's.
    SomeRecord,
    /// This instruction of a stream.
    Work(u32),
    /// What was submitted to a stream.
    Stream(u32),
    /// What was submitted to the streams of this process; all of them if `is_certain`.
    Streams { process: u32, is_certain: bool },
}

/// The kind of a fact.
#[derive(Clone, Debug)]
pub(crate) enum FactKind {
    /// A thread uses the host's memory by itself.
    Use(Vec<Operand>),
    /// A stream works.
    Work { stream: u32, operands: Vec<Operand> },
    /// An event is recorded by this call, on a stream if the file names it.
    Record { call: u64, stream: Option<u32> },
    /// A stream waits; if the file does not name it, all that the thread submits later may wait.
    StreamWait { stream: Option<u32>, until: Until },
    /// The thread waits, or may have waited.
    HostWait { until: Until, is_certain: bool },
}

/// Something that orders, or uses memory.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    /// The thread that does or submits it, if it is known.
    pub(crate) thread: Option<u32>,
    /// The times of the thread's op or call.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// The instruction of the profile that stands for it.
    pub(crate) instruction: u32,
    pub(crate) kind: FactKind,
}

impl Fact {
    /// Returns what it uses.
    pub(crate) fn operands(&self) -> &[Operand] {
        match &self.kind {
            FactKind::Use(operands) | FactKind::Work { operands, .. } => operands,
            FactKind::Record { .. } | FactKind::StreamWait { .. } | FactKind::HostWait { .. } => {
                &[]
            }
        }
    }
}

/// The facts of a file, and how many are missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// In the order of the calls of each thread, and of the work of each stream.
    pub(crate) all: Vec<Fact>,
    /// The process of each of the profile's streams.
    pub(crate) processes: Vec<u32>,
    /// The tensors in the host's memory, of those that are used.
    pub(crate) on_host: HashSet<u32>,
    pub(crate) unknown: Unknown,
}
