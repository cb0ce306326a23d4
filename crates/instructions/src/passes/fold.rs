//! Splits a list in two: the calls of constants, which are made once, and the rest, which each
//! launch makes.
//!
//! A storage is *known* if its content is the same in all launches: that of a constant external,
//! and that of a storage which one call alone writes, in full, from known ones and without numbers
//! of the launch. The calls that make known storages from constants are folded. Those of their
//! results that the rest uses become externals of both parts. Calls from no operand at all stand in
//! both parts, since their results cost more to keep than to make.
//!
//! Source: constant folding and propagation, Muchnick, *Advanced Compiler Design and
//! Implementation*, 1997, sections 12.1 and 12.6; here over tensors.

use std::collections::{BTreeMap, BTreeSet};

use millstream_types::{Access, Error, Result, TensorId};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::instruction::{Class, Operand};
use crate::list::{External, InstructionList};
use crate::passes::facts::{Facts, with_own_ids};
use crate::passes::rebuild::{Plan, Step, Waits};
use crate::passes::{PassOptions, waits};
use crate::table::Body;

/// A list in two parts.
#[derive(Clone, Debug)]
pub struct Folded {
    /// The list with the results that the rest uses as externals.
    pub whole: InstructionList,
    /// The calls that are made once. Its externals are the constants and the results.
    pub once: InstructionList,
    /// The calls of each launch.
    pub rest: InstructionList,
    /// The names of the results.
    pub results: BTreeSet<String>,
    /// How many calls are folded.
    pub calls: usize,
    /// The bytes of the results.
    pub bytes: u64,
}

/// Splits a list. `is_constant` says of which externals, by number, the content is the same in all
/// launches. The results take `most` bytes at most: where they would take more, the last calls are
/// not folded. Returns nothing if there is nothing to fold.
///
/// # Errors
/// The list writes a constant; or it is not one that the checker accepts. The error names the
/// place.
pub fn fold(
    list: &InstructionList,
    is_constant: &dyn Fn(usize) -> bool,
    most: u64,
    options: &PassOptions<'_>,
) -> Result<Option<Folded>> {
    let own = with_own_ids(list)?;
    let list = own.as_ref().unwrap_or(list);
    let facts = Facts::of(list)?;
    if Plan::unchanged(&facts)?.orders_within_pools(&facts) {
        return Ok(None);
    }
    let mut known = Known::of(&facts, is_constant, usize::MAX)?;
    while known.bytes(&facts) > most {
        let Some(last) = known.folded.last().copied() else { break };
        known = Known::of(&facts, is_constant, last)?;
    }
    if known.results.is_empty() {
        return Ok(None);
    }
    let (calls, bytes) = (known.folded.len(), known.bytes(&facts));
    let (whole, results) = known.externals(&facts);
    let (once, rest) = known.parts(&whole, options)?;
    Ok(Some(Folded { whole, once, rest, results, calls, bytes }))
}

/// What is the same in all launches.
struct Known {
    /// The calls that are folded, by index.
    folded: BTreeSet<usize>,
    /// The calls from no constant, whose results are known all the same.
    anyway: BTreeSet<usize>,
    /// The storages of the folded calls that the rest uses.
    results: BTreeSet<usize>,
}

impl Known {
    /// Finds the calls before `end` that can be folded.
    fn of(facts: &Facts<'_>, is_constant: &dyn Fn(usize) -> bool, end: usize) -> Result<Known> {
        let instructions = &facts.list.instructions;
        let writes = |body: &Body| -> Vec<usize> {
            let written = body.operands().iter().filter(|o| o.access.writes());
            written.map(|o| facts.storage_of(o.tensor)).collect()
        };
        let mut writers: BTreeMap<usize, usize> = BTreeMap::new();
        for instruction in instructions {
            let body = &instruction.body;
            for storage in writes(body) {
                *writers.entry(storage).or_default() += 1;
                let external = facts.storages[storage].external;
                if let Some(number) = external.filter(|number| is_constant(*number)) {
                    let name = &facts.list.externals[number].name;
                    let message = format!("{name:?} is a constant, and the list writes it");
                    let refused = Error::Invalid { what: "list", message };
                    return Err(refused.at(&instruction.origin));
                }
            }
        }
        // For each known storage whether a constant is in it.
        let constants = facts.storages.iter().enumerate().filter_map(|(storage, s)| {
            s.external.is_some_and(is_constant).then_some((storage, true))
        });
        let mut known: BTreeMap<usize, bool> = constants.collect();
        let (mut folded, mut anyway) = (BTreeSet::new(), BTreeSet::new());
        for (index, instruction) in instructions.iter().enumerate().take(end) {
            let body = &instruction.body;
            let Body::OpCall { operands, attrs, .. } = body else { continue };
            let is_new = |o: &&Operand| {
                let storage = facts.storage_of(o.tensor);
                o.access == Access::Write
                    && facts.storages[storage].external.is_none()
                    && writers.get(&storage) == Some(&1)
                    && facts.is_whole(o.tensor)
            };
            let (written, read): (Vec<&Operand>, Vec<&Operand>) =
                operands.iter().partition(|o| o.access.writes());
            let of = read.iter().map(|o| known.get(&facts.storage_of(o.tensor)).copied());
            let Some(of) = of.collect::<Option<Vec<bool>>>() else { continue };
            if facts.has_side_effect(body)
                || attrs.iter().any(|attrs| attrs.scalars().next().is_some())
                || !written.iter().all(is_new)
            {
                continue;
            }
            let has_constant = of.contains(&true);
            known.extend(written.iter().map(|o| (facts.storage_of(o.tensor), has_constant)));
            if has_constant {
                folded.insert(index)
            } else {
                anyway.insert(index)
            };
        }
        let mut results = BTreeSet::new();
        for (index, instruction) in instructions.iter().enumerate() {
            if folded.contains(&index) || instruction.body.class() == Class::Annotates {
                continue;
            }
            let used = instruction.body.operands().iter().map(|o| facts.storage_of(o.tensor));
            results.extend(used.filter(|storage| {
                facts.storages[*storage].external.is_none() && known.get(storage) == Some(&true)
            }));
        }
        Ok(Known { folded, anyway, results })
    }

