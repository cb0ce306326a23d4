//! Launch of one task.

use std::sync::Arc;

use millstream_ep::{Progress, Work};
use millstream_instructions::{Body, Instruction, Via};
use millstream_kernels::Kernel;
use millstream_types::{Cause, Error, OpId, Point, Result, catch_panic};

use crate::profile::Outcome;
use crate::sync::inbox::Message;
use crate::sync::points::Milestone;
use crate::tables::timed_records::RecordTime;
use crate::tables::{KernelsByOp, Tables};
use crate::thread_ctx::ThreadCtx;
use crate::thread_ctx::outcome::refusal_of;
use crate::thread_ctx::stream::{Effect, NativeStream, WorkerStream};
use crate::thread_ctx::subject::{EventPlace, Subject};
use crate::thread_ctx::task::Task;
use crate::thread_ctx::unit::{Arguments, Callee, Unit};
use crate::thread_ctx::work::{HostOperand, TokenSource};

impl ThreadCtx {
    /// Runs a task of the stream at `at`. Returns the task if the stream is blocked before it.
    pub(super) fn run(&mut self, at: usize, task: Task) -> Option<Task> {
        if let Some(samples) = &mut self.streams[at].samples {
            samples.begin();
        }
        match task {
            Task::Run(instruction) => return self.dispatch(at, *instruction),
            Task::Wait { at: point, until, via: Via::Host, .. } => {
                if self.block_until(at, until, Milestone::Completed) {
                    return Some(task);
                }
                self.completed(at, point.seq);
            }
            Task::Wait { at: point, until, via, origin } => {
                let body = Body::StreamWaitEvent { at: point, until, via };
                return self.dispatch(at, Instruction { body, origin });
            }
            Task::RecordEvent { at: point, event, origin } => {
                let body = Body::RecordEvent { at: point, event };
                return self.dispatch(at, Instruction { body, origin });
            }
            Task::Call(call) => return self.call_stored(at, call),
            Task::Gate(_, point, milestone) => {
                if self.block_until(at, point, milestone) {
                    return Some(task);
                }
                self.skip_sample(at);
                self.finished += 1;
            }
            Task::SetCancelScope(_, cancel_scope) => {
                self.streams[at].cancel_scope = cancel_scope;
                self.skip_sample(at);
                self.finished += 1;
            }
            Task::RecordTimes(_, recording) => {
                self.record_times(at, recording);
                self.finished += 1;
            }
            Task::BeginLaunch(run) => {
                run.begin(&self.tables);
                self.publish(at, run.at.seq, Milestone::Launched);
                self.finished += 1;
            }
            Task::Play { tape, next, run, .. } => return self.play(at, tape, next, run),
            Task::EndLaunch(ref run) => {
                for tape in 0..run.tapes.len() {
                    if self.block_until(at, run.end_of(tape), Milestone::Completed) {
                        return Some(task);
                    }
                }
                run.end(&self.tables);
                self.completed(at, run.at.seq);
            }
            Task::RecordForWait { until, event, origin } => {
                // If it fails, it fails at this half's point.
                let body = Body::StreamWait { at: until, until, via: Via::Device(event) };
                let subject = Subject::Instruction(Instruction { body, origin });
                self.record(at, until.seq, EventPlace::Slot(event), subject);
            }
            Task::CloseStream(_) => {
                let stream = &mut self.streams[at];
                (stream.closing, stream.cancel_scope) = (true, None);
                self.closing = true;
                self.finished += 1;
            }
            // It was to be closed. It may have another key of its device and type.
            Task::OpenStream(_, key) => {
                let stream = &mut self.streams[at];
                (stream.closing, stream.key) = (false, *key);
            }
            Task::Launch(_) => unreachable!("it takes effect when it is taken"),
        }
        None
    }

    /// Forgets when the task at the stream's head was first tried: it is no instruction.
    fn skip_sample(&mut self, at: usize) {
        if let Some(samples) = &mut self.streams[at].samples {
            samples.skip();
        }
    }

