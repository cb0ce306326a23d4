//! Spreads the calls of a host device over a number of in-order streams.
//!
//! List scheduling: each call gets a rank, the time from its start to the end of the list along the
//! longest path of its results; of the calls whose operands are ready the one of the highest rank
//! comes first, on the stream where it begins earliest. Source: Topcuoglu, Hariri & Wu,
//! "Performance-effective and low-complexity task scheduling for heterogeneous computing", 2002,
//! sections 4.1 and 4.2, without insertion into gaps. A second assignment takes the calls in list
//! order instead. The one that ends first is emitted; if neither ends before the list as it is, the
//! list stays.
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

use std::collections::{BTreeMap, BinaryHeap, HashMap};

use millstream_types::{
    Access, DeviceId, Point, Result, StreamId, StreamKey, StreamMode, StreamType, WorkKind, WorkSet,
};

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
    for by_rank in [false, true] {
        let assignment = graph.assign(&groups, options.costs.wait(), by_rank);
        let plan = groups.plan(&unchanged, &graph, &assignment);
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
            let step: &Step<'a> = &old.steps[graph.nodes[call.node].step];
            let on = match call.target {
                Target::Group(group, target) => ids.get(&(group, target)).copied(),
                Target::Own(_) => None,
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

/// A stream of the assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// A stream of a group: the group, and the number of its target.
    Group(usize, usize),
    /// A stream that keeps its instructions.
    Own(StreamId),
}

/// An instruction that is neither a record nor a wait, and does not begin or end a tensor.
struct Node {
    /// The number of its step.
    step: usize,
    time: u64,
    before: Vec<usize>,
    /// The time from its start to the end of the list, at least.
    rank: u64,
    /// Its group, or its stream.
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    Group(usize),
    Stream(StreamId),
    /// All streams: a barrier on its own stream, or an observation of the host.
    Fence,
}

struct Graph {
    nodes: Vec<Node>,
    after: Vec<Vec<usize>>,
}

/// A node in an assignment.
struct Assigned {
    node: usize,
    target: Target,
    start: u64,
    end: u64,
}

/// The last uses of a storage.
#[derive(Default)]
struct Uses {
    write: Option<usize>,
    reads: Vec<usize>,
}

impl Graph {
    fn of(facts: &Facts<'_>, plan: &Plan<'_>, groups: &Groups, options: &PassOptions<'_>) -> Graph {
        let mut nodes: Vec<Node> = Vec::new();
        let mut uses: HashMap<usize, Uses> = HashMap::new();
        let mut last_on: HashMap<StreamId, usize> = HashMap::new();
        let mut by_index: HashMap<usize, usize> = HashMap::new();
        let mut fence = None;
        let mut since_fence: Vec<usize> = Vec::new();
        for (step, Step { index, body, .. }) in plan.steps.iter().enumerate() {
            let Some((place, at)) = place_of(groups, body) else { continue };
            let node = nodes.len();
            let mut before: Vec<usize> = fence.into_iter().collect();
            for operand in body.operands() {
                let uses = uses.entry(facts.storage_of(operand.tensor)).or_default();
                before.extend(uses.write);
                // Whoever holds an operand keeps it from all others.
                let holds = body.kind().accesses() == Accesses::Holds;
                if operand.access == Access::Read && !holds {
                    uses.reads.push(node);
                } else {
                    before.append(&mut uses.reads);
                    uses.write = Some(node);
                }
            }
            let side_effects = plan.side_effects.get(index).into_iter().flatten();
            before.extend(side_effects.filter_map(|k| by_index.get(k).copied()));
            if let (Place::Stream(_), Some(at)) = (place, at) {
                before.extend(last_on.insert(at.stream, node));
            }
            if matches!(place, Place::Fence) {
                before.append(&mut since_fence);
                fence = Some(node);
            } else {
                since_fence.push(node);
            }
            before.sort_unstable();
            before.dedup();
            before.retain(|k| *k != node);
            by_index.insert(*index, node);
            let time = time(facts, options.costs, body);
            nodes.push(Node { step, time, before, rank: 0, place });
        }
        let mut after = vec![Vec::new(); nodes.len()];
        for k in (0..nodes.len()).rev() {
            let rest = after[k].iter().map(|&n: &usize| nodes[n].rank).max().unwrap_or(0);
            nodes[k].rank = rest + nodes[k].time;
            nodes[k].before.iter().for_each(|&b| after[b].push(k));
        }
        Graph { nodes, after }
    }

    /// Returns all nodes in an order that their dependencies allow, each on a stream.
    fn assign(&self, groups: &Groups, wait: u64, by_rank: bool) -> Vec<Assigned> {
        let mut open: Vec<usize> = self.nodes.iter().map(|n| n.before.len()).collect();
        // The heap gives the largest: the highest rank, and of equal ones the first of the list.
        let key = |k: usize| {
            let rank = if by_rank { self.nodes[k].rank } else { 0 };
            (rank, std::cmp::Reverse(k))
        };
        let ready = (0..self.nodes.len()).filter(|&k| open[k] == 0).map(key);
        let mut ready: BinaryHeap<_> = ready.collect();
        let mut free: HashMap<Target, u64> = HashMap::new();
        let (mut fenced, mut latest) = (0, 0);
        let mut at: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut assigned: Vec<Assigned> = Vec::with_capacity(self.nodes.len());
        while let Some((_, std::cmp::Reverse(k))) = ready.pop() {
            let node = &self.nodes[k];
            let start_on = |target: Target| {
                let free = free.get(&target).copied().unwrap_or(0).max(fenced);
                let before = node.before.iter().filter_map(|b| at[*b]).map(|s| &assigned[s]);
                let known =
                    |call: &Assigned| call.end + if call.target == target { 0 } else { wait };
                before.map(known).fold(free, u64::max)
            };
            let (target, start) = match node.place {
                Place::Group(group) => {
                    let targets = (0..groups.targets[group].len()).map(|t| Target::Group(group, t));
                    let starts = targets.map(|target| (start_on(target), target));
                    // Of equal ones the one that has been idle for the shortest time, which is most
                    // often the one with the operands.
                    let best = starts.min_by_key(|(start, target)| {
                        (*start, std::cmp::Reverse(free.get(target).copied().unwrap_or(0)))
                    });
                    best.map_or((Target::Group(group, 0), 0), |(start, target)| (target, start))
                }
                Place::Stream(stream) => (Target::Own(stream), start_on(Target::Own(stream))),
                Place::Fence => {
                    // All streams: which one it is assigned to does not matter.
                    (Target::Own(StreamId(0)), latest)
                }
            };
            let end = start + node.time;
            latest = end.max(latest);
            if let Place::Fence = node.place {
                fenced = end;
            } else {
                free.insert(target, end);
            }
            at[k] = Some(assigned.len());
            assigned.push(Assigned { node: k, target, start, end });
            for &next in &self.after[k] {
                open[next] -= 1;
                if open[next] == 0 {
                    ready.push(key(next));
                }
            }
        }
        if by_rank {
            // By time, so that lifetimes are short. The sort is stable: what takes no time stays
            // before what needs it.
            assigned.sort_by_key(|call| call.start);
        }
        assigned
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
            Some((group.map_or(Place::Stream(stream), Place::Group), at))
        }
        Class::Begins | Class::Ends | Class::Records | Class::Waits | Class::Annotates => None,
    }
}
