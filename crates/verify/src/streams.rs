//! The knowledge of each stream: the points that have passed.

use millstream_instructions::{InstructionList, StreamDecl};
use millstream_types::{Point, StreamId, StreamMode, StreamType, WorkSet};
use rustc_hash::FxHashSet;

use crate::clock::Clock;
use crate::history::History;

#[derive(Debug)]
struct Stream {
    mode: StreamMode,
    ty: StreamType,
    /// The kinds of work that it accepts.
    work: WorkSet,
    /// The sequence number of the last instruction.
    last: u64,
    /// If a wait holds that place: its index, and the last place in a list without it.
    held: Option<(usize, u64)>,
    /// The knowledge of the next instruction. On a pool it grows at fences alone.
    knows: Clock,
    /// The number of fences that `knows` includes.
    fences: u64,
    /// Of a pool: the knowledge from the waits since the last instruction that is not a wait. They
    /// bind to the next such instruction.
    pending: Option<Clock>,
    /// Of a pool: what has passed once all its instructions so far have.
    passed: Clock,
    /// What has passed at each of the stream's points.
    history: History,
}

/// The streams of a list.
#[derive(Debug)]
pub(crate) struct Streams {
    streams: Vec<Stream>,
    /// The last point of each stream.
    latest: Clock,
    /// The knowledge of all later instructions, on every stream.
    fence: Clock,
    fences: u64,
    nothing: Clock,
    /// The waits that some clock dropped from its attributions.
    lost: FxHashSet<usize>,
}

impl Streams {
    pub(crate) fn new(list: &InstructionList) -> Streams {
        let nothing = Clock::new(list.streams.len());
        let mut histories = History::of(list).into_iter();
        let one = |decl: &StreamDecl| Stream {
            mode: decl.mode,
            ty: decl.key.ty,
            work: decl.work,
            last: 0,
            held: None,
            knows: nothing.clone(),
            fences: 0,
            pending: None,
            passed: nothing.clone(),
            history: histories.next().unwrap_or_default(),
        };
        Streams {
            streams: list.streams.iter().map(one).collect(),
            latest: nothing.clone(),
            fence: nothing.clone(),
            fences: 0,
            nothing,
            lost: FxHashSet::default(),
        }
    }

    pub(crate) fn is_declared(&self, stream: StreamId) -> bool {
        stream.index() < self.streams.len()
    }

    pub(crate) fn ty(&self, stream: StreamId) -> StreamType {
        self.streams[stream.index()].ty
    }

    /// The kinds of work that a stream accepts, as the list's header says.
    pub(crate) fn work(&self, stream: StreamId) -> WorkSet {
        self.streams[stream.index()].work
    }

    pub(crate) fn is_pool(&self, stream: StreamId) -> bool {
        self.streams[stream.index()].mode == StreamMode::Pool
    }

    /// Returns the last point of a stream so far.
    pub(crate) fn tail(&self, stream: StreamId) -> Point {
        Point::new(stream, self.streams[stream.index()].last)
    }

    /// Returns the wait at a stream's last point, if one is there, and the stream's last sequence
    /// number without that wait.
    pub(crate) fn last_wait(&self, stream: StreamId) -> Option<(usize, u64)> {
        self.streams[stream.index()].held
    }

    /// Returns a stream's last sequence number in the list without this wait.
    pub(crate) fn last_without(&self, stream: StreamId, wait: usize) -> u64 {
        let s = &self.streams[stream.index()];
        s.held.filter(|(w, _)| *w == wait).map_or(s.last, |(_, before)| before)
    }

    /// Sets the wait at the stream's last point.
    pub(crate) fn set_last_wait(&mut self, stream: StreamId, wait: usize, before: u64) {
        self.streams[stream.index()].held = Some((wait, before));
    }

    /// Returns whether a pool has waits that are not bound to an instruction yet.
    pub(crate) fn has_pending(&self, stream: StreamId) -> bool {
        self.streams[stream.index()].pending.is_some()
    }

    /// Returns the waits that some clock dropped from its attributions.
    pub(crate) const fn lost(&self) -> &FxHashSet<usize> {
        &self.lost
    }

