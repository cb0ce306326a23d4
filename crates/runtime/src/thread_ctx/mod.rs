//! The loop of one worker: runs the instructions of its streams, each stream in its order.
//!
//! Long because the states of streams change in one place.
//!
//! # States of an instruction
//! | state | where it is |
//! |---|---|
//! | queued | in the worker's queue, or in its stream's `pending` behind a blocked one |
//! | ready | at the head of its stream, with all its waits complete |
//! | dispatched | in [`ThreadCtx::run`] |
//! | launched | in its stream's `in_flight`: handed to the device, `launched` published |
//! | completed | `completed` published; failed and skipped instructions complete as well |
//! | retired | counted by [`ThreadCtx::flush`]; its slots may be reused |
//!
//! # Rules
//! 1. A stream runs its instructions in the order in which they came. An instruction that cannot
//!    run yet blocks its stream, and no other.
//! 2. On a device whose commands complete at once, launched and completed are one step.
//! 3. On any other device, instructions complete in the order of `in_flight`: each when its command
//!    has completed, and a wait only when its point has been published, so that poison arrives
//!    before its readers run.
//! 4. The worker never blocks its thread, and reads a clock only while times are recorded. Host
//!    functions run on other threads.

pub mod apart;
mod graph;
mod host_work;
mod launch;
mod lifetime;
mod outcome;
pub(crate) mod pauses;
pub(crate) mod pooled;
mod ranks;
mod retire;
mod stored;
mod stream;
mod subject;
mod tape;
pub(crate) mod task;
mod unit;
mod work;

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use millstream_stream_policy::{KnownChunks, WorkerGroup};
use millstream_types::{DeviceId, Error, Point, StreamId, StreamKey, StreamType};

use crate::profile::recording::Recording;
use crate::profile::samples::StreamSamples;
use crate::sync::inbox::{Inbox, Message};
use crate::sync::points::{Milestone, Waiter};
use crate::tables::Tables;
use crate::tapes::run::Run;
use crate::thread_ctx::task::{StoredCall, Task};

use lifetime::WorkerLifetime;
pub(crate) use stream::ExternalCompletion;
use stream::WorkerStream;
use subject::StepRef;

/// The progress of a stream, for the log of a simulated run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) launched: u64,
    pub(crate) completed: u64,
    pub(crate) blocked: bool,
}

/// One worker's streams and their states.
pub(crate) struct ThreadCtx {
    tables: Arc<Tables>,
    inbox: Arc<Inbox>,
    streams: Vec<WorkerStream>,
    /// The position of each stream in `streams`; `NONE` for those of other workers.
    index: Vec<u32>,
    /// Streams with published points that have not been flushed.
    dirty: Vec<u32>,
    /// All streams that are not idle, and some that were not at the last flush, by position. So a
    /// round of the worker takes as long as it has work, and not as it has streams.
    active: Vec<StreamId>,
    /// Tasks finished since the last flush, and steps of tapes that completed as instructions do.
    finished: u64,
    /// Steps of tapes that count in `finished` when they complete, or did. The engine counts the
    /// play of a tape alone.
    steps: u64,
    /// Where it has found scratch memory of stored calls.
    known_chunks: KnownChunks,
    messages: Vec<Message>,
    stop: bool,
    /// Whether a stream is to be forgotten once it is idle.
    closing: bool,
    /// A pool worker's: the recording of times under way.
    recording: Option<Arc<Recording>>,
    /// Dropped last: the worker stops after its streams were closed.
    _lifetime: WorkerLifetime,
}

const NONE: u32 = u32::MAX;

/// Returns the key of a stream that has work but was never opened. No policy serves its type.
pub(crate) fn unopened_key() -> StreamKey {
    StreamKey::new(DeviceId::cpu(0), StreamType::new("unopened"), 0)
}

/// How long a worker sleeps between two polls of a device that sends no notifications.
pub(crate) const POLL: Duration = Duration::from_micros(50);

