//! The search for the least bytes: limits, ranks and restarts.
//!
//! A limit is tried with many ranks, each with few nodes at first: a search that goes well takes
//! hardly more nodes than there are buffers, and one that does not rarely ends. The best ranks
//! place buffers of the heaviest sections first (MiniMalloc's heuristics are orders of that kind).
//! Rounds of searches without jumps, with them, and with them and slightly other ranks follow one
//! another, each three with twice the nodes; what changes the ranks depends on nothing but the
//! round.
//!
//! Limits are multiples of the largest common divisor of all sizes. The bound comes first, since a
//! tight limit prunes best; then the gap between it and the best offsets is halved.

use std::cmp::Reverse;

use super::bound::Sections;
use super::buffers::{Buffers, Graph};
use super::portfolio::Placed;
use super::search::{Outcome, Search};

/// The best offsets so far, and what is known of better ones.
#[derive(Clone, Debug)]
pub(super) struct Best {
    pub(super) placed: Placed,
    /// Bytes below which there are none.
    pub(super) bound: u64,
    /// The nodes of all searches.
    pub(super) nodes: u64,
    /// Whether a search found them.
    pub(super) is_searched: bool,
}

/// The nodes of the first search with each rank.
const FIRST_NODES: u64 = 6000;

/// What ranks of buffers are made of.
#[derive(Clone, Copy, Debug)]
enum Key {
    /// The bytes.
    Bytes,
    /// The number of sections.
    Width,
    /// The bytes times the sections.
    Area,
    /// The bytes of the heaviest section that it lives in.
    Load,
    /// The number of conflicts.
    Conflicts,
    /// The bytes of all conflicts.
    Weight,
    /// The number of times at which it did not fit.
    Misfits,
}

/// The ranks: the first key, and the second among those equal by it.
const RANKS: [(Key, Key); 8] = [
    (Key::Load, Key::Width),
    (Key::Load, Key::Conflicts),
    (Key::Load, Key::Weight),
    (Key::Load, Key::Area),
    (Key::Load, Key::Bytes),
    (Key::Weight, Key::Load),
    (Key::Bytes, Key::Width),
    (Key::Misfits, Key::Load),
];

/// Improves offsets with at most `nodes` nodes.
pub(super) fn improve(
    buffers: &Buffers,
    graph: &Graph,
    sections: &Sections,
    best: &mut Best,
    nodes: u64,
) {
    let unit = buffers.bytes.iter().fold(0, |a, &b| gcd(a, b)).max(1);
    let mut tries = Tries::of(buffers, graph, sections);
    // The bound with a third of the nodes, then each further limit with a sixth.
    let (mut limit, mut share) = (best.bound, nodes / 3);
    // The searches of the bound go on where they ended.
    let mut at_bound = Round::default();
    // Limits up to here have been tried without an outcome.
    let mut open = None;
    while best.placed.bytes > best.bound && tries.search.nodes < nodes {
        let share_left = share.min(nodes - tries.search.nodes);
        let is_bound = limit == best.bound;
        let from = if is_bound { std::mem::take(&mut at_bound) } else { Round::default() };
        let (outcome, round) = tries.solve(limit, share_left, from);
        if is_bound && outcome == Outcome::OutOfNodes {
            at_bound = round;
        }
        match outcome {
            Outcome::Solved => {
                best.placed.offsets.clone_from(&tries.search.offsets);
                let ends = best.placed.offsets.iter().zip(&buffers.bytes);
                best.placed.bytes = ends.map(|(at, bytes)| at + bytes).max().unwrap_or(0);
                best.is_searched = true;
            }
            Outcome::Infeasible => best.bound = limit + unit,
            Outcome::OutOfNodes => open = Some(limit),
        }
        share = nodes / 6;
        let least = open.map_or(best.bound, |open: u64| best.bound.max(open + unit));
        // Where little is to gain, only the bound itself is worth the nodes.
        let is_far = best.placed.bytes - best.bound > best.bound / 64;
        limit = if least < best.placed.bytes && (open.is_none() || is_far) {
            least + (best.placed.bytes - least) / unit / 2 * unit
        } else {
            // All between are open: the bound again, with the nodes that remain.
            (open, share) = (None, nodes);
            best.bound
        };
    }
    best.nodes = tries.search.nodes;
}

/// The searches of a set of buffers.
struct Tries<'a> {
    search: Search<'a>,
    keys: Vec<[u64; 6]>,
    random: u64,
}

/// A round of searches of one limit, and its next rank.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    number: u64,
    rank: usize,
}

impl<'a> Tries<'a> {
    fn of(buffers: &'a Buffers, graph: &'a Graph, sections: &'a Sections) -> Tries<'a> {
        let keys = |k: usize| {
            let (first, end) = sections.of[k];
            let loads = &sections.load[first as usize..end as usize];
            let (width, bytes) = (loads.len() as u64, buffers.bytes[k]);
            let conflicts = graph.of_buffer(k);
            [
                bytes,
                width,
                bytes.saturating_mul(width),
                loads.iter().copied().max().unwrap_or(0),
                conflicts.len() as u64,
                conflicts.iter().map(|&other| buffers.bytes[other as usize]).sum(),
            ]
        };
        let keys = (0..buffers.len()).map(keys).collect();
        let search = Search::of(buffers, graph, sections);
        Tries { search, keys, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Tries a limit with one rank after another, from a round on. Returns the next one.
    fn solve(&mut self, limit: u64, nodes: u64, from: Round) -> (Outcome, Round) {
        let end = self.search.nodes + nodes;
        let mut round = from;
        while self.search.nodes < end {
            let order = self.order(round);
            let nodes = FIRST_NODES * (1 + round.number / 3);
            let nodes = nodes.min(end - self.search.nodes);
            let jumps = !round.number.is_multiple_of(3);
            let outcome = self.search.run(&order, limit, nodes, jumps);
            if outcome != Outcome::OutOfNodes {
                return (outcome, round);
            }
            round = match round.rank + 1 {
                rank if rank == RANKS.len() => Round { number: round.number + 1, rank: 0 },
                rank => Round { rank, ..round },
            };
        }
        (Outcome::OutOfNodes, round)
    }

    /// Returns the order of a round.
    fn order(&mut self, round: Round) -> Vec<u32> {
        let (first, second) = RANKS[round.rank];
        let mut keys = Vec::with_capacity(self.keys.len());
        for k in 0..self.keys.len() {
            let key = |key: Key| match key {
                Key::Misfits => u64::from(self.search.misfits[k]),
                key => self.keys[k][key as usize],
            };
            let (mut a, mut b) = (u128::from(key(first)), u128::from(key(second)));
            if round.number % 3 == 2 {
                // An eighth more or less; but buffers of the heaviest sections stay first.
                a *= u128::from(if matches!(first, Key::Load) { 1 } else { self.noise() });
                b *= u128::from(self.noise());
            }
            keys.push((a, b));
        }
        let mut order: Vec<u32> = (0..self.keys.len() as u32).collect();
        order.sort_by_key(|&k| Reverse(keys[k as usize]));
        order
    }

    /// Returns a number about 1,024: the next one of xorshift (Marsaglia, 2003).
    fn noise(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        896 + (self.random >> 32) % 256
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => gcd(b, a % b),
    }
}
