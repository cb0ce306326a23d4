//! Nodes of PyTorch's execution trace of the same run: which event is which node, and the tensors
//! that kernels use.
//!
//! A node and an event are the same op if the node's `rf_id` is the event's "Record function id".
//! Files of 2023 have no such id, and other writers set all ids to 0: there, the nodes of a thread
//! and its events are matched by name, in the order in which they begin. If such a match leaves
//! nodes or events over, it may be of another iteration: it is ambiguous.
//!
//! The ids of tensors and storages are addresses that PyTorch reuses. An op that returns a storage
//! which neither its inputs nor the nodes below it have is taken to allocate it: the storage that
//! had the address has ended.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use millstream_profile::model::{NONE, Operand, Storage, Tensor};
use millstream_trace::LoadOptions;
use millstream_trace::et::nodes::{Node, NodeTensor, nodes};
use millstream_types::TensorSpec;

use crate::recording::{HostKind, Recording};
use crate::{Result, TimelineError};

/// How far two lists of names may drift apart before an event counts as absent.
const DRIFT: usize = 64;

/// Of how many ops of a timeline one may be no node of its execution trace.
const ONE_OF: usize = 10;

/// As many ops may be no node of the execution trace however few there are.
const FEW: usize = 9;

/// What a node uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    /// The tensors on devices.
    pub(crate) device: Vec<Operand>,
    /// The tensors in the host's memory.
    pub(crate) host: Vec<Operand>,
    /// Whether it is known which of them are written.
    pub(crate) is_known: bool,
    /// Whether the op reads or writes elements itself.
    pub(crate) touches: bool,
}

/// A node of the execution trace that is an event of the timeline.
#[derive(Clone, Debug)]
pub(crate) struct LinkedNode {
    pub(crate) id: Option<u64>,
    /// What it uses; none for a label.
    pub(crate) uses: Option<Uses>,
}

/// The nodes of an execution trace, by the events of a timeline.
#[derive(Debug, Default)]
pub(crate) struct Links {
    nodes: Vec<LinkedNode>,
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) storages: Vec<Storage>,
    pub(crate) specs: Vec<TensorSpec>,
    /// The devices whose memory storages have a known place in.
    pub(crate) arenas: Vec<String>,
    /// What the profile says about the links.
    pub(crate) remark: String,
    /// How many nodes of ops are no event of the timeline.
    pub(crate) absent: usize,
    /// How many ops of the timeline neither are nodes nor run within one.
    pub(crate) uncovered: usize,
    /// Whether nodes and events may belong together in another way, too.
    pub(crate) is_ambiguous: bool,
}

impl Links {
    /// Links an execution trace with the events of a recording: each gets its node's position.
    ///
    /// # Errors
    /// The trace cannot be read, no op of the recording is a node of it, or more than one in
    /// [`ONE_OF`] neither is one nor runs within one, and `partial` does not allow that.
    pub(crate) fn of(trace: &Path, recording: &mut Recording, partial: bool) -> Result<Links> {
        let nodes = nodes(trace, &LoadOptions::default()).map_err(|e| {
            TimelineError::of_file(trace, e.to_string())
                .help("expected PyTorch's execution trace of the same run")
        })?;
        let has_ids =
            recording.host.iter().any(|event| event.record_function.is_some_and(|id| id != 0))
                && nodes.iter().any(|node| node.record_function != 0);
        let pairs = match has_ids {
            true => by_id(&nodes, recording),
            false => by_name(&nodes, recording),
        };
        let ops = recording.host.iter().filter(|event| event.kind == HostKind::Op).count();
        let matched = format!("{} of {ops} ops are nodes of the execution trace", pairs.len());
        for &(event, node) in &pairs {
            recording.host[event].link = node as u32;
        }
        let uncovered = uncovered(&nodes, recording);
        let is_other = uncovered > FEW && uncovered * ONE_OF > ops;
        if pairs.is_empty() || (is_other && !partial) {
            let message = match pairs.len() {
                0 => format!("none of its {} nodes is an op of the timeline", nodes.len()),
                n => format!("only {n} of {ops} ops of the timeline are nodes of it"),
            };
            let help = "expected the execution trace of the same run; --partial accepts a part";
            return Err(TimelineError::of_file(trace, message).help(help));
        }
        let mut links = Links { remark: matched, uncovered, ..Links::default() };
        links.tensors(&nodes);
        let linked: HashSet<usize> = pairs.iter().map(|(_, node)| *node).collect();
        let left = |(k, node): &(usize, &Node)| node.is_op && !linked.contains(k);
        links.absent = nodes.iter().enumerate().filter(left).count();
        links.is_ambiguous = !has_ids && (links.absent > 0 || uncovered > 0);
        Ok(links)
    }

