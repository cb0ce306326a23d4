//! What the builder keeps about a stream.

use std::collections::VecDeque;

use smallvec::SmallVec;

use millstream_types::{DeviceId, EventId, Point, StreamId, StreamMode, StreamType};

use crate::catalog::StreamFacts;
use crate::frontier::Frontier;
use crate::list::StreamDecl;
use crate::planner::{ArenaId, Knowledge};

/// How many earlier states of knowledge a stream keeps. A wait for a point older than these
/// brings the point alone, which is right, if less than could be known.
const HISTORY: usize = 64;

/// How many of its newest events a stream keeps to be waited for again.
pub(super) const RECENT_EVENTS: usize = 8;

/// A stream's order and knowledge.
#[derive(Debug)]
pub(super) struct StreamTrack {
    pub(super) decl: StreamDecl,
    /// Where tensors lie that are made here.
    pub(super) memory: ArenaId,
    /// Where tensors that are only read may lie beside that.
    pub(super) reads: SmallVec<[DeviceId; 2]>,
    /// Where tensors that are read or changed may lie beside that.
    pub(super) writes: SmallVec<[DeviceId; 1]>,
    /// Where tensors that `copy` reads may lie beside those.
    pub(super) copies: Vec<DeviceId>,
    /// Whether the program has promised that released memory is free for everyone.
    pub(super) trusting: bool,
    /// Whether ops run on it. Others only order.
    pub(super) runs_ops: bool,
    /// The place of the last instruction.
    pub(super) seq: u64,
    /// What the next instruction knows to have passed. On a pool this grows at fences alone.
    pub(super) known: Frontier,
    /// Counts the changes of `known`.
    pub(super) version: u64,
    /// The builder's newest events of this stream, oldest first.
    pub(super) events: SmallVec<[(EventId, u64); RECENT_EVENTS]>,
    pub(super) fence_epoch: u64,
    /// Whether it can wait for the stream of each number on the device, as far as that was asked.
    pub(super) on_device: Vec<Option<bool>>,
    /// What has passed once the stream has passed a place: from that place on, until the next.
    history: VecDeque<(u64, Frontier)>,
    /// Of a pool: all that its instructions so far have waited for.
    passed: Frontier,
}

impl StreamTrack {
    pub(super) fn new(decl: StreamDecl, memory: ArenaId, facts: StreamFacts) -> StreamTrack {
        use StreamType::{Barrier, CriticalSection, LazyJobLauncher};
        let orders = matches!(decl.key.ty, Barrier | CriticalSection | LazyJobLauncher);
        StreamTrack {
            runs_ops: !orders,
            decl,
            memory,
            reads: facts.reads,
            writes: facts.writes,
            copies: facts.copies,
            trusting: false,
            seq: 0,
            known: Frontier::new(),
            version: 0,
            events: SmallVec::new(),
            fence_epoch: 0,
            on_device: Vec::new(),
            history: VecDeque::new(),
            passed: Frontier::new(),
        }
    }

    pub(super) fn is_pool(&self) -> bool {
        self.decl.mode == StreamMode::Pool
    }

    /// From place `from` on, the stream knows what `news` knows.
    pub(super) fn learn(&mut self, from: u64, news: &Frontier) {
        if self.known.join(news) {
            self.version += 1;
            if self.is_pool() {
                self.passed.join(&self.known);
            }
            self.remember(from);
        }
    }

    /// An instruction of a pool, at `from`, waited for what `news` knows. The next one knows
    /// nothing of it, but whoever waits for the pool up to `from` does.
    pub(super) fn pass(&mut self, from: u64, news: &Frontier) {
        if self.passed.join(news) {
            self.remember(from);
        }
    }

    fn remember(&mut self, from: u64) {
        let state = if self.is_pool() { &self.passed } else { &self.known };
        match self.history.back_mut() {
            Some((place, kept)) if *place == from => kept.clone_from(state),
            _ => {
                if self.history.len() == HISTORY {
                    self.history.pop_front();
                }
                self.history.push_back((from, state.clone()));
            }
        }
    }

    /// What has passed once the stream has passed place `seq`, but for the place itself.
    pub(super) fn at(&self, seq: u64) -> Option<&Frontier> {
        let later = self.history.partition_point(|(from, _)| *from <= seq);
        self.history.get(later.checked_sub(1)?).map(|(_, known)| known)
    }
}

/// What all streams know, as the planner asks for it.
pub(super) struct Known<'a> {
    pub(super) streams: &'a [StreamTrack],
    pub(super) fence: &'a Frontier,
    pub(super) fence_epoch: u64,
    pub(super) observed: &'a Frontier,
}

impl Knowledge for Known<'_> {
    fn knows(&self, stream: StreamId, point: Point) -> bool {
        let track = &self.streams[stream.index()];
        track.trusting
            || (point.stream == stream && !track.is_pool())
            || track.known.covers(point)
            || (track.fence_epoch != self.fence_epoch && self.fence.covers(point))
    }

    fn version(&self, stream: StreamId) -> u64 {
        // Either grows with what the stream learns.
        self.streams[stream.index()].version + self.fence_epoch
    }

    fn keeps_waits(&self, stream: StreamId) -> bool {
        !self.streams[stream.index()].is_pool()
    }

    fn seen(&self, point: Point) -> bool {
        self.observed.covers(point)
    }
}
