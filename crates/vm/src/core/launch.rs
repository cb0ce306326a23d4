//! Running one task.
//!
//! Long because each kind of instruction is launched in a way of its own, and the ways share much.

use std::sync::{Arc, Mutex, PoisonError};

use millstream_ep::{Panicked, Progress, WorkResult, caught};
use millstream_instructions::{Body, Instruction, Operand, Via};
use millstream_kernels::Kernel;
use millstream_types::{CallbackId, Cause, Error, EventId, Failure, Point, Result};

use crate::cancel::{self, Cancelled};
use crate::core::Core;
use crate::core::lane::{Effect, Flying, Hosting, Lane, Native};
use crate::core::work::{CallWork, ReadWork, Token};
use crate::engine::Engine;
use crate::host::Blob;
use crate::inbox::News;
use crate::points::Mark;
use crate::task::Task;

/// What made work fail, and in which words.
pub(super) fn cause_of(error: &anyhow::Error) -> (Cause, String) {
    if let Some(cancelled) = error.downcast_ref::<Cancelled>() {
        return (Cause::Cancelled, cancelled.to_string());
    }
    match error.downcast_ref::<Panicked>() {
        Some(panic) => (Cause::Panic, panic.message.clone()),
        None => (Cause::Error, format!("{error:#}")),
    }
}

impl Core {
    /// Runs a task of the lane at `at`. Gives it back if the lane is held before it.
    pub(super) fn run(&mut self, at: usize, task: Task) -> Option<Task> {
        match task {
            Task::Run(instruction) => return self.dispatch(at, *instruction).map(Task::run),
            Task::Wait { at: point, until, via: Via::Host, .. } => {
                if self.hold(at, until, Mark::Completed) {
                    return Some(task);
                }
                self.completed(at, point.seq);
            }
            Task::Wait { at: point, until, via, origin } => {
                let body = Body::StreamWaitEvent { at: point, until, via };
                return self.dispatch(at, Instruction { body, origin }).map(Task::run);
            }
            Task::Mark { at: point, event, origin } => {
                let body = Body::RecordEvent { at: point, event };
                return self.dispatch(at, Instruction { body, origin }).map(Task::run);
            }
            Task::Call(call) => return self.call_stored(at, call),
            Task::Hold(_, point, mark) => {
                if self.hold(at, point, mark) {
                    return Some(task);
                }
                self.finished += 1;
            }
            Task::Enter(_, launcher, ref within) => {
                if self.hold(at, launcher, Mark::Launched) {
                    return Some(task);
                }
                self.lanes[at].within.clone_from(within);
                self.lanes[at].launcher = Some(launcher);
                self.finished += 1;
            }
            Task::Within(_, within) => {
                self.lanes[at].within = within;
                self.finished += 1;
            }
            Task::Begin(point, storages) => {
                for &storage in storages.iter() {
                    self.engine.poison.heal(storage);
                }
                self.publish(at, point.seq, Mark::Launched);
                self.finished += 1;
            }
            Task::Record { until, event, origin } => {
                // Should it fail, that is at this half's place.
                let body = Body::StreamWait { at: until, until, via: Via::Device(event) };
                self.record(at, until.seq, event, &Instruction { body, origin });
            }
            Task::Open(..) => unreachable!("lanes are opened when the task is taken"),
        }
        None
    }

    fn dispatch(&mut self, at: usize, instruction: Instruction) -> Option<Instruction> {
        match &instruction.body {
            Body::OpCall { .. } => return self.call(at, instruction),
            Body::TouchTensors { at: point, .. }
            | Body::CriticalSectionBegin { at: point, .. }
            | Body::CriticalSectionEnd { at: point, .. }
            | Body::LazyJobLauncher { at: point, .. }
            | Body::Barrier { at: point } => self.launched(at, point.seq, None, None, Effect::None),
            Body::RecordEvent { at: point, event } => {
                self.record(at, point.seq, *event, &instruction);
            }
            Body::StreamWaitEvent { at: point, until, via }
            | Body::StreamWait { at: point, until, via } => {
                if self.wait(at, point.seq, *until, *via, &instruction) {
                    return Some(instruction);
                }
            }
            Body::GlobalSync { at: point } => {
                if self.is_flying(at) {
                    return Some(instruction);
                }
                let (point, ranks) = (*point, self.engine.ranks.clone());
                self.give_to_host(at, point, instruction, move || ranks.meet());
            }
            Body::AccessBlobByCallback { at: point, operand, callback } => {
                if self.is_flying(at) {
                    return Some(instruction);
                }
                let (point, operand, callback) = (*point, *operand, *callback);
                self.call_back(at, point, operand, callback, instruction);
            }
            Body::SyncRead { .. } => return self.read(at, instruction),
            Body::AllocateTensor { .. }
            | Body::ViewTensor { .. }
            | Body::ReleaseTensor { .. }
            | Body::SoftSyncStream { .. }
            | Body::HostObserved { .. } => {
                unreachable!("{} takes effect when it is emitted", instruction.body.kind().name())
            }
        }
        None
    }

