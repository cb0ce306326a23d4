//! The builder's state of a stream: its tail, its clock, and its clock's recent history.

use std::collections::VecDeque;

use smallvec::SmallVec;

use millstream_types::{DeviceId, EventId, Point, StreamId, StreamKey, StreamMode};

use crate::builder::clock::Clock;
use crate::catalog::StreamFacts;
use crate::list::StreamDecl;
use crate::planner::{ArenaId, Knowledge};
use crate::table::Kind;

/// The number of earlier clocks that a stream keeps. A wait for a point before them adds the point
/// alone, which is right, but less than could be known.
const HISTORY: usize = 64;

/// The most points that a stream's earlier clocks hold beyond those with slots of their own. Among
/// a thousand streams that wait for one another, each clock has a thousand of them.
const HISTORY_POINTS: usize = 512;

/// The number of newest events that a stream keeps for further waits.
const RECENT_EVENTS: usize = 8;

/// A stream's tail and clock.
#[derive(Debug)]
pub(super) struct StreamTrack {
    pub(super) decl: StreamDecl,
    /// The memory of tensors that the stream makes.
    pub(super) memory: ArenaId,
    /// Further devices whose memory the stream reads.
    pub(super) reads: SmallVec<[DeviceId; 2]>,
    /// Further devices whose memory the stream reads and writes.
    pub(super) writes: SmallVec<[DeviceId; 1]>,
    /// Further devices whose memory the op `copy` reads.
    pub(super) copies: Vec<DeviceId>,
    /// Whether the program has promised that released memory is free for every stream.
    pub(super) trusting: bool,
    /// Whether it runs ops, by the table.
    pub(super) runs_ops: bool,
    /// The sequence number of the last instruction.
    pub(super) seq: u64,
    /// The clock of the next instruction. Points behind the builder's fence are left out, unless
    /// the whole history is kept: every stream knows them without its own clock. A pool's clock
    /// has no others.
    pub(super) known: Clock,
    /// Counts the changes of `known`.
    pub(super) version: u64,
    /// From which instruction on `known` holds as it is. No other stream has taken it over if this
    /// is the greatest number.
    known_from: u64,
    /// The builder's newest events of this stream, oldest first.
    pub(super) events: SmallVec<[(EventId, u64); RECENT_EVENTS]>,
    /// The most events that it keeps.
    pub(super) most_events: usize,
    /// The builder's `fence_epoch` at which the points behind the fence were last left out.
    pub(super) fence_epoch: u64,
    /// Points that the next instruction with operands waits for besides.
    pub(super) requested: SmallVec<[Point; 2]>,
    /// Whether it is among the builder's `holding` streams.
    pub(super) holds: bool,
    /// For each other stream, whether this one can wait for it on the device, once asked.
    pub(super) on_device: Vec<Option<bool>>,
    history: History,
    /// For a pool, all points that its instructions so far have waited for.
    passed: Clock,
}

/// The clocks of a stream at its recent points.
#[derive(Debug)]
struct History {
    /// The most clocks that it keeps, and the most points that they hold.
    most: usize,
    most_points: usize,
    /// The points that the clocks hold.
    points: usize,
    /// The sequence number from which on the clock of the same position holds, until the next one.
    starts: VecDeque<u64>,
    clocks: VecDeque<Clock>,
}

impl History {
    fn new(most: usize, most_points: usize) -> History {
        let (starts, clocks) = (VecDeque::new(), VecDeque::new());
        History { most, most_points, points: 0, starts, clocks }
    }

    fn remember(&mut self, from: u64, state: &Clock) {
        if let (Some(last), Some(kept)) = (self.starts.back(), self.clocks.back_mut())
            && *last == from
        {
            self.points = self.points + state.far_points() - kept.far_points();
            kept.clone_from(state);
            return;
        }
        self.points += state.far_points();
        while (self.starts.len() == self.most || self.points > self.most_points)
            && let Some(oldest) = self.clocks.pop_front()
        {
            self.starts.pop_front();
            self.points -= oldest.far_points();
        }
        self.starts.push_back(from);
        self.clocks.push_back(state.clone());
    }

    fn at(&self, seq: u64) -> Option<&Clock> {
        let later = self.starts.partition_point(|from| *from <= seq);
        self.clocks.get(later.checked_sub(1)?)
    }
}

impl StreamTrack {
    pub(super) fn new(decl: StreamDecl, memory: ArenaId, facts: StreamFacts) -> StreamTrack {
        StreamTrack {
            runs_ops: Kind::OpCall.runs_on().allows(decl.work),
            decl,
            memory,
            reads: facts.reads,
            writes: facts.writes,
            copies: facts.copies,
            trusting: false,
            seq: 0,
            known: Clock::new(),
            version: 0,
            known_from: 0,
            events: SmallVec::new(),
            fence_epoch: 0,
            requested: SmallVec::new(),
            holds: false,
            on_device: Vec::new(),
            history: History::new(HISTORY, HISTORY_POINTS),
            most_events: RECENT_EVENTS,
            passed: Clock::new(),
        }
    }