    fn dispatch(&mut self, at: usize, instruction: Instruction) -> Option<Task> {
        match &instruction.body {
            Body::OpCall { .. } => {
                return self.call(at, Subject::Instruction(instruction)).and_then(Subject::task);
            }
            Body::TouchTensors { at: point, .. }
            | Body::CriticalSectionBegin { at: point, .. }
            | Body::CriticalSectionEnd { at: point, .. }
            | Body::Barrier { at: point } => self.launched(at, point.seq, None, None, Effect::None),
            Body::RecordEvent { at: point, event } => {
                let (seq, event) = (point.seq, EventPlace::Slot(*event));
                self.record(at, seq, event, Subject::Instruction(instruction));
            }
            Body::StreamWaitEvent { at: point, until, via }
            | Body::StreamWait { at: point, until, via } => {
                let (seq, until) = (point.seq, *until);
                let waited = match *via {
                    Via::Device(event) => {
                        let subject = || Subject::Instruction(instruction.clone());
                        self.wait_on_device(at, seq, until, &EventPlace::Slot(event), subject)
                    }
                    Via::Host => self.wait(at, seq, until),
                };
                if !waited {
                    return Some(Task::run(instruction));
                }
            }
            Body::GlobalSync { at: point } => {
                if self.drains(at) {
                    return Some(Task::run(instruction));
                }
                let point = *point;
                self.meet_ranks(at, point, Subject::Instruction(instruction));
            }
            Body::AccessBlobByCallback { at: point, operand, callback } => {
                if self.drains(at) {
                    return Some(Task::run(instruction));
                }
                let (point, operand) = (*point, HostOperand::Slot(*operand));
                let callback = self.tables.host.take_callback(*callback);
                let subject = Subject::Instruction(instruction);
                self.call_back(at, point, operand, callback, subject);
            }
            Body::SyncRead { at: point, operand, .. } => {
                let (seq, operand) = (point.seq, HostOperand::Slot(*operand));
                let subject = Subject::Instruction(instruction);
                if !self.read(at, seq, operand, &subject) {
                    return subject.task();
                }
            }
            Body::AllocateTensor { .. }
            | Body::ViewTensor { .. }
            | Body::ReleaseTensor { .. }
            | Body::SoftSyncStream { .. }
            | Body::HostObserved { .. }
            | Body::LazyJobLauncher { .. } => {
                unreachable!("{} takes effect when it is emitted", instruction.body.kind().name())
            }
        }
        None
    }

    /// Returns the stream's native stream; creates it at the first call.
    pub(super) fn native_stream(&mut self, at: usize) -> Result<&mut NativeStream> {
        let stream = &mut self.streams[at];
        if let Some(error) = &stream.lost {
            return Err(error.clone());
        }
        if stream.native.is_none() {
            let (inbox, id) = (self.inbox.clone(), stream.id);
            let notify = Arc::new(move || inbox.post(Message::Device(id)));
            stream.native = Some(NativeStream::create(&self.tables, &stream.key, notify)?);
            if let (Some(samples), Some(native)) = (&stream.samples, &mut stream.native) {
                // As in `ThreadCtx::record_times`.
                let _ = native.stream.measure(Some(samples.clock()));
            }
        }
        stream.native.as_mut().ok_or_else(|| Error::Internal { message: "no stream".to_owned() })
    }

    pub(super) fn is_asynchronous(stream: &WorkerStream) -> bool {
        stream.native.as_ref().is_some_and(|n| n.asynchronous)
    }

    /// Blocks the stream until its in-flight instructions have completed, if there are any, and
    /// returns whether there were. Called before an instruction with poisoned operands is skipped:
    /// an earlier instruction in flight may heal them.
    pub(super) fn drain_first(&mut self, at: usize) -> bool {
        let stream = &mut self.streams[at];
        stream.draining = !stream.in_flight.is_empty();
        stream.draining
    }

    /// Runs a call. Returns it if the stream is blocked before it.
    pub(super) fn call(&mut self, at: usize, subject: Subject) -> Option<Subject> {
        let point = subject.point()?;
        let seq = point.seq;
        if let Some(cause) = subject.poison(&self.tables) {
            if self.drain_first(at) {
                return Some(subject);
            }
            subject.skip(&self.tables, &cause);
            self.note_outcome(at, Outcome::Skipped);
            self.launched(at, seq, None, None, Effect::None);
            return None;
        }
        let function = subject.function(&self.tables);
        if function.is_some() && !self.streams[at].pooled {
            if self.drains(at) {
                return Some(subject);
            }
            if self.tables.host_workers.has_threads() {
                self.hand_over(at, point, subject, function);
                return None;
            }
        }
        let made = self.native_stream(at).map(drop);
        let launches = self.streams[at].launches_collectives();
        let on_worker = (subject.awaits_ranks(&self.tables) || function.is_some() && !launches)
            && ThreadCtx::is_asynchronous(&self.streams[at]);
        if on_worker && !launches && self.drains(at) {
            return Some(subject);
        }
        let ThreadCtx { tables, inbox, streams, .. } = self;
        let mut taken = false;
        // No step of a call counts references: all threads would write the count of the tables.
        let stream = &mut streams[at];
        let progress = match (made, stream.native.as_mut()) {
            (Err(error), _) => Err(refusal_of(&error)),
            (Ok(()), None) => Err((Cause::Device, "no stream".to_owned())),
            (Ok(()), Some(native)) => match kernel_of(&native.kernels, subject.op()) {
                Some(kernel) => {
                    let mut work = Unit {
                        tables,
                        device: &stream.key.device,
                        callee: Callee::Subject(&subject),
                        kernel,
                        bound: None,
                        function,
                        cancel_scope: stream.cancel_scope.as_ref(),
                        arguments: Arguments::OfLaunch,
                        token: TokenSource::new(inbox, point),
                    };
                    let submitted = match on_worker {
                        true => {
                            let run = || work.run(native.stream.native());
                            Ok(Progress::Done(catch_panic(run)))
                        }
                        false => native.stream.submit(&mut work),
                    };
                    taken = work.token.is_taken();
                    submitted.map_err(|e| refusal_of(&e))
                }
                None => Err((Cause::Error, no_kernel(tables, subject.op(), native))),
            },
        };
        match progress {
            Ok(progress) => self.submitted(at, seq, subject, Ok(progress), taken),
            Err(refusal) => self.refused(at, seq, subject, refusal),
        }
        None
    }

