//! Slots of tensors and storages.
//!
//! A slot is given out again once every instruction that can name it has completed. Until then it
//! waits in a queue; each new owner looks at the queue's head, so the price is the same however
//! many wait.

use std::collections::{HashMap, VecDeque};

use millstream_types::{
    Access, Error, Origin, Point, Result, StorageId, StreamId, TensorId, TensorSpec,
};

use crate::builder::region::SectionId;
use crate::builder::{Sink, TensorRef};
use crate::frontier::Frontier;
use crate::planner::{ArenaId, BlockId};

/// The memory that one or more tensors are views of, and who used it last. What each use looks at
/// comes first and fills a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Storage {
    pub(super) last_write: Point,
    /// The newest read since the last write of the stream that was first to read; none if its
    /// number is 0. On a pool a read stands for all of the pool up to it.
    first_read: Point,
    /// The same for further streams. Few storages are read by several streams between two writes.
    further_reads: Vec<Point>,
    pub(super) held: Option<SectionId>,
    /// The last use of any kind, where it is asked for.
    pub(super) last_use: Point,
    /// The live tensors that are views of it.
    pub(super) tensors: u32,
    pub(super) bytes: u64,
    pub(super) arena: ArenaId,
    /// None if the memory is not the planner's, or there is none.
    pub(super) block: Option<BlockId>,
}

// A line for what each use looks at, and one for the rest.
const _: () = assert!(std::mem::offset_of!(Storage, last_use) == 64 && size_of::<Storage>() == 128);

impl Storage {
    /// A storage that comes into being at `born`, with nobody's use before.
    pub(super) fn new(born: Point, bytes: u64, arena: ArenaId, block: Option<BlockId>) -> Storage {
        Storage {
            last_write: born,
            first_read: Point::new(born.stream, 0),
            further_reads: Vec::new(),
            held: None,
            last_use: born,
            tensors: 0,
            bytes,
            arena,
            block,
        }
    }

    /// The newest read of each stream since the last write.
    pub(super) fn reads(&self) -> impl Iterator<Item = Point> + '_ {
        let first = (self.first_read.seq > 0).then_some(self.first_read);
        first.into_iter().chain(self.further_reads.iter().copied())
    }

    /// Calls `found` for each of them; perhaps for the start of a stream as well, which has passed.
    #[inline]
    pub(super) fn each_read(&self, mut found: impl FnMut(Point)) {
        found(self.first_read);
        self.further_reads.iter().copied().for_each(found);
    }

    /// The points of all last uses.
    pub(super) fn death(&self) -> Frontier {
        self.reads().chain([self.last_write]).collect()
    }

    /// Whether every use that one on `stream` must come after is that stream's own, so that the
    /// stream's order is all it takes.
    #[inline]
    pub(super) fn is_ordered_by(&self, stream: StreamId, writes: bool) -> bool {
        // Without branches where it can be: what comes next is as good as random.
        let here = |p: Point| (p.stream == stream) | (p.seq == 0);
        let reads = here(self.first_read) & self.further_reads.is_empty();
        here(self.last_write) & (reads | !writes)
    }

    /// Notes a use at `point`, as far as the first cache line goes.
    #[inline]
    fn used(&mut self, point: Point, access: Access) {
        if self.last_write == point {
            // An instruction that reads and writes a storage counts as writing it.
        } else if access.writes() {
            self.last_write = point;
            self.first_read.seq = 0;
            if !self.further_reads.is_empty() {
                self.further_reads.clear();
            }
        } else if (self.first_read.stream == point.stream) | (self.first_read.seq == 0) {
            self.first_read = point;
        } else {
            self.read_further(point);
        }
    }

    #[cold]
    fn read_further(&mut self, point: Point) {
        match self.further_reads.iter_mut().find(|r| r.stream == point.stream) {
            Some(read) => read.seq = point.seq,
            None => self.further_reads.push(point),
        }
    }
}

/// Tensors of one class have equal dtypes, shapes and layouts, and are all of their storages or
/// not. What a schema says of one, and how it uses it, it says of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpecClass(u32);

impl SpecClass {
    /// Nobody has asked yet.
    const UNKNOWN: SpecClass = SpecClass(0);
}

/// What every use of a tensor looks at, apart from the rest to keep it dense.
#[derive(Clone, Copy, Debug)]
struct Hot {
    storage: StorageId,
    /// Odd while the tensor lives.
    generation: u32,
    class: SpecClass,
    /// Where the storage lies.
    arena: ArenaId,
}

