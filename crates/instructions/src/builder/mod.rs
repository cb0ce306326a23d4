//! The builder: calls in, ordered instructions out.
//!
//! The builder keeps a clock for each stream, and the last write and the newest reads of each
//! storage. From these it finds the points that an instruction must come after. It leaves out the
//! points that the stream's clock covers, and emits the others as waits before the instruction.
//!
//! # Invariants
//! - An instruction is emitted whole or not at all: a call that is refused, or that needs memory
//!   first, has emitted nothing and changed nothing.
//! - Every use is recorded at the point of its instruction, after the waits that it needed.
//! - A stream's clocks are kept by point: a wait for `(q, n)` joins the clock that `q` had at `n`,
//!   never its current one.
//! - Nothing here depends on what devices have completed, except the numbers of reused slots; a
//!   recorder replaces those.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `call`, `prepared` | calls of ops |
//! | `inference`, `known_call` | what schemas said of earlier calls, and calls like those |
//! | `sync` | waits from uses |
//! | `order` | order that the program asks for |
//! | `memory` | tensors and their memory |
//! | `launch` | launches of executables |
//! | `region` | critical sections, reads, callbacks |
//! | `stream`, `clock` | a stream's tail and clock |
//! | `slot`, `storage`, `event` | slots of tensors, storages, events |
//! | `record` | slots that are taken over with their memory |
//! | `protection` | protections that a program can take over |
//! | `offline` | a builder without a machine |
//! | `restated` | instructions of a list, emitted again |
//! | `stats` | counts |
//!
//! Long because it holds the types that all modules share, and the public queries.

mod call;
mod clock;
mod event;
mod inference;
mod known_call;
mod launch;
mod memory;
mod offline;
mod order;
mod prepared;
mod protection;
mod record;
mod region;
mod restated;
mod slot;
mod stats;
mod storage;
mod stream;
mod sync;

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use millstream_ops::OpRegistry;
use millstream_types::{
    DeviceId, Error, OpId, Origin, Point, Result, StorageId, StreamId, StreamKey, StreamMode,
    TensorId, TensorSpec,
};

use crate::catalog::StreamCatalog;
use crate::frontier::Frontier;
use crate::instruction::{Placement, Via};
use crate::list::StreamDecl;
use crate::planner::{ArenaId, ArenaUse, Planner, Points};
use crate::scalar::ScalarDecl;
use crate::table::{Body, Instruction};

pub use call::{Call, Output, Outputs, fresh_specs};
pub use event::EventRef;
pub use known_call::{Known, LookedUp};
pub use launch::{Launch, LaunchOperand, LaunchTensors};
pub use offline::{OfflineCatalog, OfflineSink};
pub use prepared::PreparedCall;
pub use protection::Protection;
pub use region::SectionId;
pub use restated::StatedCall;
pub(crate) use slot::is_whole;
pub use stats::{InferenceStats, NotKept, Stats, Waits};

use clock::Clock;
use event::EventTable;
use inference::InferenceCache;
use record::Records;
use region::Section;
use slot::SlotTable;
use stream::StreamTrack;

/// The rule for which earlier uses of a tensor an instruction waits for.
///
/// ```
/// # use millstream_instructions::*;
/// # use millstream_types::*;
/// assert_eq!(SyncPolicy::default(), SyncPolicy::Frontier);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Conflicting uses: readers wait for the last write, writers also for all reads since.
    #[default]
    Frontier,
    /// The last one of any kind, if it was on another stream: OneFlow's rule. Readers on
    /// different streams wait for one another.
    LastUsedStream,
}

/// The number of streams up to which each keeps its memory for what it knows.
const FEW_STREAMS: usize = 64;

/// The configuration of a builder.
#[derive(Clone, Debug, Default)]
pub struct BuilderConfig {
    /// The rule for which earlier uses an instruction waits for.
    pub sync: SyncPolicy,
    /// Whether a stream keeps all of its clocks and events, and not the newest alone. Takes memory
    /// that grows with the list: for lists that are emitted without a machine.
    pub whole_history: bool,
}

