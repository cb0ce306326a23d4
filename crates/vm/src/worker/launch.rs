//! Launch of one task.
//!
//! Long because each kind of instruction is launched in its own way, and the ways share much.

use std::sync::{Arc, Mutex, PoisonError};

use millstream_ep::{Panicked, Progress, WorkResult, catch_panic, run_catching_panic};
use millstream_instructions::{Body, Instruction, Via};
use millstream_kernels::Kernel;
use millstream_ops::closure::CLOSURE;
use millstream_types::{Cause, Error, Point, Result};

use crate::emission::cancel::{self, Cancelled};
use crate::host::Callback;
use crate::profile::Outcome;
use crate::sync::points::Milestone;
use crate::tables::Tables;
use crate::worker::Worker;
use crate::worker::inbox::Message;
use crate::worker::stream::{Effect, ExternalCompletion, InFlight, NativeStream, WorkerStream};
use crate::worker::subject::{EventPlace, Subject, poison_of};
use crate::worker::task::Task;
use crate::worker::work::{CallWork, HostOperand, ReadWork, TokenSource};

/// Returns the cause and the message of a failure of work.
pub(super) fn cause_of(error: &anyhow::Error) -> (Cause, String) {
    if let Some(cancelled) = error.downcast_ref::<Cancelled>() {
        return (Cause::Cancelled, cancelled.to_string());
    }
    match error.downcast_ref::<Panicked>() {
        Some(panic) => (Cause::Panic, panic.message.clone()),
        None => (Cause::Error, format!("{error:#}")),
    }
}

