//! The steps of a tape.
//!
//! On a stream that runs work directly, calls and waits are made in one loop that touches nothing
//! but the tape, the bases of the launch and the stream's counter. Everything else, and all of a
//! stream that does not, goes one step at a time through the ways of instructions.
//!
//! Long because that loop is written out.

use std::any::Any;
use std::sync::Arc;

use millstream_ep::{Work, WorkResult};
use millstream_types::{Point, catch_panic};

use crate::profile::Outcome;
use crate::profile::samples::StreamSamples;
use crate::sync::backoff::Backoff;
use crate::sync::inbox::{Inbox, Message};
use crate::sync::points::{Milestone, StreamState};
use crate::tables::Tables;
use crate::tapes::run::{Base, Run};
use crate::tapes::tape::{Action, StepCall, Tape};
use crate::tapes::{GROUP, MAX_OPERANDS};
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::graph::Part;
use crate::thread_ctx::launch::{kernel_of, no_kernel};
use crate::thread_ctx::stream::{ExternalCompletion, NativeStream};
use crate::thread_ctx::subject::{EventPlace, StepRef, Subject};
use crate::thread_ctx::task::Task;
use crate::thread_ctx::unit::Unit;
use crate::thread_ctx::work::{HostOperand, TokenSource};

/// Why the loop of direct steps has ended.
enum Exit {
    /// The tape has ended.
    End,
    /// The next step has to take the way of instructions.
    Step,
    /// The next step waits for a point.
    Wait(Point),
    /// The steps that may be made at once were made.
    Yield,
    /// Another party completes the step before the next one, whose result is this so far.
    External(WorkResult),
}

impl ThreadCtx {
    /// Makes the steps of a tape from number `next` on. Returns the rest if the stream is blocked
    /// before it, or if other streams are to have their turn.
    pub(super) fn play(
        &mut self,
        at: usize,
        tape: u16,
        mut next: u32,
        run: Arc<Run>,
    ) -> Option<Task> {
        let stream = self.streams[at].id;
        let rest = |next, run| Some(Task::Play { stream, tape, next, run });
        if next == 0 && self.block_until(at, run.at, Milestone::Launched) {
            return rest(next, run);
        }
        if next == 0 {
            match self.play_in_graph(at, tape, &run) {
                Part::Calls => {}
                Part::Blocked => return rest(next, run),
                Part::Done => return None,
            }
        }
        let mut left = self.tables.steps_at_once;
        loop {
            let exit = match self.play_directly(at, tape, &mut next, &run, &mut left) {
                Some(exit) => exit,
                None if next as usize == run.program.tapes[usize::from(tape)].steps.len() => {
                    Exit::End
                }
                None if left == 0 => Exit::Yield,
                None => Exit::Step,
            };
            match exit {
                Exit::End => {
                    let end = run.end_of(usize::from(tape));
                    if self.streams[at].in_flight.is_empty() {
                        self.publish(at, end.seq, Milestone::Completed);
                    }
                    self.finished += 1;
                    return None;
                }
                Exit::Wait(point) => {
                    if self.block_until(at, point, Milestone::Completed) {
                        return rest(next, run);
                    }
                }
                Exit::Yield => {
                    // The message comes after those for other streams.
                    self.inbox.post(Message::Resume(stream));
                    return rest(next, run);
                }
                Exit::External(so_far) => {
                    let step = StepRef { run: run.clone(), tape, step: next - 1 };
                    let subject = Subject::Step(step);
                    self.streams[at].external = Some(ExternalCompletion { subject, so_far });
                    self.steps += 1;
                    return rest(next, run);
                }
                Exit::Step => {
                    let step = StepRef { run: run.clone(), tape, step: next };
                    if !self.step(at, &step) {
                        return rest(next, run);
                    }
                    self.steps += 1;
                    next += 1;
                    left = left.saturating_sub(1);
                    if self.streams[at].external.is_some() {
                        return rest(next, run);
                    }
                }
            }
        }
    }

