//! What a run gave and what it cost.

use std::sync::Arc;
use std::time::Duration;

use crate::certificate::certificate;
use millstream_instructions::builder::Waits;
use millstream_instructions::planner::ArenaUse;
use millstream_instructions::{InstructionList, Kind};
use millstream_trace::{Comparison, Imported, TraceError};
use millstream_types::overdue::StreamProgress;
use millstream_types::{Failure, StreamKey, TensorId, TensorSpec};
use millstream_vm::Schedule;

/// What a run gave and what it cost. Counts are those of the first run; a program's tensors are
/// made before they begin, and reading its outputs belongs to it.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// The trace's file, as it was named.
    pub trace: String,
    /// The outputs, in the order of the file.
    pub outputs: Vec<OutputReport>,
    /// How many instructions there were of each kind that occurs.
    pub instructions: Vec<(Kind, u64)>,
    /// What became of the needs to wait.
    pub waits: Waits,
    /// Events made.
    pub events_created: u64,
    /// Waits that used an event recorded for an earlier one.
    pub events_reused: u64,
    /// The streams that were given anything, and how much.
    pub streams: Vec<StreamReport>,
    /// The most bytes of tensors and workspaces that were held at once, by all devices together.
    pub peak_bytes: u64,
    /// The memory of each device when the run had ended, its tensors still held. Nothing for a raw
    /// list, which has memory of its own.
    pub memory: Vec<MemoryReport>,
    /// How long the fastest run took, from the first statement until the last output was read and
    /// everything had completed.
    pub wall: Duration,
    /// The first run's list of instructions, if it was asked for.
    pub list: Option<InstructionList>,
    /// What a simulated run did, up to its end or its first failure.
    pub schedule: Option<Schedule>,
    /// What became of the trace's nodes, if it was imported.
    pub imported: Option<Imported>,
    /// The instructions that failed by themselves, the first ones.
    pub failed: Vec<Arc<Failure>>,
    /// How far each stream came, if something was waited for that never could come.
    pub stuck: Option<Vec<StreamProgress>>,
    /// What failed while running, each once.
    pub failures: Vec<TraceError>,
}

/// The memory of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryReport {
    /// How much there is, who has it, and how it was found.
    pub usage: ArenaUse,
    /// The keys of `usage.streams`.
    pub streams: Vec<StreamKey>,
}

/// A stream that was given anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// Which stream.
    pub key: StreamKey,
    /// How many instructions it was given.
    pub instructions: u64,
}

/// An output and how it compares with what the trace expects.
#[derive(Clone, Debug)]
pub struct OutputReport {
    /// Its name.
    pub name: String,
    /// Dtype and shape, without gaps; none if it could not be read.
    pub spec: Option<TensorSpec>,
    /// The elements in row-major order; empty if it could not be read.
    pub bytes: Vec<u8>,
    /// How it compares; none if it could not be read.
    pub comparison: Option<Comparison>,
    /// Whether the trace says which elements it has to have.
    pub expected: bool,
    /// The first repeat that gave other bytes than the first run.
    pub unstable: Option<u32>,
    /// Its tensor in the list of instructions, if one was asked for.
    pub tensor: Option<TensorId>,
}

impl OutputReport {
    /// An output that could not be read.
    pub(crate) fn unread(name: &str) -> OutputReport {
        OutputReport {
            name: name.to_owned(),
            spec: None,
            bytes: Vec::new(),
            comparison: None,
            expected: false,
            unstable: None,
            tensor: None,
        }
    }

    /// Whether it was read, is what the trace expects, and was so in every run.
    pub fn ok(&self) -> bool {
        self.unstable.is_none() && self.comparison.as_ref().is_some_and(|c| c.ok)
    }
}

impl RunReport {
    /// The certificate of the run's list, if that was asked for.
    pub fn certificate(&self) -> Option<String> {
        self.list.as_ref().map(certificate)
    }

    /// Whether everything ran and every output is what the trace expects.
    pub fn ok(&self) -> bool {
        self.failures.is_empty() && self.outputs.iter().all(OutputReport::ok)
    }
}
