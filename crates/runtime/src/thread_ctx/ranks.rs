//! Collectives: calls and barriers that complete once other ranks have got to them.
//!
//! # Rules
//! 1. The kernel of a collective starts a request and returns: a completion token completes the
//!    call. Its stream runs nothing else meanwhile, and its worker serves the others.
//! 2. On an asynchronous device whose memory the host reaches, the kernel runs on the worker, as
//!    soon as the stream's earlier commands have completed, like a host function. The device would
//!    give it no token.
//! 3. On a device whose memory the host does not reach, the kernel runs on the worker, too, and at
//!    once. Its token says that the communicator has put the collective on the stream, behind the
//!    stream's earlier commands. An empty command behind it tells when it has run.
//! 4. A collective that is skipped, or fails before its request is started, is reported to the
//!    other ranks. The communicator ignores the report if the request was started.

use std::any::Any;
use std::sync::Arc;

use millstream_comm::{Call, Channel, Collective, Communicator, Slot};
use millstream_ep::{Progress, Work, WorkResult};
use millstream_instructions::{Body, Instruction};
use millstream_kernels::RankContext;
use millstream_ops::collective;
use millstream_types::{Attrs, Failure, Origin, Point};

use crate::sync::Ordering;
use crate::sync::inbox::Message;
use crate::tables::Tables;
use crate::tapes::run::Run;
use crate::tapes::tape::StepCall;
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::outcome::refusal_of;
use crate::thread_ctx::stream::{Effect, ExternalCompletion};
use crate::thread_ctx::subject::Subject;
use crate::thread_ctx::unit::NO_ATTRS;

/// Returns the number that the engine gave a collective.
pub(super) fn number_of(attrs: &Attrs) -> u64 {
    let number = attrs.int(collective::NUMBER).ok().flatten();
    number.map_or(0, |number| number as u64)
}

/// Returns the number of a step's call within all calls of its channel; none if it is no
/// collective.
pub(super) fn number_of_step(run: &Run, call: &StepCall) -> Option<u64> {
    let (channel, number) = **call.number.as_ref()?;
    Some(run.numbers.get(usize::from(channel)).copied().unwrap_or_default() + number)
}

/// Returns the connection of a collective's kernel to the other ranks.
pub(super) fn rank_context<'a>(
    tables: &'a Tables,
    number: u64,
    origin: &'a Origin,
) -> RankContext<'a> {
    RankContext { communicator: &tables.communicator, number, origin }
}

impl Subject {
    /// Returns whether only other ranks can complete it.
    pub(crate) fn awaits_ranks(&self, tables: &Tables) -> bool {
        match self {
            Subject::Instruction(Instruction { body: Body::OpCall { op, .. }, .. }) => {
                tables.is_collective(*op)
            }
            Subject::Instruction(Instruction { body: Body::GlobalSync { .. }, .. }) => true,
            Subject::Instruction(_) => false,
            Subject::Step(step) => {
                step.call().is_some_and(|call| call.number.is_some()) || step.is_global_sync()
            }
        }
    }

    /// Tells the other ranks that a collective is not made.
    pub(super) fn report_skip(&self, tables: &Tables, cause: &Arc<Failure>) {
        let (op, attrs, number) = match self {
            Subject::Instruction(Instruction { body: Body::OpCall { op, attrs, .. }, .. })
                if tables.is_collective(*op) =>
            {
                let attrs = attrs.as_deref().unwrap_or(&NO_ATTRS);
                (*op, attrs, number_of(attrs))
            }
            Subject::Instruction(_) => return,
            Subject::Step(step) => {
                let Some(call) = step.call() else { return };
                let Some((number, op)) = number_of_step(&step.run, call).zip(call.op) else {
                    return;
                };
                (op, call.attrs.as_deref().unwrap_or(&NO_ATTRS), number)
            }
        };
        let communicator = &tables.communicator;
        let name = tables.ops.get(op).map_or("?", |op| op.name());
        // Of arguments that name no channel, no rank waits for the call.
        if let Ok(Some(channel)) = Channel::of(name, attrs, communicator.ranks()) {
            communicator.skip(Slot { channel, number }, name, &cause.to_string());
        }
    }
}

/// The empty command behind a collective that another thread has launched.
struct Launched;

impl Work for Launched {
    fn run(&mut self, _: &dyn Any) -> WorkResult {
        Ok(())
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(Launched)
    }
}

impl ThreadCtx {
    /// Returns whether the communicator has put an instruction on its stream.
    pub(super) fn is_launched_collective(&self, at: usize, subject: &Subject) -> bool {
        let is_sync = match subject {
            Subject::Instruction(instruction) => {
                matches!(instruction.body, Body::GlobalSync { .. })
            }
            Subject::Step(step) => step.is_global_sync(),
        };
        let is_collective = !is_sync && subject.awaits_ranks(&self.tables);
        is_collective && self.streams[at].launches_collectives()
    }

    /// Returns whether a call is a function of the program that may have launched work on its
    /// native stream.
    pub(super) fn is_launched_function(&self, at: usize, subject: &Subject) -> bool {
        subject.function(&self.tables).is_some() && self.streams[at].launches_collectives()
    }

    /// Handles a call whose work another thread has put on its native stream.
    pub(super) fn follow(
        &mut self,
        at: usize,
        seq: u64,
        subject: Subject,
        effect: fn(Subject) -> Effect,
    ) {
        let submitted = self.native_stream(at).and_then(|n| n.stream.submit(&mut Launched));
        match submitted {
            Ok(Progress::Pending(ticket)) => {
                self.launched(at, seq, Some(ticket), None, effect(subject));
            }
            Ok(Progress::Done(result)) => {
                self.submitted(at, seq, subject, Ok(Progress::Done(result)), false);
            }
            Err(error) => self.refused(at, seq, subject, refusal_of(&error)),
        }
    }

    /// Meets all ranks. The stream is blocked until they have come.
    pub(super) fn meet_ranks(&mut self, at: usize, point: Point, subject: Subject) {
        let communicator: &Arc<dyn Communicator> = &self.tables.communicator;
        // Relaxed: the barriers themselves order one another.
        let number = self.tables.next_barrier.fetch_add(1, Ordering::Relaxed);
        let request = communicator.start(Call {
            slot: Slot { channel: Channel::Barriers, number },
            collective: Collective::Barrier,
            op: "global_sync",
            given: Vec::new(),
            expected: Vec::new(),
            origin: subject.origin(),
        });
        self.streams[at].external = Some(ExternalCompletion { subject, so_far: Ok(()) });
        let inbox = self.inbox.clone();
        request.then(move |outcome| {
            let result = outcome.map(drop).map_err(anyhow::Error::from);
            inbox.post(Message::ExternalDone(point, result));
        });
    }

    /// Returns whether nothing here can run before another rank acts.
    pub(crate) fn is_quiet(&self) -> bool {
        self.streams.iter().all(|stream| {
            let external = stream.external.as_ref();
            stream.in_flight.is_empty()
                && external.is_none_or(|external| external.subject.awaits_ranks(&self.tables))
        })
    }
}