    /// Gives the stream another key of its device and type. Returns the one before.
    pub(super) fn rename(
        &mut self,
        decl: StreamDecl,
        memory: ArenaId,
        facts: StreamFacts,
    ) -> StreamKey {
        (self.memory, self.on_device) = (memory, Vec::new());
        (self.reads, self.writes, self.copies) = (facts.reads, facts.writes, facts.copies);
        self.runs_ops = Kind::OpCall.runs_on().allows(decl.work);
        std::mem::replace(&mut self.decl, decl).key
    }

    /// Has the stream keep all of its clocks and events.
    pub(super) fn keep_history(&mut self) {
        self.history = History::new(usize::MAX, usize::MAX);
        self.most_events = usize::MAX;
    }

    pub(super) fn is_pool(&self) -> bool {
        self.decl.mode == StreamMode::Pool
    }

    /// Joins the builder's fence to the stream's clock, from the next instruction on.
    pub(super) fn join_fence(&mut self, fence: &Clock) {
        if self.known.join(fence) {
            self.version += 1;
            if self.is_pool() {
                self.passed.join(&self.known);
            }
            self.remember(self.seq + 1);
        }
    }

    /// Leaves the points behind the builder's fence out. So a clock takes memory only for streams
    /// with instructions that the host has not observed, and streams that wait for the host take
    /// none for one another.
    pub(super) fn leave_out(&mut self, fence: &Clock) {
        self.known.prune(fence);
        self.passed.prune(fence);
    }

    /// Frees the memory of earlier clocks, and returns the stream's events.
    pub(super) fn forget_history(&mut self) -> SmallVec<[(EventId, u64); RECENT_EVENTS]> {
        self.history = History::new(self.history.most, self.history.most_points);
        self.known_from = u64::MAX;
        std::mem::take(&mut self.events)
    }

    /// Frees the memory of what the stream knows, once all its instructions are behind the fence:
    /// later waits for them are elided.
    pub(super) fn settle(&mut self, fence: &Clock) {
        self.leave_out(fence);
        self.history = History::new(self.history.most, self.history.most_points);
        self.on_device = Vec::new();
    }

    /// Records that the instruction at `at` has waited for `until`, and so for the points that had
    /// `passed` there. All later instructions of the stream know them too. On a pool they do not; a
    /// stream that waits for the pool up to `at` does.
    pub(super) fn waited(&mut self, at: Point, until: Point, passed: Option<&Clock>) {
        let is_pool = self.is_pool();
        let own = Point::new(at.stream, self.known_from);
        let knows = if is_pool { &mut self.passed } else { &mut self.known };
        let news = match passed {
            // Whoever knows the stream from there on knows all that it knows: its clock is replaced
            // without a look at each point, of which there are as many as streams.
            Some(passed) if !is_pool && passed.covers(own) && !knows.covers(until) => {
                knows.clone_from(passed);
                knows.add(until);
                true
            }
            passed => passed.is_some_and(|passed| knows.join(passed)) | knows.add(until),
        };
        if news {
            self.version += u64::from(!is_pool);
            self.remember(at.seq);
        }
    }

    fn remember(&mut self, from: u64) {
        self.known_from = from;
        let state = if self.is_pool() { &self.passed } else { &self.known };
        self.history.remember(from, state);
    }

    /// Returns the clock after instruction number `seq`, without that instruction itself, if the
    /// history still has it.
    pub(super) fn at(&self, seq: u64) -> Option<&Clock> {
        self.history.at(seq)
    }
}

/// The clocks of all streams, as the planner's [`Knowledge`].
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
            || self.fence.covers(point)
    }

    fn version(&self, stream: StreamId) -> u64 {
        // One of the two grows whenever the stream's clock does.
        self.streams[stream.index()].version + self.fence_epoch
    }

    fn keeps_waits(&self, stream: StreamId) -> bool {
        !self.streams[stream.index()].is_pool()
    }

    fn seen(&self, point: Point) -> bool {
        self.observed.covers(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn track(k: u32) -> StreamTrack {
        let key = StreamKey::compute(DeviceId::cpu(0), k);
        let decl = StreamDecl::new(key, StreamMode::InOrder);
        StreamTrack::new(decl, ArenaId(0), StreamFacts::on(DeviceId::cpu(0)))
    }

    proptest! {
        /// A clock that is replaced holds the same points as one that is joined.
        #[test]
        fn a_wait_adds_all_that_had_passed(
            steps in proptest::collection::vec((0u16..20, 0u16..20, 0u64..4), 1..300),
        ) {
            let mut tracks: Vec<StreamTrack> = (0..20).map(track).collect();
            for (waiter, source, back) in steps {
                let own = usize::from(waiter);
                let until = tracks[usize::from(source)].seq.saturating_sub(back);
                let until = Point::new(StreamId(source), until);
                if waiter != source && !tracks[own].known.covers(until) {
                    let passed = tracks[usize::from(source)].at(until.seq).cloned();
                    let mut joined = tracks[own].known.clone();
                    if let Some(passed) = &passed {
                        joined.join(passed);
                    }
                    joined.add(until);
                    tracks[own].seq += 1;
                    let at = Point::new(StreamId(waiter), tracks[own].seq);
                    tracks[own].waited(at, until, passed.as_ref());
                    prop_assert_eq!(&tracks[own].known, &joined);
                }
                tracks[own].seq += 1;
            }
        }
    }
}