/// The receiver of emitted instructions.
pub trait Sink {
    /// Takes the next instruction in program order.
    fn emit(&mut self, instruction: Instruction);

    /// Returns the scalars that calls may use: those that the list declares.
    fn scalars(&self) -> &[ScalarDecl] {
        &[]
    }

    /// Takes a prepared call on `tensors` as the next instruction, with its scratch memory if it
    /// needs some.
    fn emit_prepared(
        &mut self,
        at: Point,
        call: &PreparedCall,
        tensors: &[TensorRef],
        workspace: Option<&Placement>,
        origin: &Origin,
    ) {
        let tensors = tensors.iter().map(|tensor| tensor.id);
        self.emit(call.instruction(at, tensors, workspace, origin));
    }

    /// Takes the beginning of a tensor, in memory for `on`, as the next instruction.
    fn begin_tensor(
        &mut self,
        on: StreamId,
        tensor: TensorId,
        spec: &Arc<TensorSpec>,
        placement: Placement,
        origin: &Origin,
    ) {
        let (spec, placement) = (Box::new((**spec).clone()), Box::new(placement));
        let body = Body::AllocateTensor { on, tensor, spec, placement };
        self.emit(Instruction { body, origin: origin.clone() });
    }

    /// Takes the beginning of a view as the next instruction.
    fn begin_view(
        &mut self,
        tensor: TensorId,
        of: TensorId,
        spec: &Arc<TensorSpec>,
        origin: &Origin,
    ) {
        let body = Body::ViewTensor { tensor, of, spec: Box::new((**spec).clone()) };
        self.emit(Instruction { body, origin: origin.clone() });
    }

    /// Whether tensors may take over the slots of others that lay in the same memory, while
    /// instructions that name them are pending.
    fn renews_tensors(&self) -> bool {
        false
    }

    /// Takes the beginning of a tensor that takes over the slot of a like one, in the same memory.
    fn renew_tensor(
        &mut self,
        on: StreamId,
        tensor: TensorId,
        spec: &Arc<TensorSpec>,
        placement: Placement,
        origin: &Origin,
    ) {
        self.begin_tensor(on, tensor, spec, placement, origin);
    }

    /// Takes the end of a tensor as the next instruction.
    fn end_tensor(&mut self, tensor: TensorId, origin: &Origin) {
        let body = Body::ReleaseTensor { tensor };
        self.emit(Instruction { body, origin: origin.clone() });
    }

    /// Takes the end of a storage that the planner does not manage, with the points of its last
    /// uses. `tensor` is its last tensor.
    fn end_import(&mut self, _tensor: TensorId, _last_uses: &Frontier) {}

    /// Stores a call that will be made many times, on operands like these. Returns its number, if
    /// the sink keeps numbers.
    fn store_call(
        &mut self,
        _call: &PreparedCall,
        _operands: SmallVec<[Arc<TensorSpec>; 4]>,
    ) -> Option<u32> {
        None
    }

    /// Forgets a stored call. Instructions that were taken before may still name it.
    fn forget_call(&mut self, _number: u32) {}

    /// Takes a wait at `at` for `until` as the next instruction.
    fn emit_wait(&mut self, at: Point, until: Point, via: Via, origin: &Origin) {
        let body = Body::StreamWaitEvent { at, until, via };
        self.emit(Instruction { body, origin: origin.clone() });
    }

    /// Whether a point has completed. Asked only before a slot is reused: the answer changes
    /// nothing but slot numbers.
    fn reached(&self, point: Point) -> bool;

    /// Whether the builder emits [`Body::SoftSyncStream`] lines.
    fn annotated(&self) -> bool;
}

/// A tensor of a builder: its slot, and its generation among the slot's owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorRef {
    /// The slot.
    pub id: TensorId,
    /// The number of this owner of the slot.
    pub generation: u32,
}

