//! What the emission gives to workers.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use millstream_instructions::{Body, Instruction, Kind, Operand, Via};
use millstream_types::{EventId, Origin, Point, StreamId, StreamKey, TensorId};

use crate::cancel::Within;
use crate::points::Mark;
use crate::slots::CallSlot;

/// One entry of a worker's queue, as large as a cache line. Waits and calls that stand in the
/// engine's table lie in it; other instructions elsewhere.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) enum Task {
    /// Runs an instruction.
    Run(Box<Instruction>),
    /// Makes a call that stands in the engine's table.
    Call(StoredCall),
    /// Runs a `StreamWaitEvent`.
    Wait { at: Point, until: Point, via: Via, origin: Origin },
    /// Runs a `RecordEvent`.
    Mark { at: Point, event: EventId, origin: Origin },
    /// A stream is the worker's from now on.
    Open(StreamId, Box<StreamKey>),
    /// What follows on the stream comes after a point. It stands in no list: barriers and the
    /// ends of stored lists need it.
    Hold(StreamId, Point, Mark),
    /// The half of a `StreamWait` on the stream that is waited for: where that is, the event, and
    /// where the wait comes from.
    Record { until: Point, event: EventId, origin: Origin },
    /// What follows on a private stream belongs to the run of a stored list that begins at a point,
    /// launched within these scopes.
    Enter(StreamId, Point, Option<Arc<Within>>),
    /// What follows on the stream was submitted within these scopes.
    Within(StreamId, Option<Arc<Within>>),
    /// A stored list begins: its streams may go on, and what its storages held is forgotten.
    Begin(Point, Arc<[u64]>),
}

/// How many tensors a stored call names at most.
pub(crate) const MOST_TENSORS: usize = 4;

/// A call that stands in the engine's table, made on these tensors at a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredCall {
    pub(crate) stream: StreamId,
    /// Its number in the table, which also says how many tensors there are.
    pub(crate) number: u32,
    pub(crate) seq: u64,
    /// Where in a program it stands, if that is known.
    pub(crate) from: Option<&'static Location<'static>>,
    pub(crate) tensors: [TensorId; MOST_TENSORS],
}

impl StoredCall {
    pub(crate) const fn at(&self) -> Point {
        Point { stream: self.stream, seq: self.seq }
    }

    /// The instruction that it stands for.
    pub(crate) fn instruction(&self, call: &CallSlot) -> Instruction {
        let CallSlot { op, accesses, attrs, priority } = call.clone();
        let uses = self.tensors.iter().zip(accesses);
        let operands = uses.map(|(&tensor, access)| Operand { tensor, access }).collect();
        let body = Body::OpCall { at: self.at(), op, operands, attrs, workspace: None, priority };
        Instruction { body, origin: self.from.map_or(Origin::Unknown, Origin::Code) }
    }
}

impl Task {
    /// Runs an instruction.
    pub(crate) fn run(Instruction { body, origin }: Instruction) -> Task {
        match body {
            Body::StreamWaitEvent { at, until, via } => Task::Wait { at, until, via, origin },
            Body::RecordEvent { at, event } => Task::Mark { at, event, origin },
            body @ (Body::OpCall { .. }
            | Body::AllocateTensor { .. }
            | Body::ViewTensor { .. }
            | Body::ReleaseTensor { .. }
            | Body::TouchTensors { .. }
            | Body::SoftSyncStream { .. }
            | Body::StreamWait { .. }
            | Body::Barrier { .. }
            | Body::GlobalSync { .. }
            | Body::HostObserved { .. }
            | Body::AccessBlobByCallback { .. }
            | Body::SyncRead { .. }
            | Body::CriticalSectionBegin { .. }
            | Body::CriticalSectionEnd { .. }
            | Body::LazyJobLauncher { .. }) => Task::Run(Box::new(Instruction { body, origin })),
        }
    }

    /// The stored call, if it is one.
    #[inline]
    pub(crate) const fn stored(&self) -> Option<StoredCall> {
        match self {
            Task::Call(call) => Some(*call),
            _ => None,
        }
    }

    /// The task, as the log of a simulated run names it.
    pub(crate) fn name(&self) -> TaskName<'_> {
        TaskName(self)
    }

    /// The stream that the task is for.
    pub(crate) fn lane(&self) -> StreamId {
        match self {
            Task::Run(instruction) => match instruction.body.at() {
                Some(at) => at.stream,
                None => unreachable!("only instructions with a place are given to workers"),
            },
            Task::Call(call) => call.stream,
            Task::Open(lane, _)
            | Task::Hold(lane, _, _)
            | Task::Enter(lane, ..)
            | Task::Within(lane, _) => *lane,
            Task::Wait { at, .. }
            | Task::Mark { at, .. }
            | Task::Record { until: at, .. }
            | Task::Begin(at, _) => at.stream,
        }
    }
}

/// Shows a task.
pub(crate) struct TaskName<'a>(&'a Task);

impl fmt::Display for TaskName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lane = self.0.lane();
        match self.0 {
            Task::Run(instruction) => {
                let body = &instruction.body;
                let kind = body.kind().name();
                match (body.at(), body.until()) {
                    (Some(at), Some(until)) => write!(f, "{at} {kind} until {until}"),
                    (Some(at), None) => write!(f, "{at} {kind}"),
                    (None, _) => write!(f, "{kind}"),
                }
            }
            Task::Wait { at, until, .. } => {
                write!(f, "{at} {} until {until}", Kind::StreamWaitEvent.name())
            }
            Task::Mark { at, .. } => write!(f, "{at} {}", Kind::RecordEvent.name()),
            Task::Call(call) => write!(f, "{} {}", call.at(), Kind::OpCall.name()),
            Task::Open(_, key) => write!(f, "{lane} as {key}"),
            Task::Hold(_, point, Mark::Completed) => write!(f, "{lane} hold until {point}"),
            Task::Hold(_, point, Mark::Launched) => {
                write!(f, "{lane} hold until launch of {point}")
            }
            Task::Record { until, .. } => write!(f, "{until} record"),
            Task::Enter(_, launcher, _) => write!(f, "{lane} enter {launcher}"),
            Task::Within(_, Some(_)) => write!(f, "{lane} enters a scope"),
            Task::Within(_, None) => write!(f, "{lane} leaves all scopes"),
            Task::Begin(point, _) => write!(f, "{point} begin"),
        }
    }
}

// Pending instructions are kept by the hundred thousand.
const _: () = assert!(size_of::<Task>() == 64);
