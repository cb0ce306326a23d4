//! The subject of a completion: an instruction, or a step of a tape. Poison, failures and reads are
//! the same for both.

use std::fmt::Display;
use std::sync::Arc;

use millstream_ep::PooledEvent;
use millstream_instructions::{Body, Instruction, Kind, Operand};
use millstream_types::{
    Cause, EventId, FailedOperand, Failure, OpId, Origin, Point, Result, catch_unit,
};

use crate::tables::Tables;
use crate::tables::functions::FunctionId;
use crate::tapes::run::Run;
use crate::tapes::tape::{Action, StepCall};
use crate::thread_ctx::task::Task;

/// An instruction, or a step of a tape.
#[derive(Clone)]
pub(crate) enum Subject {
    Instruction(Instruction),
    Step(StepRef),
}

/// A step of a launch.
#[derive(Clone)]
pub(crate) struct StepRef {
    pub(crate) run: Arc<Run>,
    pub(crate) tape: u16,
    pub(crate) step: u32,
}

impl StepRef {
    fn action(&self) -> &Action {
        let tape = &self.run.program.tapes[usize::from(self.tape)];
        &tape.steps[self.step as usize]
    }

    /// Returns the part of the step that only its slow paths need; none for a wait by the host.
    pub(crate) fn call(&self) -> Option<&StepCall> {
        self.run.program.call_of(usize::from(self.tape), self.action())
    }

    /// Returns the step's point on the stream of its tape.
    pub(crate) fn point(&self) -> Point {
        self.run.point(usize::from(self.tape), self.step + 1)
    }

    /// Returns whether the step meets all ranks.
    pub(super) fn is_global_sync(&self) -> bool {
        matches!(self.action(), Action::GlobalSync { .. })
    }

    fn kind(&self) -> &'static str {
        self.call().map_or(Kind::StreamWaitEvent.name(), |call| call.kind)
    }

    fn failure(
        &self,
        stream: &dyn Display,
        cause: Cause,
        message: String,
        tables: &Tables,
    ) -> Failure {
        let call = self.call();
        let operands = call.into_iter().flat_map(|call| &call.operands).map(|o| FailedOperand {
            tensor: o.tensor.to_string(),
            access: o.access,
            dtype: o.spec.dtype,
            shape: o.spec.shape().into(),
        });
        let op = call.and_then(|call| tables.ops.get(call.op?));
        Failure {
            cause,
            message,
            instruction: self.kind(),
            op: op.map(|op| op.name().to_owned()),
            operands: operands.collect(),
            stream: stream.to_string(),
            seq: u64::from(self.step) + 1,
            origin: call.map_or(Origin::Unknown, |call| call.origin.clone()),
            launched: Some(self.run.origin.clone()),
        }
    }
}

impl Subject {
    /// Returns the point at which it ends.
    pub(crate) fn point(&self) -> Option<Point> {
        match self {
            Subject::Instruction(instruction) => instruction.body.at(),
            Subject::Step(step) => Some(step.point()),
        }
    }

    /// Returns the op that it calls, if it calls one.
    pub(super) fn op(&self) -> Option<OpId> {
        match self {
            Subject::Instruction(Instruction { body: Body::OpCall { op, .. }, .. }) => Some(*op),
            Subject::Instruction(_) => None,
            Subject::Step(step) => step.call()?.op,
        }
    }

    /// Returns the function of the program that it runs, if it runs one.
    pub(super) fn function(&self, tables: &Tables) -> Option<FunctionId> {
        match self {
            Subject::Instruction(instruction) => tables.functions.of(instruction),
            Subject::Step(_) => None,
        }
    }

    /// Returns it as a task, behind what blocks its stream. A tape keeps its steps itself.
    pub(super) fn task(self) -> Option<Task> {
        match self {
            Subject::Instruction(instruction) => Some(Task::run(instruction)),
            Subject::Step(_) => None,
        }
    }

    /// Returns its place in the program.
    pub(super) fn origin(&self) -> Origin {
        match self {
            Subject::Instruction(instruction) => instruction.origin.clone(),
            Subject::Step(step) => step.call().map_or(Origin::Unknown, |call| call.origin.clone()),
        }
    }