impl ThreadCtx {
    /// Starts a worker of a group on this thread.
    pub(crate) fn new(tables: Arc<Tables>, inbox: Arc<Inbox>, group: WorkerGroup) -> ThreadCtx {
        let lifetime = WorkerLifetime::begin(&tables, group);
        ThreadCtx {
            tables,
            inbox,
            streams: Vec::new(),
            index: Vec::new(),
            dirty: Vec::new(),
            active: Vec::new(),
            finished: 0,
            steps: 0,
            known_chunks: KnownChunks::default(),
            messages: Vec::new(),
            stop: false,
            closing: false,
            recording: None,
            _lifetime: lifetime,
        }
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Takes a task: runs it now, or queues it until its stream can run it.
    pub(crate) fn accept(&mut self, task: Task) {
        let task = match task {
            Task::OpenStream(id, key) if self.position(id).is_none() => return self.open(id, *key),
            Task::Launch(run) => return self.accept_launch(run),
            task => task,
        };
        let at = self.place(task.stream());
        let stream = &mut self.streams[at];
        if stream.is_blocked() || !stream.pending.is_empty() {
            stream.pending.push_back(task);
        } else if let Some(task) = self.run(at, task) {
            self.streams[at].pending.push_front(task);
        }
        self.note_active(at);
    }

    /// Notes a stream that is not idle.
    #[inline]
    fn note_active(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        if !stream.is_active && !stream.is_idle() {
            stream.is_active = true;
            let (id, index) = (stream.id, &self.index);
            let before = |other: &StreamId| index[other.index()] < at as u32;
            self.active.insert(self.active.partition_point(before), id);
        }
    }

    /// Returns the positions of the streams that may not be idle.
    fn active(&self) -> impl Iterator<Item = usize> + '_ {
        self.active.iter().filter_map(|stream| self.position(*stream))
    }

    /// Takes a launch: its begin, its tapes on streams of this worker, and its end. Each of the
    /// tasks is blocked with its own stream.
    fn accept_launch(&mut self, run: Arc<Run>) {
        self.accept(Task::BeginLaunch(run.clone()));
        for (k, playing) in run.tapes.iter().enumerate() {
            let stream = playing.stream.id();
            if self.position(stream).is_some() {
                let (tape, run) = (k as u16, run.clone());
                self.accept(Task::Play { stream, tape, next: 0, run });
            }
        }
        self.accept(Task::EndLaunch(run));
    }

    /// Takes a stored call.
    #[inline]
    pub(crate) fn accept_call(&mut self, call: StoredCall) {
        let at = self.place(call.stream);
        let stream = &mut self.streams[at];
        if stream.is_blocked() || !stream.pending.is_empty() {
            stream.pending.push_back(Task::Call(call));
        } else if let Some(task) = self.call_stored(at, call) {
            self.streams[at].pending.push_front(task);
        }
        self.note_active(at);
    }

    /// Returns the position of a stream, if it is open here.
    fn position(&self, stream: StreamId) -> Option<usize> {
        self.index.get(stream.index()).filter(|at| **at != NONE).map(|at| *at as usize)
    }

    /// Returns the position of a stream that has work here.
    #[inline]
    fn place(&mut self, stream: StreamId) -> usize {
        self.position(stream).unwrap_or_else(|| self.open_lost(stream))
    }

    /// Opens a stream that was never given to this worker. All its work fails.
    #[cold]
    fn open_lost(&mut self, id: StreamId) -> usize {
        self.open(id, unopened_key());
        let message = format!("{id} got work before a worker had opened it");
        let at = self.streams.len() - 1;
        self.streams[at].lost = Some(Error::Internal { message });
        at
    }

    fn open(&mut self, id: StreamId, key: StreamKey) {
        if self.index.len() <= id.index() {
            self.index.resize(id.index() + 1, NONE);
        }
        self.index[id.index()] = self.streams.len() as u32;
        self.streams.push(WorkerStream::new(id, key));
    }

