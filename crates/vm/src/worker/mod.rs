//! The engine of one worker: runs what its streams are given, in each stream's order.
//!
//! # States of an instruction
//! | state | where it is |
//! |---|---|
//! | pending | in the worker's queue, or in its stream's `waiting` behind one that is held |
//! | ready | at the head of its stream, and all it waits for has come |
//! | dispatched | in [`Core::run`] |
//! | launched | in its stream's `flying`: handed to the device, `launched` published |
//! | completed | `completed` published; failed and skipped ones complete as well |
//! | retired | counted by [`Core::flush`]; its slots may be given out again |
//!
//! # Rules
//! 1. A stream runs its instructions in the order they came. One that cannot run yet holds the
//!    stream, and no other.
//! 2. On a device whose commands complete at once, launched and completed are one step.
//! 3. On any other, instructions complete in the order of `flying`: each when its command has, and
//!    a wait only when its point has been published, so that poison comes before its readers.
//! 4. The core reads no clock and never blocks. Functions of the host's go to threads that are not
//!    its own.

pub(crate) mod inbox;
mod lane;
mod launch;
mod pooled;
mod retire;
mod stored;
pub(crate) mod task;
mod work;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use millstream_types::{Point, StreamId};

use crate::sync::points::{Mark, Waiter};
use crate::tables::Engine;
use crate::worker::inbox::{Inbox, News};
use crate::worker::task::{StoredCall, Task};

pub(crate) use lane::Hosting;
use lane::Lane;

/// How far a stream has come, for the log of a simulated run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) launched: u64,
    pub(crate) completed: u64,
    pub(crate) held: bool,
}

/// One worker's streams and what they are doing.
pub(crate) struct Core {
    engine: Arc<Engine>,
    inbox: Arc<Inbox>,
    lanes: Vec<Lane>,
    /// The place of each stream in `lanes`; `NONE` for those of other workers.
    index: Vec<u32>,
    /// Lanes with published points that have not been flushed.
    dirty: Vec<u32>,
    /// Tasks finished since the last flush.
    finished: u64,
    news: Vec<News>,
    stop: bool,
}

const NONE: u32 = u32::MAX;

/// How long a worker sleeps between two questions to a device that does not tell by itself.
pub(crate) const POLL: Duration = Duration::from_micros(50);

impl Core {
    pub(crate) fn new(engine: Arc<Engine>, inbox: Arc<Inbox>) -> Core {
        Core {
            engine,
            inbox,
            lanes: Vec::new(),
            index: Vec::new(),
            dirty: Vec::new(),
            finished: 0,
            news: Vec::new(),
            stop: false,
        }
    }

    /// Takes a task: runs it now, or keeps it until its stream can.
    pub(crate) fn accept(&mut self, task: Task) {
        if let Task::Open(id, key) = task {
            self.open(id, *key);
            return;
        }
        let at = self.index[task.lane().index()] as usize;
        let lane = &mut self.lanes[at];
        if lane.is_held() || !lane.waiting.is_empty() {
            lane.waiting.push_back(task);
        } else if let Some(task) = self.run(at, task) {
            self.lanes[at].waiting.push_front(task);
        }
    }

    /// Takes a stored call.
    #[inline]
    pub(crate) fn accept_call(&mut self, call: StoredCall) {
        let at = self.index[call.stream.index()] as usize;
        let lane = &mut self.lanes[at];
        if lane.is_held() || !lane.waiting.is_empty() {
            lane.waiting.push_back(Task::Call(call));
        } else if let Some(task) = self.call_stored(at, call) {
            self.lanes[at].waiting.push_front(task);
        }
    }

    fn open(&mut self, id: StreamId, key: millstream_types::StreamKey) {
        if self.index.len() <= id.index() {
            self.index.resize(id.index() + 1, NONE);
        }
        self.index[id.index()] = self.lanes.len() as u32;
        self.lanes.push(Lane::new(id, key));
    }

    /// Runs what a stream has waiting, as far as it can.
    fn drain(&mut self, at: usize) {
        while !self.lanes[at].is_held()
            && let Some(task) = self.lanes[at].waiting.pop_front()
        {
            if let Some(task) = self.run(at, task) {
                self.lanes[at].waiting.push_front(task);
                return;
            }
        }
    }

    /// Holds a stream until a point has got far enough. Returns false if it has.
    fn hold(&mut self, at: usize, point: Point, mark: Mark) -> bool {
        let lane = &mut self.lanes[at];
        if self.engine.points.reached(point, mark) {
            return false;
        }
        let waiter = Waiter::Lane(self.inbox.clone(), lane.id);
        lane.held = self.engine.points.park(point, mark, waiter).then_some((point, mark));
        lane.held.is_some()
    }

    /// Hears what others have left in the inbox. Returns whether there was anything.
    pub(crate) fn hear(&mut self) -> bool {
        if !self.inbox.has_news() {
            return false;
        }
        let mut news = std::mem::take(&mut self.news);
        self.inbox.take(&mut news);
        for one in news.drain(..) {
            self.heed(one);
        }
        self.news = news;
        true
    }