    /// Returns the last points of all streams.
    pub(crate) const fn latest(&self) -> &Clock {
        &self.latest
    }

    /// Returns the empty clock.
    pub(crate) const fn nothing(&self) -> &Clock {
        &self.nothing
    }

    /// Returns whether the stream has reached this point.
    pub(crate) fn has(&self, point: Point) -> bool {
        point.seq <= self.streams[point.stream.index()].last
    }

    /// Returns what has passed once `point` has: all earlier instructions of its stream, and what
    /// they knew when they ran. A wait of the list calls this once for each point that it names.
    pub(crate) fn passed(&mut self, point: Point) -> Clock {
        let passed = self.streams[point.stream.index()].history.ask(point.seq);
        let mut clock = passed.unwrap_or_else(|| self.nothing.clone());
        clock.raise(point);
        clock
    }

    /// Returns what an allocation on `stream` knows at this index: every fence, and on an in-order
    /// stream all earlier instructions.
    pub(crate) fn knows(&mut self, stream: StreamId) -> &Clock {
        let s = &mut self.streams[stream.index()];
        if s.fences < self.fences {
            s.knows.join(&self.fence);
            s.fences = self.fences;
        }
        &s.knows
    }

    /// Returns what an instruction at `at`, which is not a wait, knows: its stream's knowledge, and
    /// on a pool the waits that bind to the instruction.
    pub(crate) fn begin_instruction(&mut self, at: Point) -> Clock {
        let mut clock = self.knows(at.stream).clone();
        if let Some(waited) = self.streams[at.stream.index()].pending.take() {
            clock.join(&waited);
        }
        clock
    }

    /// Adds an instruction at `at` that happens after everything in `clock`.
    pub(crate) fn end_instruction(&mut self, at: Point, clock: &Clock) {
        let s = &mut self.streams[at.stream.index()];
        let before = s.last;
        s.last = s.last.max(at.seq);
        if s.last > before {
            s.held = None;
        }
        let passed = match s.mode {
            StreamMode::InOrder => {
                s.knows.join(clock);
                &s.knows
            }
            StreamMode::Pool => {
                s.passed.join(clock);
                &s.passed
            }
        };
        s.history.note(at.seq, passed);
        self.latest.raise(at);
    }

    /// Adds a wait at `at` for everything in `passed`. Attributes what it adds to `wait`, if given.
    /// Returns whether it adds anything.
    pub(crate) fn wait(&mut self, at: Point, passed: &Clock, wait: Option<usize>) -> bool {
        let knows = self.knows(at.stream).clone();
        let mut clock = knows.clone();
        clock.join(passed);
        let mut adds = wait.is_none_or(|wait| clock.attribute(&knows, wait, &mut self.lost));
        if self.is_pool(at.stream) {
            let before = self.streams[at.stream.index()].pending.take();
            let before = before.unwrap_or_else(|| self.nothing.clone());
            let mut pending = before.clone();
            pending.join(passed);
            adds &= wait.is_none_or(|wait| pending.attribute(&before, wait, &mut self.lost));
            self.streams[at.stream.index()].pending = Some(pending);
        }
        self.end_instruction(at, &clock);
        adds
    }

    /// Adds a barrier at `at`: it happens after all earlier instructions and before all later ones.
    pub(crate) fn barrier(&mut self, at: Point) {
        // No clock holds points that the list has not reached, so the tails cover every clock.
        let clock = self.latest.clone();
        self.end_instruction(at, &clock);
        self.fence = self.latest.clone();
        self.fences += 1;
    }

    /// Adds a host observation of these points, which all later instructions know. Attributes what
    /// it adds to `wait`, if given. Returns whether it adds anything.
    pub(crate) fn observe(&mut self, points: &[Point], wait: Option<usize>) -> bool {
        let before = self.fence.clone();
        for &point in points {
            let passed = self.passed(point);
            self.fence.join(&passed);
        }
        self.fences += 1;
        wait.is_none_or(|wait| self.fence.attribute(&before, wait, &mut self.lost))
    }
}