    /// Begins or ends the recording of a stream's times.
    pub(super) fn record_times(&mut self, at: usize, recording: Option<Arc<Recording>>) {
        let stream = &mut self.streams[at];
        // What was recorded is given to its recording.
        stream.samples = recording.map(|to| Box::new(StreamSamples::new(to, stream.id)));
        if let Some(native) = &mut stream.native {
            let clock = stream.samples.as_ref().map(|samples| samples.clock());
            // Without the device's times, those of the host stand.
            let _ = native.stream.measure(clock);
        }
    }

    /// Runs a stream's pending tasks until one blocks.
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

    /// Blocks a stream until a point has reached a milestone. Returns false if it already has.
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

    /// Handles all messages. Returns whether there were any.
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

    /// Handles the oldest message.
    pub(crate) fn poll_inbox_once(&mut self) {
        if let Some(one) = self.inbox.take_one() {
            self.handle(one);
        }
    }

    fn handle(&mut self, messages: Message) {
        match messages {
            Message::Stop => self.stop = true,
            // A closed stream waits for nothing.
            Message::Resume(stream) => {
                if let Some(at) = self.position(stream) {
                    self.resume(at);
                }
            }
            Message::ExternalDone(point, result) => {
                if let Some(at) = self.position(point.stream) {
                    self.external_done(at, point.seq, result);
                    self.run_pending(at);
                }
            }
            Message::Device(stream) => {
                // The device may notify before the stream's opening has ended, or after its close.
                if let Some(at) = self.position(stream) {
                    self.poll(at);
                    self.run_pending(at);
                }
            }
        }
    }

    /// Continues a stream that waits for a point.
    fn resume(&mut self, at: usize) {
        // Either of the two points may have been reached. The waiter of the other stays registered.
        let (stream, points) = (&mut self.streams[at], &self.tables.points);
        stream.blocked_on.take_if(|(point, milestone)| points.reached(*point, *milestone));
        stream.awaited.take_if(|point| points.reached(*point, Milestone::Completed));
        self.retire(at);
        self.run_pending(at);
    }

    /// Returns the first stream that waits for a reached point.
    fn behind(&self) -> Option<usize> {
        let points = &self.tables.points;
        self.active().find(|&at| {
            let WorkerStream { blocked_on, awaited, .. } = &self.streams[at];
            blocked_on.is_some_and(|(point, milestone)| points.reached(point, milestone))
                || awaited.is_some_and(|point| points.reached(point, Milestone::Completed))
        })
    }

