//! Spreads the calls of a host device over a number of in-order streams.
//!
//! The [assigner](crate::assigner) chooses the streams twice, in the order of the list and by rank.
//! The assignment that ends first is emitted; if neither ends before the list as it is, or saves
//! enough over a single stream, the list stays.
//!
//! # Streams
//! The streams of a group are those of one device of kind `cpu` that run kernels and nothing else,
//! pools included; a pool becomes in-order streams. A stream with a collective is not in the group:
//! other ranks depend on its order. All other streams keep their instructions in their order.
//! Streams of other devices run side by side with the host already, and which of them share a
//! hardware queue is not known here.
//!
//! # Order
//! Barriers and host observations stay where they are: the calls between two of them are assigned
//! among themselves. Side effects keep their order.

use std::collections::BTreeMap;

use millstream_types::{
    Access, DeviceId, Point, Result, StreamId, StreamKey, StreamMode, StreamType, WorkKind, WorkSet,
};
use rustc_hash::FxHashMap;

use crate::assigner::{Assigned, LastUses, Order, Place, Platform, Target, Task, schedule};
use crate::instruction::{Accesses, Class};
use crate::list::{InstructionList, StreamDecl};
use crate::passes::facts::Facts;
use crate::passes::rebuild::{Lifetimes, Memory, Plan, Step, Waits};
use crate::passes::timeline::{by_costs, makespan, time};
use crate::passes::{PassOptions, waits};
use crate::table::Body;

/// Applies the pass.
pub(super) fn assign(list: &InstructionList, options: &PassOptions<'_>) -> Result<InstructionList> {
    let facts = Facts::of(list)?;
    let groups = Groups::of(&facts, options.streams);
    if options.streams == 0 || groups.is_done(list) {
        return Ok(list.clone());
    }
    let unchanged = Plan::unchanged(&facts)?;
    let graph = Graph::of(&facts, &unchanged, &groups, options);
    let mut best = None;
    let mut shortest = makespan(&by_costs(&facts, options.costs));
    let platform = Platform::compiled(options.streams, options.costs.hand_over());
    let on = |streams: usize, order: Order| {
        schedule(&graph.tasks, &vec![streams; groups.targets.len()], platform, order)
    };
    let single = on(1, Order::Program).time;
    for order in [Order::Program, Order::Rank] {
        let made = on(options.streams, order);
        if !made.beats(single) {
            continue;
        }
        let plan = groups.plan(&unchanged, &graph, &made.tasks);
        if plan.orders_within_pools(&facts) {
            continue;
        }
        let spread = waits::needed(&facts, &plan, options)?;
        let time = waits::time_of(&spread.list, options)?;
        if time < shortest {
            (best, shortest) = (Some(spread), time);
        }
    }
    Ok(best.and_then(|best| best.placed(options.effort)).unwrap_or_else(|| list.clone()))
}

/// The streams whose instructions may move, by device.
struct Groups {
    /// The group of each stream of the list, if it is in one.
    of: Vec<Option<usize>>,
    /// For each group, the keys of the streams that it may use, the list's own first.
    targets: Vec<Vec<StreamKey>>,
}

impl Groups {
    fn of(facts: &Facts<'_>, most: usize) -> Groups {
        let list = facts.list;
        let mut is_fixed = vec![false; list.streams.len()];
        for instruction in &list.instructions {
            if let Body::OpCall { at, op, .. } = &instruction.body {
                let stream = at.stream.index();
                is_fixed[stream] |= facts.is_collective(*op, list.streams[stream].work);
            }
        }
        let kernels = WorkSet::of(&[WorkKind::Compute]);
        let mut devices: Vec<&DeviceId> = Vec::new();
        let of = list.streams.iter().zip(is_fixed).map(|(StreamDecl { key, work, .. }, fixed)| {
            let moves = key.device.kind() == "cpu" && key.ty == StreamType::COMPUTE && !fixed;
            (moves && *work == kernels).then(|| {
                devices.iter().position(|d| **d == key.device).unwrap_or_else(|| {
                    devices.push(&key.device);
                    devices.len() - 1
                })
            })
        });
        let of: Vec<Option<usize>> = of.collect();
        let targets = |group: usize| {
            let own = list.streams.iter().zip(&of);
            let own =
                own.filter(|(decl, of)| **of == Some(group) && decl.mode == StreamMode::InOrder);
            let own = own.map(|(decl, _)| decl.key.clone()).take(most);
            // A machine may know the key of a pool as one of a pool, so new streams get new keys.
            let taken = |key: &StreamKey| list.streams.iter().any(|decl| decl.key == *key);
            let new = (0..).map(|k| StreamKey::compute(devices[group].clone(), k));
            own.chain(new.filter(|key| !taken(key))).take(most).collect()
        };
        Groups { targets: (0..devices.len()).map(targets).collect(), of }
    }

    /// Whether each group has as many streams as it may use, and one of them: nothing can move.
    fn is_done(&self, list: &InstructionList) -> bool {
        (0..self.targets.len()).all(|group| {
            let mut own = list.streams.iter().zip(&self.of).filter(|(_, of)| **of == Some(group));
            let is_single = own.next().is_some_and(|(d, _)| d.mode == StreamMode::InOrder);
            is_single && own.next().is_none() && self.targets[group].len() == 1
        })
    }

