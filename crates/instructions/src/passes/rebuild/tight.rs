//! Tight lifetimes: tensors begin right before their first use, and end right after their last,
//! private ones that the list never releases too.

use millstream_types::{Result, StreamId, TensorId};
use rustc_hash::FxHashMap;

use crate::instruction::Class;
use crate::passes::facts::Facts;
use crate::passes::rebuild::Emitter;
use crate::passes::rebuild::plan::Step;
use crate::table::{Body, Instruction};

impl Emitter<'_> {
    /// Emits the steps with tight lifetimes.
    pub(super) fn tight(&mut self) -> Result<()> {
        let lifetimes = TightLifetimes::of(self.facts, &self.plan.steps);
        for (k, step) in self.plan.steps.iter().enumerate() {
            if matches!(step.body.class(), Class::Begins | Class::Ends) {
                continue;
            }
            for &(index, tensor) in lifetimes.begin.get(&k).into_iter().flatten() {
                let Instruction { body, origin } = &self.facts.list.instructions[index];
                // The stream of the first use need not wait for the one that made it.
                let mut on = StreamId(0);
                if let Body::OpCall { at, .. } = &*step.body {
                    on = self.stream(step, at.stream);
                } else if let Body::AllocateTensor { on: old, .. } = body {
                    on = self.plan.stream_of[old.index()];
                }
                self.begin(tensor, on, index).map_err(|e| e.at(origin))?;
            }
            self.step(step)?;
            for &(index, tensor) in lifetimes.end.get(&k).into_iter().flatten() {
                self.release(tensor, index)?;
            }
        }
        Ok(())
    }
}

/// For each step, the tensors that begin right before it and end right after it, each with an old
/// instruction that it has the origin of: its beginning, and its release or its last use.
struct TightLifetimes {
    begin: FxHashMap<usize, Vec<(usize, TensorId)>>,
    end: FxHashMap<usize, Vec<(usize, TensorId)>>,
}

impl TightLifetimes {
    pub(super) fn of(facts: &Facts<'_>, steps: &[Step<'_>]) -> TightLifetimes {
        let mut uses: FxHashMap<TensorId, (usize, usize)> = FxHashMap::default();
        for (k, step) in steps.iter().enumerate() {
            for operand in step.body.operands() {
                uses.entry(operand.tensor).or_insert((k, k)).1 = k;
            }
        }
        // A tensor is used where a view of it begins. Views come after their bases.
        let mut tensors: Vec<(Option<usize>, TensorId)> =
            facts.tensors().map(|(id, tensor)| (tensor.begun, id)).collect();
        tensors.sort_unstable();
        for &(_, id) in tensors.iter().rev() {
            if let (Some(of), Some(&(first, _))) = (facts.tensor(id).of, uses.get(&id)) {
                let base = uses.entry(of).or_insert((first, first));
                *base = (base.0.min(first), base.1.max(first));
            }
        }
        let mut lifetimes =
            TightLifetimes { begin: FxHashMap::default(), end: FxHashMap::default() };
        for (begun, id) in tensors {
            let Some(&(first, last)) = uses.get(&id) else { continue };
            if let Some(begun) = begun {
                lifetimes.begin.entry(first).or_default().push((begun, id));
            }
            let tensor = facts.tensor(id);
            // A list that never releases a private tensor has no use of it after the last one.
            let is_private = facts.storages[tensor.storage].external.is_none();
            if let Some(at) = tensor.released.or(is_private.then(|| steps[last].index)) {
                lifetimes.end.entry(last).or_default().push((at, id));
            }
        }
        lifetimes
    }
}
