//! The tables of one worker: runs what its streams are given, in each stream's order.
//!
//! # States of an instruction
//! | state | where it is |
//! |---|---|
//! | pending | in the worker's queue, or in its stream's `waiting` behind one that is blocked_on |
//! | ready | at the head of its stream, and all it waits for has come |
//! | dispatched | in [`Worker::run`] |
//! | launched | in its stream's `in_flight`: handed to the device, `launched` published |
//! | completed | `completed` published; failed and skipped ones complete as well |
//! | retired | counted by [`Worker::flush`]; its slots may be given out again |
//!
//! # Rules
//! 1. A stream runs its instructions in the order they came. One that cannot run yet holds the
//!    stream, and no other.
//! 2. On a device whose commands complete at once, launched and completed are one step.
//! 3. On any other, instructions complete in the order of `in_flight`: each when its command has, and
//!    a wait only when its point has been published, so that poison comes before its readers.
//! 4. The worker reads no clock and never blocks. Functions of the host's go to threads that are not
//!    its own.

pub(crate) mod inbox;
mod launch;
mod pooled;
mod retire;
mod stored;
mod stream;
pub(crate) mod task;
mod work;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use millstream_types::{Point, StreamId};

use crate::sync::points::{Milestone, Waiter};
use crate::tables::Tables;
use crate::worker::inbox::{Inbox, Message};
use crate::worker::task::{StoredCall, Task};

pub(crate) use stream::ExternalCompletion;
use stream::WorkerStream;

/// How far a stream has come, for the log of a simulated run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) launched: u64,
    pub(crate) completed: u64,
    pub(crate) blocked: bool,
}

/// One worker's streams and what they are doing.
pub(crate) struct Worker {
    tables: Arc<Tables>,
    inbox: Arc<Inbox>,
    streams: Vec<WorkerStream>,
    /// The place of each stream in `streams`; `NONE` for those of other workers.
    index: Vec<u32>,
    /// Lanes with published points that have not been flushed.
    dirty: Vec<u32>,
    /// Tasks finished since the last flush.
    finished: u64,
    messages: Vec<Message>,
    stop: bool,
}

const NONE: u32 = u32::MAX;

/// How long a worker sleeps between two questions to a device that does not tell by itself.
pub(crate) const POLL: Duration = Duration::from_micros(50);

impl Worker {
    pub(crate) fn new(tables: Arc<Tables>, inbox: Arc<Inbox>) -> Worker {
        Worker {
            tables,
            inbox,
            streams: Vec::new(),
            index: Vec::new(),
            dirty: Vec::new(),
            finished: 0,
            messages: Vec::new(),
            stop: false,
        }
    }

    /// Takes a task: runs it now, or keeps it until its stream can.
    pub(crate) fn accept(&mut self, task: Task) {
        if let Task::OpenStream(id, key) = task {
            self.open(id, *key);
            return;
        }
        let at = self.index[task.stream().index()] as usize;
        let stream = &mut self.streams[at];
        if stream.is_blocked() || !stream.pending.is_empty() {
            stream.pending.push_back(task);
        } else if let Some(task) = self.run(at, task) {
            self.streams[at].pending.push_front(task);
        }
    }

    /// Takes a stored call.
    #[inline]
    pub(crate) fn accept_call(&mut self, call: StoredCall) {
        let at = self.index[call.stream.index()] as usize;
        let stream = &mut self.streams[at];
        if stream.is_blocked() || !stream.pending.is_empty() {
            stream.pending.push_back(Task::Call(call));
        } else if let Some(task) = self.call_stored(at, call) {
            self.streams[at].pending.push_front(task);
        }
    }

    fn open(&mut self, id: StreamId, key: millstream_types::StreamKey) {
        if self.index.len() <= id.index() {
            self.index.resize(id.index() + 1, NONE);
        }
        self.index[id.index()] = self.streams.len() as u32;
        self.streams.push(WorkerStream::new(id, key));
    }

    /// Runs what a stream has waiting, as far as it can.
    fn run_pending(&mut self, at: usize) {
        while !self.streams[at].is_blocked()
            && let Some(task) = self.streams[at].pending.pop_front()
        {
            if let Some(task) = self.run(at, task) {
                self.streams[at].pending.push_front(task);
                return;
            }
        }
    }

    /// Holds a stream until a point has got far enough. Returns false if it has.
    fn block_until(&mut self, at: usize, point: Point, milestone: Milestone) -> bool {
        let stream = &mut self.streams[at];
        if self.tables.points.reached(point, milestone) {
            return false;
        }
        let waiter = Waiter::Stream(self.inbox.clone(), stream.id);
        stream.blocked_on =
            self.tables.points.park(point, milestone, waiter).then_some((point, milestone));
        stream.blocked_on.is_some()
    }

    /// Hears what others have left in the inbox. Returns whether there was anything.
    pub(crate) fn poll_inbox(&mut self) -> bool {
        if !self.inbox.has_messages() {
            return false;
        }
        let mut messages = std::mem::take(&mut self.messages);
        self.inbox.take(&mut messages);
        for one in messages.drain(..) {
            self.handle(one);
        }
        self.messages = messages;
        true
    }