    /// Returns the plan of an assignment. Streams that it does not use are not declared.
    fn plan<'a>(&self, old: &Plan<'a>, graph: &Graph, assignment: &[Assigned]) -> Plan<'a> {
        let mut streams = Vec::new();
        let used = |group: usize, target: usize| {
            assignment.iter().any(|s| s.target == Target::Group(group, target))
        };
        let mut ids: BTreeMap<(usize, usize), StreamId> = BTreeMap::new();
        let mut stream_of = vec![StreamId(0); old.streams.len()];
        let next = |streams: &Vec<StreamDecl>| StreamId(streams.len() as u16);
        for (number, decl) in old.streams.iter().enumerate() {
            match self.of[number] {
                None => {
                    stream_of[number] = next(&streams);
                    streams.push(decl.clone());
                }
                Some(group) => {
                    let own = self.targets[group].iter().position(|key| *key == decl.key);
                    if let Some(target) = own.filter(|target| used(group, *target)) {
                        ids.insert((group, target), next(&streams));
                        streams.push(decl.clone());
                    }
                }
            }
        }
        for (group, keys) in self.targets.iter().enumerate() {
            for (target, key) in keys.iter().enumerate().filter(|(t, _)| used(group, *t)) {
                ids.entry((group, target)).or_insert_with(|| {
                    streams.push(StreamDecl::new(key.clone(), StreamMode::InOrder));
                    StreamId((streams.len() - 1) as u16)
                });
            }
        }
        // The old streams of a group stand for its first one, which allocations without a call use.
        for (number, group) in self.of.iter().enumerate() {
            let first = group.and_then(|g| ids.range((g, 0)..(g + 1, 0)).next());
            if let Some((_, id)) = first {
                stream_of[number] = *id;
            }
        }
        let steps = assignment.iter().map(|call| {
            let step: &Step<'a> = &old.steps[graph.steps[call.task]];
            let on = match call.target {
                Target::Group(group, target) => ids.get(&(group, target)).copied(),
                Target::Stream(_) | Target::Other => None,
            };
            Step { on, ..step.clone() }
        });
        Plan {
            steps: steps.collect(),
            streams,
            stream_of,
            waits: Waits::Needed,
            memory: Memory::Planned,
            lifetimes: Lifetimes::Tight,
            reordered: true,
            ..old.clone()
        }
    }
}

/// The instructions that are neither records nor waits, and do not begin or end tensors.
struct Graph {
    tasks: Vec<Task>,
    /// The number of each task's step.
    steps: Vec<usize>,
}

impl Graph {
    fn of(facts: &Facts<'_>, plan: &Plan<'_>, groups: &Groups, options: &PassOptions<'_>) -> Graph {
        let mut graph = Graph { tasks: Vec::new(), steps: Vec::new() };
        let mut uses = LastUses::default();
        let mut last_on: FxHashMap<StreamId, usize> = FxHashMap::default();
        let mut by_index: FxHashMap<usize, usize> = FxHashMap::default();
        let mut fence = None;
        let mut since_fence: Vec<usize> = Vec::new();
        for (step, Step { index, body, .. }) in plan.steps.iter().enumerate() {
            let Some((place, at)) = place_of(groups, body) else { continue };
            let number = graph.tasks.len();
            let mut before: Vec<usize> = fence.into_iter().collect();
            for operand in body.operands() {
                // Whoever holds an operand keeps it from all others.
                let holds = body.kind().accesses() == Accesses::Holds;
                let writes = operand.access != Access::Read || holds;
                let storage = facts.storage_of(operand.tensor);
                before.extend(uses.note(storage, writes, number));
            }
            let side_effects = plan.side_effects.get(index).into_iter().flatten();
            before.extend(side_effects.filter_map(|k| by_index.get(k).copied()));
            if let (Place::Stream(_), Some(at)) = (place, at) {
                before.extend(last_on.insert(at.stream, number));
            }
            if matches!(place, Place::Fence) {
                before.append(&mut since_fence);
                fence = Some(number);
            } else {
                since_fence.push(number);
            }
            by_index.insert(*index, number);
            let time = time(facts, options.costs, body);
            let task = Task::of_call(options.costs, options.threads, (place, time));
            graph.tasks.push(task.after(before, number));
            graph.steps.push(step);
        }
        graph
    }
}

/// Returns where an instruction may run, with its old point; none if it is not part of an
/// assignment.
fn place_of(groups: &Groups, body: &Body) -> Option<(Place, Option<Point>)> {
    let at = body.at();
    match body.class() {
        Class::Observes | Class::Fences => Some((Place::Fence, at)),
        Class::Computes | Class::Orders => {
            let stream = at?.stream;
            let group = groups.of[stream.index()];
            Some((group.map_or(Place::Stream(stream.index()), Place::Group), at))
        }
        Class::Begins | Class::Ends | Class::Records | Class::Waits | Class::Annotates => None,
    }
}
