//! The calls of a program made one after another, as straight code of the public API makes them:
//! operands are known by number, streams are at hand, a tensor is released when its handle is
//! dropped. No place of the trace is named and no result is compared with a recorded shape.

use millstream_types::{Attrs, Error, Result};
use millstream_vm::{Machine, Stream, Tensor};
use smallvec::SmallVec;

use crate::lower::{Effect, Lowered, LoweredCall, StepAction};

/// A step: it makes a call, reads a tensor, or drops handles.
enum Step {
    Call(Box<Call>),
    Read(u32),
    Drop(Vec<u32>),
}

/// A call of an op.
struct Call {
    op: String,
    inputs: SmallVec<[u32; 4]>,
    /// The tensors that the results become.
    results: SmallVec<[u32; 2]>,
    /// The existing tensors that take the results.
    out: Option<SmallVec<[u32; 2]>>,
    attrs: Attrs,
    priority: i32,
    stream: Stream,
}

impl Call {
    fn make(&self, machine: &Machine, slots: &mut Slots) -> Result<()> {
        let call = machine.call(&self.op, &operands(&self.inputs, slots)?);
        let call = call.attrs(&self.attrs).priority(self.priority);
        match (&self.out, &self.results[..]) {
            (Some(out), _) => {
                call.out(&operands(out, slots)?).on(&self.stream)?;
            }
            (None, &[result]) => {
                let made = call.one(&self.stream)?;
                slots[result as usize] = Some(made);
            }
            (None, results) => {
                for (&slot, made) in results.iter().zip(call.on(&self.stream)?) {
                    slots[slot as usize] = Some(made);
                }
            }
        }
        Ok(())
    }
}

/// A program of calls, reads and releases on a machine.
pub(crate) struct Straight {
    steps: Vec<Step>,
    /// The number of its tensors.
    values: usize,
    /// The number of its calls.
    pub(crate) calls: usize,
}

/// The tensors of a run, by number.
pub(crate) type Slots = Vec<Option<Tensor>>;

impl Straight {
    /// Returns the straight form of a program with so many values; none if it does more than
    /// calls, reads and releases.
    ///
    /// # Errors
    /// A stream cannot be had.
    pub(crate) fn new(
        machine: &Machine,
        lowered: &Lowered,
        values: usize,
    ) -> Result<Option<Straight>> {
        let streams = lowered.streams.iter();
        let streams: Vec<Stream> = streams
            .map(|(key, mode)| machine.stream_with_mode(key, *mode))
            .collect::<Result<_>>()?;
        let number = |of: &[millstream_trace::ValueRef]| of.iter().map(|v| v.0).collect();
        let call = |call: &LoweredCall| Call {
            op: call.name.clone(),
            inputs: call.inputs.iter().map(|v| v.0).collect(),
            results: call.results.iter().map(|v| v.0).collect(),
            out: call.out.as_ref().map(|out| out.iter().map(|v| v.0).collect()),
            attrs: Attrs::clone(&call.attrs),
            priority: call.priority,
            stream: streams[call.stream.index()].clone(),
        };
        let mut steps = Vec::with_capacity(lowered.main.steps.len());
        let mut calls = 0;
        for step in &lowered.main.steps {
            steps.push(match &step.action {
                StepAction::Call(made) if !made.is_collective => {
                    calls += 1;
                    Step::Call(Box::new(call(made)))
                }
                StepAction::Effect(Effect::Release(values)) => Step::Drop(number(values)),
                StepAction::Effect(Effect::Read(value)) => Step::Read(value.0),
                StepAction::Call(_) | StepAction::Launch(_) | StepAction::Effect(_) => {
                    return Ok(None);
                }
            });
        }
        Ok(Some(Straight { steps, values, calls }))
    }

    /// Returns the slots of a run that starts from these tensors.
    pub(crate) fn slots<'t>(&self, tensors: impl Iterator<Item = &'t Tensor>) -> Slots {
        let mut slots: Slots = tensors.cloned().map(Some).collect();
        slots.resize(self.values.max(slots.len()), None);
        slots
    }

    /// Makes all calls.
    ///
    /// # Errors
    /// A call is refused.
    pub(crate) fn run(&self, machine: &Machine, slots: &mut Slots) -> Result<()> {
        for step in &self.steps {
            match step {
                Step::Call(call) => call.make(machine, slots)?,
                Step::Read(value) => {
                    let [tensor] = operands(&[*value], slots)?[..] else { continue };
                    std::hint::black_box(tensor.read()?);
                }
                Step::Drop(values) => {
                    for &slot in values {
                        slots[slot as usize] = None;
                    }
                }
            }
        }
        Ok(())
    }

    /// Does everything that [`Straight::run`] does but the calls, for the cost of the walk.
    ///
    /// # Errors
    /// As [`Straight::run`].
    pub(crate) fn walk(&self, slots: &mut Slots) -> Result<()> {
        let any = slots.iter().flatten().next().cloned();
        for step in &self.steps {
            match step {
                Step::Call(call) => {
                    std::hint::black_box(operands(&call.inputs, slots)?);
                    std::hint::black_box(&call.op);
                    for &slot in &call.results {
                        slots[slot as usize].clone_from(&any);
                    }
                }
                Step::Read(value) => {
                    std::hint::black_box(operands(&[*value], slots)?);
                }
                Step::Drop(values) => {
                    for &slot in values {
                        slots[slot as usize] = None;
                    }
                }
            }
        }
        Ok(())
    }
}

fn operands<'s>(of: &[u32], slots: &'s Slots) -> Result<SmallVec<[&'s Tensor; 4]>> {
    let one = |&slot: &u32| {
        let unmade = || Error::Internal { message: "a tensor is used before it is made".into() };
        slots[slot as usize].as_ref().ok_or_else(unmade)
    };
    of.iter().map(one).collect()
}
