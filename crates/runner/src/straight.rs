//! The calls of a program made one after another, as straight code of the public API makes them:
//! operands are known by number, streams are at hand, a tensor is released when its handle is
//! dropped. No place of the trace is named and no result is compared with a recorded shape.

use millstream_trace::ValueRef;
use millstream_types::{Error, Result};
use millstream_vm::{Machine, Stream, Tensor};
use smallvec::SmallVec;

use crate::lower::{Effect, Lowered, LoweredCall, Step, StepAction};

/// The streams of a program of calls, reads and releases.
pub(crate) struct Straight(Vec<Stream>);

/// The tensors of a run, by number.
pub(crate) type Slots = Vec<Option<Tensor>>;

impl Straight {
    /// Returns the streams of a program; none if it does more than calls, reads and releases.
    ///
    /// # Errors
    /// A stream cannot be had.
    pub(crate) fn new(machine: &Machine, lowered: &Lowered) -> Result<Option<Straight>> {
        let is_straight = |step: &Step| match &step.action {
            StepAction::Call(call) => !call.is_collective,
            StepAction::Effect(effect) => matches!(effect, Effect::Release(_) | Effect::Read(_)),
            StepAction::Launch(_) => false,
        };
        if !lowered.main.steps.iter().all(is_straight) {
            return Ok(None);
        }
        let stream = |(key, mode): &(_, _)| machine.stream_with_mode(key, *mode);
        lowered.streams.iter().map(stream).collect::<Result<_>>().map(|all| Some(Straight(all)))
    }

    /// Takes the steps on a machine. Without one no call is made and nothing is read, which shows
    /// the cost of the walk.
    ///
    /// # Errors
    /// A call is refused.
    pub(crate) fn run(
        &self,
        machine: Option<&Machine>,
        steps: &[Step],
        slots: &mut Slots,
    ) -> Result<()> {
        let any = slots.iter().flatten().next().cloned();
        for step in steps {
            match (&step.action, machine) {
                (StepAction::Call(call), Some(machine)) => self.call(machine, call, slots)?,
                (StepAction::Call(call), None) => {
                    std::hint::black_box((operands(&call.inputs, slots)?, &call.name));
                    for &slot in &call.results {
                        slots[slot.index()].clone_from(&any);
                    }
                }
                (StepAction::Effect(Effect::Read(value)), _) => {
                    for tensor in std::hint::black_box(operands(&[*value], slots)?) {
                        std::hint::black_box(machine.map(|_| tensor.read()).transpose()?);
                    }
                }
                (StepAction::Effect(Effect::Release(values)), _) => {
                    values.iter().for_each(|value| slots[value.index()] = None);
                }
                (StepAction::Effect(_) | StepAction::Launch(_), _) => {}
            }
        }
        Ok(())
    }

    fn call(&self, machine: &Machine, call: &LoweredCall, slots: &mut Slots) -> Result<()> {
        let stream = &self.0[call.stream.index()];
        let made = machine.call(&call.name, &operands(&call.inputs, slots)?);
        let made = made.attrs(&*call.attrs).priority(call.priority);
        match (&call.out, &call.results[..]) {
            (Some(out), _) => drop(made.out(&operands(out, slots)?).on(stream)?),
            (None, &[result]) => slots[result.index()] = Some(made.one(stream)?),
            (None, results) => {
                for (slot, made) in results.iter().zip(made.on(stream)?) {
                    slots[slot.index()] = Some(made);
                }
            }
        }
        Ok(())
    }
}

fn operands<'s>(of: &[ValueRef], slots: &'s Slots) -> Result<SmallVec<[&'s Tensor; 4]>> {
    let one = |slot: &ValueRef| {
        let unmade = || Error::Internal { message: "a tensor is used before it is made".into() };
        slots[slot.index()].as_ref().ok_or_else(unmade)
    };
    of.iter().map(one).collect()
}
