//! Decides by brute force whether a list is sound: every constraint is an edge, reachability is
//! computed for all pairs, every pair of uses is compared. Slow, and simple enough to be obviously
//! correct.

use std::collections::HashMap;
use std::rc::Rc;

use millstream_instructions::{Body, InstructionList, Operand, Placement, Via};
use millstream_types::{Access, EventId, Point, StreamId, StreamMode, TensorId, TensorSpec};

type Node = usize;

/// A bit set of a storage's bytes; none for all bytes, or for conflicts by whole storages.
#[derive(Clone)]
struct Bytes(Option<Rc<Vec<u64>>>);

impl Bytes {
    const ALL: Bytes = Bytes(None);

    /// Returns the bytes of a tensor's elements.
    fn of(spec: &TensorSpec) -> Bytes {
        let mut places = vec![spec.layout.offset()];
        for (&length, &stride) in spec.shape().iter().zip(spec.layout.strides()) {
            let steps = |&at: &usize| (0..length).map(move |k| at + k * stride);
            places = places.iter().flat_map(steps).collect();
        }
        let size = spec.dtype.size();
        let mut set = vec![0u64; spec.span_bytes().div_ceil(64)];
        for byte in places.into_iter().flat_map(|at| at * size..(at + 1) * size) {
            set[byte / 64] |= 1 << (byte % 64);
        }
        Bytes(Some(Rc::new(set)))
    }

    fn meet(&self, other: &Bytes) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(some), None) | (None, Some(some)) => some.iter().any(|&word| word != 0),
            (Some(a), Some(b)) => a.iter().zip(b.iter()).any(|(x, y)| x & y != 0),
        }
    }
}

/// A graph whose edges point from earlier nodes to later ones.
#[derive(Default)]
struct Graph {
    /// For each node, the nodes that happen before it, and itself.
    before: Vec<Vec<bool>>,
}

impl Graph {
    fn node(&mut self, after: &[Node]) -> Node {
        let new = self.before.len();
        let mut row = vec![false; new + 1];
        row[new] = true;
        for &from in after {
            for (k, &reached) in self.before[from].iter().enumerate() {
                row[k] |= reached;
            }
        }
        self.before.push(row);
        new
    }

    fn ordered(&self, first: Node, second: Node) -> bool {
        self.before[second].get(first).copied().unwrap_or(false)
    }
}

/// A use of a storage: the instruction's node, and the node of its point.
#[derive(Clone)]
struct Use {
    bytes: Bytes,
    node: Node,
    point: Node,
    stream: StreamId,
    access: Access,
    allocation: bool,
}

#[derive(Default)]
struct Storage {
    uses: Vec<Use>,
}

/// An owner of memory, with its uses.
enum Owner {
    Storage(usize),
    Workspace(Use),
}

#[derive(Default)]
struct Stream {
    pool: bool,
    /// The points, each with the instruction's node and the point's node. On a pool the latter
    /// happens after all earlier instructions.
    places: Vec<(u64, Node, Node)>,
    /// The waits that bind to the next instruction that is not a wait.
    pending: Vec<Node>,
    /// The uses within the pool, by storage.
    uses: Vec<(usize, Access, Node)>,
}

struct Oracle<'a> {
    list: &'a InstructionList,
    graph: Graph,
    streams: Vec<Stream>,
    /// The newest fence.
    fence: Option<Node>,
    events: HashMap<EventId, Node>,
    storages: Vec<Storage>,
    /// The storage of each tensor, and the tensor's bytes in it.
    tensors: HashMap<TensorId, (usize, Bytes)>,
    /// Whether conflicts are decided by bytes.
    by_bytes: bool,
    memory: Vec<(Placement, Owner)>,
    sound: bool,
}