    /// What the lane is made of; made now if this is its first need of it.
    fn native(&mut self, at: usize) -> Result<&mut Native> {
        let lane = &mut self.lanes[at];
        if let Some(error) = &lane.lost {
            return Err(error.clone());
        }
        if lane.native.is_none() {
            let (inbox, id) = (self.inbox.clone(), lane.id);
            let notify = Arc::new(move || inbox.post(News::Device(id)));
            let parts = self.engine.policies.create(&lane.key, notify)?;
            let (kind, can) = (parts.device.kernel_kind(), parts.device.capabilities());
            let kernel = |op: &Arc<dyn millstream_ops::Op>| {
                self.engine.kernels.get(kind, op.name()).cloned()
            };
            lane.native = Some(Native {
                kernels: self.engine.ops.iter().map(kernel).collect(),
                device: parts.device.clone(),
                stream: parts.stream,
                events: parts.events,
                asynchronous: can.asynchronous,
                notifies: can.notifies,
            });
        }
        lane.native.as_mut().ok_or_else(|| Error::Internal { message: "no stream".to_owned() })
    }

    fn is_asynchronous(lane: &Lane) -> bool {
        lane.native.as_ref().is_some_and(|n| n.asynchronous)
    }

    /// An instruction was handed over: it has completed if nothing is outstanding.
    pub(super) fn launched(
        &mut self,
        at: usize,
        seq: u64,
        ticket: Option<u64>,
        until: Option<Point>,
        effect: Effect,
    ) {
        let lane = &mut self.lanes[at];
        if lane.flying.is_empty() && ticket.is_none() && until.is_none() {
            self.finished += 1;
            self.publish(at, seq, Mark::Completed);
            return;
        }
        lane.flying.push_back(Flying { seq, ticket, until, effect });
        self.publish(at, seq, Mark::Launched);
        // Where nothing is outstanding on the device, nobody will call.
        self.retire(at);
    }

    /// An instruction was handed over and has nothing outstanding itself.
    #[inline]
    pub(super) fn completed(&mut self, at: usize, seq: u64) {
        if self.lanes[at].flying.is_empty() {
            self.finished += 1;
            self.publish(at, seq, Mark::Completed);
        } else {
            self.launched(at, seq, None, None, Effect::None);
        }
    }

    /// Whether the lane's next instruction, whose operands seem to be poisoned, is held. What it
    /// comes after may still fly, and heal them when it lands; then nobody is skipped.
    fn lands_first(&mut self, at: usize) -> bool {
        let lane = &mut self.lanes[at];
        lane.landing = !lane.flying.is_empty();
        lane.landing
    }

    /// Runs a call. Gives it back if the lane is held before it.
    pub(super) fn call(&mut self, at: usize, instruction: Instruction) -> Option<Instruction> {
        let Body::OpCall { at: point, op, operands, .. } = &instruction.body else { return None };
        let (seq, op) = (point.seq, *op);
        if let Some(cause) = poison_of(&self.engine, operands) {
            if self.lands_first(at) {
                return Some(instruction);
            }
            self.skip(at, &instruction, &cause);
            self.launched(at, seq, None, None, Effect::None);
            return None;
        }
        let made = self.native(at).map(drop);
        let Core { engine, inbox, lanes, .. } = self;
        let mut taken = false;
        // Nothing on the way of a call counts references: the engine's count would be written by
        // all threads.
        let lane = &mut lanes[at];
        let progress = match (made, lane.native.as_mut()) {
            (Err(error), _) => Err((Cause::Device, error.to_string())),
            (Ok(()), None) => Err((Cause::Device, "no stream".to_owned())),
            (Ok(()), Some(native)) => match native.kernels.get(op.index()) {
                Some(Some(kernel)) => {
                    let (body, within) = (&instruction.body, lane.within.as_ref());
                    let token = Token::new(inbox, *point);
                    let mut work = CallWork { engine, body, kernel, within, token };
                    let submitted = native.stream.submit(&mut work);
                    taken = work.token.is_taken();
                    submitted.map_err(|e| (Cause::Device, e.to_string()))
                }
                _ => Err((Cause::Error, no_kernel(engine, op, native))),
            },
        };
        match progress {
            Ok(progress) => self.submitted(at, seq, instruction, Ok(progress), taken),
            Err((cause, message)) => self.refused(at, seq, instruction, cause, message),
        }
        None
    }

