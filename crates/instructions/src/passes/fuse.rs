//! Makes one call of the op `fused` of chains and trees of elementwise calls.
//!
//! A group has one result: that of its last call. It grows backwards from that call: the producer
//! of an operand joins if nobody but the group uses what it makes. So each call is in at most one
//! group, and no element is computed twice. Source: producer-consumer fusion, as in XLA's pass
//! `instruction_fusion` and in Palkar et al., "Weld: A Common Runtime for High Performance Data
//! Analytics", CIDR 2017, section 4; here for elementwise calls alone.
//!
//! # Conditions
//! 1. The call may be a step ([`step_result`]): its op and kernels are standard ones, it is
//!    elementwise, makes a new tensor, cannot fail on data, and no launch gives its numbers. Its
//!    result is what the schema says, in dtype, shape and layout, and of the shape of the group's
//!    result: a smaller one would be computed again for each element.
//! 2. All calls are on one stream, with one priority, and between the same two barriers.
//! 3. What a call of the group makes has a storage of its own, without views, which only calls of
//!    the group read.
//! 4. The fused call runs where the last one did. In between, nobody writes an operand of an
//!    earlier one, and no critical section that holds it begins or ends.
//! 5. A program has at most [`MAX_INPUTS`] inputs and [`MAX_STEPS`] steps.
//!
//! The list stays as it is if the fused one needed more memory or more waits, or took longer by the
//! cost model, as where a group waits for the operand of its last call alone. Before that, groups
//! are tried that keep no operand longer than the list does.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_ops::fused::{FUSED, MAX_INPUTS, MAX_STEPS, PROGRAM, Program, Value, step_result};
use millstream_ops::{CallSpec, OutputSpec, fused};
use millstream_types::{Access, Attrs, Result, TensorId, TensorSpec};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::instruction::{Accesses, Class, Operand};
use crate::list::InstructionList;
use crate::passes::facts::Facts;
use crate::passes::placement::arena_bytes;
use crate::passes::rebuild::{Lifetimes, Memory, Plan, Step, Waits};
use crate::passes::{PassOptions, sync_points, waits};
use crate::table::Body;

/// Applies the pass.
pub(super) fn fuse(list: &InstructionList, options: &PassOptions<'_>) -> Result<InstructionList> {
    let facts = Facts::of(list)?;
    let unchanged = Plan::unchanged(&facts)?;
    if unchanged.orders_within_pools(&facts) {
        return Ok(list.clone());
    }
    let longest = waits::time_of(list, options)?;
    for (memory, lifetimes) in
        [(Memory::Planned, Lifetimes::Tight), (Memory::Kept, Lifetimes::Kept)]
    {
        let groups = Groups::of(&facts, options, lifetimes == Lifetimes::Kept);
        if groups.calls.is_empty() {
            continue;
        }
        let plan = groups.plan(&unchanged);
        let plan = Plan { waits: Waits::Needed, memory, lifetimes, ..plan };
        let rebuilt = waits::needed(&facts, &plan, options)?;
        let fused = match memory {
            Memory::Planned => rebuilt.placed(options.effort),
            Memory::Kept => Some(rebuilt.list),
        };
        let Some(fused) = fused else { continue };
        let (after, before) = (arena_bytes(&fused), arena_bytes(list));
        if after.iter().zip(&before).all(|(after, before)| after <= before)
            && sync_points(&fused) <= sync_points(list)
            && waits::time_of(&fused, options)? <= longest
        {
            return Ok(fused);
        }
    }
    Ok(list.clone())
}

/// A call that may be a step of a program.
struct Candidate {
    inputs: Vec<TensorId>,
    output: TensorId,
    /// Whether only calls of a group need to see what it makes.
    is_private: bool,
    /// The number of barriers before it.
    fences: usize,
}

/// How a list uses the storages of its tensors.
#[derive(Default)]
struct Uses {
    /// The calls that read it, by index.
    readers: Vec<usize>,
    /// The instructions that write it, or have another hold on it, by index.
    changes: Vec<usize>,
    /// Whether something other than calls reads it, or it has a view.
    escapes: bool,
}

