//! The bytes that buffers need at least: the most bytes of buffers that are all in conflict with
//! one another.
//!
//! In a sequence those are the most bytes that live at one time. In a partial order they are its
//! heaviest antichain (Dilworth, "A decomposition theorem for partially ordered sets", 1950, with
//! weights): the bytes of all buffers less the most that can be handed on from buffers to later
//! ones, which is a maximum flow (Ford & Fulkerson). The flow is found by Dinic's algorithm (1970).

use std::ops::Range;

use super::buffers::Buffers;

/// Sets of buffers that live at one time, in the order of the beginnings, and are in conflict with
/// one another. In a sequence two buffers are in conflict only if a section holds both.
#[derive(Debug)]
pub(super) struct Sections {
    /// The sections of each buffer, half open.
    pub(super) of: Vec<(u32, u32)>,
    /// The bytes of each section.
    pub(super) load: Vec<u64>,
}

impl Sections {
    pub(super) fn of(buffers: &Buffers) -> Sections {
        let count = buffers.len();
        let ends: Vec<usize> = (0..count).map(|k| buffers.first_after(k)).collect();
        let mut is_end = vec![false; count + 1];
        ends.iter().for_each(|&end| is_end[end] = true);
        // Only where a buffer has ended before the next one begins is there another section.
        let mut number = Vec::with_capacity(count + 1);
        let mut sections = 0;
        for &is_end in &is_end[..count] {
            sections += u32::from(is_end);
            number.push(sections);
        }
        number.push(sections + 1);
        let of: Vec<(u32, u32)> = (0..count).map(|k| (number[k], number[ends[k]])).collect();
        let mut load = vec![0; sections as usize + 1];
        let (mut ending, mut live) = (vec![0; sections as usize + 2], 0);
        for (&(first, end), bytes) in of.iter().zip(&buffers.bytes) {
            load[first as usize] += bytes;
            ending[end as usize] += bytes;
        }
        for (load, ending) in load.iter_mut().zip(ending) {
            live = live + *load - ending;
            *load = live;
        }
        Sections { of, load }
    }

    /// Returns the bytes of the heaviest section.
    pub(super) fn most(&self) -> u64 {
        self.load.iter().copied().max().unwrap_or(0)
    }

    /// Returns the sections from which a buffer lives on into the next one.
    pub(super) fn bridges(&self, k: usize) -> Range<usize> {
        let (first, end) = self.of[k];
        first as usize..end as usize - 1
    }
}

/// The edges that the search for a flow follows at most.
const MOST_STEPS: u64 = 100 << 20;

/// Returns the bytes of the heaviest antichain; none if that takes too long to find.
pub(super) fn antichain(buffers: &Buffers) -> Option<u64> {
    let all: u64 = buffers.bytes.iter().sum();
    let mut network = Network::default();
    let (source, sink) = (network.node(), network.node());
    // The later buffers of a lane are a range of its leaves.
    let mut trees = Vec::new();
    for lane in &buffers.lanes {
        let leaves = lane.len().next_power_of_two();
        let nodes: Vec<usize> = (0..2 * leaves).map(|_| network.node()).collect();
        (1..leaves).for_each(|n| {
            network.edge(nodes[n], nodes[2 * n], all);
            network.edge(nodes[n], nodes[2 * n + 1], all);
        });
        for (position, &k) in lane.iter().enumerate() {
            network.edge(nodes[leaves + position], sink, buffers.bytes[k as usize]);
        }
        trees.push((nodes, leaves));
    }
    for k in 0..buffers.len() {
        let from = network.node();
        network.edge(source, from, buffers.bytes[k]);
        for (lane, (nodes, leaves)) in trees.iter().enumerate() {
            let (mut left, mut right) = (buffers.after(k, lane) + leaves, 2 * leaves);
            while left < right {
                if left % 2 == 1 {
                    network.edge(from, nodes[left], all);
                    left += 1;
                }
                if right % 2 == 1 {
                    right -= 1;
                    network.edge(from, nodes[right], all);
                }
                (left, right) = (left / 2, right / 2);
            }
        }
    }
    Some(all - network.flow(source, sink)?)
}

/// A network of edges with capacities.
#[derive(Debug, Default)]
struct Network {
    /// The edges of each node.
    edges: Vec<Vec<u32>>,
    /// The end and the remaining capacity of each edge. The reverse of edge `e` is `e ^ 1`.
    all: Vec<(u32, u64)>,
    /// The distance of each node from the source.
    distance: Vec<u32>,
    /// For each node, the number of its edges that lead no further.
    tried: Vec<usize>,
    steps: u64,
}

impl Network {
    fn node(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.edges.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, capacity: u64) {
        self.edges[from].push(self.all.len() as u32);
        self.all.push((to as u32, capacity));
        self.edges[to].push(self.all.len() as u32);
        self.all.push((from as u32, 0));
    }

    /// Returns the maximum flow; none if that takes too long to find.
    fn flow(&mut self, source: usize, sink: usize) -> Option<u64> {
        let mut flow = 0;
        while self.layers(source, sink) {
            self.tried = vec![0; self.edges.len()];
            while let Some(more) = self.augment(source, sink) {
                flow += more;
                if self.steps > MOST_STEPS {
                    return None;
                }
            }
        }
        Some(flow)
    }

    /// Finds the distances from the source. Returns whether the sink has one.
    fn layers(&mut self, source: usize, sink: usize) -> bool {
        self.distance = vec![u32::MAX; self.edges.len()];
        self.distance[source] = 0;
        let mut queue = vec![source];
        let mut next = 0;
        while let Some(&node) = queue.get(next) {
            next += 1;
            for &e in &self.edges[node] {
                self.steps += 1;
                let (to, left) = self.all[e as usize];
                if left > 0 && self.distance[to as usize] == u32::MAX {
                    self.distance[to as usize] = self.distance[node] + 1;
                    queue.push(to as usize);
                }
            }
        }
        self.distance[sink] != u32::MAX
    }

    /// Sends as much as one shortest path takes.
    fn augment(&mut self, source: usize, sink: usize) -> Option<u64> {
        let mut path: Vec<u32> = Vec::new();
        let mut node = source;
        while node != sink {
            self.steps += 1;
            if let Some(&e) = self.edges[node].get(self.tried[node]) {
                let (to, left) = self.all[e as usize];
                if left > 0 && self.distance[to as usize] == self.distance[node] + 1 {
                    path.push(e);
                    node = to as usize;
                } else {
                    self.tried[node] += 1;
                }
            } else {
                // A dead end.
                let back = path.pop()?;
                node = self.all[back as usize ^ 1].0 as usize;
                self.tried[node] += 1;
            }
        }
        let sent = path.iter().map(|&e| self.all[e as usize].1).min()?;
        for e in path {
            self.all[e as usize].1 -= sent;
            self.all[e as usize ^ 1].1 += sent;
        }
        Some(sent)
    }
}
