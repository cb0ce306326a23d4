//! From emitted instructions to the workers' queues.
//!
//! Long because streams, slots and gates change together with each instruction.
//!
//! Runs under the emission's lock, so each queue has one producer at a time. Instructions without a
//! point take effect here; all others go to the worker of their stream. Every stream is ordered
//! after a barrier: the router puts a gate for it before the stream's next instruction.

mod launch;
mod times;

use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::builder::PreparedCall;
use millstream_instructions::{
    Body, Instruction, ListRecorder, Placement, Priority, Sink, StreamDecl, TensorRef, Via,
};
use millstream_stream_policy::WorkerGroup;
use millstream_types::{
    Origin, Point, Result, StreamId, StreamKey, StreamMode, TensorId, TensorSpec,
};

use crate::driver::Driver;
use crate::driver::watchdog::Watchdog;
use crate::emission::cancel::{self, CancelScope};
use crate::sync::Ordering;
use crate::sync::points::Milestone;
use crate::tables::Tables;
use crate::tables::slots::TensorSlot;
use crate::worker::task::{MAX_TENSORS, StoredCall, Task};

use launch::TapeStreams;
pub(crate) use times::TimesRecorder;

/// A stream as the router sees it.
#[derive(Clone, Debug)]
struct RoutedStream {
    id: StreamId,
    worker: usize,
    /// The sequence number of the last instruction given to the worker.
    tail: u64,
    /// Points that the next instruction comes after, beside its waits.
    gates: SmallVec<[Point; 2]>,
    /// The cancel scopes that its worker applies to the next instruction.
    cancel_scope: Option<Arc<CancelScope>>,
}

/// The worker of a stream that has none yet.
const UNOPENED: usize = usize::MAX;

impl RoutedStream {
    fn unopened(id: StreamId) -> RoutedStream {
        RoutedStream { id, worker: UNOPENED, tail: 0, gates: SmallVec::new(), cancel_scope: None }
    }
}

/// Gives instructions to workers.
pub(crate) struct Router {
    pub(crate) tables: Arc<Tables>,
    pub(crate) driver: Driver,
    pub(crate) watchdog: Option<Arc<Watchdog>>,
    /// The cancel scopes of the thread that emits.
    pub(crate) cancel_scope: Option<Arc<CancelScope>>,
    streams: Vec<RoutedStream>,
    /// The last barrier: streams opened later come after it, too.
    last_barrier: Option<Point>,
    tapes: TapeStreams,
    pub(crate) recorder: Option<ListRecorder>,
    pub(crate) times: Option<TimesRecorder>,
    pub(crate) annotated: bool,
    next_storage: u64,
    /// The host worker that gets the next host stream.
    next_host_worker: usize,
}

impl Router {
    pub(crate) fn new(tables: Arc<Tables>, driver: Driver, annotated: bool) -> Router {
        Router {
            tables,
            driver,
            watchdog: None,
            cancel_scope: None,
            streams: Vec::new(),
            last_barrier: None,
            tapes: TapeStreams::default(),
            recorder: None,
            times: None,
            annotated,
            next_storage: 0,
            next_host_worker: 0,
        }
    }

    /// Returns whether a stream of the program has a worker.
    #[inline]
    pub(crate) fn is_open(&self, id: StreamId) -> bool {
        self.streams.get(id.index()).is_some_and(|s| s.worker != UNOPENED)
    }

    /// Assigns a worker to a stream of the program, unless it has one. Called before the first
    /// instruction is emitted, as the thread that it may need can be refused.
    pub(crate) fn open(&mut self, id: StreamId, decl: &StreamDecl) -> Result<()> {
        while self.streams.len() <= id.index() {
            let id = StreamId(self.streams.len() as u16);
            let mut stream = RoutedStream::unopened(id);
            stream.gates.extend(self.last_barrier);
            self.streams.push(stream);
        }
        if self.streams[id.index()].worker == UNOPENED {
            let gates = std::mem::take(&mut self.streams[id.index()].gates);
            let opened = self.assign_worker(id, decl)?;
            self.streams[id.index()] = RoutedStream { gates, ..opened };
        }
        Ok(())
    }

    /// Returns each stream of the program that has a worker, with its worker.
    fn workers(&self) -> Vec<(StreamId, usize)> {
        let open = self.streams.iter().filter(|stream| stream.worker != UNOPENED);
        open.map(|stream| (stream.id, stream.worker)).collect()
    }

    /// Returns the last point of each stream that was given anything.
    pub(crate) fn tails(&self) -> Vec<Point> {
        let streams = self.streams.iter().filter(|s| s.tail > 0);
        streams.map(|s| Point::new(s.id, s.tail)).collect()
    }