    /// Makes steps on a stream that runs work directly. Returns none on any other.
    fn play_directly(
        &mut self,
        at: usize,
        tape: u16,
        next: &mut u32,
        run: &Arc<Run>,
        left: &mut u32,
    ) -> Option<Exit> {
        let number = usize::from(tape);
        let tape_of = &run.program.tapes[number];
        // The native stream is made for the first call.
        if tape_of.steps.is_empty() || self.native_stream(at).is_err() {
            return None;
        }
        let ThreadCtx { tables, inbox, streams, .. } = self;
        let stream = &mut streams[at];
        let native = stream.native.as_ref().filter(|_| stream.lost.is_none())?;
        let mut direct = Direct {
            samples: stream.samples.as_deref_mut(),
            tables,
            inbox,
            state: tables.points.stream(stream.id),
            native,
            any: native.stream.direct()?,
            run,
            tape: tape_of,
            number,
            base: run.tapes[number].base,
            next: *next,
            stop: next.saturating_add(*left).min(tape_of.steps.len() as u32),
        };
        let exit = loop {
            let made = catch_panic(|| match direct.samples.is_some() {
                true => direct.steps::<true>(),
                false => direct.steps::<false>(),
            });
            match made {
                Ok(exit) => break exit,
                Err(error) => {
                    let step = StepRef { run: run.clone(), tape, step: direct.next };
                    let (cause, message) = super::outcome::cause_of(&error);
                    let subject = Subject::Step(step);
                    let failure = subject.failure(tables, &stream.key, cause, message);
                    subject.skip(tables, &failure);
                    direct.note_outcome(Outcome::Failed);
                    direct.end_step::<true>();
                }
            }
        };
        *left -= direct.next - *next;
        *next = direct.next;
        if !stream.dirty {
            stream.dirty = true;
            self.dirty.push(at as u32);
        }
        Some(exit)
    }

    /// Makes one step in the way of instructions. Returns false if the stream is blocked before it.
    fn step(&mut self, at: usize, step: &StepRef) -> bool {
        if let Some(samples) = &mut self.streams[at].samples {
            samples.begin();
        }
        let StepRef { run, tape, step: number } = step;
        let tape = &run.program.tapes[usize::from(*tape)];
        let (point, subject) = (step.point(), || Subject::Step(step.clone()));
        match &tape.steps[*number as usize] {
            Action::Call { .. } => {
                // Before a call that is blocked, the play goes on from its own state.
                self.call(at, subject()).is_none()
            }
            Action::Wait { tape, steps } => {
                self.wait(at, point.seq, run.point(usize::from(*tape), *steps))
            }
            Action::Record { event, .. } => {
                let event = EventPlace::Launch(run.clone(), *event);
                self.record(at, point.seq, event, subject());
                true
            }
            Action::WaitOnDevice { event, tape, steps, .. } => {
                let until = run.point(usize::from(*tape), *steps);
                let event = EventPlace::Launch(run.clone(), *event);
                self.wait_on_device(at, point.seq, until, &event, subject)
            }
            Action::Read { .. } => {
                self.scope(at, run);
                self.read(at, point.seq, HostOperand::Step(step.clone()), &subject())
            }
            Action::Callback { callback, .. } => {
                if self.drains(at) {
                    return false;
                }
                self.scope(at, run);
                let callback = run.program.callbacks.get(usize::from(*callback)).cloned();
                let callback = callback.map(|callback| -> crate::host::Callback {
                    Box::new(move |blob| callback(blob))
                });
                self.call_back(at, point, HostOperand::Step(step.clone()), callback, subject());
                true
            }
            Action::GlobalSync { .. } => {
                if self.drains(at) {
                    return false;
                }
                self.meet_ranks(at, point, subject());
                true
            }
        }
    }

    /// Sets the stream's cancel scopes to those of the launch.
    fn scope(&mut self, at: usize, run: &Run) {
        self.streams[at].cancel_scope.clone_from(&run.cancel_scope);
    }
}

/// The loop of steps on a stream that runs work directly.
struct Direct<'a> {
    /// The times of the steps, while a recording is under way.
    samples: Option<&'a mut StreamSamples>,
    tables: &'a Arc<Tables>,
    inbox: &'a Arc<Inbox>,
    state: &'a StreamState,
    native: &'a NativeStream,
    any: &'a dyn Any,
    run: &'a Arc<Run>,
    tape: &'a Tape,
    number: usize,
    base: u64,
    next: u32,
    /// The step at which other streams are to have their turn.
    stop: u32,
}

