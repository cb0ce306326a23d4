//! Ops in, ordered instructions out.
//!
//! The builder keeps what is known about order: for each stream a frontier, for each storage its
//! last write and its newest reads. From these it finds what an instruction must wait for, leaves
//! out what is known already, and emits the rest as waits before the instruction itself.
//!
//! # Invariants
//! - An instruction is emitted whole or not at all: a call that is refused, or that needs memory
//!   first, has emitted nothing and changed nothing.
//! - Every access is recorded under the place of the instruction that made it, after the waits
//!   that it needed.
//! - What a stream knows at place `n` is kept by place : a wait for
//!   `(q, n)` brings what `q` knew then, never what it knows now.
//! - Nothing here depends on what devices have completed, but for the numbers of slots that are
//!   given out again; a recorder takes those out.

mod call;
mod clock;
mod event;
mod memory;
mod offline;
mod order;
mod prepared;
mod protection;
mod region;
mod slot;
mod stats;
mod stream;
mod sync;

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_ops::OpRegistry;
use millstream_types::{
    DeviceId, Error, OpId, Origin, Point, Result, StreamId, StreamKey, StreamMode, TensorId,
    TensorSpec,
};

use crate::catalog::StreamCatalog;
use crate::frontier::Frontier;
use crate::instruction::Via;
use crate::list::StreamDecl;
use crate::planner::{ArenaId, ArenaUse, Planner, Points};
use crate::table::{Body, Instruction};

pub use call::{Call, Output, Outputs, fresh_specs};
pub use event::EventRef;
pub use offline::{OfflineCatalog, OfflineSink};
pub use prepared::PreparedCall;
pub use protection::Protection;
pub use region::SectionId;
pub use stats::{Stats, Waits};

use clock::Clock;
use event::EventTable;
use region::Section;
use slot::SlotTable;
use stream::StreamTrack;

/// Which earlier uses of a tensor an instruction waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Those that conflict with it: readers wait for the last write, writers for all reads since.
    #[default]
    Frontier,
    /// The last one of any kind, if it was on another stream: OneFlow's rule. Readers on
    /// different streams wait for one another.
    LastUsedStream,
}

/// What a builder starts with.
#[derive(Clone, Debug, Default)]
pub struct BuilderConfig {
    /// Which earlier uses are waited for.
    pub sync: SyncPolicy,
}

/// Where emitted instructions go.
pub trait Sink {
    /// Takes the next instruction in program order.
    fn emit(&mut self, instruction: Instruction);

    /// Takes a prepared call, made on `tensors`, as the next instruction.
    fn emit_prepared(
        &mut self,
        at: Point,
        call: &PreparedCall,
        tensors: &[TensorRef],
        origin: &Origin,
    ) {
        self.emit(call.instruction(at, tensors, origin));
    }

    /// Takes a wait at `at` for `until` as the next instruction.
    fn emit_wait(&mut self, at: Point, until: Point, via: Via, origin: &Origin) {
        let body = Body::StreamWaitEvent { at, until, via };
        self.emit(Instruction { body, origin: origin.clone() });
    }

    /// Whether a point has completed. Asked only before a slot is given out again: the answer
    /// never changes what is emitted, but for slots' numbers.
    fn reached(&self, point: Point) -> bool;

    /// Whether [`Body::SoftSyncStream`] lines are wanted.
    fn annotated(&self) -> bool;
}

/// A tensor of a builder: its slot, and which of the slot's owners it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorRef {
    /// The slot.
    pub id: TensorId,
    /// Counts the slot's owners.
    pub generation: u32,
}

