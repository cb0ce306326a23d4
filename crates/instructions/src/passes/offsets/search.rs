//! Long because all steps of the search share one state.
//!
//! Search for offsets below a limit, over left-justified placements.
//!
//! The method is that of Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
//! Hardware-Accelerated Machine Learning", ASPLOS 2023, written from its description, with two
//! additions of this module: the bound of a section is that of a machine whose jobs have release
//! times, and buffers that were passed over are known to lie higher.
//!
//! # Method
//! In some best placement every buffer lies at 0 or right above one that it is in conflict with. If
//! buffers are placed in the order of their offsets, with the rank as second key, each lies at its
//! *low*: the highest end of the placed ones that it is in conflict with. So a node of the search
//! is a set of placed buffers, and its children are the next ones.
//!
//! - A buffer whose low is before the last offset is *passed over*: it is no candidate until a
//!   buffer below raises its low. That is the order of offsets.
//! - A candidate's low is below the low plus size of every open buffer. A buffer that would end
//!   below it could be moved down there: *dominance*.
//! - A placement that raises no low has no alternative, since it takes nothing from anybody.
//! - Of equal buffers with equal conflicts the first by rank is placed first; they could be
//!   exchanged.
//! - For each section, its buffers in the order of their lows, one above another, end below the
//!   limit: buffers of a section are all in conflict.
//! - A buffer that was passed over lies above an open buffer that it is in conflict with, since its
//!   low must rise.
//! - In a sequence, parts that no open buffer connects are solved one by one.
//!
//! A search with *jumps* may miss placements: where the sections that refute a node hold no part of
//! the buffer that was placed last, it assumes that the buffer's alternatives are refuted, too.
//! That frees it from trying all that happens elsewhere before it changes what matters (Gaschnig's
//! backjumping, with guessed causes). If it finds nothing, that proves nothing.
//!
//! The number of nodes depends much on the ranks, and `exact` tries many.

use std::cmp::Reverse;
use std::ops::Range;

use super::bound::Sections;
use super::buffers::{Buffers, Graph};
use rustc_hash::FxHashMap;

/// The outcome of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All buffers have offsets below the limit.
    Solved,
    /// There are none.
    Infeasible,
    /// The nodes did not suffice, or jumps passed over some.
    OutOfNodes,
}

/// The offset of an open buffer, which has none yet.
const OPEN: u64 = u64::MAX;

/// The offsets before which a node places nothing: an offset, and the number of ranks that are over
/// at that offset.
type Level = (u64, u32);

/// Sections, half open.
type Span = (u32, u32);

const NOWHERE: Span = (u32::MAX, 0);

/// Returns the least span that holds both.
fn hull(a: Span, b: Span) -> Span {
    (a.0.min(b.0), a.1.max(b.1))
}

fn overlap(a: Span, b: Span) -> bool {
    a.0 < b.1 && b.0 < a.1
}

/// A step of the search that waits for another one.
#[derive(Debug)]
enum Frame {
    /// Buffers of which each candidate is tried.
    Node {
        /// The open buffers, within `lists`.
        list: Range<usize>,
        level: Level,
        /// The position of the candidate that is tried.
        tried: usize,
        /// The number of buffers that were placed before.
        placed: usize,
        /// Whether the candidate raises a low.
        raises: bool,
        /// The low that no candidate reaches.
        dominated: u64,
        /// The sections that refuted the candidates so far.
        refuted: Span,
    },
    /// Parts that are solved one by one.
    Parts {
        /// The beginnings of the open parts within `lists`; the last one is solved.
        starts: Vec<usize>,
        level: Level,
        /// The number of buffers that were placed before.
        placed: usize,
    },
}

/// The next thing to do.
enum Action {
    /// Solve the buffers at the end of `lists`, from here on.
    Enter(usize, Level),
    /// Give an outcome to the last frame.
    Return(Outcome),
}

