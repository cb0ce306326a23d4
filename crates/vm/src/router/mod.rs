//! From emitted instructions to the workers' queues.
//!
//! Runs under the emission's lock, so each queue has one producer at a time. Instructions without
//! a place take effect here; the others go to the worker of their stream. A barrier, which every
//! stream has to come after, is put before a stream's next instruction when that comes.

mod run;

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::builder::PreparedCall;
use millstream_instructions::{
    ArenaId, Body, Instruction, ListRecorder, Placement, Priority, Sink, StreamDecl, TensorRef, Via,
};
use millstream_stream_policy::Crew;
use millstream_types::{
    EventId, ListId, Origin, Point, Result, StreamId, StreamMode, TensorId, TensorSpec,
};

use crate::cancel::{self, Within};
use crate::driver::Driver;
use crate::engine::Engine;
use crate::job::StoredJob;
use crate::points::Mark;
use crate::slots::TensorSlot;
use crate::sync::Ordering;
use crate::task::{MOST_TENSORS, StoredCall, Task};
use crate::watch::Watch;

use run::JobRun;

/// A stream of a scope: of the program, or of a stored list.
#[derive(Clone, Debug)]
struct Stream {
    id: StreamId,
    is_pool: bool,
    worker: usize,
    /// What is added to the list's sequence numbers.
    base: u64,
    /// The last place that was given to the worker.
    tail: u64,
    /// What the next instruction comes after, beside its waits.
    gates: SmallVec<[Point; 2]>,
    /// The scopes that its worker takes what comes next to be in.
    within: Option<Arc<Within>>,
}

/// The worker of a stream that has none yet.
const UNOPENED: usize = usize::MAX;

impl Stream {
    fn unopened(id: StreamId) -> Stream {
        Stream {
            id,
            is_pool: false,
            worker: UNOPENED,
            base: 0,
            tail: 0,
            gates: SmallVec::new(),
            within: None,
        }
    }
}

/// Streams that are ordered among themselves: `s0` of a list is the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    streams: Vec<Stream>,
}

impl Scope {
    /// Whether it has no streams (yet).
    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    fn point(&self, point: Point) -> Point {
        let stream = &self.streams[point.stream.index()];
        Point::new(stream.id, stream.base + point.seq)
    }
}

/// Gives instructions to workers.
pub(crate) struct Router {
    pub(crate) engine: Arc<Engine>,
    pub(crate) driver: Driver,
    pub(crate) watch: Option<Arc<Watch>>,
    /// The scopes that what is being emitted was submitted in.
    pub(crate) within: Option<Arc<Within>>,
    program: Scope,
    /// The last barrier: streams that come into being later come after it, too.
    last_barrier: Option<Point>,
    pub(crate) jobs: HashMap<ListId, StoredJob>,
    pub(crate) recorder: Option<ListRecorder>,
    pub(crate) annotated: bool,
    next_storage: u64,
    /// Ids of private streams and events count down, those of the program up.
    next_private_stream: u16,
    next_private_event: u32,
    next_private_arena: u16,
    /// The next of the host's workers to be given a stream.
    next_host_worker: usize,
}

impl Router {
    pub(crate) fn new(engine: Arc<Engine>, driver: Driver, annotated: bool) -> Router {
        Router {
            engine,
            driver,
            watch: None,
            within: None,
            program: Scope::default(),
            last_barrier: None,
            jobs: HashMap::new(),
            recorder: None,
            annotated,
            next_storage: 0,
            next_private_stream: u16::MAX,
            next_private_event: u32::MAX,
            next_private_arena: u16::MAX,
            next_host_worker: 0,
        }
    }

    /// Whether a stream of the program has a worker.
    #[inline]
    pub(crate) fn is_open(&self, id: StreamId) -> bool {
        self.program.streams.get(id.index()).is_some_and(|s| s.worker != UNOPENED)
    }

    /// Gives a stream of the program to a worker, unless it has one. Done before its first
    /// instruction is emitted, as the thread that it may need can be refused.
    pub(crate) fn open(&mut self, id: StreamId, decl: &StreamDecl) -> Result<()> {
        while self.program.streams.len() <= id.index() {
            let id = StreamId(self.program.streams.len() as u16);
            let mut stream = Stream::unopened(id);
            stream.gates.extend(self.last_barrier);
            self.program.streams.push(stream);
        }
        if self.program.streams[id.index()].worker == UNOPENED {
            let gates = std::mem::take(&mut self.program.streams[id.index()].gates);
            let opened = self.give_to_worker(id, decl)?;
            self.program.streams[id.index()] = Stream { gates, ..opened };
        }
        Ok(())
    }

    /// The last place of each stream that was given anything.
    pub(crate) fn tails(&self) -> Vec<Point> {
        let streams = self.program.streams.iter().filter(|s| s.tail > 0);
        streams.map(|s| Point::new(s.id, s.tail)).collect()
    }