    /// A call was given to its device, or was not taken. If its token was, that completes it.
    pub(super) fn submitted(
        &mut self,
        at: usize,
        seq: u64,
        instruction: Instruction,
        progress: Result<Progress>,
        token: bool,
    ) {
        match progress {
            Ok(Progress::Done(so_far)) if token => {
                self.lanes[at].hosting = Some(Hosting { instruction, so_far });
            }
            Ok(Progress::Pending(ticket)) => {
                self.launched(at, seq, Some(ticket), None, Effect::Call(instruction));
            }
            Ok(Progress::Done(result)) => {
                self.finish_call(at, &instruction, result);
                self.launched(at, seq, None, None, Effect::None);
            }
            Err(error) => self.refused(at, seq, instruction, Cause::Device, error.to_string()),
        }
    }

    fn refused(
        &mut self,
        at: usize,
        seq: u64,
        instruction: Instruction,
        cause: Cause,
        message: String,
    ) {
        // What flies before it may be about to heal what this one poisons.
        if !self.lanes[at].flying.is_empty() {
            self.launched(at, seq, None, None, Effect::Failed(instruction, cause, message));
            return;
        }
        self.fail(at, &instruction, cause, message);
        self.launched(at, seq, None, None, Effect::None);
    }

    /// Marks what an instruction wrote as poisoned, by its own failure.
    pub(super) fn fail(&self, at: usize, instruction: &Instruction, cause: Cause, message: String) {
        let key = &self.lanes[at].key;
        let failure = self.engine.failure(instruction, key, cause, message);
        self.skip(at, instruction, &failure);
    }

    /// Marks what an instruction would have written as poisoned, and has those who wait for the
    /// instruction hear why.
    fn skip(&self, at: usize, instruction: &Instruction, cause: &Arc<Failure>) {
        poison(&self.engine, instruction.body.operands(), cause);
        let lane = &self.lanes[at];
        // Nobody but its launcher can wait for an instruction of a stored list.
        if let Some(point) = lane.launcher.or(instruction.body.at()) {
            self.engine.failures.note(point, cause);
        }
    }

    /// What a call wrote is healed, or poisoned by its failure or by what it read.
    pub(super) fn finish_call(&self, at: usize, instruction: &Instruction, result: WorkResult) {
        let operands = instruction.body.operands();
        match result {
            Err(error) => {
                let (cause, message) = cause_of(&error);
                self.fail(at, instruction, cause, message);
            }
            Ok(()) => match poison_of(&self.engine, operands) {
                // Launched behind a wait on the device, before the failure was known.
                Some(cause) => self.skip(at, instruction, &cause),
                None => heal(&self.engine, operands),
            },
        }
    }

    fn record(&mut self, at: usize, seq: u64, event: EventId, instruction: &Instruction) {
        let recorded = if Core::is_asynchronous(&self.lanes[at]) {
            self.record_native(at, event)
        } else {
            // Nothing is outstanding on the device: the point itself is all that can be waited for.
            Ok(None)
        };
        match recorded {
            Ok(Some(ticket)) => {
                let effect = Effect::Order(instruction.clone());
                self.launched(at, seq, Some(ticket), None, effect);
            }
            Ok(None) => self.launched(at, seq, None, None, Effect::None),
            Err(error) => {
                self.engine.events.remove(&event);
                self.fail(at, instruction, Cause::Device, error.to_string());
                self.launched(at, seq, None, None, Effect::None);
            }
        }
    }

    fn record_native(&mut self, at: usize, event: EventId) -> Result<Option<u64>> {
        let engine = self.engine.clone();
        let native = self.native(at)?;
        let Some(events) = &native.events else { return Ok(None) };
        let pooled = events.take()?;
        let progress = native.stream.record(pooled.native())?;
        engine.events.insert(event, pooled);
        Ok(match progress {
            Progress::Pending(ticket) => Some(ticket),
            Progress::Done(_) => None,
        })
    }