    /// Returns its kind, for reports.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Subject::Instruction(instruction) => instruction.body.kind().name(),
            Subject::Step(step) => step.kind(),
        }
    }

    /// Returns the poison of the first poisoned operand that is read, for which it is skipped.
    pub(crate) fn poison(&self, tables: &Tables) -> Option<Arc<Failure>> {
        match self {
            Subject::Instruction(instruction) => poison_of(tables, instruction.body.operands()),
            Subject::Step(step) => step.run.poison_of(&step.call()?.operands),
        }
    }

    /// Heals what it has overwritten.
    pub(crate) fn heal(&self, tables: &Tables) {
        match self {
            Subject::Instruction(instruction) => heal(tables, instruction.body.operands()),
            Subject::Step(step) => {
                if let Some(call) = step.call() {
                    step.run.heal(&call.operands);
                }
            }
        }
    }

    /// Poisons what it would have written, and notes the cause for those who wait for it, here and
    /// on other ranks.
    pub(crate) fn skip(&self, tables: &Tables, cause: &Arc<Failure>) {
        self.report_skip(tables, cause);
        match self {
            Subject::Instruction(instruction) => {
                poison(tables, instruction.body.operands(), cause);
                if let Some(point) = instruction.body.at() {
                    let unused = tables.functions.take_unused(instruction);
                    self.drop_unused(tables, &point.stream, unused);
                    tables.failures.note(point, cause);
                }
            }
            Subject::Step(step) => {
                if let Some(call) = step.call() {
                    step.run.poison(&call.operands, cause);
                }
                // The launch alone can be waited for.
                step.run.note_failure(cause);
                tables.failures.note(step.run.at, cause);
            }
        }
    }

    /// Drops a value of the program that it has not used. A panic of the drop is a failure.
    pub(super) fn drop_unused<T>(&self, tables: &Tables, stream: &dyn Display, value: Option<T>) {
        if let Err(panicked) = catch_unit(|| drop(value)) {
            let message = format!("{}, in the drop of its unused function", panicked.message);
            self.failure(tables, stream, Cause::Panic, message);
        }
    }

    /// Builds and logs its failure.
    pub(crate) fn failure(
        &self,
        tables: &Tables,
        stream: &dyn Display,
        cause: Cause,
        message: String,
    ) -> Arc<Failure> {
        match self {
            Subject::Instruction(instruction) => {
                tables.failure(instruction, stream, cause, message)
            }
            Subject::Step(step) => {
                tables.note_failure(step.failure(stream, cause, message, tables))
            }
        }
    }

    /// Gives a host read its result.
    pub(crate) fn finish_read(&self, tables: &Tables, result: Result<Vec<u8>>) {
        match self {
            Subject::Instruction(Instruction { body: Body::SyncRead { into, .. }, .. }) => {
                tables.host.finish_read(*into, result);
            }
            Subject::Instruction(_) => {}
            Subject::Step(step) => {
                if let Action::Read { into, .. } = step.action() {
                    step.run.finish_read(*into, result);
                }
            }
        }
    }
}

/// Where a native event is kept.
pub(crate) enum EventPlace {
    /// In the machine's table.
    Slot(EventId),
    /// In a launch.
    Launch(Arc<Run>, u16),
}

impl EventPlace {
    pub(super) fn set(&self, tables: &Tables, recorded: Option<PooledEvent>) {
        match (self, recorded) {
            (EventPlace::Slot(event), Some(recorded)) => {
                tables.events.insert(*event, recorded);
            }
            (EventPlace::Slot(event), None) => {
                tables.events.remove(event);
            }
            (EventPlace::Launch(run, event), recorded) => run.set_event(*event, recorded),
        }
    }

    pub(super) fn get(&self, tables: &Tables) -> Option<PooledEvent> {
        match self {
            EventPlace::Slot(event) => tables.events.get(event).map(|e| e.value().clone()),
            EventPlace::Launch(run, event) => run.event(*event),
        }
    }
}

/// Returns the poison of the first poisoned operand that is read, for which the instruction is
/// skipped.
fn poison_of(tables: &Tables, operands: &[Operand]) -> Option<Arc<Failure>> {
    if !tables.poison.any() {
        return None;
    }
    let reads = operands.iter().filter(|o| o.access.reads());
    // SAFETY: the caller runs the instruction, which names these tensors.
    reads
        .filter_map(|o| tables.poison.get(unsafe { tables.slots.get(o.tensor.index()) }?.storage))
        .next()
}

fn poison(tables: &Tables, operands: &[Operand], cause: &Arc<Failure>) {
    for operand in operands.iter().filter(|o| o.access.writes()) {
        // SAFETY: the caller runs the instruction, which names these tensors.
        if let Some(slot) = unsafe { tables.slots.get(operand.tensor.index()) } {
            tables.poison.set(slot.storage, cause);
        }
    }
}

fn heal(tables: &Tables, operands: &[Operand]) {
    if !tables.poison.any() {
        return;
    }
    for operand in operands.iter().filter(|o| o.access.writes() && !o.access.reads()) {
        // SAFETY: the caller runs the instruction, which names these tensors.
        if let Some(slot) = unsafe { tables.slots.get(operand.tensor.index()) } {
            tables.poison.heal(slot.storage);
        }
    }
}