struct Groups {
    /// The calls that become one of op `fused`: the last call of the group, the new inputs, and
    /// the program.
    calls: BTreeMap<usize, (Vec<TensorId>, Program)>,
    /// The calls that are gone.
    absorbed: FxHashSet<usize>,
    /// The tensors that are gone.
    tensors: FxHashSet<TensorId>,
}

struct Grouping<'a> {
    facts: &'a Facts<'a>,
    options: &'a PassOptions<'a>,
    candidates: FxHashMap<usize, Candidate>,
    uses: Vec<Uses>,
}

impl Groups {
    /// Returns the groups of a list. With `is_strict` none keeps an operand longer than the list
    /// does.
    fn of(facts: &Facts<'_>, options: &PassOptions<'_>, is_strict: bool) -> Groups {
        let grouping =
            Grouping { candidates: candidates(facts, options), uses: uses(facts), facts, options };
        let mut groups = Groups {
            calls: BTreeMap::new(),
            absorbed: FxHashSet::default(),
            tensors: FxHashSet::default(),
        };
        // From the last call on, so that a group grows to its full size at once.
        let mut order: Vec<usize> = grouping.candidates.keys().copied().collect();
        order.sort_unstable();
        for &last in order.iter().rev() {
            if groups.absorbed.contains(&last) {
                continue;
            }
            let mut members = grouping.group(last);
            if is_strict {
                grouping.without_early_ends(last, &mut members);
            }
            if let Some(call) = grouping.call(last, &members) {
                groups.calls.insert(last, call);
                for k in members.into_iter().filter(|k| *k != last) {
                    groups.absorbed.insert(k);
                    groups.tensors.insert(grouping.candidates[&k].output);
                }
            }
        }
        groups
    }

    /// Returns the plan of a list with these groups.
    fn plan<'a>(&self, old: &Plan<'a>) -> Plan<'a> {
        let mut plan = old.clone();
        let op = plan.ops.id(FUSED);
        let is_gone = |body: &Body| {
            let named = body.begins().map(|(tensor, _)| tensor).or(body.ends());
            named.is_some_and(|tensor| self.tensors.contains(&tensor))
        };
        plan.steps.retain(|s| !self.absorbed.contains(&s.index) && !is_gone(&s.body));
        for Step { index, body, .. } in &mut plan.steps {
            let Some((inputs, program)) = self.calls.get(index) else { continue };
            if let Body::OpCall { at, operands, priority, .. } = &**body {
                let attrs = Attrs::new().with(PROGRAM, program.to_string().as_str());
                let read = |&tensor: &TensorId| Operand { tensor, access: Access::Read };
                let output = operands.last().copied();
                *body = Cow::Owned(Body::OpCall {
                    at: *at,
                    op,
                    operands: inputs.iter().map(read).chain(output).collect(),
                    attrs: Some(Arc::new(attrs)),
                    workspace: None,
                    priority: *priority,
                });
            }
        }
        plan
    }
}