    /// Runs a wait. Returns whether the lane is held before it.
    fn wait(&mut self, at: usize, seq: u64, until: Point, via: Via, i: &Instruction) -> bool {
        if let Via::Device(event) = via {
            // A wait for an event that was not recorded would be no wait at all.
            if self.hold(at, until, Mark::Launched) {
                return true;
            }
            let engine = self.engine.clone();
            let native_event = engine.events.get(&event).map(|e| e.value().clone());
            // No native event: its stream completes at once, or its device refused. No wait on the
            // device, then.
            if let Some(event) = native_event
                && !engine.points.reached(until, Mark::Completed)
            {
                let waited = self.native(at).and_then(|n| n.stream.wait(event.native()));
                match waited {
                    Ok(Progress::Pending(ticket)) => {
                        let effect = Effect::Order(i.clone());
                        self.launched(at, seq, Some(ticket), Some(until), effect);
                        return false;
                    }
                    Ok(Progress::Done(_)) => {
                        self.launched(at, seq, None, Some(until), Effect::None);
                        return false;
                    }
                    Err(error) => {
                        // Told, and made good: the host waits in the device's stead. Should the
                        // device be lost, the next call to it will say so.
                        self.fail(at, i, Cause::Device, error.to_string());
                    }
                }
            }
        }
        if self.hold(at, until, Mark::Completed) {
            return true;
        }
        self.launched(at, seq, None, None, Effect::None);
        false
    }

    /// Whether commands of the lane are with its device. If so, the lane is held until they are done.
    fn is_flying(&mut self, at: usize) -> bool {
        let lane = &mut self.lanes[at];
        lane.landing |= !lane.flying.is_empty();
        !lane.flying.is_empty()
    }

    /// Calls a function of the program's with a tensor's memory, on a host worker.
    fn call_back(
        &mut self,
        at: usize,
        point: Point,
        operand: Operand,
        callback: CallbackId,
        instruction: Instruction,
    ) {
        let engine = self.engine.clone();
        let callback = engine.host.take_callback(callback);
        if let Some(cause) = poison_of(&engine, &[operand]) {
            drop(callback);
            self.skip(at, &instruction, &cause);
            self.finish_on_host(at, &instruction);
            return;
        }
        let copy = self.host_copy(at);
        let within = self.lanes[at].within.clone();
        self.give_to_host(at, point, instruction, move || {
            cancel::refuse(within.as_ref())?;
            let callback = callback.ok_or_else(|| anyhow::anyhow!("the function is gone"))?;
            let copy = copy?;
            // SAFETY: the lane runs the instruction that names the tensor, and is held until this
            // returns.
            let slot = unsafe { engine.slots.get(operand.tensor.index()) };
            let slot = slot.ok_or_else(|| anyhow::anyhow!("the tensor is gone"))?;
            anyhow::ensure!(slot.on_host, "the tensor does not lie in host memory");
            // SAFETY: the waits before the instruction order all conflicting uses, and the stream
            // is held meanwhile; the memory lives until after its last use.
            let mut blob = unsafe { Blob::new(slot.raw(), &slot.spec, operand.access, &copy) };
            callback(&mut blob)
        });
    }

    /// Has a host worker do what an instruction says; the lane is held until it is done.
    fn give_to_host(
        &mut self,
        at: usize,
        point: Point,
        instruction: Instruction,
        job: impl FnOnce() -> WorkResult + Send + 'static,
    ) {
        let inbox = self.inbox.clone();
        let started = self.engine.host_workers.run(Box::new(move || {
            let result = caught(job);
            inbox.post(News::HostDone(point, result));
        }));
        match started {
            Ok(()) => self.lanes[at].hosting = Some(Hosting { instruction, so_far: Ok(()) }),
            Err(error) => {
                self.fail(at, &instruction, Cause::Error, error.to_string());
                self.finish_on_host(at, &instruction);
            }
        }
    }

    /// The kernel by which the host reads and writes strided tensors. It is the host that runs it,
    /// whatever device the stream is of.
    fn host_copy(&mut self, at: usize) -> anyhow::Result<Arc<dyn Kernel>> {
        self.native(at)?;
        let kernel = self.engine.kernels.get("cpu", "copy").cloned();
        kernel.ok_or_else(|| anyhow::anyhow!("the host has no kernel of copy"))
    }

    fn finish_on_host(&mut self, at: usize, instruction: &Instruction) {
        if let Some(point) = instruction.body.at() {
            self.launched(at, point.seq, None, None, Effect::None);
        }
    }

