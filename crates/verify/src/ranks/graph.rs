//! The instructions of all ranks, and what comes before each.

use std::collections::BTreeMap;

use millstream_instructions::{Body, Class, Instruction, InstructionList};
use millstream_ops::collective::{self, Channel, Numbering, ProcessGroup};
use millstream_types::{Attrs, Origin, Point, TensorId, TensorSpec};
use rustc_hash::FxHashMap;

use super::call::RankCall;
use super::{RankSite, RankViolation};

/// The number of a node.
pub(super) type NodeId = usize;

/// An instruction of a rank, or the begin of a launch.
pub(super) struct Node {
    rank: usize,
    executable: Option<usize>,
    index: usize,
    what: String,
    /// The nodes that complete before it begins.
    pub(super) before: Vec<NodeId>,
    /// The call and its place, if other ranks take part.
    pub(super) call: Option<RankCall>,
    pub(super) place: Option<Place>,
    /// Whether it completes without other ranks: a send, where sends do not wait.
    pub(super) is_send: bool,
}

impl Node {
    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn site(&self) -> RankSite {
        let Node { rank, executable, index, what, .. } = self;
        RankSite { rank: *rank, executable: *executable, index: *index, call: what.clone() }
    }
}

/// Where calls of different ranks meet. Ordered by channel, then by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Collective { ranks: Vec<usize>, index: u32, number: u64 },
    Barrier { number: u64 },
    Message { from: usize, to: usize, tag: i64, number: u64 },
}

impl Place {
    /// Returns the name of the channel.
    pub(super) fn channel(&self) -> String {
        match self {
            Place::Collective { ranks, index: 0, .. } => {
                format!("the collectives of group {ranks:?}")
            }
            Place::Collective { ranks, index, .. } => {
                format!("the collectives of group {ranks:?} number {index}")
            }
            Place::Barrier { .. } => String::from("the barriers of all ranks"),
            Place::Message { from, to, tag, .. } => {
                format!("the messages of tag {tag} from rank {from} to rank {to}")
            }
        }
    }

    /// Returns the number of the call on the channel.
    pub(super) const fn number(&self) -> u64 {
        match self {
            Place::Collective { number, .. }
            | Place::Barrier { number }
            | Place::Message { number, .. } => *number,
        }
    }

    /// Returns the rank at a position.
    pub(super) fn rank_at(&self, position: usize) -> usize {
        match self {
            Place::Collective { ranks, .. } => ranks[position],
            Place::Barrier { .. } => position,
            Place::Message { from, to, .. } => [*from, *to][position],
        }
    }
}

/// The calls of a place, by the positions of its ranks.
pub(super) struct Meeting {
    pub(super) calls: Vec<Option<NodeId>>,
}

/// The instructions of all ranks.
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) meetings: BTreeMap<Place, Meeting>,
    ranks: usize,
}

/// The walk over the lists of one rank.
struct RankWalk<'v> {
    rank: usize,
    numbering: Numbering,
    barriers: u64,
    violations: &'v mut Vec<RankViolation>,
}

impl RankWalk<'_> {
    fn of(rank: usize, violations: &mut Vec<RankViolation>) -> RankWalk<'_> {
        RankWalk { rank, numbering: Numbering::default(), barriers: 0, violations }
    }
}

/// A list on its way into the graph: the rank's own, or that of a launch.
struct Scope<'a> {
    list: &'a InstructionList,
    executable: Option<usize>,
    /// What all instructions come after: the newest wait of the host and the newest barrier.
    fences: Vec<NodeId>,
    tails: FxHashMap<u16, NodeId>,
    points: FxHashMap<Point, NodeId>,
    specs: FxHashMap<TensorId, TensorSpec>,
}

impl Graph {
    /// Returns the graph of the lists of all ranks.
    pub(super) fn of(lists: &[&InstructionList], violations: &mut Vec<RankViolation>) -> Graph {
        let (nodes, meetings) = (Vec::new(), BTreeMap::new());
        let mut graph = Graph { nodes, meetings, ranks: lists.len() };
        for (rank, list) in lists.iter().enumerate() {
            graph.walk(&mut RankWalk::of(rank, violations), list, None, Vec::new());
        }
        graph
    }