impl Grouping<'_> {
    fn spec(&self, tensor: TensorId) -> &TensorSpec {
        self.facts.tensor(tensor).spec
    }

    /// Returns the calls of the group whose last call this is.
    fn group(&self, last: usize) -> BTreeSet<usize> {
        let mut members = BTreeSet::from([last]);
        while let Some(next) = self.producer(last, &members) {
            members.insert(next);
        }
        members
    }

    /// Returns a call that may join a group: the newest one, so that of several readers of its
    /// result all have had their turn.
    fn producer(&self, last: usize, members: &BTreeSet<usize>) -> Option<usize> {
        let inputs = members.iter().flat_map(|k| &self.candidates[k].inputs);
        let producers = inputs.filter_map(|tensor| {
            let uses = &self.uses[self.facts.storage_of(*tensor)];
            uses.changes.first().copied().filter(|k| !members.contains(k))
        });
        let producers: BTreeSet<usize> = producers.collect();
        producers.into_iter().rev().find(|k| self.may_join(*k, last, members))
    }

    /// Removes the calls that read what ends before the last call of their group, and those that
    /// only they need.
    fn without_early_ends(&self, last: usize, members: &mut BTreeSet<usize>) {
        loop {
            let inputs = self.inputs(members.iter());
            let ends = |t: &TensorId| {
                let released = self.facts.tensor(*t).released;
                inputs.contains(t) && released.is_some_and(|at| at < last)
            };
            let is_needed = |k: &usize| {
                let made = self.facts.storage_of(self.candidates[k].output);
                *k == last || self.uses[made].readers.iter().all(|r| members.contains(r))
            };
            let fits = |k: &usize| is_needed(k) && !self.candidates[k].inputs.iter().any(ends);
            let left: BTreeSet<usize> = members.iter().copied().filter(fits).collect();
            if left == *members {
                return;
            }
            *members = left;
        }
    }

    fn may_join(&self, new: usize, last: usize, members: &BTreeSet<usize>) -> bool {
        let (Some(call), end) = (self.candidates.get(&new), &self.candidates[&last]) else {
            return false;
        };
        let body = |k: usize| &self.facts.list.instructions[k].body;
        let (Body::OpCall { at, priority, .. }, Body::OpCall { at: end_at, priority: of_end, .. }) =
            (body(new), body(last))
        else {
            return false;
        };
        let made = &self.uses[self.facts.storage_of(call.output)];
        let target = self.facts.storage_of(end.output);
        let keeps = |tensor: &TensorId| {
            let storage = self.facts.storage_of(*tensor);
            let changes = &self.uses[storage].changes;
            let next = changes.get(changes.partition_point(|k| *k <= new));
            storage != target && next.is_none_or(|k| *k >= last)
        };
        new < last
            && call.is_private
            && call.fences == end.fences
            && (at.stream, priority) == (end_at.stream, of_end)
            && self.spec(call.output).shape() == self.spec(end.output).shape()
            && made.readers.iter().all(|k| members.contains(k))
            && call.inputs.iter().all(keeps)
            && members.len() < MAX_STEPS
            && self.inputs(members.iter().chain([&new])).len() <= MAX_INPUTS
    }

    /// Returns what calls read and do not make, in the order of the calls.
    fn inputs<'b>(&self, members: impl Iterator<Item = &'b usize> + Clone) -> Vec<TensorId> {
        let made: Vec<TensorId> = members.clone().map(|k| self.candidates[k].output).collect();
        let mut order: Vec<usize> = members.copied().collect();
        order.sort_unstable();
        let mut inputs: Vec<TensorId> = Vec::new();
        for &tensor in order.iter().flat_map(|k| &self.candidates[k].inputs) {
            if !made.contains(&tensor) && !inputs.contains(&tensor) {
                inputs.push(tensor);
            }
        }
        inputs
    }

    /// Returns the inputs and the program of a group, if it has more than one call and the op
    /// `fused` accepts it.
    fn call(&self, last: usize, members: &BTreeSet<usize>) -> Option<(Vec<TensorId>, Program)> {
        if members.len() < 2 {
            return None;
        }
        let inputs = self.inputs(members.iter());
        let mut results: FxHashMap<TensorId, usize> = FxHashMap::default();
        let mut steps = Vec::new();
        for (number, k) in members.iter().enumerate() {
            let Body::OpCall { op, attrs, .. } = &self.facts.list.instructions[*k].body else {
                return None;
            };
            let candidate = &self.candidates[k];
            let value = |tensor: &TensorId| match results.get(tensor) {
                Some(step) => Some(Value::Step(*step)),
                None => inputs.iter().position(|i| i == tensor).map(Value::Input),
            };
            steps.push(fused::Step {
                op: self.facts.list.ops.name(*op).to_owned(),
                operands: candidate.inputs.iter().map(value).collect::<Option<_>>()?,
                attrs: attrs.as_deref().cloned().unwrap_or_default(),
            });
            results.insert(candidate.output, number);
        }
        let program = Program::new(steps).ok()?;
        let specs: Vec<TensorSpec> = inputs.iter().map(|t| self.spec(*t).clone()).collect();
        let attrs = Attrs::new().with(PROGRAM, program.to_string().as_str());
        let ops = self.options.ops;
        let op = ops.get(ops.find(FUSED)?)?;
        let signature = op.check(CallSpec { inputs: &specs, attrs: &attrs }).ok()?;
        let result = self.spec(self.candidates[&last].output);
        let fits = matches!(&signature.outputs[..], [OutputSpec::Fresh(spec)] if spec == result);
        fits.then_some((inputs, program))
    }
}