    /// A function of the host's has returned.
    pub(super) fn host_done(&mut self, at: usize, seq: u64, result: WorkResult) {
        let awaits = |h: &mut Hosting| h.instruction.body.at().is_some_and(|at| at.seq == seq);
        // A device that refused a call after its kernel had run does not wait for the token.
        let Some(Hosting { instruction, so_far }) = self.lanes[at].hosting.take_if(awaits) else {
            return;
        };
        self.finish_call(at, &instruction, so_far.and(result));
        self.finish_on_host(at, &instruction);
    }

    /// Runs a read. Gives it back if the lane is held before it.
    fn read(&mut self, at: usize, instruction: Instruction) -> Option<Instruction> {
        let Body::SyncRead { at: point, operand, into } = &instruction.body else { return None };
        let (seq, operand, into) = (point.seq, *operand, *into);
        if let Some(cause) = poison_of(&self.engine, &[operand]) {
            if self.lands_first(at) {
                return Some(instruction);
            }
            self.engine.host.finish_read(into, Err(Error::of(cause)));
            self.launched(at, seq, None, None, Effect::None);
            return None;
        }
        let engine = self.engine.clone();
        let bytes = Arc::new(Mutex::new(None));
        let copy = self.host_copy(at);
        let progress = copy.and_then(|copy| {
            let (bytes, within) = (bytes.clone(), self.lanes[at].within.clone());
            let mut work = ReadWork { engine, operand, copy, bytes, within };
            Ok(self.native(at)?.stream.submit(&mut work)?)
        });
        match progress {
            Ok(Progress::Pending(ticket)) => {
                let effect = Effect::Read(instruction, bytes);
                self.launched(at, seq, Some(ticket), None, effect);
            }
            Ok(Progress::Done(result)) => {
                self.finish_read(at, &instruction, &bytes, result);
                self.launched(at, seq, None, None, Effect::None);
            }
            Err(error) => {
                self.finish_read(at, &instruction, &bytes, Err(error));
                self.launched(at, seq, None, None, Effect::None);
            }
        }
        None
    }

    /// Gives a host read its bytes, or the reason why there are none.
    pub(super) fn finish_read(
        &self,
        at: usize,
        instruction: &Instruction,
        bytes: &Mutex<Option<Vec<u8>>>,
        result: WorkResult,
    ) {
        let Body::SyncRead { operand, into, .. } = &instruction.body else { return };
        let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner).take();
        let result = match (poison_of(&self.engine, &[*operand]), result, bytes) {
            (Some(cause), _, _) => Err(Error::of(cause)),
            (None, Ok(()), Some(bytes)) => Ok(bytes),
            (None, Ok(()), None) => Err(Error::Internal { message: "nothing was read".to_owned() }),
            (None, Err(error), _) => {
                let (cause, message) = cause_of(&error);
                let key = &self.lanes[at].key;
                Err(Error::of(self.engine.failure(instruction, key, cause, message)))
            }
        };
        self.engine.host.finish_read(*into, result);
    }
}

fn no_kernel(engine: &Engine, op: millstream_types::OpId, native: &Native) -> String {
    let op = engine.ops.get(op).map_or("?", |o| o.name());
    format!("{op} has no kernel on {}", native.device.id())
}

/// Why an instruction that uses these is skipped, if it is: the poison of what it reads.
fn poison_of(engine: &Engine, operands: &[Operand]) -> Option<Arc<Failure>> {
    if !engine.poison.any() {
        return None;
    }
    let reads = operands.iter().filter(|o| o.access.reads());
    // SAFETY: the caller is running the instruction, which names these.
    reads
        .filter_map(|o| engine.poison.get(unsafe { engine.slots.get(o.tensor.index()) }?.storage))
        .next()
}

fn poison(engine: &Engine, operands: &[Operand], cause: &Arc<Failure>) {
    for operand in operands.iter().filter(|o| o.access.writes()) {
        // SAFETY: the caller is running the instruction, which names these.
        if let Some(slot) = unsafe { engine.slots.get(operand.tensor.index()) } {
            engine.poison.set(slot.storage, cause);
        }
    }
}

fn heal(engine: &Engine, operands: &[Operand]) {
    if !engine.poison.any() {
        return;
    }
    for operand in operands.iter().filter(|o| o.access.writes() && !o.access.reads()) {
        // SAFETY: the caller is running the instruction, which names these.
        if let Some(slot) = unsafe { engine.slots.get(operand.tensor.index()) } {
            engine.poison.heal(slot.storage);
        }
    }
}