    /// Returns whether a stream waits for a reached point whose message has not arrived.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind().is_some()
    }

    /// Continues all streams that wait for a reached point.
    pub(crate) fn catch_up(&mut self) {
        while let Some(at) = self.behind() {
            self.resume(at);
        }
    }

    /// Polls all devices with instructions in flight. Returns whether any completed. A worker parks
    /// only after this completed nothing, even where devices send notifications.
    pub(crate) fn poll_devices(&mut self) -> bool {
        let mut moved = false;
        for k in 0..self.active.len() {
            if let Some(at) = self.position(self.active[k])
                && !self.streams[at].in_flight.is_empty()
            {
                let before = self.finished;
                self.poll(at);
                self.run_pending(at);
                moved |= self.finished != before;
            }
        }
        moved
    }

    /// Returns whether something outside of the worker can let it continue: a message, a device, or
    /// a function of the host.
    #[inline]
    pub(crate) fn awaits_others(&self) -> bool {
        self.inbox.has_messages() || self.has_in_flight() || self.awaits_external()
    }

    /// Returns whether an instruction is in flight.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.active().any(|at| !self.streams[at].in_flight.is_empty())
    }

    /// Reports the progress of each stream.
    pub(crate) fn each_progress(&self, mut tell: impl FnMut(StreamId, Progress)) {
        for stream in &self.streams {
            let state = self.tables.points.stream(stream.id);
            let completed = state.completed();
            let launched = state.launched().max(completed);
            tell(stream.id, Progress { launched, completed, blocked: stream.is_blocked() });
        }
    }

    /// Describes each stream that is not idle, in one line.
    pub(crate) fn describe(&self, into: &mut String) {
        for stream in self.streams.iter().filter(|l| !l.is_idle()) {
            let done = self.tables.points.stream(stream.id).completed();
            // Writing to a string does not fail.
            let _ = write!(into, "{} ({}): {done} completed", stream.id, stream.key);
            if let Some(ExternalCompletion { subject, .. }) = &stream.external {
                let name = subject.name();
                let _ = write!(into, ", {name} awaits an external completion");
            } else if let Some(first) = stream.in_flight.front() {
                let _ = write!(into, ", {} is on the device", first.seq);
                if let Some(StepRef { run, tape, step }) = first.effect.step() {
                    let _ = write!(into, ": {}", run.describe(&self.tables.ops, *tape, *step));
                }
            }
            if let Some(next) = stream.pending.front() {
                let blocked_on = if stream.is_blocked() { "blocked before" } else { "next is" };
                let _ = write!(into, ", {blocked_on} {}", next.name());
                if let Task::Play { tape, next, run, .. } = next {
                    let _ = write!(into, ": {}", run.describe(&self.tables.ops, *tape, *next));
                }
            }
            into.push('\n');
        }
    }

    /// Returns whether a device has to be polled regularly.
    pub(crate) fn must_poll(&self) -> bool {
        self.active().any(|at| self.streams[at].must_be_polled())
    }

    /// Wakes all waiters for published points, and forgets the closed streams.
    pub(crate) fn flush(&mut self) {
        for &at in &self.dirty {
            let stream = &mut self.streams[at as usize];
            stream.dirty = false;
            self.tables.points.stream(stream.id).flush();
        }
        self.dirty.clear();
        let ThreadCtx { active, index, streams, .. } = self;
        active.retain(|stream| {
            let at = index.get(stream.index()).filter(|at| **at != NONE);
            let Some(stream) = at.map(|at| &mut streams[*at as usize]) else { return false };
            stream.is_active = !stream.is_idle();
            stream.is_active
        });
        if self.finished > 0 {
            let finished = std::mem::take(&mut self.finished);
            // While steps are in flight, tasks count later: the backlog is never taken for less.
            let steps = finished.min(self.steps);
            self.steps -= steps;
            if finished > steps {
                self.tables.backlog.finish(finished - steps);
            }
        }
        if self.closing {
            self.forget_closed();
        }
    }

    #[cold]
    fn forget_closed(&mut self) {
        let is_over = |stream: &WorkerStream| stream.closing && stream.is_idle();
        while let Some(at) = self.streams.iter().position(is_over) {
            self.record_times(at, None);
            let closed = self.streams.swap_remove(at);
            self.index[closed.id.index()] = NONE;
            if let Some(moved) = self.streams.get(at) {
                self.index[moved.id.index()] = at as u32;
            }
        }
        self.closing = self.streams.iter().any(|stream| stream.closing);
    }

    /// Returns whether a stream waits for an external completion.
    pub(crate) fn awaits_external(&self) -> bool {
        self.active().any(|at| self.streams[at].external.is_some())
    }

    /// Returns whether the worker was stopped and has nothing left to do.
    pub(crate) fn is_done(&self) -> bool {
        self.stop && self.active().all(|at| self.streams[at].is_idle())
    }

    /// Publishes that a stream has reached `seq`. For a pool the pool publishes, as only its graph
    /// knows.
    #[inline]
    fn publish(&mut self, at: usize, seq: u64, milestone: Milestone) {
        let stream = &mut self.streams[at];
        if let Some(samples) = &mut stream.samples {
            samples.reached(seq, milestone);
        }
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
