//! The streams of the program: the worker of each, and whether the worker runs it now.
//!
//! # Rules
//! 1. A worker forgets a closed stream once the stream is idle, so tasks go to an [`OpenStream`]
//!    alone. Only the opening of a stream makes one.
//! 2. A stream has a worker from its first opening on. It keeps the worker while it is closed, as
//!    earlier instructions may still be queued there.
//! 3. An emission may need a stream that no handle holds: an event behind the last write to a
//!    tensor, a pattern in free memory. A closed stream is opened for such a task, and closed again
//!    behind it.

use std::cell::Cell;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::StreamDecl;
use millstream_stream_policy::WorkerGroup;
use millstream_types::{DeviceId, Point, Result, StreamId, StreamKey, StreamMode, StreamType};

use crate::engine::StreamOptions;
use crate::scope::cancel::{self, CancelScope};
use crate::sync::points::Milestone;
use crate::thread_ctx::task::Task;

use super::Router;

/// A stream that a worker runs, with the worker's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenStream {
    id: StreamId,
    worker: usize,
}

impl OpenStream {
    pub const fn id(self) -> StreamId {
        self.id
    }

    pub const fn worker(self) -> usize {
        self.worker
    }
}

/// A stream as the router sees it.
#[derive(Clone, Debug)]
pub(super) struct RoutedStream {
    pub(super) id: StreamId,
    /// The key that it was opened under last, and its worker.
    opened: Option<(StreamKey, usize)>,
    /// None while it is closed.
    pub(super) open: Option<OpenStream>,
    /// The sequence number of the last instruction given to the worker.
    pub(super) tail: u64,
    /// The last completed instruction, when it was last asked: the worker writes the counter all
    /// the time, so a look at it takes as long as many instructions.
    pub(super) completed: Cell<u64>,
    /// Points that the next instruction comes after, beside its waits.
    pub(super) gates: SmallVec<[Point; 2]>,
    /// The cancel scopes that its worker applies to the next instruction.
    pub(super) cancel_scope: Option<Arc<CancelScope>>,
    /// Its device, if that compiles the kernels of calls.
    pub(super) compiling: Option<DeviceId>,
}

/// The worker of the host's streams with a priority.
const PRIORITIZED: StreamType = StreamType::new("prioritized");

/// The worker of a stream that has none yet.
const UNOPENED: usize = usize::MAX;

impl RoutedStream {
    fn unopened(id: StreamId, last_barrier: Option<Point>) -> RoutedStream {
        RoutedStream {
            id,
            opened: None,
            open: None,
            tail: 0,
            completed: Cell::new(0),
            gates: last_barrier.into_iter().collect(),
            cancel_scope: None,
            compiling: None,
        }
    }
}

impl Router {
    /// Returns whether a worker runs a stream of the program.
    #[inline]
    pub(crate) fn is_open(&self, id: StreamId) -> bool {
        self.streams.get(id.index()).is_some_and(|s| s.open.is_some())
    }

    /// Has a worker run a stream of the program, unless one does. Called before the first
    /// instruction is emitted, as the thread that it may need can be refused.
    pub(crate) fn open(&mut self, id: StreamId, decl: &StreamDecl) -> Result<()> {
        let stream = self.routed(id);
        if stream.open.is_none() {
            let worker = stream.opened.as_ref().map(|(_, worker)| *worker);
            let worker = worker.map_or_else(|| self.choose_worker(id, decl), Ok)?;
            self.open_on(id, decl.key.clone(), worker);
        }
        Ok(())
    }

    fn open_on(&mut self, id: StreamId, key: StreamKey, worker: usize) -> OpenStream {
        let open = self.assign(id, &key, worker);
        let compiling = self.compiles(&key.device).then(|| key.device.clone());
        let stream = self.routed(id);
        (stream.opened, stream.open, stream.compiling) =
            (Some((key, worker)), Some(open), compiling);
        open
    }

    /// Returns a stream of the program, which is opened again if it is closed.
    pub(super) fn opened(&mut self, id: StreamId) -> OpenStream {
        let stream = self.routed(id);
        if let Some(open) = stream.open {
            return open;
        }
        match stream.opened.clone() {
            Some((key, worker)) => self.open_on(id, key, worker),
            // Only an emission that has not opened its own stream comes here. The worker was not
            // given the stream, and fails all its work.
            None => *stream.open.insert(OpenStream { id, worker: 0 }),
        }
    }