    fn give_to_worker(&mut self, id: StreamId, decl: &StreamDecl) -> Result<Stream> {
        let key = &decl.key;
        let policy = self.engine.policies.policy(key)?;
        let crew = policy.crew(key);
        let worker = match crew {
            Crew::Host if decl.mode == StreamMode::Pool && policy.runs_in_any_order() => {
                self.driver.pool(&self.engine)?
            }
            Crew::Host => {
                self.next_host_worker += 1;
                self.driver.host_worker(&self.engine, self.next_host_worker - 1)?
            }
            other => self.driver.own_worker(&self.engine, other)?,
        };
        let open = Task::Open(id, Box::new(key.clone()));
        if let Some(watch) = &self.watch {
            watch.note(&open);
        }
        self.driver.push(worker, open);
        let is_pool = decl.mode == StreamMode::Pool;
        Ok(Stream { worker, is_pool, ..Stream::unopened(id) })
    }

    /// Private streams for a stored list.
    pub(crate) fn private_scope(&mut self, streams: &[StreamDecl]) -> Result<Scope> {
        let mut scope = Scope::default();
        for decl in streams {
            let id = StreamId(self.next_private_stream);
            if usize::from(self.next_private_stream) <= self.program.streams.len() {
                return Err(millstream_types::Error::Invalid {
                    what: "stream",
                    message: "a machine has no more streams for stored lists".to_owned(),
                });
            }
            self.next_private_stream -= 1;
            let stream = self.give_to_worker(id, decl)?;
            scope.streams.push(stream);
        }
        Ok(scope)
    }

    /// An event that is a stored list's alone.
    pub(crate) fn private_event(&mut self) -> EventId {
        self.next_private_event -= 1;
        EventId(self.next_private_event)
    }

    /// An arena that is a stored list's alone.
    pub(crate) fn private_arena(&mut self) -> ArenaId {
        self.next_private_arena -= 1;
        ArenaId(self.next_private_arena)
    }

    /// A number that no other storage has.
    pub(crate) fn new_storage(&mut self) -> u64 {
        self.next_storage += 1;
        self.next_storage
    }

    fn set_slot(&self, id: TensorId, slot: TensorSlot) {
        // SAFETY: the emission's lock is held, and the builder gives a slot out only once every
        // instruction that named it has completed.
        unsafe { self.engine.slots.set(id.index(), slot) };
    }

    pub(crate) fn slot(&self, id: TensorId) -> Option<&TensorSlot> {
        // SAFETY: the emission's lock is held, and the result does not outlive the borrow of the
        // router, without which no slot is set.
        unsafe { self.engine.slots.get(id.index()) }
    }

    /// Makes a new tensor known to the workers.
    pub(crate) fn begin_tensor(&mut self, id: TensorId, spec: &TensorSpec, place: &Placement) {
        // The builder was told of the arena's growth only after the memory was there.
        let Ok(base) = self.engine.memory.resolve(place) else { return };
        let storage = self.new_storage();
        let on_host = self.engine.memory.on_host(place.arena);
        let slot = TensorSlot { base, bytes: place.size, spec: spec.clone(), storage, on_host };
        self.set_slot(id, slot);
        self.set_home(id, id.0);
    }

    /// Makes a tensor known to the workers that lies in the memory of another.
    pub(crate) fn begin_foreign(&mut self, id: TensorId, slot: TensorSlot, of: TensorId) {
        self.set_slot(id, slot);
        self.share_home(id, of);
    }

    /// Makes a view known to the workers.
    pub(crate) fn begin_view(&self, id: TensorId, of: TensorId, spec: &TensorSpec) {
        if let Some(whole) = self.slot(of).cloned() {
            self.set_slot(id, TensorSlot { spec: spec.clone(), ..whole });
        }
        self.share_home(id, of);
    }

    fn share_home(&self, id: TensorId, of: TensorId) {
        // SAFETY: the emission's lock is held.
        if let Some(home) = unsafe { self.engine.homes.get(of.index()) }.copied() {
            self.set_home(id, home);
        }
    }

    fn set_home(&self, id: TensorId, home: u32) {
        // SAFETY: as in `set_slot`.
        unsafe { self.engine.homes.set(id.index(), home) };
    }

    fn push(&mut self, worker: usize, task: Task) {
        self.engine.backlog.give();
        if let Some(watch) = &self.watch {
            watch.note(&task);
        }
        self.driver.push(worker, task);
    }