/// A search for offsets.
#[derive(Debug)]
pub(super) struct Search<'a> {
    bytes: &'a [u64],
    graph: &'a Graph,
    sections: &'a Sections,
    /// Whether two buffers are in conflict only if a section holds both.
    is_sequence: bool,
    rank: Vec<u32>,
    /// For each buffer, the one before it that equals it.
    twin: Vec<Option<u32>>,
    limit: u64,
    /// The nodes so far.
    pub(super) nodes: u64,
    most_nodes: u64,
    pub(super) offsets: Vec<u64>,
    /// The least offset of each open buffer by the placed ones.
    low: Vec<u64>,
    /// The least offset of each open buffer by all that is known at a node.
    least: Vec<u64>,
    /// For each section, the number of open buffers that live on in the next one.
    bridges: Vec<u32>,
    /// The placed buffers, and the lows that they raised, as they were.
    placed: Vec<(u32, usize)>,
    raised: Vec<(u32, u64)>,
    /// The open buffers of all frames.
    lists: Vec<u32>,
    frames: Vec<Frame>,
    /// The sections that refuted the last node.
    refuted: Span,
    jumps: bool,
    has_jumped: bool,
    /// The height of each section.
    heights: Vec<u64>,
    /// The number of times at which each buffer did not fit.
    pub(super) misfits: Vec<u32>,
}

impl<'a> Search<'a> {
    pub(super) fn of(buffers: &'a Buffers, graph: &'a Graph, sections: &'a Sections) -> Search<'a> {
        let (count, parts) = (buffers.len(), sections.load.len());
        Search {
            bytes: &buffers.bytes,
            graph,
            sections,
            is_sequence: buffers.lanes.len() == 1,
            rank: vec![0; count],
            twin: vec![None; count],
            limit: 0,
            nodes: 0,
            most_nodes: 0,
            offsets: vec![OPEN; count],
            low: vec![0; count],
            least: vec![0; count],
            bridges: vec![0; parts],
            placed: Vec::new(),
            raised: Vec::new(),
            lists: Vec::new(),
            frames: Vec::new(),
            refuted: NOWHERE,
            jumps: false,
            has_jumped: false,
            heights: vec![0; parts],
            misfits: vec![0; count],
        }
    }

    /// Searches offsets so that all buffers of `order`, which ranks them, end at `limit` or before,
    /// in at most `nodes` more nodes. With `jumps` it may miss some.
    pub(super) fn run(&mut self, order: &[u32], limit: u64, nodes: u64, jumps: bool) -> Outcome {
        self.begin(order, limit);
        (self.jumps, self.has_jumped) = (jumps, false);
        self.most_nodes = self.nodes + nodes;
        self.lists.extend_from_slice(order);
        let mut action = self.split(0, (0, 0));
        loop {
            action = match action {
                Action::Enter(from, level) => self.enter(from, level),
                Action::Return(outcome) => match self.frames.pop() {
                    None => return self.ended(outcome),
                    Some(frame) => self.resume(frame, outcome),
                },
            }
        }
    }

    /// Returns what an outcome of all says.
    fn ended(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Infeasible if self.has_jumped => Outcome::OutOfNodes,
            outcome => outcome,
        }
    }

    /// Begins anew with all buffers open.
    fn begin(&mut self, order: &[u32], limit: u64) {
        self.limit = limit;
        self.offsets.fill(OPEN);
        self.low.fill(0);
        self.bridges.fill(0);
        self.placed.clear();
        self.raised.clear();
        self.lists.clear();
        self.frames.clear();
        let mut newest = FxHashMap::default();
        for (rank, &k) in (0..).zip(order) {
            self.rank[k as usize] = rank;
            let key = (self.sections.of[k as usize], self.bytes[k as usize]);
            self.twin[k as usize] = newest.insert(key, k).filter(|_| self.is_sequence);
            let bridges = self.sections.bridges(k as usize);
            self.bridges[bridges].iter_mut().for_each(|bridges| *bridges += 1);
        }
    }

