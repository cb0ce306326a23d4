//! From emitted instructions to the workers' queues.
//!
//! Long because streams, slots and gates change together with each instruction.
//!
//! Runs under the engine's lock, so each queue has one producer at a time. Instructions without a
//! point take effect here; all others go to the worker of their stream. Every stream is ordered
//! after a barrier: the router puts a gate for it before the stream's next instruction.

mod launch;
mod precompile;
mod streams;
mod times;

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_instructions::builder::PreparedCall;
use millstream_instructions::{
    Body, External, Frontier, Instruction, ListRecorder, Placement, Priority, ScalarDecl, Sink,
    TensorRef, Via,
};
use millstream_ops::collective::{self, Channel, Numbering};
use millstream_stream_policy::KnownChunks;
use millstream_types::{Origin, Point, StreamId, TensorId, TensorSpec};

use crate::driver::Driver;
use crate::driver::watchdog::Watchdog;
use crate::engine::StreamOptions;
use crate::engine::call_numbers::CallNumbers;
use crate::scope::cancel::{self, CancelScope};
use crate::sync::Ordering;
use crate::sync::points::Milestone;
use crate::tables::Tables;
use crate::tables::functions::FunctionId;
use crate::tables::loans::{self, Loan};
use crate::tables::slots::{CallSlot, TensorSlot};
use crate::thread_ctx::task::{Companion, MAX_TENSORS, StoredCall, Task};

use launch::TapeStreams;
use precompile::Precompiled;
pub use streams::OpenStream;
use streams::RoutedStream;
pub use times::TimesRecorder;

/// Gives instructions to workers.
pub struct Router {
    pub tables: Arc<Tables>,
    pub driver: Driver,
    pub watchdog: Option<Arc<Watchdog>>,
    /// The cancel scopes of the thread that emits.
    pub cancel_scope: Option<Arc<CancelScope>>,
    streams: Vec<RoutedStream>,
    /// The last barrier: streams opened later come after it, too.
    last_barrier: Option<Point>,
    tapes: TapeStreams,
    pub recorder: Option<ListRecorder>,
    pub(crate) times: Option<TimesRecorder>,
    pub(crate) annotated: bool,
    next_storage: u64,
    known_chunks: KnownChunks,
    /// The numbers of the stored calls.
    calls: CallNumbers,
    precompiled: Precompiled,
    /// The numbers of the collectives.
    numbering: Numbering,
    /// The host worker that gets the next host stream.
    next_host_worker: usize,
    /// The options of the streams that have some.
    options: HashMap<StreamId, StreamOptions>,
}