#[derive(Debug, Default)]
struct Classes {
    numbers: HashMap<(TensorSpec, bool), SpecClass>,
    all: Vec<(TensorSpec, bool)>,
}

#[derive(Debug, Default)]
pub(super) struct SlotTable {
    hot: Vec<Hot>,
    classes: Classes,
    specs: Vec<TensorSpec>,
    /// Where a tensor was made while it lives, and then where it was released.
    places: Vec<Origin>,
    storages: Vec<Storage>,
    free_tensors: VecDeque<(TensorId, Frontier)>,
    /// Ended storages, each with the bytes that its last uses keep busy.
    free_storages: VecDeque<((StorageId, u64), Frontier)>,
    /// Of these, the ones that were found to be no longer in use.
    idle_storages: Vec<StorageId>,
    /// The bytes of `free_storages`.
    busy_bytes: u64,
    /// Whether anybody asks for the last use of any kind.
    keeps_last_uses: bool,
}

/// Whether a tensor takes all of a storage of `bytes` bytes.
pub(super) fn is_whole(spec: &TensorSpec, bytes: u64) -> bool {
    let elements = bytes as usize / spec.dtype.size();
    elements * spec.dtype.size() == bytes as usize && spec.layout.covers(elements)
}

/// Takes a slot whose last uses have completed, from the first two that wait.
fn reuse<T: Copy>(queue: &mut VecDeque<(T, Frontier)>, sink: &dyn Sink) -> Option<T> {
    for _ in 0..2.min(queue.len()) {
        let (slot, death) = queue.pop_front()?;
        if death.iter().all(|p| sink.reached(p)) {
            return Some(slot);
        }
        // One stuck stream must not hold up the slots of all others.
        queue.push_back((slot, death));
    }
    None
}

impl SlotTable {
    pub(super) fn new(keeps_last_uses: bool) -> SlotTable {
        SlotTable { keeps_last_uses, ..SlotTable::default() }
    }

    pub(super) fn new_storage(&mut self, storage: Storage, sink: &dyn Sink) -> StorageId {
        let found = self.idle_storages.pop().or_else(|| {
            let (id, bytes) = reuse(&mut self.free_storages, sink)?;
            self.busy_bytes -= bytes;
            Some(id)
        });
        match found {
            Some(id) => {
                self.storages[id.index()] = storage;
                id
            }
            None => {
                self.storages.push(storage);
                StorageId((self.storages.len() - 1) as u32)
            }
        }
    }

    pub(super) fn new_tensor(
        &mut self,
        spec: TensorSpec,
        storage: StorageId,
        sink: &dyn Sink,
        origin: &Origin,
    ) -> TensorRef {
        self.storages[storage.index()].tensors += 1;
        let arena = self.storages[storage.index()].arena;
        if let Some(id) = reuse(&mut self.free_tensors, sink) {
            let hot = &mut self.hot[id.index()];
            let generation = hot.generation.wrapping_add(1);
            *hot = Hot { storage, generation, class: SpecClass::UNKNOWN, arena };
            self.specs[id.index()] = spec;
            self.places[id.index()] = origin.clone();
            return TensorRef { id, generation: hot.generation };
        }
        self.hot.push(Hot { storage, generation: 1, class: SpecClass::UNKNOWN, arena });
        self.specs.push(spec);
        self.places.push(origin.clone());
        TensorRef { id: TensorId((self.hot.len() - 1) as u32), generation: 1 }
    }

    /// The storage of a live tensor.
    pub(super) fn live(&self, tensor: TensorRef) -> Result<StorageId> {
        match self.hot.get(tensor.id.index()) {
            Some(hot) if hot.generation == tensor.generation => Ok(hot.storage),
            Some(hot) => Err(Error::Released {
                tensor: tensor.id.to_string(),
                // The slot remembers its last release alone.
                released: if hot.generation == tensor.generation.wrapping_add(1) {
                    self.places[tensor.id.index()].clone()
                } else {
                    Origin::Unknown
                },
            }),
            None => Err(Error::Foreign { what: tensor.id.to_string() }),
        }
    }