    fn bytes(&self, facts: &Facts<'_>) -> u64 {
        self.results.iter().map(|storage| facts.storages[*storage].bytes).sum()
    }

    /// Returns the list with the results as externals, and their names. The rest keeps its
    /// order; `self` names it by its new places afterwards.
    fn externals(&mut self, facts: &Facts<'_>) -> (InstructionList, BTreeSet<String>) {
        let mut whole = facts.list.clone();
        let mut names = BTreeSet::new();
        let mut tensors = FxHashSet::default();
        for instruction in &facts.list.instructions {
            let Body::AllocateTensor { tensor, spec, placement, .. } = &instruction.body else {
                continue;
            };
            if !self.results.contains(&facts.storage_of(*tensor)) {
                continue;
            }
            let taken = |name: &String| whole.externals.iter().any(|e| e.name == *name);
            let mut free = (names.len()..).map(|k| format!("folded {k}"));
            let name = free.find(|name| !taken(name)).unwrap_or_default();
            names.insert(name.clone());
            tensors.insert(*tensor);
            let (spec, bytes, arena) = ((**spec).clone(), placement.size, placement.arena);
            whole.externals.push(External { tensor: *tensor, name, spec, bytes, arena });
        }
        let is_kept = |body: &Body| match body {
            Body::AllocateTensor { tensor, .. } | Body::ReleaseTensor { tensor } => {
                !tensors.contains(tensor)
            }
            _ => true,
        };
        let places = whole.instructions.iter().enumerate();
        let places = places.filter(|(_, i)| is_kept(&i.body)).map(|(at, _)| at);
        let places: FxHashMap<usize, usize> =
            places.enumerate().map(|(new, old)| (old, new)).collect();
        for calls in [&mut self.folded, &mut self.anyway] {
            *calls = calls.iter().filter_map(|old| places.get(old).copied()).collect();
        }
        whole.instructions.retain(|i| is_kept(&i.body));
        (whole, names)
    }

    /// Divides the list with the results as externals.
    fn parts(
        &self,
        whole: &InstructionList,
        options: &PassOptions<'_>,
    ) -> Result<(InstructionList, InstructionList)> {
        let facts = Facts::of(whole)?;
        let all = Plan::unchanged(&facts)?;
        let part = |is_kept: &dyn Fn(&Step<'_>) -> bool| {
            let is_kept = |step: &&Step<'_>| match step.body.class() {
                Class::Begins | Class::Ends => true,
                _ => is_kept(step),
            };
            let steps: Vec<&Step<'_>> = all.steps.iter().filter(is_kept).collect();
            let used = used(&facts, &steps);
            let is_used = |step: &&&Step<'_>| {
                let named = step.body.begins().map(|(tensor, _)| tensor).or(step.body.ends());
                named.is_none_or(|tensor| used.contains(&tensor))
            };
            let steps = steps.iter().filter(is_used).map(|step| (*step).clone()).collect();
            let plan = Plan { steps, waits: Waits::Needed, ..all.clone() };
            let list = waits::needed(&facts, &plan, options)?.list;
            Ok::<_, Error>((list, used))
        };
        let is_once = |step: &Step<'_>| {
            self.folded.contains(&step.index) || self.anyway.contains(&step.index)
        };
        let (mut once, used) = part(&is_once)?;
        once.externals.retain(|external| used.contains(&external.tensor));
        // No call of it has a number of the launch.
        (once.scalars, once.generators, once.executables) = Default::default();
        let (rest, _) = part(&|step| !self.folded.contains(&step.index))?;
        Ok((once, rest))
    }
}

/// Returns the tensors that steps use, and those that they are views of.
fn used(facts: &Facts<'_>, steps: &[&Step<'_>]) -> FxHashSet<TensorId> {
    let mut tensors = FxHashSet::default();
    for step in steps.iter().filter(|step| step.body.class() != Class::Annotates) {
        for operand in step.body.operands() {
            let mut used = Some(operand.tensor);
            while let Some(tensor) = used.filter(|tensor| tensors.insert(*tensor)) {
                used = facts.tensor(tensor).of;
            }
        }
    }
    tensors
}