impl Router {
    pub fn new(tables: Arc<Tables>, driver: Driver, annotated: bool) -> Router {
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
            known_chunks: KnownChunks::default(),
            calls: CallNumbers::default(),
            precompiled: Precompiled::default(),
            numbering: Numbering::default(),
            next_host_worker: 0,
            options: HashMap::new(),
        }
    }

    /// Returns whether a list or times are being recorded.
    pub const fn is_recording(&self) -> bool {
        self.recorder.is_some() || self.times.is_some()
    }

    /// Returns whether all barriers so far have completed.
    pub fn has_passed_barriers(&self) -> bool {
        self.last_barrier.is_none_or(|at| self.tables.points.reached(at, Milestone::Completed))
    }

    /// Returns a number that no other storage has.
    pub(crate) fn new_storage(&mut self) -> u64 {
        self.next_storage += 1;
        self.next_storage
    }

    fn set_slot(
        &self,
        id: TensorId,
        base: NonNull<u8>,
        spec: &Arc<TensorSpec>,
        storage: u64,
        on_host: bool,
    ) {
        let slot = |last: Option<TensorSlot>| {
            // Often the slot's last tensor was like this one: then nothing is counted.
            let like = last.map(|last| last.spec).filter(|last| Arc::ptr_eq(last, spec));
            TensorSlot { base, spec: like.unwrap_or_else(|| spec.clone()), storage, on_host }
        };
        // SAFETY: the engine's lock is held, and the builder reuses a slot only after every
        // instruction that named it has completed.
        unsafe { self.tables.slots.replace(id.index(), slot) };
    }

    pub fn slot(&self, id: TensorId) -> Option<&TensorSlot> {
        // SAFETY: the engine's lock is held, and the result does not outlive the borrow of the
        // router, without which no slot is set.
        unsafe { self.tables.slots.get(id.index()) }
    }

    /// Publishes a new tensor to the workers.
    pub(crate) fn publish_tensor(
        &mut self,
        id: TensorId,
        spec: &Arc<TensorSpec>,
        place: &Placement,
    ) {
        // The builder learns of an arena's growth only after the memory exists.
        let memory = &self.tables.memory;
        let Ok((base, on_host)) = memory.locate(place, &mut self.known_chunks) else { return };
        let storage = self.new_storage();
        self.set_slot(id, base, spec, storage, on_host);
        self.set_root(id, id.0);
    }

    /// Publishes a tensor in host memory of another owner, which `loan` keeps.
    pub fn publish_import(
        &mut self,
        id: TensorId,
        spec: &Arc<TensorSpec>,
        base: NonNull<u8>,
        loan: Loan,
    ) {
        let storage = self.new_storage();
        self.tables.loans.add(storage, loan);
        self.set_slot(id, base, spec, storage, true);
        self.set_root(id, id.0);
    }

    /// Publishes a view.
    pub(crate) fn publish_view(&self, id: TensorId, of: TensorId, spec: &Arc<TensorSpec>) {
        if let Some(&TensorSlot { base, storage, on_host, .. }) = self.slot(of) {
            self.set_slot(id, base, spec, storage, on_host);
        }
        self.share_root(id, of);
    }

    fn share_root(&self, id: TensorId, of: TensorId) {
        // SAFETY: the engine's lock is held.
        if let Some(root) = unsafe { self.tables.storage_roots.get(of.index()) }.copied() {
            self.set_root(id, root);
        }
    }

    fn set_root(&self, id: TensorId, root: u32) {
        // SAFETY: as in `set_slot`. Mostly it stays, and a write would take the line from workers.
        unsafe {
            if self.tables.storage_roots.get(id.index()) != Some(&root) {
                self.tables.storage_roots.set(id.index(), root);
            }
        }
    }

    /// Returns whether nothing runs.
    pub(crate) const fn only_checks(&self) -> bool {
        matches!(self.driver, Driver::Check)
    }

    /// Counts an instruction that no worker runs as completed.
    pub(crate) fn complete(&self, at: Point) {
        self.tables.points.stream(at.stream).publish(at.seq, Milestone::Completed);
    }

    fn route(&mut self, mut instruction: Instruction) {
        if self.only_checks() {
            // A wait by an event is two instructions; the first is the record on the other stream.
            if let Body::StreamWait { until, via: Via::Device(_), .. } = &instruction.body {
                self.complete(*until);
            }
            if let Some(at) = instruction.body.at() {
                self.complete(at);
            }
            return;
        }
        match &instruction.body {
            Body::AllocateTensor { tensor, spec, placement, .. } => {
                self.publish_tensor(*tensor, &Arc::new((**spec).clone()), placement);
                return;
            }
            Body::ViewTensor { tensor, of, spec } => {
                return self.publish_view(*tensor, *of, &Arc::new((**spec).clone()));
            }
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
            Body::OpCall { priority, op, .. } => {
                self.note_priority(*priority);
                if self.tables.is_collective(*op) {
                    self.number(&mut instruction);
                } else {
                    self.precompile(&instruction.body);
                }
            }
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

    /// Takes the next `count` numbers of a channel and returns the first. The engine's lock makes
    /// it the order of the program.
    pub fn take_numbers(&mut self, channel: &Channel, count: u64) -> u64 {
        self.numbering.take(channel.clone(), count)
    }

    /// Gives a collective its number. Its kernel refuses arguments that name no channel.
    fn number(&mut self, instruction: &mut Instruction) {
        let Body::OpCall { op, attrs, .. } = &mut instruction.body else { return };
        let Some(op) = self.tables.ops.get(*op) else { return };
        let mut numbered = attrs.as_deref().cloned().unwrap_or_default();
        let ranks = self.tables.communicator.ranks();
        if let Ok(Some(channel)) = Channel::of(op.name(), &numbered, ranks) {
            numbered.set(collective::NUMBER, self.numbering.take(channel, 1) as i64);
            *attrs = Some(Arc::new(numbered));
        }
    }

    /// Adds an instruction to the list that is recorded, if one is.
    #[inline]
    fn record(&mut self, origin: &Origin, body: impl FnOnce() -> Body) {
        if self.recorder.is_some() {
            self.record_now(&Instruction { body: body(), origin: origin.clone() });
        }
    }

    #[cold]
    fn record_now(&mut self, instruction: &Instruction) {
        let added = self.recorder.as_mut().map_or(1, |recorder| recorder.push(instruction));
        if let Some(times) = &mut self.times {
            (0..added).for_each(|_| times.issued());
        }
    }

    /// Adds a tensor in memory of another owner to the list that is recorded: the list did not
    /// compute its elements.
    pub fn record_import(&mut self, external: External) {
        if let Some(recorder) = &mut self.recorder {
            recorder.external_unnamed(external, "imported");
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
        let own = self.opened(at.stream);
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

impl Router {
    /// Emits a prepared call that is not stored.
    #[cold]
    fn emit_in_full(
        &mut self,
        at: Point,
        call: &PreparedCall,
        tensors: &[TensorRef],
        workspace: Option<&Placement>,
        origin: &Origin,
    ) {
        let tensors = tensors.iter().map(|tensor| tensor.id);
        let mut instruction = call.instruction(at, tensors, workspace, origin);
        // Without the function's number, which depends on the moments of completions.
        self.record_now(&instruction);
        FunctionId::of(call.function).name_in(&mut instruction);
        self.route(instruction);
    }
}

impl Sink for Router {
    fn emit(&mut self, instruction: Instruction) {
        if self.recorder.is_some() {
            self.record_now(&instruction);
        }
        self.route(instruction);
    }

    #[inline(always)]
    fn emit_prepared(
        &mut self,
        at: Point,
        call: &PreparedCall,
        tensors: &[TensorRef],
        workspace: Option<&Placement>,
        origin: &Origin,
    ) {
        let companion = match workspace {
            Some(placement) => Companion::scratch(placement),
            None => Some(Companion::function(FunctionId::of(call.function))),
        };
        let seen = self.recorder.is_some() || self.watchdog.is_some();
        let (Some(number), Some(companion), false) = (call.number, companion, seen) else {
            return self.emit_in_full(at, call, tensors, workspace, origin);
        };
        let stored = || {
            let mut names = [TensorId(0); MAX_TENSORS];
            names.iter_mut().zip(tensors).for_each(|(name, tensor)| *name = tensor.id);
            let (stream, seq, origin, tensors) = (at.stream, at.seq, origin.clone(), names);
            StoredCall { stream, number, seq, origin, tensors, companion }
        };
        let Some(stream) = self.streams.get_mut(at.stream.index()) else {
            return self.submit(at.stream, at.seq, Task::Call(stored()));
        };
        let same = cancel::same(stream.cancel_scope.as_ref(), self.cancel_scope.as_ref());
        let open = stream.open.filter(|_| same && stream.gates.is_empty());
        let Some(open) = open else {
            return self.submit(at.stream, at.seq, Task::Call(stored()));
        };
        match &mut self.driver {
            Driver::Threaded(threaded) => {
                if let Some(times) = &mut self.times {
                    times.submitted(at);
                }
                stream.tail = at.seq;
                self.tables.backlog.add();
                threaded.push_with(open.worker(), || Task::Call(stored()));
            }
            Driver::Inline(inline) => {
                if let Some(times) = &mut self.times {
                    times.submitted(at);
                }
                stream.tail = at.seq;
                self.tables.backlog.add();
                inline.call(&self.tables, stored());
            }
            Driver::Simulated(_) | Driver::Check => {
                self.submit(at.stream, at.seq, Task::Call(stored()));
            }
        }
    }

    #[inline]
    fn begin_tensor(
        &mut self,
        on: StreamId,
        tensor: TensorId,
        spec: &Arc<TensorSpec>,
        placement: Placement,
        origin: &Origin,
    ) {
        self.renew_tensor(on, tensor, spec, placement, origin);
        self.publish_tensor(tensor, spec, &placement);
    }

    fn renews_tensors(&self) -> bool {
        true
    }

    /// Publishes nothing: the slot stays as the workers know it.
    #[inline]
    fn renew_tensor(
        &mut self,
        on: StreamId,
        tensor: TensorId,
        spec: &Arc<TensorSpec>,
        placement: Placement,
        origin: &Origin,
    ) {
        self.record(origin, || {
            let (spec, placement) = (Box::new((**spec).clone()), Box::new(placement));
            Body::AllocateTensor { on, tensor, spec, placement }
        });
    }

    #[inline]
    fn begin_view(
        &mut self,
        tensor: TensorId,
        of: TensorId,
        spec: &Arc<TensorSpec>,
        origin: &Origin,
    ) {
        self.record(origin, || {
            let spec = Box::new((**spec).clone());
            Body::ViewTensor { tensor, of, spec }
        });
        self.publish_view(tensor, of, spec);
    }

    #[inline]
    fn end_tensor(&mut self, tensor: TensorId, origin: &Origin) {
        self.record(origin, || Body::ReleaseTensor { tensor });
    }

    fn end_import(&mut self, tensor: TensorId, last_uses: &Frontier) {
        // A storage of no bytes has no loan.
        let storage = self.slot(tensor).map(|slot| slot.storage);
        if let Some(loan) = storage.and_then(|storage| self.tables.loans.take(storage)) {
            loans::end(&self.tables, loan, last_uses.iter());
        }
    }

    fn store_call(
        &mut self,
        call: &PreparedCall,
        operands: SmallVec<[Arc<TensorSpec>; 4]>,
    ) -> Option<u32> {
        // The calls of a collective differ by their numbers.
        let storable = operands.len() <= MAX_TENSORS && !self.tables.is_collective(call.op());
        storable.then(|| self.calls.insert(&self.tables, CallSlot::new(call.clone(), operands)))
    }

    fn forget_call(&mut self, number: u32) {
        self.calls.release(number, self.tails());
    }

    fn emit_wait(&mut self, at: Point, until: Point, via: Via, origin: &Origin) {
        let origin = origin.clone();
        if self.recorder.is_some() {
            let body = Body::StreamWaitEvent { at, until, via };
            return self.emit(Instruction { body, origin });
        }
        self.submit(at.stream, at.seq, Task::Wait { at, until, via, origin });
    }

    #[inline]
    fn reached(&self, point: Point) -> bool {
        let Some(stream) = self.streams.get(point.stream.index()) else {
            return self.tables.points.reached(point, Milestone::Completed);
        };
        if stream.completed.get() < point.seq {
            stream.completed.set(self.tables.points.stream(point.stream).completed());
        }
        stream.completed.get() >= point.seq
    }

    fn scalars(&self) -> &[ScalarDecl] {
        self.recorder.as_ref().map_or(&[], |recorder| &recorder.list().scalars)
    }

    fn annotated(&self) -> bool {
        self.annotated && self.recorder.is_some()
    }
}
