//! Calls that are held, until their sequence is complete or turns out to be another one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use millstream_types::{Error, Origin, Result};

use crate::api::handle::Tensor;
use crate::api::machine::Machine;
use crate::capture::note::{Action, Place, Step, Value};
use crate::sync::AtomicU32;

use super::Auto;
use super::deferred::Deferred;
use super::sequence::Sequence;

/// Calls that are held: the first of a sequence.
pub(super) struct Held {
    /// The entry of the sequence.
    pub(super) entry: u64,
    pub(super) tokens: Arc<[u64]>,
    pub(super) sequence: Arc<Sequence>,
    steps: usize,
    /// The tensors from outside, in the order of their first uses.
    pub(super) outside: Vec<(Tensor, Place)>,
    /// The first tensor from outside in each storage, by number.
    pub(super) storages: HashMap<u64, usize>,
    pub(super) made: Vec<Arc<Deferred>>,
}

impl Held {
    pub(super) fn new(entry: u64, tokens: Arc<[u64]>, sequence: Arc<Sequence>) -> Held {
        let made = Vec::with_capacity(sequence.made_count());
        let (outside, storages) = (Vec::new(), HashMap::new());
        Held { entry, tokens, sequence, steps: 0, outside, storages, made }
    }

    /// Returns how many calls are held.
    pub(super) const fn steps(&self) -> usize {
        self.steps
    }

    /// Whether a step is the sequence's next one. Notes the tensors that it takes from outside.
    pub(super) fn is_next(&mut self, machine: &Machine, step: &Step<'_>, origin: &Origin) -> bool {
        let sequence = self.sequence.clone();
        sequence.is_next(machine, self, step, origin)
    }

    /// Forgets the tensors from outside but the first `count`.
    pub(super) fn forget_outside(&mut self, count: usize) {
        self.outside.truncate(count);
        self.storages.retain(|_, first| *first < count);
    }

    /// Whether a tensor is the made value of this number.
    pub(super) fn is_made(tensor: &Tensor, number: u32) -> bool {
        tensor.deferred().is_some_and(|d| d.is_waiting() && d.number == number)
    }

    /// Whether a tensor is made by a held call.
    pub(super) fn is_waiting(tensor: &Tensor) -> bool {
        tensor.deferred().is_some_and(|deferred| deferred.is_waiting())
    }

    /// Holds a step, which is the sequence's next one. Returns its results.
    ///
    /// # Errors
    /// The sequence does not say where a result comes from.
    pub(super) fn hold(
        &mut self,
        step: &Step<'_>,
        auto: &Weak<Auto>,
        steps: &Arc<AtomicU32>,
    ) -> Result<Vec<Tensor>> {
        let sequence = self.sequence.clone();
        let note = &sequence.notes[self.steps];
        let mut results = Vec::with_capacity(note.results.len());
        for result in &note.results {
            let is_new = result.value == Value::Made(self.made.len() as u32);
            results.push(if is_new {
                let (spec, device, stream) = sequence.made(self.made.len())?;
                let number = self.made.len() as u32;
                let deferred = Deferred::new(auto.clone(), number, steps.clone());
                self.made.push(deferred.clone());
                let made_on = match (step, stream) {
                    (Step::View { of, .. }, _) => of.made_on(),
                    (Step::Call { stream, .. } | Step::Empty { stream, .. }, _) => stream,
                    (_, Some(stream)) => stream,
                    (_, None) => return Err(unknown(result.value)),
                };
                let spec = spec.clone();
                Tensor::deferring(made_on, deferred, spec, device.clone(), note.origin.clone())
            } else {
                // A call in place returns one of its operands.
                let uses = note.action.uses();
                let position = uses.iter().position(|value| *value == result.value);
                let operand = position.and_then(|k| step.tensors().get(k).copied());
                operand.ok_or_else(|| unknown(result.value))?.clone()
            });
        }
        self.steps += 1;
        if let Action::Release { tensor: Value::Made(number) } = note.action {
            self.made[number as usize].release(self.steps as u32);
        }
        Ok(results)
    }
}

fn unknown(value: Value) -> Error {
    Error::Internal { message: format!("{value} is not known in a sequence") }
}