    /// Hears the oldest of what others have left in the inbox.
    pub(crate) fn hear_one(&mut self) {
        if let Some(one) = self.inbox.take_one() {
            self.heed(one);
        }
    }

    fn heed(&mut self, news: News) {
        match news {
            News::Stop => self.stop = true,
            News::Resume(lane) => self.resume(self.index[lane.index()] as usize),
            News::HostDone(point, result) => {
                let at = self.index[point.stream.index()] as usize;
                self.host_done(at, point.seq, result);
                self.drain(at);
            }
            News::Device(lane) => {
                // The device may call before the stream's opening has come to an end.
                let at = self.index[lane.index()] as usize;
                self.poll(at);
                self.drain(at);
            }
        }
    }

    /// What a stream waits for may have come.
    fn resume(&mut self, at: usize) {
        // Either of the two may have. The waiter of one that has not still stands.
        let (lane, points) = (&mut self.lanes[at], &self.engine.points);
        lane.held.take_if(|(point, mark)| points.reached(*point, *mark));
        lane.watching.take_if(|point| points.reached(*point, Mark::Completed));
        self.retire(at);
        self.drain(at);
    }

    /// The first stream that waits for what has come.
    fn behind(&self) -> Option<usize> {
        let points = &self.engine.points;
        self.lanes.iter().position(|lane| {
            lane.held.is_some_and(|(point, mark)| points.reached(point, mark))
                || lane.watching.is_some_and(|point| points.reached(point, Mark::Completed))
        })
    }

    /// Whether a stream waits for what has come, and its worker has not been told yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind().is_some()
    }

    /// Goes on with such streams.
    pub(crate) fn catch_up(&mut self) {
        while let Some(at) = self.behind() {
            self.resume(at);
        }
    }

    /// Asks the devices that have something outstanding. Returns whether one had news. A worker
    /// sleeps only after this had none, even where a device tells by itself.
    pub(crate) fn poll_devices(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.lanes.len() {
            if !self.lanes[at].flying.is_empty() {
                let before = self.finished;
                self.poll(at);
                self.drain(at);
                moved |= self.finished != before;
            }
        }
        moved
    }

    /// Whether a device has something outstanding.
    pub(crate) fn has_flying(&self) -> bool {
        self.lanes.iter().any(|l| !l.flying.is_empty())
    }

    /// Tells how far each lane has come, with its number.
    pub(crate) fn each_progress(&self, mut tell: impl FnMut(usize, StreamId, Progress)) {
        for (k, lane) in self.lanes.iter().enumerate() {
            let state = self.engine.points.stream(lane.id);
            let completed = state.completed();
            let launched = state.launched().max(completed);
            tell(k, lane.id, Progress { launched, completed, held: lane.is_held() });
        }
    }

    /// Says what the lanes wait for that are not done, a line for each.
    pub(crate) fn describe(&self, into: &mut String) {
        for lane in self.lanes.iter().filter(|l| !l.is_idle()) {
            let done = self.engine.points.stream(lane.id).completed();
            // Writing to a string does not fail.
            let _ = write!(into, "{} ({}): {done} completed", lane.id, lane.key);
            if let Some(Hosting { instruction, .. }) = &lane.hosting {
                let name = instruction.body.kind().name();
                let _ = write!(into, ", {name} is to be completed by somebody else");
            } else if let Some(first) = lane.flying.front() {
                let _ = write!(into, ", {} is on the device", first.seq);
            }
            if let Some(next) = lane.waiting.front() {
                let held = if lane.is_held() { "held before" } else { "next is" };
                let _ = write!(into, ", {held} {}", next.name());
            }
            into.push('\n');
        }
    }

    /// Whether some device has to be asked now and then.
    pub(crate) fn must_poll(&self) -> bool {
        self.lanes.iter().any(Lane::must_be_polled)
    }

    /// Makes sure that everyone who waits for what was published is told.
    pub(crate) fn flush(&mut self) {
        for at in self.dirty.drain(..) {
            let lane = &mut self.lanes[at as usize];
            lane.dirty = false;
            self.engine.points.stream(lane.id).flush();
        }
        if self.finished > 0 {
            self.engine.backlog.finish(std::mem::take(&mut self.finished));
        }
    }

    /// Whether a function of the host's runs for one of the streams.
    pub(crate) fn is_hosting(&self) -> bool {
        self.lanes.iter().any(|l| l.hosting.is_some())
    }

    /// Whether the worker was told to stop and has nothing left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.stop && self.lanes.iter().all(Lane::is_idle)
    }

    /// Publishes that a lane has got as far as `seq`. Of a pool, the pool knows how far that is.
    #[inline]
    fn publish(&mut self, at: usize, seq: u64, mark: Mark) {
        let lane = &mut self.lanes[at];
        if lane.pooled {
            return;
        }
        self.engine.points.stream(lane.id).publish(seq, mark);
        if !lane.dirty {
            lane.dirty = true;
            self.dirty.push(at as u32);
        }
    }
}
