//! The streams of a program that names none, chosen from its graph and from estimates of its
//! calls' times.
//!
//! A dry run on one stream gives the tasks. Where a shape depends on data, the shape that the trace
//! recorded holds; without one, the calls on such a tensor run one after another.

use std::collections::HashMap;

use smallvec::SmallVec;

use millstream_instructions::assigner::{LastUses, Place, Platform, Target, Task, assign_in_order};
use millstream_instructions::passes::{CoreCosts, CostModel};
use millstream_instructions::{Body, Class, Instruction, ListRecorder};
use millstream_trace::{Program, ValueRef};
use millstream_types::{Access, DeviceId, TensorId, TensorSpec};
use millstream_vm::Machine;

use crate::dry_run::Subject;
use crate::error::RunError;
use crate::execution::Execution;
use crate::lower::{Effect, Step, StepAction, lower};
use crate::options::{Assigner, RunOptions};

/// The tasks of a program on one stream.
#[derive(Debug)]
pub struct Tasks {
    /// The tasks, in the order of the program.
    pub tasks: Vec<Task>,
    /// The most streams of each group, which holds the calls of one device that name no stream. A
    /// stream of the host needs a core.
    pub most: Vec<usize>,
    /// The number of each task's statement.
    steps: Vec<usize>,
}

/// Returns the tasks of a program of statements.
///
/// # Errors
/// A mistake in the program, with its place.
pub fn tasks(program: &Program, options: &RunOptions) -> Result<Tasks, RunError> {
    let lowered = &lower(program, &options.clone().assigner(Assigner::Auto).replay(true))?;
    of_subject(Subject { program, lowered, options })
}

fn of_subject(subject: Subject<'_>) -> Result<Tasks, RunError> {
    let whole = |e| RunError::whole(subject.program, &e);
    let machine = &subject.machine()?;
    let mut execution = subject.begin(machine, true)?;
    execution.executor.stands_in = true;
    let mut sketch = Sketch::new(subject, machine, &execution);
    for (number, step) in subject.lowered.main.steps.iter().enumerate() {
        execution.step(step)?;
        let before = sketch.emitted;
        let emitted = |recorder: &ListRecorder| recorder.list().instructions[before..].to_vec();
        let emitted = machine.recorded(emitted).map_err(whole)?.unwrap_or_default();
        sketch.emitted += emitted.len();
        sketch.add((number, step), &emitted, &execution);
    }
    let Sketch { tasks, devices, steps, .. } = sketch;
    let (all, of_host) = (subject.options.compute_streams as usize, subject.options.cores());
    let most = |device: &DeviceId| if device.is_host() { of_host } else { all };
    Ok(Tasks { tasks, most: devices.iter().map(most).collect(), steps })
}

/// Returns the number of the compute stream of each call that names none, with the number of its
/// step. None if a single stream is as good, or if the program has a mistake.
pub(crate) fn streams(subject: Subject<'_>) -> Option<Vec<(usize, usize)>> {
    let Tasks { tasks, most, steps } = of_subject(subject).ok()?;
    // The costs of waits are those of the run's own device.
    let wait = costs_of(Some(&subject.options.device)).hand_over();
    let made = assign_in_order(&tasks, &most, Platform::eager(subject.options.cores(), wait));
    let streams = made.tasks.iter().filter_map(|task| match task.target {
        Target::Group(_, stream) => Some((steps[task.task], stream)),
        Target::Stream(_) | Target::Other => None,
    });
    let streams: Vec<(usize, usize)> = streams.collect();
    streams.iter().any(|(_, stream)| *stream > 0).then_some(streams)
}

/// The tasks of a program so far.
struct Sketch<'a> {
    subject: Subject<'a>,
    machine: &'a Machine,
    /// The number of the instructions so far.
    emitted: usize,
    tasks: Vec<Task>,
    /// The number of each task's step.
    steps: Vec<usize>,
    /// The devices of the calls that name no stream. The streams of each are a group.
    devices: Vec<DeviceId>,
    uses: LastUses,
    /// The storage and the description of each tensor of the list.
    tensors: HashMap<TensorId, (usize, TensorSpec)>,
    storages: usize,
}

/// The storage of all tensors of unknown shapes.
const UNKNOWN: usize = usize::MAX;

