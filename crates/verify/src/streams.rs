//! What each stream knows to have passed, place by place.

use std::collections::HashSet;

use millstream_instructions::{InstructionList, StreamDecl};
use millstream_types::{Point, StreamId, StreamMode, StreamType, WorkSet};

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
    /// What the next instruction knows. On a pool this grows at fences alone.
    knows: Clock,
    /// Up to which fence `knows` has been brought.
    fences: u64,
    /// Of a pool: what the waits since the last other instruction have waited for. They bind to
    /// the next one.
    pending: Option<Clock>,
    /// Of a pool: what has passed once all that it was given so far has.
    passed: Clock,
    /// What has passed once the stream has passed a place.
    history: History,
}

/// The streams of a list.
#[derive(Debug)]
pub(crate) struct Streams {
    streams: Vec<Stream>,
    /// The last place of each stream.
    latest: Clock,
    /// What everything later knows, whatever its stream.
    fence: Clock,
    fences: u64,
    nothing: Clock,
    /// The waits of which it is not known all over what is owed to them.
    lost: HashSet<usize>,
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
            lost: HashSet::new(),
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

    /// The last place given so far.
    pub(crate) fn tail(&self, stream: StreamId) -> Point {
        Point::new(stream, self.streams[stream.index()].last)
    }

    /// The wait that holds a stream's last place, and that stream's last place without it.
    pub(crate) fn held(&self, stream: StreamId) -> Option<(usize, u64)> {
        self.streams[stream.index()].held
    }

    /// A stream's last place in a list without this wait, which may hold it.
    pub(crate) fn last_without(&self, stream: StreamId, wait: usize) -> u64 {
        let s = &self.streams[stream.index()];
        s.held.filter(|(w, _)| *w == wait).map_or(s.last, |(_, before)| before)
    }

    /// The stream's last place is a wait's, of this index.
    pub(crate) fn hold(&mut self, stream: StreamId, wait: usize, before: u64) {
        self.streams[stream.index()].held = Some((wait, before));
    }

    /// Whether a pool's waits have yet to bind to an instruction.
    pub(crate) fn has_pending(&self, stream: StreamId) -> bool {
        self.streams[stream.index()].pending.is_some()
    }

    /// The waits of which it is not known all over what is owed to them.
    pub(crate) const fn lost(&self) -> &HashSet<usize> {
        &self.lost
    }

    /// Nothing is known.
    pub(crate) const fn nothing(&self) -> &Clock {
        &self.nothing
    }

    /// Whether the stream was given this place, or a later one, already.
    pub(crate) fn has(&self, point: Point) -> bool {
        point.seq <= self.streams[point.stream.index()].last
    }

    /// What has passed once `point` has. Knowing a place of an in-order stream, or a pool up to a
    /// place, is knowing all that stands before it there, and what that knew then. A wait of the
    /// list asks once for each point that it names.
    pub(crate) fn passed(&mut self, point: Point) -> Clock {
        let passed = self.streams[point.stream.index()].history.ask(point.seq);
        let mut clock = passed.unwrap_or_else(|| self.nothing.clone());
        clock.raise(point);
        clock
    }

    /// What an allocation on `stream` knows that stands here: all before it there, if the stream
    /// is in order, and every fence.
    pub(crate) fn knows(&mut self, stream: StreamId) -> &Clock {
        let s = &mut self.streams[stream.index()];
        if s.fences < self.fences {
            s.knows.join(&self.fence);
            s.fences = self.fences;
        }
        &s.knows
    }

    /// What an instruction at `at` knows that is no wait: its stream, and on a pool the waits that
    /// bind to it.
    pub(crate) fn arrive(&mut self, at: Point) -> Clock {
        let mut clock = self.knows(at.stream).clone();
        if let Some(waited) = self.streams[at.stream.index()].pending.take() {
            clock.join(&waited);
        }
        clock
    }

    /// The instruction at `at` came after all that `clock` knows.
    pub(crate) fn leave(&mut self, at: Point, clock: &Clock) {
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

    /// The instruction at `at` is a wait for what `passed` knows. What it brings is owed to `wait`,
    /// if there is one. Returns whether it brings anything.
    pub(crate) fn wait(&mut self, at: Point, passed: &Clock, wait: Option<usize>) -> bool {
        let knows = self.knows(at.stream).clone();
        let mut clock = knows.clone();
        clock.join(passed);
        let mut news = wait.is_none_or(|wait| clock.owe(&knows, wait, &mut self.lost));
        if self.is_pool(at.stream) {
            let before = self.streams[at.stream.index()].pending.take();
            let before = before.unwrap_or_else(|| self.nothing.clone());
            let mut pending = before.clone();
            pending.join(passed);
            news &= wait.is_none_or(|wait| pending.owe(&before, wait, &mut self.lost));
            self.streams[at.stream.index()].pending = Some(pending);
        }
        self.leave(at, &clock);
        news
    }

    /// The instruction at `at` stands between all before and all later.
    pub(crate) fn barrier(&mut self, at: Point) {
        // No clock knows of places that are not there yet, so the tails cover them all.
        let clock = self.latest.clone();
        self.leave(at, &clock);
        self.fence = self.latest.clone();
        self.fences += 1;
    }

    /// Everything later knows that these points have passed. What that brings is owed to `wait`, if
    /// there is one. Returns whether it brings anything.
    pub(crate) fn observe(&mut self, points: &[Point], wait: Option<usize>) -> bool {
        let before = self.fence.clone();
        for &point in points {
            let passed = self.passed(point);
            self.fence.join(&passed);
        }
        self.fences += 1;
        wait.is_none_or(|wait| self.fence.owe(&before, wait, &mut self.lost))
    }
}