    /// Adds a node, and returns its position.
    pub(crate) fn add(&mut self, node: LinkedNode) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    /// Returns a node by its position in the trace.
    pub(crate) fn node(&self, position: u32) -> Option<&LinkedNode> {
        self.nodes.get(position as usize)
    }

    /// Numbers the tensors and storages of all nodes, in the order in which the nodes return.
    fn tensors(&mut self, nodes: &[Node]) {
        let mut tracking = Tracking::new(nodes);
        let mut open: Vec<usize> = Vec::new();
        let mut uses: Vec<Option<Uses>> = vec![None; nodes.len()];
        for k in 0..nodes.len() {
            // The nodes that do not contain this one have returned.
            while let Some(&last) = open.last().filter(|last| tracking.parents[k] != Some(**last)) {
                tracking.returns(last, self, &mut uses);
                open.pop();
            }
            tracking.begins(k, self, &mut uses);
            open.push(k);
        }
        while let Some(last) = open.pop() {
            tracking.returns(last, self, &mut uses);
        }
        let linked = nodes.iter().zip(uses);
        self.nodes = linked.map(|(n, uses)| LinkedNode { id: Some(n.id), uses }).collect();
    }

    fn storage(&mut self, bytes: u64) -> u32 {
        self.storages.push(Storage { size: bytes, ..Storage::default() });
        self.storages.len() as u32 - 1
    }
}

/// The storages behind addresses while nodes begin and return.
struct Tracking<'a> {
    nodes: &'a [Node],
    parents: Vec<Option<usize>>,
    /// The storage that an address stands for.
    storages: HashMap<u64, u32>,
    /// The tensors, by storage and layout.
    tensors: HashMap<(u32, TensorSpec), u32>,
    /// For each node, the storages that nodes below it have returned, by address.
    made: Vec<HashMap<u64, u32>>,
}

