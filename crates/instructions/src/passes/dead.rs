//! Removes calls, views, allocations and touches whose results nobody can observe.
//!
//! Liveness, backwards: Aho, Lam, Sethi & Ullman, *Compilers*, 2nd edition, section 9.2.5.
//!
//! The walk goes backwards and keeps the set of storages whose content is still asked for: those of
//! output externals at the end, and those that a kept instruction reads. A call is kept if it has
//! a side effect or writes a storage of the set. A full overwrite takes its storage out of the
//! set: the content before it is not asked for. Overwriting a part does not.
//!
//! A touch orders and does nothing else. It is kept as long as its tensors are used by other kept
//! instructions; of the others it loses its hold.

use std::borrow::Cow;

use millstream_types::{Access, Result, TensorId};
use rustc_hash::FxHashSet;

use crate::instruction::{Class, Operands};
use crate::list::InstructionList;
use crate::passes::facts::Facts;
use crate::passes::rebuild::{Plan, Step, Waits, rebuild};
use crate::passes::{PassOptions, sync_points, waits};
use crate::table::Body;

/// Applies the pass.
pub(super) fn dead(list: &InstructionList, options: &PassOptions<'_>) -> Result<InstructionList> {
    let facts = Facts::of(list)?;
    let kept = Kept::of(&facts, options);
    let all = Plan::unchanged(&facts)?;
    let steps: Vec<Step<'_>> = all.steps.iter().filter_map(|step| kept.step(step)).collect();
    if steps == all.steps || all.orders_within_pools(&facts) {
        return Ok(list.clone());
    }
    let needed = Plan { steps, waits: Waits::Needed, ..all };
    let fewer = waits::needed(&facts, &needed, options)?.list;
    if sync_points(&fewer) <= sync_points(list) {
        return Ok(fewer);
    }
    // The list's own waits serve several uses each.
    let same = rebuild(&facts, &Plan { waits: Waits::Kept, ..needed })?.list;
    Ok(if sync_points(&same) < sync_points(&fewer) { same } else { fewer })
}

/// The parts of a list that can be observed.
struct Kept {
    /// By index. Meaningless for instructions that only begin, end, touch or order.
    calls: Vec<bool>,
    /// The tensors that kept instructions use, and those that they are views of.
    tensors: FxHashSet<TensorId>,
}

impl Kept {
    fn of(facts: &Facts<'_>, options: &PassOptions<'_>) -> Kept {
        let list = facts.list;
        let is_output = |external: usize| options.outputs.has(&list.externals[external].name);
        let mut live: Vec<bool> =
            facts.storages.iter().map(|s| s.external.is_some_and(is_output)).collect();
        let mut calls = vec![false; list.instructions.len()];
        let mut tensors = FxHashSet::default();
        for (index, instruction) in list.instructions.iter().enumerate().rev() {
            let body = &instruction.body;
            let is_live = |o: &crate::Operand| live[facts.storage_of(o.tensor)];
            let writes_live = body.operands().iter().any(|o| o.access.writes() && is_live(o));
            let computes = body.class() == Class::Computes && body.list().is_none();
            if !(facts.has_side_effect(body) || computes && writes_live) {
                continue;
            }
            calls[index] = true;
            for operand in body.operands().iter().filter(|_| computes) {
                if operand.access == Access::Write && facts.is_whole(operand.tensor) {
                    live[facts.storage_of(operand.tensor)] = false;
                }
            }
            for operand in body.operands() {
                // A launched list or a section may read all that it names.
                if operand.access.reads() || !computes {
                    live[facts.storage_of(operand.tensor)] = true;
                }
                let mut used = Some(operand.tensor);
                while let Some(tensor) = used.filter(|t| tensors.insert(*t)) {
                    used = facts.tensor(tensor).of;
                }
            }
        }
        tensors.extend(list.externals.iter().map(|e| e.tensor));
        Kept { calls, tensors }
    }

    /// Returns what is left of a step.
    fn step<'a>(&self, step: &Step<'a>) -> Option<Step<'a>> {
        let body = &*step.body;
        if let Body::TouchTensors { at, operands } = body {
            let left: Operands =
                operands.iter().filter(|o| self.tensors.contains(&o.tensor)).copied().collect();
            if left.len() == operands.len() && !left.is_empty() {
                return Some(step.clone());
            }
            let body = Cow::Owned(Body::TouchTensors { at: *at, operands: left.clone() });
            return (!left.is_empty()).then(|| Step { body, ..step.clone() });
        }
        let is_used = |tensor: TensorId| self.tensors.contains(&tensor);
        let keeps = match body.class() {
            Class::Computes => self.calls[step.index],
            Class::Begins => body.begins().is_some_and(|(tensor, _)| is_used(tensor)),
            Class::Ends => body.ends().is_some_and(is_used),
            Class::Orders
            | Class::Records
            | Class::Waits
            | Class::Fences
            | Class::Observes
            | Class::Annotates => true,
        };
        keeps.then(|| step.clone())
    }
}