    fn assign_worker(&mut self, id: StreamId, decl: &StreamDecl) -> Result<RoutedStream> {
        let key = &decl.key;
        let policy = self.tables.policies.policy(key)?;
        let group = policy.worker_group(key);
        let worker = match group {
            WorkerGroup::Host if decl.mode == StreamMode::Pool && policy.runs_in_any_order() => {
                self.driver.pool(&self.tables)?
            }
            WorkerGroup::Host => {
                self.next_host_worker += 1;
                self.driver.host_worker(&self.tables, self.next_host_worker - 1)?
            }
            other => self.driver.own_worker(&self.tables, other)?,
        };
        self.assign(id, key, worker);
        Ok(RoutedStream { worker, ..RoutedStream::unopened(id) })
    }

    /// Tells a worker that a stream is its own.
    fn assign(&mut self, id: StreamId, key: &StreamKey, worker: usize) {
        let open = Task::OpenStream(id, Box::new(key.clone()));
        if let Some(watchdog) = &self.watchdog {
            watchdog.note(&open);
        }
        self.driver.push(worker, open);
        if let Some(times) = &self.times {
            let record = Task::RecordTimes(id, Some(times.recording.clone()));
            self.push(worker, record);
        }
    }

    /// Returns the number of the newest storage.
    pub(crate) const fn last_storage(&self) -> u64 {
        self.next_storage
    }

    /// Returns a number that no other storage has.
    pub(crate) fn new_storage(&mut self) -> u64 {
        self.next_storage += 1;
        self.next_storage
    }

    fn set_slot(&self, id: TensorId, slot: TensorSlot) {
        // SAFETY: the emission's lock is held, and the builder reuses a slot only after every
        // instruction that named it has completed.
        unsafe { self.tables.slots.set(id.index(), slot) };
    }

    pub(crate) fn slot(&self, id: TensorId) -> Option<&TensorSlot> {
        // SAFETY: the emission's lock is held, and the result does not outlive the borrow of the
        // router, without which no slot is set.
        unsafe { self.tables.slots.get(id.index()) }
    }

    /// Publishes a new tensor to the workers.
    pub(crate) fn begin_tensor(&mut self, id: TensorId, spec: &TensorSpec, place: &Placement) {
        // The builder learns of an arena's growth only after the memory exists.
        let Ok(base) = self.tables.memory.resolve(place) else { return };
        let storage = self.new_storage();
        let on_host = self.tables.memory.is_host_accessible(place.arena);
        let slot = TensorSlot { base, spec: spec.clone(), storage, on_host };
        self.set_slot(id, slot);
        self.set_root(id, id.0);
    }

    /// Publishes a view.
    pub(crate) fn begin_view(&self, id: TensorId, of: TensorId, spec: &TensorSpec) {
        if let Some(whole) = self.slot(of).cloned() {
            self.set_slot(id, TensorSlot { spec: spec.clone(), ..whole });
        }
        self.share_root(id, of);
    }

    fn share_root(&self, id: TensorId, of: TensorId) {
        // SAFETY: the emission's lock is held.
        if let Some(root) = unsafe { self.tables.storage_roots.get(of.index()) }.copied() {
            self.set_root(id, root);
        }
    }

    fn set_root(&self, id: TensorId, root: u32) {
        // SAFETY: as in `set_slot`.
        unsafe { self.tables.storage_roots.set(id.index(), root) };
    }

    fn push(&mut self, worker: usize, task: Task) {
        self.tables.backlog.add();
        if let Some(watchdog) = &self.watchdog {
            watchdog.note(&task);
        }
        self.driver.push(worker, task);
    }

    /// Gives a task for `stream` of the program to its worker, behind the stream's gates.
    fn submit(&mut self, stream: StreamId, seq: u64, task: Task) {
        let at = stream.index();
        if !self.streams[at].gates.is_empty() {
            let (worker, id) = (self.streams[at].worker, self.streams[at].id);
            for gate in std::mem::take(&mut self.streams[at].gates) {
                self.push(worker, Task::Gate(id, gate, Milestone::Completed));
            }
        }
        let stream = &mut self.streams[at];
        if let Some(times) = &mut self.times {
            times.submitted(Point::new(stream.id, seq));
        }
        stream.tail = seq;
        let worker = stream.worker;
        if !cancel::same(stream.cancel_scope.as_ref(), self.cancel_scope.as_ref()) {
            stream.cancel_scope.clone_from(&self.cancel_scope);
            let enter = Task::SetCancelScope(stream.id, stream.cancel_scope.clone());
            self.push(worker, enter);
        }
        self.push(worker, task);
    }