    fn routed(&mut self, id: StreamId) -> &mut RoutedStream {
        while self.streams.len() <= id.index() {
            let id = StreamId(self.streams.len() as u16);
            self.streams.push(RoutedStream::unopened(id, self.last_barrier));
        }
        &mut self.streams[id.index()]
    }

    /// Has the worker of a stream of the program close it behind all its instructions.
    pub fn close(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id.index()) else { return };
        if let Some(open) = stream.open.take() {
            // The next instruction may come from another thread's scope.
            stream.cancel_scope = None;
            self.push(open, Task::CloseStream(id));
        }
    }

    /// Sets the options of a stream that has no worker yet.
    pub fn set_options(&mut self, id: StreamId, options: StreamOptions) {
        self.options.insert(id, options);
    }

    /// Returns the open streams of the program.
    pub fn open_streams(&self) -> impl Iterator<Item = OpenStream> + '_ {
        self.streams.iter().filter_map(|stream| stream.open)
    }

    /// Returns the last point of each stream that was given anything.
    pub fn tails(&self) -> Vec<Point> {
        let streams = self.streams.iter().filter(|s| s.tail > 0);
        streams.map(|s| Point::new(s.id, s.tail)).collect()
    }

    fn choose_worker(&mut self, id: StreamId, decl: &StreamDecl) -> Result<usize> {
        let key = &decl.key;
        let (group, any_order) = self
            .tables
            .policies
            .query(key, |policy| (policy.worker_group(key), policy.runs_in_any_order()))?;
        let options = self.options.get(&id).copied().unwrap_or_default();
        match group {
            WorkerGroup::Host | WorkerGroup::Dedicated(_)
                if decl.mode == StreamMode::Pool && any_order =>
            {
                self.driver.pool(&self.tables, group)
            }
            WorkerGroup::Host if options.worker.is_some() => {
                let worker = options.worker.unwrap_or_default();
                self.driver.host_worker_after(&self.tables, UNOPENED, worker)
            }
            WorkerGroup::Host if options.priority > Some(0) => {
                self.driver.own_worker(&self.tables, WorkerGroup::Dedicated(PRIORITIZED))
            }
            WorkerGroup::Host => {
                self.next_host_worker += 1;
                self.driver.host_worker(&self.tables, self.next_host_worker - 1)
            }
            other => self.driver.own_worker(&self.tables, other),
        }
    }

    /// Assigns a stream to a worker.
    pub(super) fn assign(&mut self, id: StreamId, key: &StreamKey, worker: usize) -> OpenStream {
        let opening = Task::OpenStream(id, Box::new(key.clone()));
        if let Some(watchdog) = &self.watchdog {
            watchdog.note(&opening);
        }
        self.driver.push(worker, opening);
        let open = OpenStream { id, worker };
        if let Some(times) = &self.times {
            let record = Task::RecordTimes(id, Some(times.recording.clone()));
            self.push(open, record);
        }
        open
    }

    /// Gives a task to the worker of its stream.
    pub(super) fn push(&mut self, to: OpenStream, task: Task) {
        if self.only_checks() {
            return;
        }
        debug_assert_eq!(task.stream(), to.id, "a task of another stream");
        self.tables.backlog.add();
        if let Some(watchdog) = &self.watchdog {
            watchdog.note(&task);
        }
        self.driver.push(to.worker, task);
    }

    /// Gives a task for `stream` of the program to its worker, behind the stream's gates.
    pub(super) fn submit(&mut self, stream: StreamId, seq: u64, task: Task) {
        if self.only_checks() {
            return self.complete(Point::new(stream, seq));
        }
        let RoutedStream { open, opened, .. } = self.routed(stream);
        let was_closed = open.is_none() && opened.is_some();
        let to = self.opened(stream);
        let own = &mut self.streams[stream.index()];
        own.tail = seq;
        for gate in std::mem::take(&mut own.gates) {
            self.push(to, Task::Gate(stream, gate, Milestone::Completed));
        }
        if let Some(times) = &mut self.times {
            times.submitted(Point::new(stream, seq));
        }
        let own = &mut self.streams[stream.index()];
        if !cancel::same(own.cancel_scope.as_ref(), self.cancel_scope.as_ref()) {
            own.cancel_scope.clone_from(&self.cancel_scope);
            let enter = Task::SetCancelScope(stream, own.cancel_scope.clone());
            self.push(to, enter);
        }
        self.push(to, task);
        if was_closed {
            self.close(stream);
        }
    }
}