    /// Gives a task for `stream` of the program to its worker, behind the stream's gates.
    fn give(&mut self, stream: StreamId, seq: u64, task: Task) {
        let at = stream.index();
        if !self.program.streams[at].gates.is_empty() {
            let (worker, id) = (self.program.streams[at].worker, self.program.streams[at].id);
            for gate in std::mem::take(&mut self.program.streams[at].gates) {
                self.push(worker, Task::Hold(id, gate, Mark::Completed));
            }
        }
        let stream = &mut self.program.streams[at];
        stream.tail = seq;
        let worker = stream.worker;
        if !cancel::same(stream.within.as_ref(), self.within.as_ref()) {
            stream.within.clone_from(&self.within);
            let enter = Task::Within(stream.id, stream.within.clone());
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
            Body::ReleaseTensor { .. }
            | Body::SoftSyncStream { .. }
            | Body::HostObserved { .. } => {
                return;
            }
            Body::Barrier { at } | Body::GlobalSync { at } => self.gate_barrier(*at),
            Body::StreamWait { until, via: Via::Device(event), .. } => {
                let origin = instruction.origin.clone();
                let half = Task::Record { until: *until, event: *event, origin };
                self.give(until.stream, until.seq, half);
            }
            Body::LazyJobLauncher { at, list, .. } => self.launch_job(*at, *list),
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
            self.give(at.stream, at.seq, Task::run(instruction));
        }
    }

    fn note_priority(&self, priority: Priority) {
        if priority != Priority::default() {
            // Relaxed: the queue orders it before the call.
            self.engine.urgent.store(true, Ordering::Relaxed);
        }
    }

    /// The barrier comes after all that was given so far, and all later instructions after it.
    fn gate_barrier(&mut self, at: Point) {
        let tails: SmallVec<[Point; 8]> =
            self.program.streams.iter().map(|s| Point::new(s.id, s.tail)).collect();
        let own = self.program.streams[at.stream.index()].worker;
        for tail in tails {
            if tail.stream != at.stream && !self.engine.points.reached(tail, Mark::Completed) {
                self.push(own, Task::Hold(at.stream, tail, Mark::Completed));
            }
        }
        self.last_barrier = Some(at);
        for stream in &mut self.program.streams {
            if stream.id != at.stream {
                // Whoever comes after this barrier comes after all that earlier gates stood for.
                stream.gates = SmallVec::from_elem(at, 1);
            }
        }
    }

    /// Gives a stored list to the workers of its private streams, between the launcher's begin and
    /// its end. The launcher's own instruction follows.
    fn launch_job(&mut self, at: Point, list: ListId) {
        let Some(mut job) = self.jobs.remove(&list) else { return };
        let lazy = &self.program.streams[at.stream.index()];
        let (lazy_worker, gates) = (lazy.worker, lazy.gates.clone());
        self.program.streams[at.stream.index()].gates.clear();
        for gate in gates {
            self.push(lazy_worker, Task::Hold(at.stream, gate, Mark::Completed));
        }
        self.push(lazy_worker, Task::Begin(at, job.storages.clone()));
        job.launched = at;
        for &read in &job.reads {
            self.engine.host.renew_read(read);
        }
        for stream in &mut job.scope.streams {
            stream.base = stream.tail;
        }
        let started = job.scope.streams.iter().map(|_| false).collect();
        let mut run = JobRun { router: self, job: &mut job, started, begun: at };
        run.all();
        let tails: SmallVec<[Point; 8]> =
            job.scope.streams.iter().map(|s| Point::new(s.id, s.tail)).collect();
        for tail in tails {
            self.push(lazy_worker, Task::Hold(at.stream, tail, Mark::Completed));
        }
        self.jobs.insert(list, job);
    }
}

impl Sink for Router {
    fn emit(&mut self, instruction: Instruction) {
        if let Some(recorder) = &mut self.recorder {
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
        let seen = self.recorder.is_some() || self.watch.is_some();
        let (Some(number), Some(from), false) = (call.number, from, seen) else {
            return self.emit(call.instruction(at, tensors, origin));
        };
        if tensors.len() > MOST_TENSORS {
            return self.emit(call.instruction(at, tensors, origin));
        }
        let stored = || {
            let name = |k: usize| tensors.get(k).map_or(TensorId(0), |t| t.id);
            let tensors = [name(0), name(1), name(2), name(3)];
            Task::Call(StoredCall { stream: at.stream, number, seq: at.seq, from, tensors })
        };
        let stream = &mut self.program.streams[at.stream.index()];
        let same = cancel::same(stream.within.as_ref(), self.within.as_ref());
        if let (Driver::Threaded(threaded), true) =
            (&mut self.driver, same && stream.gates.is_empty())
        {
            stream.tail = at.seq;
            self.engine.backlog.give();
            threaded.push_with(stream.worker, stored);
        } else {
            self.give(at.stream, at.seq, stored());
        }
    }

    fn emit_wait(&mut self, at: Point, until: Point, via: Via, origin: &Origin) {
        let origin = origin.clone();
        if self.recorder.is_some() {
            let body = Body::StreamWaitEvent { at, until, via };
            return self.emit(Instruction { body, origin });
        }
        self.give(at.stream, at.seq, Task::Wait { at, until, via, origin });
    }

    fn reached(&self, point: Point) -> bool {
        self.engine.points.reached(point, Mark::Completed)
    }

    fn annotated(&self) -> bool {
        self.annotated && self.recorder.is_some()
    }
}