/// Returns the calls of a list that may be steps, by index.
fn candidates(facts: &Facts<'_>, options: &PassOptions<'_>) -> FxHashMap<usize, Candidate> {
    let is_standard = |op: &str| options.ops.is_standard(op) && (options.standard_kernels)(op);
    if !is_standard(FUSED) {
        return FxHashMap::default();
    }
    let mut candidates = FxHashMap::default();
    let views: FxHashSet<usize> = facts
        .tensors()
        .filter(|(_, tensor)| tensor.of.is_some())
        .map(|(_, tensor)| tensor.storage)
        .collect();
    let mut fences = 0;
    for (index, instruction) in facts.list.instructions.iter().enumerate() {
        let class = instruction.body.class();
        fences += usize::from(matches!(class, Class::Fences | Class::Observes));
        let Body::OpCall { op, operands, attrs, workspace: None, at, .. } = &instruction.body
        else {
            continue;
        };
        let Some((output, inputs)) = operands.split_last() else { continue };
        let reads = |o: &Operand| o.access == Access::Read;
        let storage = facts.storage_of(output.tensor);
        let is_new = inputs.iter().all(|o| facts.storage_of(o.tensor) != storage);
        let work = facts.list.streams[at.stream.index()].work;
        if output.access != Access::Write
            || !inputs.iter().all(reads)
            || !is_new
            || !facts.is_whole(output.tensor)
            || facts.is_collective(*op, work)
            || !is_standard(facts.list.ops.name(*op))
        {
            continue;
        }
        let specs: Vec<TensorSpec> =
            inputs.iter().map(|o| facts.tensor(o.tensor).spec.clone()).collect();
        let none = Attrs::new();
        let attrs = attrs.as_deref().unwrap_or(&none);
        // A program has the numbers of its steps, and no launch gives them.
        if attrs.scalars().next().is_some() {
            continue;
        }
        let result = step_result(facts.list.ops.name(*op), CallSpec { inputs: &specs, attrs });
        if result.is_ok_and(|spec| spec == *facts.tensor(output.tensor).spec) {
            let is_private =
                facts.storages[storage].external.is_none() && !views.contains(&storage);
            let inputs = inputs.iter().map(|o| o.tensor).collect();
            let output = output.tensor;
            candidates.insert(index, Candidate { inputs, output, is_private, fences });
        }
    }
    // What is written twice, or read by something other than a call, stays.
    let uses = uses(facts);
    for candidate in candidates.values_mut() {
        let uses = &uses[facts.storage_of(candidate.output)];
        candidate.is_private &= uses.changes.len() == 1 && !uses.escapes;
    }
    candidates
}

/// Returns the uses of each storage.
fn uses(facts: &Facts<'_>) -> Vec<Uses> {
    let mut all: Vec<Uses> = facts.storages.iter().map(|_| Uses::default()).collect();
    for (index, instruction) in facts.list.instructions.iter().enumerate() {
        let body = &instruction.body;
        let holds = body.kind().accesses() == Accesses::Holds;
        for operand in body.operands() {
            let uses = &mut all[facts.storage_of(operand.tensor)];
            if operand.access.writes() || holds {
                uses.changes.push(index);
            }
            let is_call = matches!(body, Body::OpCall { .. });
            uses.escapes |= !is_call;
            if is_call && operand.access.reads() {
                uses.readers.push(index);
            }
        }
    }
    all
}