impl Direct<'_> {
    /// Notes how the step ends, if a recording of times is under way.
    fn note_outcome(&mut self, outcome: Outcome) {
        if let Some(samples) = &mut self.samples {
            samples.outcome(outcome);
        }
    }

    /// Ends the step, for the tapes that wait for it. `TIMED`: notes its time, if a recording is
    /// under way.
    #[inline]
    fn end_step<const TIMED: bool>(&mut self) {
        let publishes = self.tape.publishes[self.next as usize];
        self.next += 1;
        if TIMED && let Some(samples) = &mut self.samples {
            samples.step(self.base + u64::from(self.next));
        }
        if publishes {
            self.state.publish(self.base + u64::from(self.next), Milestone::Completed);
        }
    }

    /// Makes steps until one cannot be made here. An error is that of step `next`. `TIMED`: while
    /// times are recorded; the loop without has no check for it.
    fn steps<const TIMED: bool>(&mut self) -> anyhow::Result<Exit> {
        let Direct { tape, run, .. } = *self;
        let (threads, bases) = (Some(&self.tables.threads), &run.bases[..]);
        let mut addresses = [std::ptr::null_mut(); MAX_OPERANDS];
        let steps = &tape.steps[..self.stop as usize];
        while let Some(step) = steps.get(self.next as usize) {
            if TIMED && let Some(samples) = &mut self.samples {
                samples.begin();
            }
            match step {
                Action::Call { kernel: Some(kernel), first, count, .. } if !run.is_careful() => {
                    let (first, count) = (*first as usize, usize::from(*count));
                    // Operands are padded to full groups, so that the common calls take one turn,
                    // which the processor foresees.
                    for at in (0..count).step_by(GROUP) {
                        let group = &tape.addresses[first + at..first + at + GROUP];
                        let slots = &mut addresses[at..at + GROUP];
                        for (slot, address) in slots.iter_mut().zip(group) {
                            *slot = Base::resolve_packed(bases, *address);
                        }
                    }
                    let addresses = &addresses[..count];
                    // SAFETY: as for every call: the list was checked to order all conflicting
                    // uses, and to place no two live storages on the same bytes; the launch holds
                    // its formals and its private memory until its last step has ended. The kernel
                    // was prepared for the specs of these operands.
                    unsafe { kernel.run(addresses, threads) }?;
                }
                Action::Call { call, .. } => {
                    let call = &tape.calls[*call as usize];
                    if let Some(exit) = self.call(call)? {
                        return Ok(exit);
                    }
                }
                Action::Wait { tape, steps } => {
                    let until = run.point(usize::from(*tape), *steps);
                    if !self.await_step(until) {
                        return Ok(Exit::Wait(until));
                    }
                }
                Action::Record { .. }
                | Action::WaitOnDevice { .. }
                | Action::Read { .. }
                | Action::Callback { .. }
                | Action::GlobalSync { .. } => return Ok(Exit::Step),
            }
            self.end_step::<TIMED>();
        }
        Ok(if steps.len() == tape.steps.len() { Exit::End } else { Exit::Yield })
    }

    /// Checks for a while whether another tape has got that far.
    #[inline]
    fn await_step(&self, until: Point) -> bool {
        let source = self.tables.points.stream(until.stream);
        let mut backoff = Backoff::new(self.tables.step_checks);
        while !source.reached(until.seq, Milestone::Completed) {
            if !backoff.spin() {
                return false;
            }
        }
        true
    }

    /// Makes a call that is not plain: its kernel runs through its context, or has to look for
    /// poison or cancellation first.
    fn call(&mut self, call: &StepCall) -> anyhow::Result<Option<Exit>> {
        let (run, tables) = (self.run, self.tables);
        let subject = || StepRef { run: run.clone(), tape: self.number as u16, step: self.next };
        if let Some(cause) = run.poison_of(&call.operands) {
            Subject::Step(subject()).skip(tables, &cause);
            self.note_outcome(Outcome::Skipped);
            return Ok(None);
        }
        let Some(kernel) = kernel_of(&self.native.kernels, call.op) else {
            anyhow::bail!(no_kernel(tables, call.op, self.native));
        };
        let step = Subject::Step(subject());
        let token = TokenSource::new(self.inbox, self.run.point(self.number, self.next + 1));
        let mut work = Unit::of_step(tables, self.native.device.id(), &step, kernel, token);
        let result = catch_panic(|| work.run(self.any));
        if work.token.is_taken() {
            self.next += 1;
            return Ok(Some(Exit::External(result)));
        }
        result?;
        run.heal(&call.operands);
        Ok(None)
    }
}