    /// Hears the oldest of what others have left in the inbox.
    pub(crate) fn poll_inbox_once(&mut self) {
        if let Some(one) = self.inbox.take_one() {
            self.handle(one);
        }
    }

    fn handle(&mut self, messages: Message) {
        match messages {
            Message::Stop => self.stop = true,
            Message::Resume(stream) => self.resume(self.index[stream.index()] as usize),
            Message::ExternalDone(point, result) => {
                let at = self.index[point.stream.index()] as usize;
                self.external_done(at, point.seq, result);
                self.run_pending(at);
            }
            Message::Device(stream) => {
                // The device may call before the stream's opening has come to an end.
                let at = self.index[stream.index()] as usize;
                self.poll(at);
                self.run_pending(at);
            }
        }
    }

    /// What a stream waits for may have come.
    fn resume(&mut self, at: usize) {
        // Either of the two may have. The waiter of one that has not still stands.
        let (stream, points) = (&mut self.streams[at], &self.tables.points);
        stream.blocked_on.take_if(|(point, milestone)| points.reached(*point, *milestone));
        stream.awaited.take_if(|point| points.reached(*point, Milestone::Completed));
        self.retire(at);
        self.run_pending(at);
    }

    /// The first stream that waits for what has come.
    fn behind(&self) -> Option<usize> {
        let points = &self.tables.points;
        self.streams.iter().position(|stream| {
            stream.blocked_on.is_some_and(|(point, milestone)| points.reached(point, milestone))
                || stream.awaited.is_some_and(|point| points.reached(point, Milestone::Completed))
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

    /// Asks the devices that have something outstanding. Returns whether one had messages. A worker
    /// sleeps only after this had none, even where a device tells by itself.
    pub(crate) fn poll_devices(&mut self) -> bool {
        let mut moved = false;
        for at in 0..self.streams.len() {
            if !self.streams[at].in_flight.is_empty() {
                let before = self.finished;
                self.poll(at);
                self.run_pending(at);
                moved |= self.finished != before;
            }
        }
        moved
    }

    /// Whether a device has something outstanding.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.streams.iter().any(|l| !l.in_flight.is_empty())
    }

    /// Tells how far each stream has come, with its number.
    pub(crate) fn each_progress(&self, mut tell: impl FnMut(usize, StreamId, Progress)) {
        for (k, stream) in self.streams.iter().enumerate() {
            let state = self.tables.points.stream(stream.id);
            let completed = state.completed();
            let launched = state.launched().max(completed);
            tell(k, stream.id, Progress { launched, completed, blocked: stream.is_blocked() });
        }
    }

    /// Says what the streams wait for that are not done, a line for each.
    pub(crate) fn describe(&self, into: &mut String) {
        for stream in self.streams.iter().filter(|l| !l.is_idle()) {
            let done = self.tables.points.stream(stream.id).completed();
            // Writing to a string does not fail.
            let _ = write!(into, "{} ({}): {done} completed", stream.id, stream.key);
            if let Some(ExternalCompletion { instruction, .. }) = &stream.external {
                let name = instruction.body.kind().name();
                let _ = write!(into, ", {name} is to be completed by somebody else");
            } else if let Some(first) = stream.in_flight.front() {
                let _ = write!(into, ", {} is on the device", first.seq);
            }
            if let Some(next) = stream.pending.front() {
                let blocked_on = if stream.is_blocked() { "blocked_on before" } else { "next is" };
                let _ = write!(into, ", {blocked_on} {}", next.name());
            }
            into.push('\n');
        }
    }

    /// Whether some device has to be asked now and then.
    pub(crate) fn must_poll(&self) -> bool {
        self.streams.iter().any(WorkerStream::must_be_polled)
    }

    /// Makes sure that everyone who waits for what was published is told.
    pub(crate) fn flush(&mut self) {
        for at in self.dirty.drain(..) {
            let stream = &mut self.streams[at as usize];
            stream.dirty = false;
            self.tables.points.stream(stream.id).flush();
        }
        if self.finished > 0 {
            self.tables.backlog.finish(std::mem::take(&mut self.finished));
        }
    }

    /// Whether a function of the host's runs for one of the streams.
    pub(crate) fn awaits_external(&self) -> bool {
        self.streams.iter().any(|l| l.external.is_some())
    }

    /// Whether the worker was told to stop and has nothing left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.stop && self.streams.iter().all(WorkerStream::is_idle)
    }

    /// Publishes that a stream has got as far as `seq`. Of a pool, the pool knows how far that is.
    #[inline]
    fn publish(&mut self, at: usize, seq: u64, milestone: Milestone) {
        let stream = &mut self.streams[at];
        if stream.pooled {
            return;
        }
        self.tables.points.stream(stream.id).publish(seq, milestone);
        if !stream.dirty {
            stream.dirty = true;
            self.dirty.push(at as u32);
        }
    }
}