    /// Returns the graph of one of so many ranks.
    pub(super) fn of_rank(list: &InstructionList, rank: usize, ranks: usize) -> Graph {
        let mut graph = Graph { nodes: Vec::new(), meetings: BTreeMap::new(), ranks };
        graph.walk(&mut RankWalk::of(rank, &mut Vec::new()), list, None, Vec::new());
        graph
    }

    /// Makes each call of a rank come after the one before it in the rank's list, as NCCL's
    /// communicators need. The host alone takes part in barriers of all ranks.
    pub(super) fn launch_in_order(&mut self) {
        let mut last: Vec<Option<NodeId>> = vec![None; self.ranks];
        // The nodes of a rank are numbered in the order of its list.
        for (number, node) in self.nodes.iter_mut().enumerate() {
            if node.place.as_ref().is_some_and(|p| !matches!(p, Place::Barrier { .. })) {
                node.before.extend(last[node.rank].replace(number));
            }
        }
    }

    /// Adds a list, all of whose instructions come after `fences`. Returns the last nodes.
    fn walk(
        &mut self,
        walk: &mut RankWalk<'_>,
        list: &InstructionList,
        executable: Option<usize>,
        fences: Vec<NodeId>,
    ) -> Vec<NodeId> {
        let externals = list.externals.iter().map(|e| (e.tensor, e.spec.clone()));
        let mut scope = Scope {
            list,
            executable,
            fences,
            tails: FxHashMap::default(),
            points: FxHashMap::default(),
            specs: externals.collect(),
        };
        for (index, instruction) in list.instructions.iter().enumerate() {
            self.add(walk, &mut scope, index, instruction);
        }
        scope.tails.into_values().chain(scope.fences).collect()
    }

    fn add(
        &mut self,
        walk: &mut RankWalk<'_>,
        scope: &mut Scope<'_>,
        index: usize,
        Instruction { body, origin }: &Instruction,
    ) {
        let mut before = scope.fences.clone();
        match body.class() {
            Class::Begins => {
                scope.specs.extend(body.begins().map(|(tensor, spec)| (tensor, spec.clone())));
            }
            Class::Observes => {
                before.extend(body.awaited().iter().filter_map(|point| scope.points.get(point)));
                let node = self.node(walk, scope, index, before, "a wait of the host", origin);
                scope.fences = vec![node];
                return;
            }
            Class::Waits => {
                for &until in body.awaited() {
                    if !scope.points.contains_key(&until) && until.seq > 0 {
                        // The half of a wait on the device that records an event on the other
                        // stream.
                        let mut record = scope.fences.clone();
                        record.extend(scope.tails.get(&until.stream.0));
                        let node = self.node(walk, scope, index, record, "a record", origin);
                        scope.take(until, node);
                    }
                    before.extend(scope.points.get(&until));
                }
            }
            Class::Fences => before.extend(scope.tails.values().copied()),
            Class::Ends | Class::Annotates | Class::Computes | Class::Orders | Class::Records => {}
        }
        let Some(at) = body.at() else { return };
        before.extend(scope.tails.get(&at.stream.0));
        let mut node = self.node(walk, scope, index, before, body.kind().name(), origin);
        if let Body::OpCall { op, operands, attrs, .. } = body {
            let name = scope.list.ops.name(*op);
            if collective::is(name) {
                let specs: Vec<TensorSpec> =
                    operands.iter().filter_map(|o| scope.specs.get(&o.tensor).cloned()).collect();
                let none = Attrs::new();
                let attrs = attrs.as_deref().unwrap_or(&none);
                self.meet(walk, node, name, &specs, attrs, origin);
            }
        }
        if let Body::GlobalSync { .. } = body {
            let place = Place::Barrier { number: walk.barriers };
            walk.barriers += 1;
            self.nodes[node].what = format!("global_sync() at {origin}");
            self.join(node, place, RankCall::barrier(), walk.rank, self.ranks);
        }
        if body.class() == Class::Fences {
            scope.fences = vec![node];
        }
        if let Body::LazyJobLauncher { list, .. } = body
            && let Some(inner) = scope.list.executables.get(list.index())
        {
            let last = self.walk(walk, inner, Some(list.index()), vec![node]);
            node = self.node(walk, scope, index, last, body.kind().name(), origin);
        }
        scope.take(at, node);
    }