/// What has to be had before a call can be emitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Need {
    /// An arena must grow: grow it, call [`Builder::grown`], then ask again.
    Grow {
        /// The arena.
        arena: ArenaId,
        /// By how many bytes it had best grow.
        bytes: u64,
        /// How many do, if the device does not have that many.
        least: u64,
        /// The stream that wants them.
        stream: StreamId,
    },
    /// These points must have passed: wait for them, call [`Builder::observe`], then ask again.
    Wait(Points),
    /// Free memory must go back to the device, which has room for `bytes` bytes then: for what
    /// [`Planner::next_return`] names, wait, call [`Builder::observe`] and [`Builder::give_back`],
    /// until there is; then ask again.
    Return {
        /// The arena.
        arena: ArenaId,
        /// How much room there is to be.
        bytes: u64,
    },
    /// Nothing is left but to wait for all that was emitted, and to let go of what that held: then
    /// ask again. If that was done for this call, the error is its answer.
    Everything(Box<Error>),
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<T> {
    /// It was emitted.
    Done(T),
    /// Something has to be had first; nothing was emitted.
    Need(Need),
}

/// Turns calls into ordered instructions.
pub struct Builder {
    ops: Arc<OpRegistry>,
    catalog: Box<dyn StreamCatalog>,
    policy: SyncPolicy,
    protection: Protection,
    streams: Vec<StreamTrack>,
    slots: SlotTable,
    events: EventTable,
    sections: Vec<Section>,
    planner: Planner,
    /// What every stream knows at its next emission: what the host saw pass, and barriers.
    fence: Clock,
    /// Counts the changes of `fence`.
    fence_epoch: u64,
    /// What the host saw pass.
    observed: Clock,
    /// The op that fills memory which nobody has, if memory is checked.
    scrub: Option<OpId>,
    stats: Stats,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("policy", &self.policy)
            .field("streams", &self.streams.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// A builder that has emitted nothing.
    pub fn new(
        config: &BuilderConfig,
        ops: Arc<OpRegistry>,
        catalog: Box<dyn StreamCatalog>,
    ) -> Builder {
        Builder {
            ops,
            catalog,
            policy: config.sync,
            protection: Protection::default(),
            streams: Vec::new(),
            slots: SlotTable::new(config.sync == SyncPolicy::LastUsedStream),
            events: EventTable::default(),
            sections: Vec::new(),
            planner: Planner::new(),
            fence: Clock::new(),
            fence_epoch: 0,
            observed: Clock::new(),
            scrub: None,
            stats: Stats::default(),
        }
    }

    /// Leaves to the program what `protection` says that it sees to. Asked for before any stream is
    /// known, so that it holds for all.
    pub fn set_protection(&mut self, protection: Protection) {
        debug_assert!(self.streams.is_empty(), "streams are known already");
        self.protection = protection;
    }

    /// Has memory filled with a pattern when it is released, where its stream knows that it is free,
    /// and when it is given out. Both are calls of the op `scrub`, on the stream of the memory.
    ///
    /// # Errors
    /// There is no such op.
    pub fn check_memory(&mut self) -> Result<()> {
        self.scrub = Some(self.ops.id("scrub")?);
        Ok(())
    }

    /// The ops that can be called.
    pub const fn ops(&self) -> &Arc<OpRegistry> {
        &self.ops
    }

    /// Counts of what was emitted.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The memory plan.
    pub const fn planner(&self) -> &Planner {
        &self.planner
    }

    /// The memory plan, to tell it limits.
    pub const fn planner_mut(&mut self) -> &mut Planner {
        &mut self.planner
    }

    /// Tells that an arena has grown by `bytes` bytes, which `stream` asked for.
    pub fn grown(&mut self, arena: ArenaId, bytes: u64, stream: StreamId) {
        self.planner.grown(arena, bytes, stream);
    }

    /// Takes the chunk that begins at `start` out of an arena, to be given back to the device.
    /// False if it is in use again, or was until a point that the host has not observed.
    pub fn give_back(&mut self, arena: ArenaId, start: u64) -> bool {
        let (planner, known) = self.memory_and_known();
        planner.give_back(arena, start, &known)
    }

    /// What to wait for before more is emitted, if too much is on its way: more than `most` bytes
    /// of released tensors that are still in use, or a few hundred events, of which there are
    /// devices that have not many. To wait for it is not to observe it: that changes nothing that
    /// is emitted.
    pub fn backpressure_frontier(&mut self, most: u64, sink: &dyn Sink) -> Option<Frontier> {
        if let Some(uses) = self.events.backpressure_frontier(sink) {
            return Some(uses.clone());
        }
        self.slots.backpressure_frontier(most, sink).cloned()
    }

    /// The memory of each device.
    pub fn memory(&self) -> Vec<ArenaUse> {
        self.planner.usage(&self.known())
    }

    /// The in-order stream of this key, known from now on.
    ///
    /// # Errors
    /// The catalog has no such stream, or it is known as a pool.
    pub fn stream(&mut self, key: &StreamKey) -> Result<StreamId> {
        self.stream_with_mode(key, StreamMode::InOrder)
    }

    /// The stream of this key and mode, known from now on.
    ///
    /// # Errors
    /// The catalog has no such stream, or it is known in another mode.
    pub fn stream_with_mode(&mut self, key: &StreamKey, mode: StreamMode) -> Result<StreamId> {
        if let Some(at) = self.streams.iter().position(|t| t.decl.key == *key) {
            let known = self.streams[at].decl.mode;
            if known != mode {
                return Err(Error::Invalid {
                    what: "stream",
                    message: format!("{key} is {}, not {}", known.name(), mode.name()),
                });
            }
            return Ok(StreamId(at as u16));
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
        self.streams.push(track);
        Ok(StreamId((self.streams.len() - 1) as u16))
    }

    /// The streams known, by id.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = &StreamDecl> {
        self.streams.iter().map(|t| &t.decl)
    }

    /// Whether `copy` on a stream reads tensors where they lie in `device`'s memory.
    pub fn copies_from(&self, stream: StreamId, device: &DeviceId) -> bool {
        self.streams.get(stream.index()).is_some_and(|t| t.copies.contains(device))
    }

    /// The place of the last instruction given to `stream`; its start if there is none.
    pub fn tail(&self, stream: StreamId) -> Point {
        Point::new(stream, self.streams.get(stream.index()).map_or(0, |t| t.seq))
    }

    /// Dtype, shape and layout of a tensor.
    ///
    /// # Errors
    /// It has been released.
    pub fn spec(&self, tensor: TensorRef) -> Result<&TensorSpec> {
        self.slots.live(tensor)?;
        Ok(self.slots.spec(tensor.id))
    }

    /// The device whose memory a tensor lies in.
    ///
    /// # Errors
    /// It has been released.
    pub fn device(&self, tensor: TensorRef) -> Result<&DeviceId> {
        let storage = self.slots.live(tensor)?;
        Ok(self.planner.device(self.slots.storage(storage).arena))
    }

    /// The bytes of the storage that a tensor is a view of.
    ///
    /// # Errors
    /// It has been released.
    pub fn storage_bytes(&self, tensor: TensorRef) -> Result<u64> {
        let storage = self.slots.live(tensor)?;
        Ok(self.slots.storage(storage).bytes)
    }

    /// The tensors that have not been released.
    pub fn live_tensors(&self) -> impl Iterator<Item = TensorId> + '_ {
        self.slots.live_tensors()
    }

    /// The point of the last write of a tensor's storage.
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

    /// Gives an instruction to the sink and counts it.
    fn emit(&mut self, sink: &mut dyn Sink, body: Body, origin: &Origin) {
        self.stats.count(body.kind());
        sink.emit(Instruction { body, origin: origin.clone() });
    }

    /// The next place on a stream, which knows what the fence knows.
    fn next(&mut self, stream: StreamId) -> Point {
        self.catch_up(stream);
        let track = &mut self.streams[stream.index()];
        track.seq += 1;
        Point::new(stream, track.seq)
    }

    /// Lets a stream know what the fence knows, from its next place on.
    fn catch_up(&mut self, stream: StreamId) {
        let track = &mut self.streams[stream.index()];
        if track.fence_epoch != self.fence_epoch {
            track.fence_epoch = self.fence_epoch;
            track.learn(track.seq + 1, &self.fence);
        }
    }
}

/// A few tensors, for annotations.
type Tensors = SmallVec<[TensorId; 4]>;