/// Returns whether all conflicting uses are ordered and no memory is placed again before its last
/// use. Two uses conflict if they share a byte; without `by_bytes`, if they share a storage.
pub fn is_sound(list: &InstructionList, by_bytes: bool) -> bool {
    let streams = list
        .streams
        .iter()
        .map(|s| Stream { pool: s.mode == StreamMode::Pool, ..Stream::default() })
        .collect();
    let mut oracle = Oracle {
        list,
        graph: Graph::default(),
        streams,
        fence: None,
        events: HashMap::new(),
        storages: Vec::new(),
        tensors: HashMap::new(),
        memory: Vec::new(),
        by_bytes,
        sound: true,
    };
    for external in &list.externals {
        let tensor = (oracle.storages.len(), oracle.bytes(&external.spec));
        oracle.tensors.insert(external.tensor, tensor);
        oracle.storages.push(Storage::default());
    }
    for instruction in &list.instructions {
        oracle.instruction(&instruction.body);
    }
    oracle.sound
}

impl Oracle<'_> {
    fn bytes(&self, spec: &TensorSpec) -> Bytes {
        if self.by_bytes { Bytes::of(spec) } else { Bytes::ALL }
    }

    /// Returns the node after which a point has passed; none before the first instruction.
    fn point(&self, point: Point) -> Option<Node> {
        let places = &self.streams[point.stream.index()].places;
        places.iter().rev().find(|(seq, ..)| *seq <= point.seq).map(|&(.., node)| node)
    }

    fn tail(&self, stream: StreamId) -> Option<Node> {
        self.streams[stream.index()].places.last().map(|&(.., node)| node)
    }

    /// Adds an instruction after the given nodes and the constraints of its stream.
    fn place(&mut self, at: Point, mut after: Vec<Node>) -> (Node, Node) {
        after.extend(self.fence);
        let s = &self.streams[at.stream.index()];
        let tail = s.places.last().map(|&(.., point)| point);
        if !s.pool {
            after.extend(tail);
        }
        let node = self.graph.node(&after);
        let pool = self.streams[at.stream.index()].pool;
        let point = match tail {
            Some(tail) if pool => self.graph.node(&[node, tail]),
            _ => self.graph.node(&[node]),
        };
        self.streams[at.stream.index()].places.push((at.seq, node, point));
        (node, point)
    }

    fn wait(&mut self, at: Point, passed: Option<Node>) {
        let (node, _) = self.place(at, passed.into_iter().collect());
        self.streams[at.stream.index()].pending.push(node);
    }

    /// Adds an instruction that is not a wait.
    fn work(&mut self, at: Point, uses: &[(usize, Access, Bytes)], workspace: Option<&Placement>) {
        let s = &mut self.streams[at.stream.index()];
        let mut after = std::mem::take(&mut s.pending);
        if !s.pool {
            after.clear();
        }
        for &(storage, access, node) in s.uses.iter().filter(|_| s.pool) {
            let conflicts = |(other, with, _): &(usize, Access, Bytes)| {
                *other == storage && (access.writes() || with.writes())
            };
            if uses.iter().any(conflicts) {
                after.push(node);
            }
        }
        let (node, point) = self.place(at, after);
        let pool = self.streams[at.stream.index()].pool;
        for (storage, access, bytes) in uses {
            let (storage, access) = (*storage, *access);
            for earlier in &self.storages[storage].uses {
                let conflict =
                    (access.writes() || earlier.access.writes()) && bytes.meet(&earlier.bytes);
                let inside = pool && earlier.stream == at.stream;
                // An allocation is ordered by its point, every other use by its instruction's end.
                let from = if earlier.allocation { earlier.point } else { earlier.node };
                if conflict && !inside && !self.graph.ordered(from, node) {
                    self.sound = false;
                }
            }
        }
        if let Some(placement) = workspace {
            self.claim(placement, node);
            let user = Use {
                bytes: Bytes::ALL,
                node,
                point,
                stream: at.stream,
                access: Access::ReadWrite,
                allocation: false,
            };
            self.memory.push((*placement, Owner::Workspace(user)));
        }
        for (storage, access, bytes) in uses {
            let (storage, access) = (*storage, *access);
            self.storages[storage].uses.push(Use {
                bytes: bytes.clone(),
                node,
                point,
                stream: at.stream,
                access,
                allocation: false,
            });
            self.streams[at.stream.index()].uses.push((storage, access, node));
        }
    }

    /// Checks that every use by every earlier owner of these bytes happens before `new`. For a use
    /// on a pool its point must: memory is not an operand, so the pool does not order it.
    fn claim(&mut self, placement: &Placement, new: Node) {
        for (place, owner) in &self.memory {
            let apart = place.arena != placement.arena
                || place.offset + place.size <= placement.offset
                || placement.offset + placement.size <= place.offset;
            let uses: &[Use] = match owner {
                _ if apart => &[],
                Owner::Storage(number) => &self.storages[*number].uses,
                Owner::Workspace(user) => std::slice::from_ref(user),
            };
            self.sound &= uses.iter().all(|u| self.graph.ordered(u.point, new));
        }
    }

    fn fence(&mut self, after: Vec<Node>) {
        let mut after = after;
        after.extend(self.fence);
        self.fence = Some(self.graph.node(&after));
    }

    fn instruction(&mut self, body: &Body) {
        let used = |o: &Operand| {
            let (storage, bytes) = self.tensors[&o.tensor].clone();
            let access = match body {
                Body::CriticalSectionBegin { .. } | Body::CriticalSectionEnd { .. } => {
                    Access::ReadWrite
                }
                _ => o.access,
            };
            (storage, access, bytes)
        };
        let uses: Vec<(usize, Access, Bytes)> = body.operands().iter().map(used).collect();
        match body {
            Body::OpCall { at, workspace, .. } => self.work(*at, &uses, workspace.as_deref()),
            Body::TouchTensors { at, .. }
            | Body::SyncRead { at, .. }
            | Body::CriticalSectionBegin { at, .. }
            | Body::CriticalSectionEnd { at, .. }
            | Body::LazyJobLauncher { at, .. } => self.work(*at, &uses, None),
            // An annotation.
            Body::SoftSyncStream { .. } => {}
            Body::RecordEvent { at, event } => {
                self.work(*at, &[], None);
                self.events.extend(self.tail(at.stream).map(|point| (*event, point)));
            }
            Body::StreamWaitEvent { at, until, via: Via::Host }
            | Body::StreamWait { at, until, via: Via::Host } => {
                let passed = self.point(*until);
                self.wait(*at, passed);
            }
            Body::StreamWaitEvent { at, via: Via::Device(event), .. } => {
                let passed = self.events[event];
                self.wait(*at, Some(passed));
            }
            Body::StreamWait { at, until, via: Via::Device(event) } => {
                self.work(*until, &[], None);
                let passed = self.tail(until.stream);
                self.events.extend(passed.map(|point| (*event, point)));
                self.wait(*at, passed);
            }
            Body::Barrier { at } | Body::GlobalSync { at } => {
                let tails = (0..self.streams.len()).filter_map(|s| self.tail(StreamId(s as u16)));
                let tails = tails.collect();
                let (_, point) = self.place(*at, tails);
                self.fence(vec![point]);
            }
            Body::HostObserved { points } => {
                let passed = points.iter().filter_map(|p| self.point(*p)).collect();
                self.fence(passed);
            }
            Body::AllocateTensor { on, tensor, placement, spec } => {
                let mut after: Vec<Node> = self.fence.into_iter().collect();
                let tail = self.tail(*on);
                if !self.streams[on.index()].pool {
                    after.extend(tail);
                }
                let node = self.graph.node(&after);
                self.claim(placement, node);
                let mut storage = Storage::default();
                // Before a stream's first instruction there is no point to be ordered after.
                storage.uses.extend(tail.map(|point| Use {
                    bytes: Bytes::ALL,
                    node,
                    point,
                    stream: *on,
                    access: Access::Write,
                    allocation: true,
                }));
                self.tensors.insert(*tensor, (self.storages.len(), self.bytes(spec)));
                self.memory.push((**placement, Owner::Storage(self.storages.len())));
                self.storages.push(storage);
            }
            Body::ViewTensor { tensor, of, spec } => {
                let storage = self.tensors[of].0;
                self.tensors.insert(*tensor, (storage, self.bytes(spec)));
            }
            Body::ReleaseTensor { .. } => {}
            // Foreign lists have no callbacks.
            Body::AccessBlobByCallback { .. } => {
                panic!("{body:?} is not generated for {} streams", self.list.streams.len())
            }
        }
    }
}
