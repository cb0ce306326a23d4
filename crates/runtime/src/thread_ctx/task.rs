//! Tasks: the entries of a worker's queue.

use std::fmt;
use std::sync::Arc;

use millstream_instructions::{ArenaId, Body, Instruction, Kind, Placement, Via};
use millstream_types::{EventId, Origin, Point, StreamId, StreamKey, TensorId};

use crate::profile::recording::Recording;
use crate::scope::cancel::CancelScope;
use crate::sync::points::Milestone;
use crate::tables::functions::FunctionId;
use crate::tables::slots::CallSlot;
use crate::tapes::run::Run;

/// One entry of a worker's queue, as large as a cache line. Waits and stored calls lie in it; other
/// instructions are boxed.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) enum Task {
    /// Runs an instruction.
    Run(Box<Instruction>),
    /// Makes a stored call.
    Call(StoredCall),
    /// Runs a `StreamWaitEvent`.
    Wait { at: Point, until: Point, via: Via, origin: Origin },
    /// Runs a `RecordEvent`.
    RecordEvent { at: Point, event: EventId, origin: Origin },
    /// Assigns a stream to the worker.
    OpenStream(StreamId, Box<StreamKey>),
    /// Ends the worker's state of a stream, behind all its instructions.
    CloseStream(StreamId),
    /// Orders all later instructions of the stream after a point. It is no instruction of a list:
    /// barriers need it.
    Gate(StreamId, Point, Milestone),
    /// Records the event of a `StreamWait` on the stream that is waited for, with the origin of the
    /// wait.
    RecordForWait { until: Point, event: EventId, origin: Origin },
    /// Sets the cancel scopes of the next instructions of the stream.
    SetCancelScope(StreamId, Option<Arc<CancelScope>>),
    /// Begins or ends the recording of the stream's times.
    RecordTimes(StreamId, Option<Arc<Recording>>),
    /// Begins the launch of an executable, plays its tapes on streams of this worker, and ends it:
    /// the three tasks below in one.
    Launch(Arc<Run>),
    /// Begins the launch of an executable: its tapes may start.
    BeginLaunch(Arc<Run>),
    /// Makes the steps of a tape, from number `next` on.
    Play { stream: StreamId, tape: u16, next: u32, run: Arc<Run> },
    /// Ends a launch, once all its tapes have ended.
    EndLaunch(Arc<Run>),
}

/// The most tensors of a stored call.
pub(crate) const MAX_TENSORS: usize = 4;

/// A stored call, made on these tensors at a point.
#[derive(Clone, Debug)]
pub(crate) struct StoredCall {
    pub(crate) stream: StreamId,
    /// Its number in the table, which also says how many tensors there are.
    pub(crate) number: u32,
    pub(crate) seq: u64,
    /// Its place in the program.
    pub(crate) origin: Origin,
    pub(crate) tensors: [TensorId; MAX_TENSORS],
    pub(crate) companion: Companion,
}

/// What a stored call has beside its tensors, in one word: the place of its scratch memory if its
/// slot states some, else the number of the function of the program that it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Companion(u64);

impl Companion {
    /// The bits of an offset. The others are those of its arena.
    const OFFSET_BITS: u32 = 48;

    pub(crate) const fn function(function: FunctionId) -> Companion {
        Companion(function.number())
    }

    /// Returns the word of a placement; none if its offset is too great for it.
    pub(crate) fn scratch(placement: &Placement) -> Option<Companion> {
        let fits = placement.offset >> Companion::OFFSET_BITS == 0;
        let arena = u64::from(placement.arena.0) << Companion::OFFSET_BITS;
        fits.then_some(Companion(arena | placement.offset))
    }
}

impl StoredCall {
    pub(crate) const fn at(&self) -> Point {
        Point { stream: self.stream, seq: self.seq }
    }

    /// Returns the function of the program that it runs; [`FunctionId::NONE`] where it runs a
    /// kernel.
    #[inline]
    pub(crate) fn function(&self, slot: &CallSlot) -> FunctionId {
        match slot.call.workspace() {
            0 => FunctionId::of(Some(self.companion.0)),
            _ => FunctionId::NONE,
        }
    }