    fn node(
        &mut self,
        walk: &RankWalk<'_>,
        scope: &Scope<'_>,
        index: usize,
        before: Vec<NodeId>,
        what: &str,
        origin: &Origin,
    ) -> NodeId {
        let what =
            if origin.is_unknown() { what.to_owned() } else { format!("{what} at {origin}") };
        let (rank, executable) = (walk.rank, scope.executable);
        let (call, place, is_send) = (None, None, false);
        self.nodes.push(Node { rank, executable, index, what, before, call, place, is_send });
        self.nodes.len() - 1
    }

    /// Makes a node the call of a collective.
    fn meet(
        &mut self,
        walk: &mut RankWalk<'_>,
        node: NodeId,
        op: &str,
        specs: &[TensorSpec],
        attrs: &Attrs,
        origin: &Origin,
    ) {
        let rank = walk.rank;
        let misaddressed = |message: String, node: &Node| RankViolation::Misaddressed {
            site: node.site(),
            message,
        };
        self.nodes[node].what = format!("{op} at {origin}");
        let channel = match Channel::of(op, attrs, self.ranks) {
            Ok(Some(channel)) => channel,
            Ok(None) => return,
            Err(error) => {
                walk.violations.push(misaddressed(error.to_string(), &self.nodes[node]));
                return;
            }
        };
        let group = match &channel {
            Channel::Collectives(group) => group.clone(),
            _ => ProcessGroup::all(self.ranks),
        };
        let Some(position) = group.position(rank) else {
            let message = format!("it is made by rank {rank}, which is not in {group}");
            walk.violations.push(misaddressed(message, &self.nodes[node]));
            return;
        };
        let root = attrs.int("root").ok().flatten();
        if let Some(root) = root
            && usize::try_from(root).ok().and_then(|root| group.position(root)).is_none()
        {
            let message = format!("root: expected a rank of {group}, got {root}");
            walk.violations.push(misaddressed(message, &self.nodes[node]));
        }
        let call = RankCall::of(op, specs, attrs, (position, group.size()));
        self.nodes[node].what = match origin.is_unknown() {
            true => call.text.replacen("message", op, 1),
            false => format!("{} at {origin}", call.text.replacen("message", op, 1)),
        };
        let number = walk.numbering.take(channel.clone(), 1);
        let (place, position, ranks) = match channel {
            Channel::Collectives(group) => {
                let (ranks, index) = (group.ranks().to_vec(), group.index());
                let size = ranks.len();
                (Place::Collective { ranks, index, number }, position, size)
            }
            Channel::Barriers => (Place::Barrier { number }, rank, self.ranks),
            Channel::Send { to, tag } => (Place::Message { from: rank, to, tag, number }, 0, 2),
            Channel::Receive { from, tag } => {
                (Place::Message { from, to: rank, tag, number }, 1, 2)
            }
        };
        self.nodes[node].is_send = op == "send";
        self.join(node, place, call, position, ranks);
    }

    fn join(&mut self, node: NodeId, place: Place, call: RankCall, position: usize, ranks: usize) {
        let meeting = self
            .meetings
            .entry(place.clone())
            .or_insert_with(|| Meeting { calls: vec![None; ranks] });
        meeting.calls[position] = Some(node);
        (self.nodes[node].call, self.nodes[node].place) = (Some(call), Some(place));
    }
}

impl Scope<'_> {
    /// Makes a node the one at a point.
    fn take(&mut self, at: Point, node: NodeId) {
        self.points.insert(at, node);
        self.tails.insert(at.stream.0, node);
    }
}
