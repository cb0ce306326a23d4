//! The results and costs of a run.

use std::sync::Arc;
use std::time::Duration;

use crate::certificate::certificate;
use crate::names::Names;
use crate::recorded::RecordedRun;
use millstream_instructions::builder::Waits;
use millstream_instructions::passes::Remat;
use millstream_instructions::planner::ArenaUse;
use millstream_instructions::{InstructionList, Kind};
use millstream_trace::{Comparison, Imported, TraceError};
use millstream_types::overdue::StreamProgress;
use millstream_types::{DType, Failure, Origin, StreamKey, TensorId, TensorSpec};
use millstream_vm::{GraphStatus, RunTimes, Schedule};

/// The results and costs of a run. Counts are those of the first run, including the reads of its
/// outputs and without the creation of the program's tensors.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// The name of the trace's file.
    pub trace: String,
    /// The outputs, in the order of the file.
    pub outputs: Vec<OutputReport>,
    /// What the program's `read` statements read in the first run.
    pub reads: ReadReports,
    /// The number of instructions of each kind that occurs.
    pub instructions: Vec<(Kind, u64)>,
    /// The number of needed waits, and how they were resolved.
    pub waits: Waits,
    /// The number of events created.
    pub events_created: u64,
    /// The number of waits that used an event recorded for an earlier wait.
    pub events_reused: u64,
    /// The streams with instructions, and the number of their instructions.
    pub streams: Vec<StreamReport>,
    /// The number of compute streams that calls ran on, and the most that the options allow a
    /// program that names none.
    pub compute_streams: [u32; 2],
    /// The peak of the bytes of tensors and workspaces, over all devices together.
    pub peak_bytes: u64,
    /// The memory of each device at the end of the run, while the program's tensors still live.
    /// Empty for a raw list, which has its own memory.
    pub memory: Vec<MemoryReport>,
    /// The wall time of each run, from the first statement until everything had completed.
    pub walls: Vec<Duration>,
    /// The time that reading all outputs took after each run.
    pub readings: Vec<Duration>,
    /// The first run's list of instructions, if the options ask for it.
    pub list: Option<InstructionList>,
    /// The times of a run near the median, if the options ask for them: the same run on all ranks.
    pub times: Option<RunTimes>,
    /// The number of that run, from 0.
    pub kept: usize,
    /// The sums of each run's times, if the options ask for them.
    pub recorded: Vec<RecordedRun>,
    /// The program's names of what the list, or that of the times, holds.
    pub names: Names,
    /// How the program's executable was launched on devices with graphs, if it was replayed.
    pub graphs: Vec<GraphStatus>,
    /// The memory and the costs of the program's executable on devices with a budget, if it was
    /// replayed.
    pub remat: Vec<Remat>,
    /// The schedule of a simulated run, up to its end or its first failure.
    pub schedule: Option<Schedule>,
    /// The counts of the trace's nodes, if it was imported.
    pub imported: Option<Imported>,
    /// The first instructions that failed by themselves.
    pub failed: Vec<Arc<Failure>>,
    /// The progress of each stream, if a wait could never end.
    pub stuck: Option<Vec<StreamProgress>>,
    /// The failures, each once.
    pub failures: Vec<TraceError>,
}

/// What a `read` statement read.
#[derive(Clone, Debug)]
pub struct ReadReport {
    /// The name of the tensor.
    pub name: String,
    /// The place of the statement.
    pub origin: Origin,
    /// The dtype, and the shape without gaps.
    pub dtype: DType,
    /// The lengths of the dimensions.
    pub shape: Vec<usize>,
    /// The first elements, at most [`ReadReports::ELEMENTS`], in row-major order.
    pub head: Vec<u8>,
}

/// What the first `read` statements of a run read.
#[derive(Clone, Debug, Default)]
pub struct ReadReports {
    /// The first reads.
    pub first: Vec<ReadReport>,
    /// The number of further reads.
    pub further: u64,
}

impl ReadReports {
    /// The most elements that are kept of a read.
    pub const ELEMENTS: usize = 9;
    /// The most reads that are kept.
    pub const READS: usize = 64;

    pub(crate) fn note(&mut self, name: &str, origin: &Origin, spec: &TensorSpec, bytes: Vec<u8>) {
        if self.first.len() == Self::READS {
            self.further += 1;
            return;
        }
        let mut head = bytes;
        head.truncate(Self::ELEMENTS * spec.dtype.size());
        self.first.push(ReadReport {
            name: name.to_owned(),
            origin: origin.clone(),
            dtype: spec.dtype,
            shape: spec.shape().to_vec(),
            head,
        });
    }
}

/// The memory of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryReport {
    /// The bytes by holder and by the step that found them.
    pub usage: ArenaUse,
    /// The keys of `usage.streams`.
    pub streams: Vec<StreamKey>,
}

/// A stream with instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// The key of the stream.
    pub key: StreamKey,
    /// The program's name of it, if it has one.
    pub name: Option<String>,
    /// The number of its instructions.
    pub instructions: u64,
}

/// An output, and its comparison with the expected one.
#[derive(Clone, Debug)]
pub struct OutputReport {
    /// Its name.
    pub name: String,
    /// The dtype and shape without gaps; `None` if it could not be read.
    pub spec: Option<TensorSpec>,
    /// The elements in row-major order; empty if it could not be read.
    pub bytes: Vec<u8>,
    /// The comparison; `None` if it could not be read.
    pub comparison: Option<Comparison>,
    /// Whether the trace has expected elements.
    pub expected: bool,
    /// The first repeat whose bytes differ from those of the first run.
    pub unstable: Option<u32>,
    /// Its tensor in the list of instructions, if the options ask for the list.
    pub tensor: Option<TensorId>,
}

impl OutputReport {
    /// Returns the report of an output that could not be read.
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

    /// Returns whether the output was read, is the expected one, and was equal in every run.
    pub fn ok(&self) -> bool {
        self.unstable.is_none() && self.comparison.as_ref().is_some_and(|c| c.ok)
    }
}

impl RunReport {
    /// Returns the certificate of the run's list, if the options ask for the list.
    pub fn certificate(&self) -> Option<String> {
        self.list.as_ref().map(certificate)
    }

    /// Returns whether everything ran and every output is the expected one.
    pub fn ok(&self) -> bool {
        self.failures.is_empty() && self.outputs.iter().all(OutputReport::ok)
    }
}
