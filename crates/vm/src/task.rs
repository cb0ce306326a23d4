//! What the emission gives to workers.

use std::fmt;
use std::sync::Arc;

use millstream_instructions::{Body, Instruction};
use millstream_types::{EventId, Origin, Point, StreamId, StreamKey};

use crate::points::Mark;

/// One entry of a worker's queue.
#[derive(Debug)]
pub(crate) enum Task {
    /// Runs an instruction.
    Run(Instruction),
    /// A stream is the worker's from now on.
    Open(StreamId, Box<StreamKey>),
    /// What follows on the stream comes after a point. It stands in no list: barriers and the
    /// ends of stored lists need it.
    Hold(StreamId, Point, Mark),
    /// The half of a `StreamWait` on the stream that is waited for: where that is, the event, and
    /// where the wait itself is and comes from. In parts, so that no entry is larger than an
    /// instruction.
    Record { until: Point, event: EventId, at: Point, origin: Origin },
    /// What follows on a private stream belongs to the run of a stored list that begins at a point.
    Enter(StreamId, Point),
    /// A stored list begins: its streams may go on, and what its storages held is forgotten.
    Begin(Point, Arc<[u64]>),
}

impl Task {
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
            Task::Open(lane, _) | Task::Hold(lane, _, _) | Task::Enter(lane, _) => *lane,
            Task::Record { until: at, .. } | Task::Begin(at, _) => at.stream,
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
                let (kind, at) = (instruction.body.kind().name(), instruction.body.at());
                match (&instruction.body, at) {
                    (Body::StreamWaitEvent { until, .. }, Some(at))
                    | (Body::StreamWait { until, .. }, Some(at)) => {
                        write!(f, "{at} {kind} until {until}")
                    }
                    (_, Some(at)) => write!(f, "{at} {kind}"),
                    (_, None) => write!(f, "{kind}"),
                }
            }
            Task::Open(_, key) => write!(f, "{lane} as {key}"),
            Task::Hold(_, point, Mark::Completed) => write!(f, "{lane} hold until {point}"),
            Task::Hold(_, point, Mark::Launched) => {
                write!(f, "{lane} hold until launch of {point}")
            }
            Task::Record { until, .. } => write!(f, "{until} record"),
            Task::Enter(_, launcher) => write!(f, "{lane} enter {launcher}"),
            Task::Begin(point, _) => write!(f, "{point} begin"),
        }
    }
}

// Pending instructions are kept by the hundred thousand.
const _: () = assert!(size_of::<Task>() <= 96);

/// Whether an instruction is for workers. The others take effect when they are emitted.
pub(crate) const fn is_for_workers(body: &Body) -> bool {
    body.at().is_some()
}