    /// Returns the place of its scratch memory, if it needs some. The number of the placement is
    /// that of none: only recorded lists need it, and those have the call in full.
    #[inline]
    pub(crate) fn workspace(&self, slot: &CallSlot) -> Option<Placement> {
        let size = slot.call.workspace();
        let Companion(word) = self.companion;
        let arena = ArenaId((word >> Companion::OFFSET_BITS) as u16);
        let offset = word & ((1 << Companion::OFFSET_BITS) - 1);
        (size > 0).then_some(Placement { arena, offset, size, generation: 0 })
    }

    /// Returns the instruction that it stands for.
    pub(crate) fn instruction(&self, slot: &CallSlot) -> Instruction {
        let (at, workspace) = (self.at(), self.workspace(slot));
        let mut instruction =
            slot.call.instruction(at, self.tensors, workspace.as_ref(), &self.origin);
        self.function(slot).name_in(&mut instruction);
        instruction
    }
}

impl Task {
    /// Wraps an instruction.
    pub(crate) fn run(Instruction { body, origin }: Instruction) -> Task {
        match body {
            Body::StreamWaitEvent { at, until, via } => Task::Wait { at, until, via, origin },
            Body::RecordEvent { at, event } => Task::RecordEvent { at, event, origin },
            body => Task::Run(Box::new(Instruction { body, origin })),
        }
    }

    /// Returns the stored call, if it is one.
    #[inline]
    pub(crate) fn stored(&self) -> Option<StoredCall> {
        match self {
            Task::Call(call) => Some(call.clone()),
            _ => None,
        }
    }

    /// Returns the task's name in the log of a simulated run.
    pub(crate) fn name(&self) -> TaskName<'_> {
        TaskName(self)
    }

    /// Returns the stream that the task is for.
    pub(crate) fn stream(&self) -> StreamId {
        match self {
            Task::Run(instruction) => match instruction.body.at() {
                Some(at) => at.stream,
                None => unreachable!("only instructions with a point are given to workers"),
            },
            Task::Call(call) => call.stream,
            Task::OpenStream(stream, _)
            | Task::CloseStream(stream)
            | Task::Gate(stream, _, _)
            | Task::Play { stream, .. }
            | Task::SetCancelScope(stream, _)
            | Task::RecordTimes(stream, _) => *stream,
            Task::Wait { at, .. }
            | Task::RecordEvent { at, .. }
            | Task::RecordForWait { until: at, .. } => at.stream,
            Task::Launch(run) | Task::BeginLaunch(run) | Task::EndLaunch(run) => run.at.stream,
        }
    }
}

/// Displays a task.
pub(crate) struct TaskName<'a>(&'a Task);

impl fmt::Display for TaskName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stream = self.0.stream();
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
            Task::RecordEvent { at, .. } => write!(f, "{at} {}", Kind::RecordEvent.name()),
            Task::Call(call) => write!(f, "{} {}", call.at(), Kind::OpCall.name()),
            Task::OpenStream(_, key) => write!(f, "{stream} as {key}"),
            Task::CloseStream(_) => write!(f, "{stream} closes"),
            Task::Gate(_, point, Milestone::Completed) => write!(f, "{stream} hold until {point}"),
            Task::Gate(_, point, Milestone::Launched) => {
                write!(f, "{stream} hold until launch of {point}")
            }
            Task::RecordForWait { until, .. } => write!(f, "{until} record"),
            Task::SetCancelScope(_, Some(_)) => write!(f, "{stream} enters a scope"),
            Task::SetCancelScope(_, None) => write!(f, "{stream} leaves all scopes"),
            Task::RecordTimes(..) => write!(f, "{stream} records times"),
            Task::Launch(run) => write!(f, "{} launch", run.at),
            Task::BeginLaunch(run) => write!(f, "{} begin", run.at),
            Task::Play { tape, next, run, .. } => {
                write!(f, "{stream} tape {tape} of {} from step {next}", run.at)
            }
            Task::EndLaunch(run) => write!(f, "{} {}", run.at, Kind::LazyJobLauncher.name()),
        }
    }
}

// Hundreds of thousands of instructions may be pending.
const _: () = assert!(size_of::<Task>() == 64);
