//! What each stream knows to have passed, place by place.

use millstream_instructions::StreamDecl;
use millstream_types::{Point, StreamId, StreamMode, StreamType};

use crate::clock::Clock;

#[derive(Debug)]
struct Stream {
    mode: StreamMode,
    ty: StreamType,
    /// The sequence number of the last instruction.
    last: u64,
    /// What the next instruction knows. On a pool this grows at fences alone.
    knows: Clock,
    /// Up to which fence `knows` has been brought.
    fences: u64,
    /// Of a pool: what the waits since the last other instruction have waited for. They bind to
    /// the next one.
    pending: Option<Clock>,
    /// Of a pool: what has passed once all that it was given so far has.
    passed: Clock,
    /// What has passed once the stream has passed a place, without the place itself; from that
    /// place on until the next in the log.
    log: Vec<(u64, Clock)>,
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
}

impl Streams {
    pub(crate) fn new(declared: &[StreamDecl]) -> Streams {
        let nothing = Clock::new(declared.len());
        let one = |decl: &StreamDecl| Stream {
            mode: decl.mode,
            ty: decl.key.ty,
            last: 0,
            knows: nothing.clone(),
            fences: 0,
            pending: None,
            passed: nothing.clone(),
            log: Vec::new(),
        };
        Streams {
            streams: declared.iter().map(one).collect(),
            latest: nothing.clone(),
            fence: nothing.clone(),
            fences: 0,
        }
    }

    pub(crate) fn is_declared(&self, stream: StreamId) -> bool {
        stream.index() < self.streams.len()
    }

    pub(crate) fn ty(&self, stream: StreamId) -> StreamType {
        self.streams[stream.index()].ty
    }

    pub(crate) fn is_pool(&self, stream: StreamId) -> bool {
        self.streams[stream.index()].mode == StreamMode::Pool
    }

    /// The last place given so far.
    pub(crate) fn tail(&self, stream: StreamId) -> Point {
        Point::new(stream, self.streams[stream.index()].last)
    }

    /// Whether the stream was given this place, or a later one, already.
    pub(crate) fn has(&self, point: Point) -> bool {
        point.seq <= self.streams[point.stream.index()].last
    }

    /// What has passed once `point` has. Knowing a place of an in-order stream, or a pool up to a
    /// place, is knowing all that stands before it there, and what that knew then.
    pub(crate) fn passed(&self, point: Point) -> Clock {
        let log = &self.streams[point.stream.index()].log;
        let upto = log.partition_point(|(place, _)| *place <= point.seq);
        let mut clock = match upto.checked_sub(1) {
            Some(at) => log[at].1.clone(),
            None => Clock::new(self.streams.len()),
        };
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
        s.last = s.last.max(at.seq);
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
        if s.log.last().is_none_or(|(_, known)| !known.is(passed)) {
            s.log.push((at.seq, passed.clone()));
        }
        self.latest.raise(at);
    }

    /// The instruction at `at` is a wait for what `passed` knows.
    pub(crate) fn wait(&mut self, at: Point, passed: &Clock) {
        let mut clock = self.knows(at.stream).clone();
        clock.join(passed);
        if self.is_pool(at.stream) {
            let nothing = Clock::new(self.streams.len());
            self.streams[at.stream.index()].pending.get_or_insert(nothing).join(passed);
        }
        self.leave(at, &clock);
    }

    /// The instruction at `at` stands between all before and all later.
    pub(crate) fn barrier(&mut self, at: Point) {
        // No clock knows of places that are not there yet, so the tails cover them all.
        let clock = self.latest.clone();
        self.leave(at, &clock);
        self.fence = self.latest.clone();
        self.fences += 1;
    }

    /// Everything later knows that `point` has passed.
    pub(crate) fn observe(&mut self, point: Point) {
        let passed = self.passed(point);
        self.fence.join(&passed);
        self.fences += 1;
    }
}