impl<'a> Sketch<'a> {
    fn new(subject: Subject<'a>, machine: &'a Machine, execution: &Execution<'_>) -> Sketch<'a> {
        let mut sketch = Sketch {
            subject,
            machine,
            emitted: 0,
            tasks: Vec::new(),
            steps: Vec::new(),
            devices: Vec::new(),
            uses: LastUses::default(),
            tensors: HashMap::new(),
            storages: 0,
        };
        for value in (0..subject.program.tensors.len() as u32).map(ValueRef) {
            sketch.made(value, execution);
        }
        sketch
    }

    /// Adds the task of a step that has been executed and has emitted these instructions.
    fn add(
        &mut self,
        (number, step): (usize, &Step),
        emitted: &[Instruction],
        execution: &Execution<'_>,
    ) {
        let Some(fixed) = self.fixed(step) else { return };
        let streams = self.machine.stream_keys().unwrap_or_default();
        let task = self.tasks.len();
        let (mut before, mut time, mut device) = (Vec::new(), 0, None);
        for Instruction { body, .. } in emitted {
            if let Some((tensor, spec)) = body.begins() {
                let of = body.view_of().and_then(|of| self.tensors.get(&of));
                let storage = of.map(|(storage, _)| *storage);
                self.insert(tensor, storage, spec);
            }
            let (Class::Computes, Some(at)) = (body.class(), body.at()) else { continue };
            device = streams.get(at.stream.index()).map(|key| key.device.clone());
            time += self.time(body, device.as_ref());
            for operand in body.operands() {
                if let Some((storage, _)) = self.tensors.get(&operand.tensor) {
                    before.extend(self.uses.note(*storage, operand.access.writes(), task));
                }
            }
        }
        let is_unknown = step.action.operands().any(|v| execution.is_unknown(*v));
        if is_unknown {
            before.extend(self.uses.note(UNKNOWN, true, task));
            device = device.or_else(|| Some(self.subject.options.device.clone()));
        }
        if let StepAction::Call(call) = &step.action {
            for value in &call.results {
                if let Some(storage) = self.made(*value, execution) {
                    self.uses.note(storage, true, task);
                }
            }
        }
        let place = match (fixed, device.clone()) {
            (Fixed::At(place), _) => place,
            (Fixed::No, Some(device)) => Place::Group(self.group(device)),
            // A view: it takes no time, on whatever stream.
            (Fixed::No, None) => return,
        };
        let costs = costs_of(device.as_ref());
        let threads = self.subject.options.machine.threads;
        self.tasks.push(Task::of_call(&costs, threads, (place, time)).after(before, task));
        self.steps.push(number);
    }

    /// Returns where a step runs; none if it is nowhere.
    fn fixed(&self, step: &Step) -> Option<Fixed> {
        let declared = self.subject.program.streams.len();
        let place = match &step.action {
            StepAction::Call(call) if call.stream.index() >= declared && !call.is_collective => {
                return Some(Fixed::No);
            }
            StepAction::Call(call) => Place::Stream(call.stream.index()),
            StepAction::Launch(_) => Place::Stream(self.subject.lowered.streams.len()),
            StepAction::Effect(Effect::Read(_)) => Place::Host,
            StepAction::Effect(Effect::Barrier { .. } | Effect::Synchronize(_)) => Place::Fence,
            StepAction::Effect(
                Effect::Release(_)
                | Effect::Record { .. }
                | Effect::Wait { .. }
                | Effect::StreamWait { .. }
                | Effect::Touch { .. }
                | Effect::BeginSection(_)
                | Effect::EndSection,
            ) => return None,
        };
        Some(Fixed::At(place))
    }

    /// Makes sure of the tensor of a value, if its shape is known. Returns its storage if that was
    /// made outside of instructions: an input, or a result of a recorded shape.
    fn made(&mut self, value: ValueRef, execution: &Execution<'_>) -> Option<usize> {
        let tensor = execution.own(value)?;
        let slot = tensor.tensor_ref().id;
        let name = self.machine.recorded(|recorder| recorder.name_of(slot)).ok()???;
        let is_known = self.tensors.contains_key(&name);
        (!is_known).then(|| self.insert(name, None, tensor.spec()))
    }

    fn insert(&mut self, tensor: TensorId, storage: Option<usize>, spec: &TensorSpec) -> usize {
        self.storages += usize::from(storage.is_none());
        let storage = storage.unwrap_or(self.storages - 1);
        self.tensors.insert(tensor, (storage, spec.clone()));
        storage
    }

    /// Returns the time of an instruction on a device.
    fn time(&self, body: &Body, device: Option<&DeviceId>) -> u64 {
        let Some(op) = body.op() else { return 0 };
        let specs = |keep: fn(Access) -> bool| -> SmallVec<[&TensorSpec; 4]> {
            let operands = body.operands().iter().filter(|operand| keep(operand.access));
            operands.filter_map(|o| self.tensors.get(&o.tensor)).map(|(_, spec)| spec).collect()
        };
        let Some(op) = self.subject.options.machine.ops.get(op) else { return 0 };
        let name = op.name();
        costs_of(device).call(name, &specs(Access::reads), &specs(Access::writes))
    }

    fn group(&mut self, device: DeviceId) -> usize {
        self.devices.iter().position(|own| *own == device).unwrap_or_else(|| {
            self.devices.push(device);
            self.devices.len() - 1
        })
    }
}

/// Whether a step has a place of its own.
enum Fixed {
    At(Place),
    No,
}

/// Returns estimates for a kind of device.
fn costs_of(device: Option<&DeviceId>) -> CoreCosts {
    match device {
        Some(device) if device.kind() == "cuda" => CoreCosts::GPU,
        _ => CoreCosts::EAGER,
    }
}