/// What has to happen before a call can be emitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    /// An arena must grow: grow it, call [`InstructionsBuilder::grown`], and ask again.
    Grow {
        /// The arena.
        arena: ArenaId,
        /// The preferred growth in bytes.
        bytes: u64,
        /// The smallest growth that suffices, if the device has less.
        least: u64,
    },
    /// These points must have completed: wait for them, call [`InstructionsBuilder::observe`], and
    /// ask again.
    Wait(Points),
    /// Free memory must go back to the device until it has room for `bytes` bytes: wait for the
    /// points that [`Planner::next_return`] names, call [`InstructionsBuilder::observe`] and
    /// [`InstructionsBuilder::give_back`], repeat until there is room, and ask again.
    Return {
        /// The arena.
        arena: ArenaId,
        /// The room needed, in bytes.
        bytes: u64,
    },
    /// The last resort: wait for everything emitted so far, release what that held, and ask again.
    /// If this was already done for the call, the error is the call's result.
    Everything(Box<Error>),
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<T> {
    /// The call was emitted.
    Done(T),
    /// Something has to happen first. Nothing was emitted.
    Need(Need),
}

/// The builder of ordered instructions from calls.
///
/// | instruction | emitted by |
/// |---|---|
/// | `OpCall`; `ViewTensor` | [`call`](Self::call); [`view`](Self::view) |
/// | `AllocateTensor`, `ReleaseTensor` | [`allocate`](Self::allocate), [`release`](Self::release) |
/// | `SoftSyncStream` and its wait | each use of a tensor with a hazard on another stream |
/// | `RecordEvent` | [`record_event`](Self::record_event) |
/// | `StreamWaitEvent` | [`wait_event`](Self::wait_event) |
/// | `StreamWait` | [`wait_stream`](Self::wait_stream) |
/// | `TouchTensors`, `Barrier`, `GlobalSync` | [`touch`](Self::touch), [`barrier`](Self::barrier) |
/// | `AccessBlobByCallback` | [`access_blob`](Self::access_blob) |
/// | `SyncRead`; `HostObserved` | [`sync_read`](Self::sync_read); [`observe`](Self::observe) |
/// | `CriticalSectionBegin` | [`begin_critical_section`](Self::begin_critical_section) |
/// | `CriticalSectionEnd` | [`end_critical_section`](Self::end_critical_section) |
/// | `LazyJobLauncher` | [`launch`](Self::launch) |
///
/// A machine owns one builder. A program can own one to emit a list without a machine:
///
/// ```
/// use std::sync::Arc;
///
/// use millstream_instructions::InstructionsBuilder;
/// use millstream_instructions::builder::{Call, OfflineSink, Output};
/// use millstream_instructions::text::print_list;
/// use millstream_instructions::Priority;
/// use millstream_types::{Attrs, DType, DeviceId, Origin, ReadId, StreamKey, TensorSpec};
///
/// # fn main() -> millstream_types::Result<()> {
/// let ops = Arc::new(millstream_ops::standard());
/// let mut builder = InstructionsBuilder::offline(ops.clone());
/// let mut sink = OfflineSink { annotated: true, ..OfflineSink::default() };
/// let (cpu, attrs, origin) = (DeviceId::cpu(0), &Attrs::new(), &Origin::Unknown);
/// let s0 = builder.stream(&StreamKey::compute(cpu.clone(), 0))?;
/// let s1 = builder.stream(&StreamKey::compute(cpu, 1))?;
///
/// let spec = TensorSpec::contiguous(DType::F32, &[4])?;
/// let mut x = builder.allocate_offline(&mut sink, s0, &spec, origin)?;
/// for stream in [s0, s1] {
///     let relu = Call {
///         op: ops.id("relu")?,
///         inputs: &[x],
///         into: None,
///         attrs,
///         stream,
///         priority: Priority::default(),
///         section: None,
///         origin,
///     };
///     let Output::Tensor(y) = builder.call_offline(&mut sink, &relu)?[0] else { unreachable!() };
///     x = y;
/// }
/// builder.sync_read(&mut sink, s1, x, ReadId(0), None, origin)?;
///
/// assert_eq!(
///     print_list(&builder.finish_list(sink.recorder)),
///     "\
/// millstream-list 1\n\
/// stream s0 cpu:0 compute 0 in-order\n\
/// stream s1 cpu:0 compute 1 in-order\n\
/// arena a0 cpu:0\n\
/// AllocateTensor s0 %0 f32[4] as 16 bytes at a0+0 generation 1\n\
/// AllocateTensor s0 %1 f32[4] as 16 bytes at a0+512 generation 2\n\
/// OpCall s0:1 relu (%0 read, %1 write)\n\
/// AllocateTensor s1 %2 f32[4] as 16 bytes at a0+1024 generation 3\n\
/// SoftSyncStream s1 needs s0:1 for (%1) by-host\n\
/// StreamWaitEvent s1:1 until s0:1 by-host\n\
/// OpCall s1:2 relu (%1 read, %2 write)\n\
/// SyncRead s1:3 %2 read into read0\n\
/// "
/// );
/// # Ok(())
/// # }
/// ```
pub struct InstructionsBuilder {
    ops: Arc<OpRegistry>,
    catalog: Box<dyn StreamCatalog>,
    policy: SyncPolicy,
    whole_history: bool,
    protection: Protection,
    streams: Vec<StreamTrack>,
    /// The streams by key.
    ids: FxHashMap<StreamKey, StreamId>,
    /// For each device, the first index after those of the known created streams.
    created: FxHashMap<DeviceId, u32>,
    slots: SlotTable,
    records: Records,
    inference: InferenceCache,
    events: EventTable,
    sections: Vec<Section>,
    planner: Planner,
    /// The points that every stream knows at its next emission: observed by the host, or behind a
    /// barrier.
    fence: Clock,
    /// Counts the changes of `fence`.
    fence_epoch: u64,
    /// The streams that hold memory for what they know, until all their instructions are behind the
    /// fence. Of a few streams none is noted, so that they keep their memory.
    holding: Vec<StreamId>,
    /// The points behind the last barrier.
    behind_barrier: Clock,
    /// The points that the host has observed.
    observed: Clock,
    /// The op that fills free memory, if memory is checked.
    scrub: Option<OpId>,
    stats: Stats,
}