    fn route(&mut self, instruction: Instruction) {
        match &instruction.body {
            Body::AllocateTensor { tensor, spec, placement, .. } => {
                self.begin_tensor(*tensor, spec, placement);
                return;
            }
            Body::ViewTensor { tensor, of, spec } => return self.begin_view(*tensor, *of, spec),
            // The tasks of a launch follow: they need more than the instruction says.
            Body::ReleaseTensor { .. }
            | Body::SoftSyncStream { .. }
            | Body::HostObserved { .. }
            | Body::LazyJobLauncher { .. } => return,
            Body::Barrier { at } | Body::GlobalSync { at } => self.gate_barrier(*at),
            Body::StreamWait { until, via: Via::Device(event), .. } => {
                let origin = instruction.origin.clone();
                let half = Task::RecordForWait { until: *until, event: *event, origin };
                self.submit(until.stream, until.seq, half);
            }
            Body::OpCall { priority, .. } => self.note_priority(*priority),
            Body::TouchTensors { .. }
            | Body::RecordEvent { .. }
            | Body::StreamWaitEvent { .. }
            | Body::StreamWait { via: Via::Host, .. }
            | Body::AccessBlobByCallback { .. }
            | Body::SyncRead { .. }
            | Body::CriticalSectionBegin { .. }
            | Body::CriticalSectionEnd { .. } => {}
        }
        if let Some(at) = instruction.body.at() {
            self.submit(at.stream, at.seq, Task::run(instruction));
        }
    }

    fn note_priority(&self, priority: Priority) {
        if priority != Priority::default() {
            // Relaxed: the queue orders it before the call.
            self.tables.has_priorities.store(true, Ordering::Relaxed);
        }
    }

    /// Orders the barrier after all earlier instructions, and all later instructions after the
    /// barrier.
    fn gate_barrier(&mut self, at: Point) {
        let tails: SmallVec<[Point; 8]> =
            self.streams.iter().map(|s| Point::new(s.id, s.tail)).collect();
        let own = self.streams[at.stream.index()].worker;
        for tail in tails {
            if tail.stream != at.stream && !self.tables.points.reached(tail, Milestone::Completed) {
                self.push(own, Task::Gate(at.stream, tail, Milestone::Completed));
            }
        }
        self.last_barrier = Some(at);
        for stream in &mut self.streams {
            if stream.id != at.stream {
                // An instruction after this barrier comes after everything that earlier gates stood
                // for.
                stream.gates = SmallVec::from_elem(at, 1);
            }
        }
    }
}

impl Sink for Router {
    fn emit(&mut self, instruction: Instruction) {
        if let Some(recorder) = &mut self.recorder {
            if let Some(times) = &mut self.times {
                times.issued();
            }
            recorder.push(&instruction);
        }
        self.route(instruction);
    }

    #[inline(always)]
    fn emit_prepared(
        &mut self,
        at: Point,
        call: &PreparedCall,
        tensors: &[TensorRef],
        origin: &Origin,
    ) {
        let from = match origin {
            Origin::Unknown => Some(None),
            Origin::Code(from) => Some(Some(*from)),
            Origin::Trace(..) | Origin::Text(_) => None,
        };
        let seen = self.recorder.is_some() || self.watchdog.is_some();
        let (Some(number), Some(from), false) = (call.number, from, seen) else {
            return self.emit(call.instruction(at, tensors, origin));
        };
        if tensors.len() > MAX_TENSORS {
            return self.emit(call.instruction(at, tensors, origin));
        }
        let stored = || {
            let name = |k: usize| tensors.get(k).map_or(TensorId(0), |t| t.id);
            let tensors = [name(0), name(1), name(2), name(3)];
            Task::Call(StoredCall { stream: at.stream, number, seq: at.seq, from, tensors })
        };
        let stream = &mut self.streams[at.stream.index()];
        let same = cancel::same(stream.cancel_scope.as_ref(), self.cancel_scope.as_ref());
        if let (Driver::Threaded(threaded), true) =
            (&mut self.driver, same && stream.gates.is_empty())
        {
            if let Some(times) = &mut self.times {
                times.submitted(at);
            }
            stream.tail = at.seq;
            self.tables.backlog.add();
            threaded.push_with(stream.worker, stored);
        } else {
            self.submit(at.stream, at.seq, stored());
        }
    }

    fn emit_wait(&mut self, at: Point, until: Point, via: Via, origin: &Origin) {
        let origin = origin.clone();
        if self.recorder.is_some() {
            let body = Body::StreamWaitEvent { at, until, via };
            return self.emit(Instruction { body, origin });
        }
        self.submit(at.stream, at.seq, Task::Wait { at, until, via, origin });
    }

    fn reached(&self, point: Point) -> bool {
        self.tables.points.reached(point, Milestone::Completed)
    }

    fn annotated(&self) -> bool {
        self.annotated && self.recorder.is_some()
    }
}