    /// Whether a use on `stream`, which works on `memory`, needs nothing but that stream's order: the tensor lives, lies there and is of this class, nobody holds it, and what
    /// the use comes after was on the stream itself.
    #[inline]
    pub(super) fn is_plain(
        &self,
        tensor: TensorRef,
        class: SpecClass,
        memory: ArenaId,
        stream: StreamId,
        writes: bool,
    ) -> bool {
        self.is_ready(tensor, class, memory) && {
            let storage = self.hot[tensor.id.index()].storage;
            self.storages[storage.index()].is_ordered_by(stream, writes)
        }
    }

    /// Whether a tensor lives in `memory`, is of this class, and nobody holds it.
    #[inline]
    pub(super) fn is_ready(&self, tensor: TensorRef, class: SpecClass, memory: ArenaId) -> bool {
        let Some(hot) = self.hot.get(tensor.id.index()) else { return false };
        hot.generation == tensor.generation
            && hot.class == class
            && hot.arena == memory
            && self.storages[hot.storage.index()].held.is_none()
    }

    /// Notes a use of a live tensor.
    #[inline]
    pub(super) fn used(&mut self, tensor: TensorId, at: Point, access: Access) {
        let storage = &mut self.storages[self.hot[tensor.index()].storage.index()];
        storage.used(at, access);
        if self.keeps_last_uses {
            storage.last_use = at;
        }
    }

    /// The class of a live tensor.
    pub(super) fn classify(&mut self, tensor: TensorId) -> SpecClass {
        let hot = &mut self.hot[tensor.index()];
        if hot.class == SpecClass::UNKNOWN {
            let spec = &self.specs[tensor.index()];
            let whole = is_whole(spec, self.storages[hot.storage.index()].bytes);
            let Classes { numbers, all } = &mut self.classes;
            hot.class = *numbers.entry((spec.clone(), whole)).or_insert_with(|| {
                all.push((spec.clone(), whole));
                SpecClass(all.len() as u32)
            });
        }
        hot.class
    }

    /// What tensors of a class are like, in words.
    pub(super) fn likeness(&self, class: SpecClass) -> String {
        let (spec, whole) = &self.classes.all[class.0 as usize - 1];
        if *whole { spec.to_string() } else { format!("{spec} within a larger storage") }
    }

    /// The storage of a tensor known to live.
    pub(super) fn storage_of(&self, tensor: TensorId) -> StorageId {
        self.hot[tensor.index()].storage
    }

    pub(super) fn live_tensors(&self) -> impl Iterator<Item = TensorId> + '_ {
        let lives = self.hot.iter().enumerate().filter(|(_, h)| h.generation % 2 == 1);
        lives.map(|(k, _)| TensorId(k as u32))
    }

    /// Where a live tensor was made.
    pub(super) fn made(&self, tensor: TensorId) -> &Origin {
        &self.places[tensor.index()]
    }

    pub(super) fn spec(&self, tensor: TensorId) -> &TensorSpec {
        &self.specs[tensor.index()]
    }

    pub(super) fn storage(&self, id: StorageId) -> &Storage {
        &self.storages[id.index()]
    }

    pub(super) fn storage_mut(&mut self, id: StorageId) -> &mut Storage {
        &mut self.storages[id.index()]
    }

    /// Ends a live tensor. Gives the storage back if it was the last.
    pub(super) fn end(&mut self, tensor: TensorId, origin: &Origin) -> Option<Storage> {
        let hot = &mut self.hot[tensor.index()];
        hot.generation = hot.generation.wrapping_add(1);
        let id = hot.storage;
        self.places[tensor.index()] = origin.clone();
        let storage = &mut self.storages[id.index()];
        let death = storage.death();
        self.free_tensors.push_back((tensor, death.clone()));
        storage.tensors -= 1;
        if storage.tensors > 0 {
            return None;
        }
        let bytes = if storage.block.is_some() { storage.bytes } else { 0 };
        self.busy_bytes += bytes;
        self.free_storages.push_back(((id, bytes), death));
        Some(storage.clone())
    }

    /// The uses of the storage that ended first, if the storages that have ended and are in use
    /// take more than `most` bytes.
    pub(super) fn backpressure_frontier(
        &mut self,
        most: u64,
        sink: &dyn Sink,
    ) -> Option<&Frontier> {
        while self.busy_bytes > most {
            let ((id, bytes), death) = self.free_storages.front()?;
            if !death.iter().all(|p| sink.reached(p)) {
                break;
            }
            self.busy_bytes -= bytes;
            self.idle_storages.push(*id);
            self.free_storages.pop_front();
        }
        if self.busy_bytes <= most {
            return None;
        }
        self.free_storages.front().map(|(_, death)| death)
    }
}