    /// Solves the list that begins at `from`, part by part if it has some.
    fn split(&mut self, from: usize, level: Level) -> Action {
        if !self.is_sequence {
            return Action::Enter(from, level);
        }
        let of = &self.sections.of;
        let mut list: Vec<u32> = self.lists[from..].to_vec();
        list.sort_unstable_by_key(|&k| (of[k as usize].0, k));
        let mut parts: Vec<Range<usize>> = Vec::new();
        let (mut start, mut reach) = (0, 0);
        for (i, &k) in list.iter().enumerate() {
            let (begin, end) = of[k as usize];
            if i > start && begin >= reach {
                parts.push(start..i);
                start = i;
            }
            reach = reach.max(end);
        }
        if parts.is_empty() {
            return Action::Enter(from, level);
        }
        parts.push(start..list.len());
        // The smallest one is solved first.
        parts.sort_by_key(|part| Reverse(part.len()));
        self.lists.truncate(from);
        let mut starts = Vec::with_capacity(parts.len());
        for part in parts {
            starts.push(self.lists.len());
            self.lists.extend_from_slice(&list[part]);
        }
        let last = starts[starts.len() - 1];
        self.frames.push(Frame::Parts { starts, level, placed: self.placed.len() });
        Action::Enter(last, level)
    }

    /// Begins a node with the buffers that begin at `from`.
    fn enter(&mut self, from: usize, level: Level) -> Action {
        if self.lists.len() == from {
            return Action::Return(Outcome::Solved);
        }
        if self.nodes == self.most_nodes {
            return Action::Return(Outcome::OutOfNodes);
        }
        self.nodes += 1;
        let Some(dominated) = self.bounded(from, level) else {
            return Action::Return(Outcome::Infeasible);
        };
        let (list, placed) = (from..self.lists.len(), self.placed.len());
        self.candidates(Frame::Node {
            list,
            level,
            tried: 0,
            placed,
            raises: true,
            dominated,
            refuted: NOWHERE,
        })
    }

    /// Sorts a node's buffers by their least offsets. Returns the offset from which on candidates
    /// are dominated; none if the buffers do not fit.
    fn bounded(&mut self, from: usize, level: Level) -> Option<u64> {
        let Search { bytes, low, least, lists, sections, .. } = self;
        let mut dominated = u64::MAX;
        let (mut first, mut end) = (u32::MAX, 0);
        for &k in &lists[from..] {
            let k = k as usize;
            dominated = dominated.min(low[k] + bytes[k]);
            least[k] = low[k].max(level.0);
            first = first.min(sections.of[k].0);
            end = end.max(sections.of[k].1);
        }
        for &k in &lists[from..] {
            let k = k as usize;
            if (low[k], self.rank[k]) >= level {
                continue;
            }
            // It lies above one of the open buffers that it is in conflict with. If none of them
            // can lie below its end, then it takes nothing from them where it was passed over.
            let (mut above, mut takes) = (u64::MAX, false);
            for &other in self.graph.of_buffer(k) {
                let other = other as usize;
                if self.offsets[other] == OPEN {
                    let least = low[other].max(level.0);
                    above = above.min(least + bytes[other]);
                    takes |= least < low[k] + bytes[k];
                }
            }
            if !takes {
                self.refuted = sections.of[k];
                return None;
            }
            least[k] = above;
        }
        lists[from..].sort_unstable_by_key(|&k| (least[k as usize], self.rank[k as usize]));
        self.heights[first as usize..end as usize].fill(0);
        for &k in &lists[from..] {
            let (least, bytes) = (least[k as usize], bytes[k as usize]);
            let (first, end) = sections.of[k as usize];
            let mut highest = 0;
            for height in &mut self.heights[first as usize..end as usize] {
                *height = (*height).max(least) + bytes;
                highest = highest.max(*height);
            }
            if highest > self.limit {
                self.misfits[k as usize] += 1;
                self.refuted = NOWHERE;
                for section in (first..end).filter(|s| self.heights[*s as usize] > self.limit) {
                    self.refuted = hull(self.refuted, (section, section + 1));
                }
                // All that lies there reaches as far as the buffers that hold it up.
                let over = self.refuted;
                let below = lists[from..].iter().take_while(|other| **other != k);
                for &other in below.chain([&k]) {
                    let span = sections.of[other as usize];
                    if overlap(span, over) {
                        self.refuted = hull(self.refuted, span);
                    }
                }
                return None;
            }
        }
        Some(dominated)
    }