impl<'a> Tracking<'a> {
    fn new(nodes: &'a [Node]) -> Tracking<'a> {
        let by_id: HashMap<u64, usize> = nodes.iter().enumerate().map(|(k, n)| (n.id, k)).collect();
        let parent = |(k, node): (usize, &Node)| {
            node.parent.and_then(|id| by_id.get(&id).copied()).filter(|parent| *parent < k)
        };
        Tracking {
            nodes,
            parents: nodes.iter().enumerate().map(parent).collect(),
            storages: HashMap::new(),
            tensors: HashMap::new(),
            made: vec![HashMap::new(); nodes.len()],
        }
    }

    fn tensor(&mut self, tensor: &NodeTensor, storage: u32, links: &mut Links) -> u32 {
        let bytes = (tensor.spec.span_bytes()) as u64;
        let known = &mut links.storages[storage as usize];
        known.size = known.size.max(bytes);
        *self.tensors.entry((storage, tensor.spec.clone())).or_insert_with(|| {
            let position = links.tensors.len() as u32;
            links.tensors.push(Tensor {
                name: format!("t{}", tensor.tensor),
                spec: tensor.spec.brief(),
                storage,
            });
            links.specs.push(tensor.spec.clone());
            let known = &mut links.storages[storage as usize];
            if known.tensor == NONE {
                known.tensor = position;
            }
            position
        })
    }

    fn begins(&mut self, k: usize, links: &mut Links, uses: &mut [Option<Uses>]) {
        let node = &self.nodes[k];
        if !node.is_op {
            return;
        }
        let (is_known, touches) = (node.has_known_effects, node.touches);
        let mut own = Uses { is_known, touches, ..Uses::default() };
        for input in &node.inputs {
            let known = self.storages.get(&input.storage).copied();
            let storage = known.unwrap_or_else(|| links.storage(0));
            self.storages.insert(input.storage, storage);
            let tensor = self.tensor(input, storage, links);
            own.add(input.on_host, Operand { tensor, reads: true, writes: input.is_written });
        }
        uses[k] = Some(own);
    }

    fn returns(&mut self, k: usize, links: &mut Links, uses: &mut [Option<Uses>]) {
        let node = &self.nodes[k];
        let given: HashSet<u64> = node.inputs.iter().map(|input| input.storage).collect();
        let mut made = std::mem::take(&mut self.made[k]);
        if let Some(own) = &mut uses[k] {
            for output in &node.outputs {
                let address = output.storage;
                let is_input = given.contains(&address);
                let known = match is_input {
                    true => self.storages.get(&address).copied(),
                    false => made.get(&address).copied(),
                };
                let storage = known.unwrap_or_else(|| links.storage(0));
                self.storages.insert(address, storage);
                made.insert(address, storage);
                let tensor = self.tensor(output, storage, links);
                // An output that is an input has the input's access.
                if !is_input {
                    own.add(output.on_host, Operand { tensor, reads: false, writes: true });
                }
            }
        }
        if let Some(parent) = self.parents[k] {
            let given: HashSet<u64> =
                self.nodes[parent].inputs.iter().map(|input| input.storage).collect();
            made.retain(|address, _| !given.contains(address));
            self.made[parent].extend(made);
        }
    }
}

impl Uses {
    pub(crate) fn add(&mut self, on_host: bool, operand: Operand) {
        let own = if on_host { &mut self.host } else { &mut self.device };
        own.push(operand);
    }
}

/// Returns how many ops of a timeline neither are nodes nor run within an op that is one. Recorders
/// leave out what an op calls; its kernels use the memory that the op is given or makes.
fn uncovered(nodes: &[Node], recording: &Recording) -> usize {
    let mut ops: Vec<_> = recording.host.iter().filter(|e| e.kind == HostKind::Op).collect();
    ops.sort_by_key(|event| (event.thread, event.start, Reverse(event.end)));
    let (mut count, mut thread, mut covered) = (0, NONE, i64::MIN);
    for op in ops {
        if op.thread != thread {
            (thread, covered) = (op.thread, i64::MIN);
        }
        if nodes.get(op.link as usize).is_some_and(|node| node.is_op) {
            covered = covered.max(op.end);
        } else if op.link == NONE && op.end > covered {
            count += 1;
        }
    }
    count
}

/// Returns the pairs of events and nodes with one id and name, of the process that has most of
/// them: each process of a merged file has the same numbers. An id that several nodes have, such as
/// those of two recordings in one file, is none.
fn by_id(nodes: &[Node], recording: &Recording) -> Vec<(usize, usize)> {
    let mut by_id: HashMap<u64, Option<usize>> = HashMap::new();
    for (k, node) in nodes.iter().enumerate().filter(|(_, node)| node.record_function != 0) {
        by_id.entry(node.record_function).and_modify(|known| *known = None).or_insert(Some(k));
    }
    let event = |(k, event): (usize, &crate::recording::HostEvent)| {
        let node = (*by_id.get(&event.record_function?)?)?;
        let name = &recording.names[event.name as usize];
        (event.kind == HostKind::Op && nodes[node].name == *name).then_some((k, node))
    };
    let process = |event: usize| recording.threads[recording.host[event].thread as usize].process;
    let mut pairs: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
    for pair in recording.host.iter().enumerate().filter_map(event) {
        pairs.entry(process(pair.0)).or_default().push(pair);
    }
    pairs.into_values().max_by_key(Vec::len).unwrap_or_default()
}

/// Returns the pairs of events and nodes with one name, thread by thread, in order.
fn by_name(nodes: &[Node], recording: &Recording) -> Vec<(usize, usize)> {
    let mut events: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (k, event) in recording.host.iter().enumerate() {
        if event.kind == HostKind::Op {
            events.entry(event.thread).or_default().push(k);
        }
    }
    for own in events.values_mut() {
        own.sort_by_key(|k| recording.host[*k].index);
    }
    let mut threads: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (k, node) in nodes.iter().enumerate() {
        threads.entry(node.thread).or_default().push(k);
    }
    let mut pairs = Vec::new();
    for own in threads.values() {
        let matched = |events: &Vec<usize>| in_order(nodes, own, recording, events);
        let candidates = events.iter().map(|(thread, events)| (*thread, matched(events)));
        let best = candidates.max_by_key(|(_, pairs)| pairs.len());
        if let Some((thread, found)) = best.filter(|(_, found)| !found.is_empty()) {
            events.remove(&thread);
            pairs.extend(found);
        }
    }
    pairs
}

/// Matches nodes and events of one thread by name, in order.
fn in_order(
    nodes: &[Node],
    own: &[usize],
    recording: &Recording,
    events: &[usize],
) -> Vec<(usize, usize)> {
    let name = |event: usize| recording.names[recording.host[event].name as usize].as_str();
    let (mut pairs, mut at) = (Vec::new(), 0);
    for &node in own {
        let near = events[at..].iter().take(DRIFT);
        let found = near.into_iter().position(|event| name(*event) == nodes[node].name);
        if let Some(ahead) = found {
            pairs.push((events[at + ahead], node));
            at += ahead + 1;
        }
    }
    pairs
}