    /// Records a native event.
    pub(super) fn record(&mut self, at: usize, seq: u64, event: EventPlace, subject: Subject) {
        // The records of launches have no points of their own.
        let time = match event {
            EventPlace::Slot(_) => {
                self.tables.timed_records.take(Point::new(self.streams[at].id, seq))
            }
            EventPlace::Launch(..) => None,
        };
        // A timed record opens the native stream, for the device's clock.
        let recorded = if time.is_some() || ThreadCtx::is_asynchronous(&self.streams[at]) {
            self.record_native(at, &event, time)
        } else {
            // Nothing is outstanding on the device: waiters need only the point itself.
            Ok(None)
        };
        match recorded {
            Ok(Some(ticket)) => {
                self.launched(at, seq, Some(ticket), None, Effect::Order(subject));
            }
            Ok(None) => self.launched(at, seq, None, None, Effect::None),
            Err(error) => {
                event.set(&self.tables, None);
                let (cause, message) = refusal_of(&error);
                self.fail(at, &subject, cause, message);
                self.launched(at, seq, None, None, Effect::None);
            }
        }
    }

    fn record_native(
        &mut self,
        at: usize,
        event: &EventPlace,
        time: Option<Arc<RecordTime>>,
    ) -> Result<Option<u64>> {
        let tables = self.tables.clone();
        let native = self.native_stream(at)?;
        let Some(events) = &native.events else { return Ok(None) };
        let pooled = match time {
            Some(_) => tables.policies.timed_events(&native.device).take()?,
            None => events.take()?,
        };
        let progress = native.stream.record(pooled.native())?;
        if let Some(time) = time {
            // A record is made once.
            let _ = time.native.set(pooled.clone());
        }
        event.set(&tables, Some(pooled));
        Ok(match progress {
            Progress::Pending(ticket) => Some(ticket),
            Progress::Done(_) => None,
        })
    }

    /// Waits on the device for an event that is recorded at `until`, or by the host where there is
    /// none. Returns false if the stream is blocked before the wait.
    pub(super) fn wait_on_device(
        &mut self,
        at: usize,
        seq: u64,
        until: Point,
        event: &EventPlace,
        subject: impl FnOnce() -> Subject,
    ) -> bool {
        // A wait for an event that is not recorded yet would be no wait at all.
        if self.block_until(at, until, Milestone::Launched) {
            return false;
        }
        // Without a native event, its stream completes at once, or its device refused the record;
        // then there is no wait on the device.
        if let Some(event) = event.get(&self.tables)
            && !self.tables.points.reached(until, Milestone::Completed)
        {
            let waited = self.native_stream(at).and_then(|n| n.stream.wait(event.native()));
            match waited {
                Ok(Progress::Pending(ticket)) => {
                    let effect = Effect::Order(subject());
                    self.launched(at, seq, Some(ticket), Some(until), effect);
                    return true;
                }
                Ok(Progress::Done(_)) => {
                    self.launched(at, seq, None, Some(until), Effect::None);
                    return true;
                }
                Err(error) => {
                    // The failure is reported, and the host waits in the device's stead. If the
                    // device is lost, the next call to it says so.
                    let (cause, message) = refusal_of(&error);
                    self.fail(at, &subject(), cause, message);
                }
            }
        }
        self.wait(at, seq, until)
    }

    /// Waits for a point by the host. Returns false if the stream is blocked before the wait.
    pub(super) fn wait(&mut self, at: usize, seq: u64, until: Point) -> bool {
        if self.block_until(at, until, Milestone::Completed) {
            return false;
        }
        self.launched(at, seq, None, None, Effect::None);
        true
    }

    /// Returns whether the device still has commands of the stream. If so, the stream is blocked
    /// until they have completed.
    pub(super) fn drains(&mut self, at: usize) -> bool {
        let stream = &mut self.streams[at];
        stream.draining |= !stream.in_flight.is_empty();
        !stream.in_flight.is_empty()
    }
}

/// Returns the kernel of an op.
pub(super) fn kernel_of(kernels: &KernelsByOp, op: Option<OpId>) -> Option<&Arc<dyn Kernel>> {
    kernels.get(op?.index())?.as_ref()
}

/// Says that a device has no kernel for a call.
pub(super) fn no_kernel(tables: &Tables, op: Option<OpId>, native: &NativeStream) -> String {
    let op = op.and_then(|op| tables.ops.get(op)).map_or("?", |op| op.name());
    format!("{op} has no kernel on {}", native.device.id())
}