    /// Tries the next candidate of a node.
    fn candidates(&mut self, mut frame: Frame) -> Action {
        let Frame::Node { list, level, tried, raises, dominated, refuted, .. } = &mut frame else {
            return Action::Return(Outcome::Solved);
        };
        let level = *level;
        while list.start + *tried < list.end {
            let k = self.lists[list.start + *tried] as usize;
            let (low, rank) = (self.low[k], self.rank[k]);
            let is_open = |twin: u32| self.offsets[twin as usize] == OPEN;
            let is_second = self.twin[k].is_some_and(is_open);
            if low >= *dominated || (low, rank) < level || is_second {
                *tried += 1;
                continue;
            }
            let opens;
            (*raises, opens) = self.place(k, level.0);
            let (start, chosen, end) = (list.start, list.start + *tried, list.end);
            self.frames.push(frame);
            let from = self.lists.len();
            self.lists.extend_from_within(start..chosen);
            self.lists.extend_from_within(chosen + 1..end);
            let level = (low, rank + 1);
            return if opens { self.split(from, level) } else { Action::Enter(from, level) };
        }
        self.refuted = *refuted;
        Action::Return(Outcome::Infeasible)
    }

    /// Gives an outcome to a frame.
    fn resume(&mut self, mut frame: Frame, outcome: Outcome) -> Action {
        match &mut frame {
            Frame::Parts { starts, level, placed } => {
                if outcome != Outcome::Solved {
                    self.take_back(*placed);
                    return Action::Return(outcome);
                }
                self.lists.truncate(starts.pop().unwrap_or(0));
                let (Some(&next), level) = (starts.last(), *level) else {
                    return Action::Return(outcome);
                };
                self.frames.push(frame);
                Action::Enter(next, level)
            }
            Frame::Node { list, tried, placed, raises, refuted, .. } => {
                if outcome == Outcome::Solved {
                    return Action::Return(outcome);
                }
                self.take_back(*placed);
                let tried_one = self.lists[list.start + *tried] as usize;
                *refuted = hull(*refuted, self.refuted);
                if self.jumps && !overlap(self.refuted, self.sections.of[tried_one]) {
                    self.has_jumped = true;
                    return Action::Return(outcome);
                }
                if outcome == Outcome::OutOfNodes || !*raises {
                    return Action::Return(outcome);
                }
                self.lists.truncate(list.end);
                *tried += 1;
                self.candidates(frame)
            }
        }
    }

    /// Places a buffer at its low. Returns whether that raises the least offset of an open one, and
    /// whether it parts a sequence.
    fn place(&mut self, k: usize, level: u64) -> (bool, bool) {
        let end = self.low[k] + self.bytes[k];
        self.offsets[k] = self.low[k];
        self.placed.push((k as u32, self.raised.len()));
        let mut raises = false;
        for &other in self.graph.of_buffer(k) {
            let low = &mut self.low[other as usize];
            if self.offsets[other as usize] == OPEN && *low < end {
                raises |= end > level;
                self.raised.push((other, *low));
                *low = end;
            }
        }
        let mut parts = false;
        for bridges in &mut self.bridges[self.sections.bridges(k)] {
            *bridges -= 1;
            parts |= *bridges == 0;
        }
        (raises, parts && self.is_sequence)
    }

    /// Takes back all but the first `count` placements.
    fn take_back(&mut self, count: usize) {
        for (k, raised) in self.placed.drain(count..).rev() {
            self.offsets[k as usize] = OPEN;
            for (other, low) in self.raised.drain(raised..).rev() {
                self.low[other as usize] = low;
            }
            let bridges = self.sections.bridges(k as usize);
            self.bridges[bridges].iter_mut().for_each(|bridges| *bridges += 1);
        }
    }
}