impl fmt::Debug for InstructionsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InstructionsBuilder")
            .field("policy", &self.policy)
            .field("streams", &self.streams.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl InstructionsBuilder {
    /// Returns a builder that has emitted nothing.
    pub fn new(
        config: &BuilderConfig,
        ops: Arc<OpRegistry>,
        catalog: Box<dyn StreamCatalog>,
    ) -> InstructionsBuilder {
        InstructionsBuilder {
            ops,
            catalog,
            policy: config.sync,
            whole_history: config.whole_history,
            protection: Protection::default(),
            streams: Vec::new(),
            ids: FxHashMap::default(),
            created: FxHashMap::default(),
            slots: SlotTable::new(config.sync == SyncPolicy::LastUsedStream),
            records: Records::default(),
            inference: InferenceCache::default(),
            events: EventTable::default(),
            sections: Vec::new(),
            planner: Planner::new(),
            fence: Clock::new(),
            fence_epoch: 0,
            holding: Vec::new(),
            behind_barrier: Clock::new(),
            observed: Clock::new(),
            scrub: None,
            stats: Stats::default(),
        }
    }

    /// Sets the protections that the builder gives. Called before any stream is known, so that they
    /// hold for all streams.
    pub fn set_protection(&mut self, protection: Protection) {
        debug_assert!(self.streams.is_empty(), "streams are known already");
        self.protection = protection;
    }

    /// Has memory filled with a pattern when it is placed, and when it is released if its stream
    /// knows its last uses. Both are calls of the op `scrub` on the stream of the memory.
    ///
    /// # Errors
    /// There is no such op.
    pub fn check_memory(&mut self) -> Result<()> {
        self.scrub = Some(self.ops.id("scrub")?);
        Ok(())
    }

    /// Returns the ops that can be called.
    pub const fn ops(&self) -> &Arc<OpRegistry> {
        &self.ops
    }

    /// Returns counts of emissions.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the planner, for what it knows of devices and chunks. The block of the tensor that
    /// was released last may still be used to it; [`InstructionsBuilder::planner_mut`] tells it
    /// first.
    pub const fn planner(&self) -> &Planner {
        &self.planner
    }

    /// Returns the planner, with all releases, to set limits or to ask for free memory.
    pub fn planner_mut(&mut self) -> &mut Planner {
        self.settle_record();
        &mut self.planner
    }

    /// Records that an arena has grown by `bytes` bytes.
    pub fn grown(&mut self, arena: ArenaId, bytes: u64) {
        self.planner.grown(arena, bytes);
    }

    /// Takes the chunk that begins at `start` out of an arena, to be given back to the device.
    /// Returns false if the chunk is in use again, or was in use until a point that the host has
    /// not observed.
    pub fn give_back(&mut self, arena: ArenaId, start: u64) -> bool {
        let (planner, known) = self.memory_and_known();
        let given = planner.give_back(arena, start, &known);
        if given {
            // The chunk that is taken next may lie elsewhere.
            for record in self.records.take_all(arena) {
                self.slots.retire(&record);
            }
        }
        given
    }

    /// Returns the points to wait for before emitting more, if too much is in flight: more than
    /// `most` bytes of released tensors that are still in use, or a few hundred events, because
    /// some devices have few. Live tensors are not counted; released tensors still in use measure
    /// how far the program runs ahead. Waiting for the points is not observing them: it changes no
    /// emission.
    #[inline]
    pub fn backpressure_frontier(&mut self, most: u64, sink: &dyn Sink) -> Option<Frontier> {
        if !self.events.are_many_free() && self.slots.busy_bytes() <= most {
            return None;
        }
        self.backpressure_now(most, sink)
    }

    #[cold]
    fn backpressure_now(&mut self, most: u64, sink: &dyn Sink) -> Option<Frontier> {
        if let Some(uses) = self.events.backpressure_frontier(sink) {
            return Some(uses.clone());
        }
        self.slots.backpressure_frontier(most, sink).cloned()
    }

    /// Returns the memory use of each device.
    pub fn memory(&mut self) -> Vec<ArenaUse> {
        self.settle_record();
        self.planner.usage(&self.known())
    }

    /// Returns the in-order stream of this key. The first call for a key makes it known.
    ///
    /// # Errors
    /// The catalog has no such stream, or it is known as a pool.
    pub fn stream(&mut self, key: &StreamKey) -> Result<StreamId> {
        self.stream_with_mode(key, StreamMode::InOrder)
    }

    /// Returns the stream of this key and mode. The first call for a key makes it known.
    ///
    /// # Errors
    /// The catalog has no such stream, or it is known in another mode.
    pub fn stream_with_mode(&mut self, key: &StreamKey, mode: StreamMode) -> Result<StreamId> {
        if let Some(id) = self.known_id(key) {
            let known = self.streams[id.index()].decl.mode;
            if known != mode {
                return Err(Error::Invalid {
                    what: "stream",
                    message: format!("{key} is {}, not {}", known.name(), mode.name()),
                });
            }
            return Ok(id);
        }
        let facts = self.catalog.describe(key)?;
        if self.streams.len() > usize::from(u16::MAX) {
            return Err(Error::Invalid {
                what: "stream",
                message: format!("{key}: a machine has at most {} streams", u16::MAX),
            });
        }
        let memory = self.planner.arena(&facts.memory);
        let decl = StreamDecl { key: key.clone(), mode, work: facts.work };
        let mut track = StreamTrack::new(decl, memory, facts);
        track.trusting = !self.protection.memory();
        if self.whole_history {
            track.keep_history();
        }
        let id = StreamId(self.streams.len() as u16);
        self.streams.push(track);
        self.note_key(id, key);
        Ok(id)
    }

    /// Gives a stream another key of the same device and type, under which it is known from now on.
    /// Its sequence numbers go on. The host has observed its instructions.
    ///
    /// # Errors
    /// The catalog has no such stream. Nothing has changed.
    pub fn rename(&mut self, stream: StreamId, key: &StreamKey) -> Result<()> {
        self.known_stream(stream)?;
        let facts = self.catalog.describe(key)?;
        let memory = self.planner.arena(&facts.memory);
        let track = &mut self.streams[stream.index()];
        debug_assert!((&track.decl.key.device, track.decl.key.ty) == (&key.device, key.ty));
        let decl = StreamDecl { key: key.clone(), mode: track.decl.mode, work: facts.work };
        let before = track.rename(decl, memory, facts);
        self.ids.remove(&before);
        self.note_key(stream, key);
        self.forget_history(stream);
        Ok(())
    }

    /// Notes the key of a stream.
    fn note_key(&mut self, stream: StreamId, key: &StreamKey) {
        self.ids.insert(key.clone(), stream);
        if key.is_created {
            let next = self.created.entry(key.device.clone()).or_default();
            *next = (*next).max(key.index.saturating_add(1));
        }
    }

    /// Returns the mode of a stream, if it is known.
    pub fn mode(&self, stream: StreamId) -> Option<StreamMode> {
        self.streams.get(stream.index()).map(|track| track.decl.mode)
    }

    /// Returns the stream of this key, if it is known.
    pub fn known_id(&self, key: &StreamKey) -> Option<StreamId> {
        self.ids.get(key).copied()
    }

    /// Returns the key of the next created compute stream of a device, which is not known yet.
    pub fn next_created(&self, device: &DeviceId) -> StreamKey {
        StreamKey::created(device.clone(), self.created.get(device).copied().unwrap_or_default())
    }

    /// Whether the host has observed that `point` completed, or it is behind a barrier.
    pub fn has_observed(&self, point: Point) -> bool {
        self.fence.covers(point)
    }

    /// Frees the memory of a stream's earlier clocks and events. A later wait for one of its points
    /// adds the point alone.
    pub fn forget_history(&mut self, stream: StreamId) {
        let Some(track) = self.streams.get_mut(stream.index()) else { return };
        for (event, _) in track.forget_history() {
            self.events.release(event);
        }
    }

    /// Returns the known streams, by id.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &StreamDecl> {
        self.streams.iter().map(|t| &t.decl)
    }

    /// Whether the op `copy` on a stream reads tensors directly from `device`'s memory.
    pub fn copies_from(&self, stream: StreamId, device: &DeviceId) -> bool {
        self.streams.get(stream.index()).is_some_and(|t| t.copies.contains(device))
    }

    /// Returns the point of the last instruction of `stream`; the stream's start if there is none.
    pub fn tail(&self, stream: StreamId) -> Point {
        Point::new(stream, self.streams.get(stream.index()).map_or(0, |t| t.seq))
    }

    /// Returns a tensor's dtype, shape and layout.
    ///
    /// # Errors
    /// It has been released.
    pub fn spec(&self, tensor: TensorRef) -> Result<&TensorSpec> {
        self.slots.live(tensor)?;
        Ok(self.slots.spec(tensor.id))
    }

    /// Returns a tensor's dtype, shape and layout, to be kept, and the device whose memory it lies
    /// in.
    ///
    /// # Errors
    /// It has been released.
    #[inline]
    pub fn describe(&self, tensor: TensorRef) -> Result<(&Arc<TensorSpec>, &DeviceId)> {
        let storage = self.slots.live(tensor)?;
        let device = self.planner.device(self.slots.storage(storage).arena);
        Ok((self.slots.shared_spec(tensor.id), device))
    }

    /// Returns the device whose memory a tensor lies in.
    ///
    /// # Errors
    /// It has been released.
    pub fn device(&self, tensor: TensorRef) -> Result<&DeviceId> {
        let storage = self.slots.live(tensor)?;
        Ok(self.planner.device(self.slots.storage(storage).arena))
    }

    /// Returns the bytes of the storage that a tensor is a view of.
    ///
    /// # Errors
    /// It has been released.
    pub fn storage_bytes(&self, tensor: TensorRef) -> Result<u64> {
        let storage = self.slots.live(tensor)?;
        Ok(self.slots.storage(storage).bytes)
    }

    /// Returns the storage that a tensor is a view of.
    ///
    /// # Errors
    /// It has been released.
    pub fn storage_of(&self, tensor: TensorRef) -> Result<StorageId> {
        self.slots.live(tensor)
    }

    /// Returns a number of the storage that a tensor is a view of, which no other storage of the
    /// builder ever has.
    ///
    /// # Errors
    /// It has been released.
    pub fn storage_number(&self, tensor: TensorRef) -> Result<u64> {
        let storage = self.slots.live(tensor)?;
        Ok(self.slots.storage(storage).number)
    }

    /// Returns the number of the newest storage: those of later ones are greater.
    pub const fn last_storage_number(&self) -> u64 {
        self.slots.last_storage_number()
    }

    /// Notes that somebody will ask for the failure of a tensor's storage after the tensor has
    /// ended: no later tensor takes over its slots.
    ///
    /// # Errors
    /// It has been released.
    pub fn watch(&mut self, tensor: TensorRef) -> Result<()> {
        let storage = self.slots.live(tensor)?;
        self.slots.storage_mut(storage).is_watched = true;
        Ok(())
    }

    /// Returns whether a tensor alone lies in its storage, and no critical section holds it.
    ///
    /// # Errors
    /// It has been released.
    pub fn is_sole_tensor(&self, tensor: TensorRef) -> Result<bool> {
        let storage = self.slots.storage(self.slots.live(tensor)?);
        Ok(storage.tensors == 1 && storage.held.is_none())
    }

    /// Returns the tensors that have not been released.
    pub fn live_tensors(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.slots.live_tensors()
    }

    /// Returns the point of the last write to a tensor's storage.
    ///
    /// # Errors
    /// It has been released.
    pub fn last_write(&self, tensor: TensorRef) -> Result<Point> {
        let storage = self.slots.live(tensor)?;
        Ok(self.slots.storage(storage).last_write)
    }

    fn known_stream(&self, stream: StreamId) -> Result<()> {
        if stream.index() < self.streams.len() {
            return Ok(());
        }
        let message = format!("{stream} is not a stream of this machine");
        Err(Error::Invalid { what: "stream", message })
    }

    /// Emits an instruction and counts it.
    fn emit(&mut self, sink: &mut (impl Sink + ?Sized), body: Body, origin: &Origin) {
        self.stats.count(body.kind());
        sink.emit(Instruction { body, origin: origin.clone() });
    }

    /// Takes the next point of a stream.
    fn next(&mut self, stream: StreamId) -> Point {
        self.catch_up(stream);
        let track = &mut self.streams[stream.index()];
        track.seq += 1;
        Point::new(stream, track.seq)
    }

    /// Notes that a stream may hold memory for what it knows.
    fn holds(&mut self, stream: StreamId) {
        let is_few = self.streams.len() <= FEW_STREAMS;
        let track = &mut self.streams[stream.index()];
        if !is_few && !self.whole_history && !std::mem::replace(&mut track.holds, true) {
            self.holding.push(stream);
        }
    }

    /// Counts a growth of the fence, and frees what streams knew whose instructions are behind it.
    fn fence_has_grown(&mut self) {
        self.fence_epoch += 1;
        let InstructionsBuilder { holding, streams, fence, .. } = self;
        holding.retain(|stream| {
            let track = &mut streams[stream.index()];
            track.holds = !fence.covers(Point::new(*stream, track.seq));
            if !track.holds {
                track.settle(fence);
            }
            track.holds
        });
    }

    /// Brings a stream's clock up to date, if the fence has grown.
    fn catch_up(&mut self, stream: StreamId) {
        let track = &mut self.streams[stream.index()];
        if track.fence_epoch != self.fence_epoch {
            track.fence_epoch = self.fence_epoch;
            if self.whole_history {
                track.join_fence(&self.fence);
            } else {
                track.leave_out(&self.fence);
            }
        }
    }
}

/// A few tensors, for annotations.
type Tensors = SmallVec<[TensorId; 4]>;