impl Worker {
    /// Runs a task of the stream at `at`. Returns the task if the stream is blocked before it.
    pub(super) fn run(&mut self, at: usize, task: Task) -> Option<Task> {
        if let Some(samples) = &mut self.streams[at].samples {
            samples.begin();
        }
        match task {
            Task::Run(instruction) => return self.dispatch(at, *instruction).map(Task::run),
            Task::Wait { at: point, until, via: Via::Host, .. } => {
                if self.block_until(at, until, Milestone::Completed) {
                    return Some(task);
                }
                self.completed(at, point.seq);
            }
            Task::Wait { at: point, until, via, origin } => {
                let body = Body::StreamWaitEvent { at: point, until, via };
                return self.dispatch(at, Instruction { body, origin }).map(Task::run);
            }
            Task::RecordEvent { at: point, event, origin } => {
                let body = Body::RecordEvent { at: point, event };
                return self.dispatch(at, Instruction { body, origin }).map(Task::run);
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
            Task::OpenStream(..) | Task::Launch(_) => {
                unreachable!("they take effect when they are taken")
            }
        }
        None
    }

    /// Forgets when the task at the stream's head was first tried: it is no instruction.
    fn skip_sample(&mut self, at: usize) {
        if let Some(samples) = &mut self.streams[at].samples {
            samples.skip();
        }
    }

    /// Notes how the stream's next completed instruction ended, for a recording of times.
    pub(super) fn note_outcome(&mut self, at: usize, outcome: Outcome) {
        if let Some(samples) = &mut self.streams[at].samples {
            samples.outcome(outcome);
        }
    }

    fn dispatch(&mut self, at: usize, instruction: Instruction) -> Option<Instruction> {
        match &instruction.body {
            Body::OpCall { .. } => return self.call(at, instruction),
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
                    return Some(instruction);
                }
            }
            Body::GlobalSync { at: point } => {
                if self.drains(at) {
                    return Some(instruction);
                }
                let point = *point;
                self.meet_ranks(at, point, Subject::Instruction(instruction));
            }
            Body::AccessBlobByCallback { at: point, operand, callback } => {
                if self.drains(at) {
                    return Some(instruction);
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
                    let Subject::Instruction(instruction) = subject else { return None };
                    return Some(instruction);
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
            let parts = self.tables.policies.create(&stream.key, notify)?;
            let (kind, can) = (parts.device.kernel_kind(), parts.device.capabilities());
            let kernel = |op: &Arc<dyn millstream_ops::Op>| {
                // The kernel of a function of the program is the same for all devices.
                let kind = if op.name() == CLOSURE { "cpu" } else { kind };
                self.tables.kernels.get(kind, op.name()).cloned()
            };
            stream.native = Some(NativeStream {
                kernels: self.tables.ops.iter().map(kernel).collect(),
                device: parts.device.clone(),
                stream: parts.stream,
                events: parts.events,
                asynchronous: can.asynchronous,
                notifies: can.notifies,
            });
            if let (Some(samples), Some(native)) = (&stream.samples, &mut stream.native) {
                // As in `Worker::record_times`.
                let _ = native.stream.measure(Some(samples.clock()));
            }
        }
        stream.native.as_mut().ok_or_else(|| Error::Internal { message: "no stream".to_owned() })
    }

    pub(super) fn is_asynchronous(stream: &WorkerStream) -> bool {
        stream.native.as_ref().is_some_and(|n| n.asynchronous)
    }

    /// Handles a launched instruction: it has completed if nothing is outstanding.
    pub(super) fn launched(
        &mut self,
        at: usize,
        seq: u64,
        ticket: Option<u64>,
        until: Option<Point>,
        effect: Effect,
    ) {
        let stream = &mut self.streams[at];
        if stream.in_flight.is_empty() && ticket.is_none() && until.is_none() {
            self.finished += 1;
            self.publish(at, seq, Milestone::Completed);
            return;
        }
        if let (Some(samples), Some(ticket)) = (&mut stream.samples, ticket) {
            samples.command(seq, ticket);
        }
        stream.in_flight.push_back(InFlight { seq, ticket, until, effect });
        self.publish(at, seq, Milestone::Launched);
        // If nothing is outstanding on the device, no notification follows.
        self.retire(at);
    }

    /// Handles a launched instruction with nothing outstanding of its own.
    #[inline]
    pub(super) fn completed(&mut self, at: usize, seq: u64) {
        if self.streams[at].in_flight.is_empty() {
            self.finished += 1;
            self.publish(at, seq, Milestone::Completed);
        } else {
            self.launched(at, seq, None, None, Effect::None);
        }
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
    pub(super) fn call(&mut self, at: usize, instruction: Instruction) -> Option<Instruction> {
        let Body::OpCall { at: point, op, operands, .. } = &instruction.body else { return None };
        let (seq, op) = (point.seq, *op);
        if let Some(cause) = poison_of(&self.tables, operands) {
            if self.drain_first(at) {
                return Some(instruction);
            }
            Subject::Instruction(instruction).skip(&self.tables, &cause);
            self.note_outcome(at, Outcome::Skipped);
            self.launched(at, seq, None, None, Effect::None);
            return None;
        }
        let made = self.native_stream(at).map(drop);
        let on_worker = self.tables.is_collective(op) && Worker::is_asynchronous(&self.streams[at]);
        if on_worker && self.drains(at) {
            return Some(instruction);
        }
        let Worker { tables, inbox, streams, .. } = self;
        let mut taken = false;
        // No step of a call counts references: all threads would write the count of the tables.
        let stream = &mut streams[at];
        let progress = match (made, stream.native.as_mut()) {
            (Err(error), _) => Err((Cause::Device, error.to_string())),
            (Ok(()), None) => Err((Cause::Device, "no stream".to_owned())),
            (Ok(()), Some(native)) => match native.kernels.get(op.index()) {
                Some(Some(kernel)) => {
                    let Instruction { body, origin } = &instruction;
                    let cancel_scope = stream.cancel_scope.as_ref();
                    let token = TokenSource::new(inbox, *point);
                    let mut work = CallWork { tables, body, origin, kernel, cancel_scope, token };
                    let submitted = match on_worker {
                        true => Ok(Progress::Done(run_catching_panic(&mut work, &()))),
                        false => native.stream.submit(&mut work),
                    };
                    taken = work.token.is_taken();
                    submitted.map_err(|e| (Cause::Device, e.to_string()))
                }
                _ => Err((Cause::Error, no_kernel(tables, op, native))),
            },
        };
        let subject = Subject::Instruction(instruction);
        match progress {
            Ok(progress) => self.submitted(at, seq, subject, Ok(progress), taken),
            Err((cause, message)) => self.refused(at, seq, subject, cause, message),
        }
        None
    }

    /// Handles the result of `submit`. If the kernel took the completion token, the token completes
    /// the call.
    pub(super) fn submitted(
        &mut self,
        at: usize,
        seq: u64,
        subject: Subject,
        progress: Result<Progress>,
        token: bool,
    ) {
        match progress {
            Ok(Progress::Done(so_far)) if token => {
                self.streams[at].external = Some(ExternalCompletion { subject, so_far });
            }
            Ok(Progress::Pending(ticket)) => {
                self.launched(at, seq, Some(ticket), None, Effect::Call(subject));
            }
            Ok(Progress::Done(result)) => {
                self.finish_call(at, &subject, result);
                self.launched(at, seq, None, None, Effect::None);
            }
            Err(error) => self.refused(at, seq, subject, Cause::Device, error.to_string()),
        }
    }

    pub(super) fn refused(
        &mut self,
        at: usize,
        seq: u64,
        subject: Subject,
        cause: Cause,
        message: String,
    ) {
        // An earlier instruction in flight may heal what this one poisons.
        if !self.streams[at].in_flight.is_empty() {
            self.launched(at, seq, None, None, Effect::Failed(subject, cause, message));
            return;
        }
        self.fail(at, &subject, cause, message);
        self.launched(at, seq, None, None, Effect::None);
    }

    /// Poisons the outputs of an instruction with poison that it read, or else with its own
    /// failure.
    pub(super) fn fail(&mut self, at: usize, subject: &Subject, cause: Cause, message: String) {
        // It may have been launched before the failure was known that left it nothing to read.
        let poison = subject.poison(&self.tables);
        let is_own = poison.is_none();
        self.note_outcome(at, if is_own { Outcome::Failed } else { Outcome::Skipped });
        let failure = poison.unwrap_or_else(|| {
            subject.failure(&self.tables, &self.streams[at].key, cause, message)
        });
        subject.skip(&self.tables, &failure);
    }

    /// Heals the outputs of a call, or poisons them with its failure or with poison that it read.
    pub(super) fn finish_call(&mut self, at: usize, subject: &Subject, result: WorkResult) {
        match result {
            Err(error) => {
                let (cause, message) = cause_of(&error);
                self.fail(at, subject, cause, message);
            }
            Ok(()) => match subject.poison(&self.tables) {
                // It was launched behind a wait on the device, before the failure was known.
                Some(cause) => {
                    subject.skip(&self.tables, &cause);
                    self.note_outcome(at, Outcome::Skipped);
                }
                None => subject.heal(&self.tables),
            },
        }
    }

    /// Records a native event.
    pub(super) fn record(&mut self, at: usize, seq: u64, event: EventPlace, subject: Subject) {
        let recorded = if Worker::is_asynchronous(&self.streams[at]) {
            self.record_native(at, &event)
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
                self.fail(at, &subject, Cause::Device, error.to_string());
                self.launched(at, seq, None, None, Effect::None);
            }
        }
    }

    fn record_native(&mut self, at: usize, event: &EventPlace) -> Result<Option<u64>> {
        let tables = self.tables.clone();
        let native = self.native_stream(at)?;
        let Some(events) = &native.events else { return Ok(None) };
        let pooled = events.take()?;
        let progress = native.stream.record(pooled.native())?;
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
                    self.fail(at, &subject(), Cause::Device, error.to_string());
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

    /// Calls a host function with a tensor's memory, on a host thread.
    pub(super) fn call_back(
        &mut self,
        at: usize,
        point: Point,
        operand: HostOperand,
        callback: Option<Callback>,
        subject: Subject,
    ) {
        if let Some(cause) = subject.poison(&self.tables) {
            drop(callback);
            subject.skip(&self.tables, &cause);
            self.note_outcome(at, Outcome::Skipped);
            self.launched(at, point.seq, None, None, Effect::None);
            return;
        }
        let (tables, copy) = (self.tables.clone(), self.host_copy(at));
        let cancel_scope = self.streams[at].cancel_scope.clone();
        self.submit_to_host(at, point, subject, move || {
            cancel::check(cancel_scope.as_ref())?;
            let callback =
                callback.ok_or_else(|| anyhow::anyhow!("the function no longer exists"))?;
            let copy = copy?;
            // SAFETY: the stream runs the instruction that names the tensor, and is blocked until
            // this returns. The waits before the instruction order all conflicting uses; the memory
            // lives until after its last use.
            let mut blob = unsafe { operand.blob(&tables, &copy) }?;
            callback(&mut blob)
        });
    }

    /// Submits the job of an instruction to a host thread; the stream is blocked until it returns.
    pub(super) fn submit_to_host(
        &mut self,
        at: usize,
        point: Point,
        subject: Subject,
        job: impl FnOnce() -> WorkResult + Send + 'static,
    ) {
        let inbox = self.inbox.clone();
        let started = self.tables.host_workers.run(Box::new(move || {
            let result = catch_panic(job);
            inbox.post(Message::ExternalDone(point, result));
        }));
        match started {
            Ok(()) => {
                self.streams[at].external = Some(ExternalCompletion { subject, so_far: Ok(()) })
            }
            Err(error) => {
                self.fail(at, &subject, Cause::Error, error.to_string());
                self.launched(at, point.seq, None, None, Effect::None);
            }
        }
    }

    /// Returns the kernel by which the host copies strided tensors. It is the host's kernel for
    /// streams of any device.
    fn host_copy(&mut self, at: usize) -> anyhow::Result<Arc<dyn Kernel>> {
        self.native_stream(at)?;
        let kernel = self.tables.kernels.get("cpu", "copy").cloned();
        kernel.ok_or_else(|| anyhow::anyhow!("the host has no kernel of copy"))
    }

    /// Handles the external completion of instruction `seq`.
    pub(super) fn external_done(&mut self, at: usize, seq: u64, result: WorkResult) {
        let awaits = |h: &mut ExternalCompletion| h.subject.point().is_some_and(|at| at.seq == seq);
        // A device that refused a call after its kernel had run does not wait for the token.
        let Some(ExternalCompletion { subject, so_far }) =
            self.streams[at].external.take_if(awaits)
        else {
            return;
        };
        self.finish_call(at, &subject, so_far.and(result));
        self.launched(at, seq, None, None, Effect::None);
    }

    /// Reads a tensor. Returns false if the stream is blocked before the read.
    pub(super) fn read(
        &mut self,
        at: usize,
        seq: u64,
        operand: HostOperand,
        subject: &Subject,
    ) -> bool {
        if let Some(cause) = subject.poison(&self.tables) {
            if self.drain_first(at) {
                return false;
            }
            subject.finish_read(&self.tables, Err(Error::of(cause)));
            self.note_outcome(at, Outcome::Skipped);
            self.launched(at, seq, None, None, Effect::None);
            return true;
        }
        let tables = self.tables.clone();
        let bytes = Arc::new(Mutex::new(None));
        let copy = self.host_copy(at);
        let progress = copy.and_then(|copy| {
            let (bytes, cancel_scope) = (bytes.clone(), self.streams[at].cancel_scope.clone());
            let mut work = ReadWork { tables, operand, copy, bytes, cancel_scope };
            Ok(self.native_stream(at)?.stream.submit(&mut work)?)
        });
        match progress {
            Ok(Progress::Pending(ticket)) => {
                let effect = Effect::Read(subject.clone(), bytes);
                self.launched(at, seq, Some(ticket), None, effect);
            }
            Ok(Progress::Done(result)) => {
                self.finish_read(at, subject, &bytes, result);
                self.launched(at, seq, None, None, Effect::None);
            }
            Err(error) => {
                self.finish_read(at, subject, &bytes, Err(error));
                self.launched(at, seq, None, None, Effect::None);
            }
        }
        true
    }

    /// Gives a host read its bytes, or the reason why there are none.
    pub(super) fn finish_read(
        &self,
        at: usize,
        subject: &Subject,
        bytes: &Mutex<Option<Vec<u8>>>,
        result: WorkResult,
    ) {
        let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner).take();
        let result = match (subject.poison(&self.tables), result, bytes) {
            (Some(cause), _, _) => Err(Error::of(cause)),
            (None, Ok(()), Some(bytes)) => Ok(bytes),
            (None, Ok(()), None) => Err(Error::Internal { message: "nothing was read".to_owned() }),
            (None, Err(error), _) => {
                let (cause, message) = cause_of(&error);
                let key = &self.streams[at].key;
                Err(Error::of(subject.failure(&self.tables, key, cause, message)))
            }
        };
        subject.finish_read(&self.tables, result);
    }
}

fn no_kernel(tables: &Tables, op: millstream_types::OpId, native: &NativeStream) -> String {
    let op = tables.ops.get(op).map_or("?", |o| o.name());
    format!("{op} has no kernel on {}", native.device.id())
}
