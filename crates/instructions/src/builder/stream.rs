//! What the builder keeps about a stream.

use std::collections::VecDeque;

use smallvec::SmallVec;

use millstream_types::{DeviceId, EventId, Point, StreamId, StreamMode};

use crate::builder::clock::Clock;
use crate::catalog::StreamFacts;
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
    pub(super) known: Clock,
    /// Counts the changes of `known`.
    pub(super) version: u64,
    /// The builder's newest events of this stream, oldest first.
    pub(super) events: SmallVec<[(EventId, u64); RECENT_EVENTS]>,
    pub(super) fence_epoch: u64,
    /// Whether it can wait for the stream of each number on the device, as far as that was asked.
    pub(super) on_device: Vec<Option<bool>>,
    history: History,
    /// Of a pool: all that its instructions so far have waited for.
    passed: Clock,
}

/// What has passed once a stream has passed a place.
#[derive(Debug, Default)]
struct History {
    /// From each of these places on, until the next, ...
    places: VecDeque<u64>,
    /// ... this.
    states: VecDeque<Clock>,
}

impl History {
    fn remember(&mut self, from: u64, state: &Clock) {
        if let (Some(last), Some(kept)) = (self.places.back(), self.states.back_mut())
            && *last == from
        {
            kept.clone_from(state);
            return;
        }
        let oldest = if self.places.len() == HISTORY { self.states.pop_front() } else { None };
        if oldest.is_some() {
            self.places.pop_front();
        }
        // Written over, so that nothing is allocated.
        let mut kept = oldest.unwrap_or_default();
        kept.clone_from(state);
        self.places.push_back(from);
        self.states.push_back(kept);
    }

    fn at(&self, seq: u64) -> Option<&Clock> {
        let later = self.places.partition_point(|from| *from <= seq);
        self.states.get(later.checked_sub(1)?)
    }
}

impl StreamTrack {
    pub(super) fn new(decl: StreamDecl, memory: ArenaId, facts: StreamFacts) -> StreamTrack {
        StreamTrack {
            runs_ops: !decl.work.is_order_only(),
            decl,
            memory,
            reads: facts.reads,
            writes: facts.writes,
            copies: facts.copies,
            trusting: false,
            seq: 0,
            known: Clock::new(),
            version: 0,
            events: SmallVec::new(),
            fence_epoch: 0,
            on_device: Vec::new(),
            history: History::default(),
            passed: Clock::new(),
        }
    }

    pub(super) fn is_pool(&self) -> bool {
        self.decl.mode == StreamMode::Pool
    }

    /// From place `from` on, the stream knows what `news` knows.
    pub(super) fn learn(&mut self, from: u64, news: &Clock) {
        if self.known.join(news) {
            self.version += 1;
            if self.is_pool() {
                self.passed.join(&self.known);
            }
            self.remember(from);
        }
    }

    /// The instruction at place `from` has waited for `until`, and with it for what had `passed` there.
    /// All later ones know that as well; on a pool they do not, but whoever waits for the pool up to
    /// `from` does.
    pub(super) fn waited(&mut self, from: u64, until: Point, passed: Option<&Clock>) {
        let is_pool = self.is_pool();
        let knows = if is_pool { &mut self.passed } else { &mut self.known };
        let mut news = passed.is_some_and(|passed| knows.join(passed));
        news |= knows.add(until);
        if news {
            self.version += u64::from(!is_pool);
            self.remember(from);
        }
    }

    fn remember(&mut self, from: u64) {
        let state = if self.is_pool() { &self.passed } else { &self.known };
        self.history.remember(from, state);
    }

    /// What has passed once the stream has passed place `seq`, but for the place itself, as far as it
    /// is remembered.
    pub(super) fn at(&self, seq: u64) -> Option<&Clock> {
        self.history.at(seq)
    }
}

/// What all streams know, as the planner asks for it.
pub(super) struct Known<'a> {
    pub(super) streams: &'a [StreamTrack],
    pub(super) fence: &'a Clock,
    pub(super) fence_epoch: u64,
    pub(super) observed: &'a Clock,
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
