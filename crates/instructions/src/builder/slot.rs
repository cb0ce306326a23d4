//! Slots of tensors and storages.
//!
//! Long because slots of tensors and of storages change together.
//!
//! A slot is reused once every instruction that can name it has completed. Until then it is in a
//! queue. Each allocation of a slot examines the queue's head, so its cost does not depend on the
//! queue's length.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use millstream_types::{
    Access, Error, Origin, Point, Result, StorageId, StreamId, TensorId, TensorSpec,
};

use crate::builder::record::Record;
use crate::builder::storage::Storage;
use crate::builder::{Sink, TensorRef};
use crate::frontier::Frontier;
use crate::planner::{ArenaId, BlockId};

/// A class of tensors with equal dtypes, shapes and layouts, all of which cover their storages or
/// all of which do not. A schema treats all tensors of a class alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SpecClass(u32);

impl SpecClass {
    /// The class of a tensor that was not classified yet.
    const UNKNOWN: SpecClass = SpecClass(0);

    /// Returns the number of a known class: not 0.
    pub(super) const fn number(self) -> u32 {
        self.0
    }

    /// Returns the class of a number.
    pub(super) const fn of(number: u32) -> SpecClass {
        SpecClass(number)
    }
}

/// The fields of a tensor that every use reads, kept apart from the rest to be dense.
#[derive(Clone, Copy, Debug)]
struct Hot {
    storage: StorageId,
    /// Odd while the tensor is live.
    generation: u32,
    class: SpecClass,
    /// The arena of the storage.
    arena: ArenaId,
}

/// The number of classes from which on tensors are no longer classified for the inference cache: a
/// program whose shapes never repeat gains nothing from it.
const MAX_CLASSES: usize = 1 << 16;

#[derive(Debug, Default)]
struct Classes {
    numbers: FxHashMap<(Arc<TensorSpec>, bool), SpecClass>,
    all: Vec<(Arc<TensorSpec>, bool)>,
}

#[derive(Debug, Default)]
pub(super) struct SlotTable {
    hot: Vec<Hot>,
    classes: Classes,
    specs: Vec<Arc<TensorSpec>>,
    /// The origin of a live tensor's beginning, or of a released tensor's release.
    origins: Vec<Origin>,
    storages: Vec<Storage>,
    free_tensors: VecDeque<(TensorId, Frontier)>,
    /// Ended storages, each with the bytes that its last uses keep in use.
    free_storages: VecDeque<((StorageId, u64), Frontier)>,
    /// Ended storages whose last uses have completed.
    idle_storages: Vec<StorageId>,
    /// The number of the newest storage.
    last_storage: u64,
    /// The sum of the bytes of `free_storages`.
    busy_bytes: u64,
    /// Whether the sync policy needs the last use of any kind.
    keeps_last_uses: bool,
}

/// Whether a tensor covers all of a storage of `bytes` bytes.
pub(crate) fn is_whole(spec: &TensorSpec, bytes: u64) -> bool {
    let elements = bytes as usize / spec.dtype.size();
    elements * spec.dtype.size() == bytes as usize && spec.layout.covers(elements)
}

/// Takes a slot whose last uses have completed, from the first two of the queue.
fn reuse<T: Copy>(queue: &mut VecDeque<(T, Frontier)>, sink: &(impl Sink + ?Sized)) -> Option<T> {
    for _ in 0..2.min(queue.len()) {
        let (slot, last_uses) = queue.pop_front()?;
        if last_uses.iter().all(|p| sink.reached(p)) {
            return Some(slot);
        }
        // The slots of one slow stream must not delay the reuse of all others.
        queue.push_back((slot, last_uses));
    }
    None
}

impl SlotTable {
    pub(super) fn new(keeps_last_uses: bool) -> SlotTable {
        SlotTable { keeps_last_uses, ..SlotTable::default() }
    }

    pub(super) fn new_storage(
        &mut self,
        mut storage: Storage,
        sink: &(impl Sink + ?Sized),
    ) -> StorageId {
        self.last_storage += 1;
        storage.number = self.last_storage;
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
        spec: &Arc<TensorSpec>,
        class: SpecClass,
        storage: StorageId,
        sink: &(impl Sink + ?Sized),
        origin: &Origin,
    ) -> TensorRef {
        self.storages[storage.index()].tensors += 1;
        let arena = self.storages[storage.index()].arena;
        if let Some(id) = reuse(&mut self.free_tensors, sink) {
            let hot = &mut self.hot[id.index()];
            let generation = hot.generation.wrapping_add(1);
            *hot = Hot { storage, generation, class, arena };
            // Often the slot's last tensor was like this one: then nothing is counted.
            let kept = &mut self.specs[id.index()];
            if !Arc::ptr_eq(kept, spec) {
                kept.clone_from(spec);
            }
            self.origins[id.index()].clone_from(origin);
            return TensorRef { id, generation: hot.generation };
        }
        self.hot.push(Hot { storage, generation: 1, class, arena });
        self.specs.push(spec.clone());
        self.origins.push(origin.clone());
        TensorRef { id: TensorId((self.hot.len() - 1) as u32), generation: 1 }
    }

    /// Returns the storage of a tensor, which must be live.
    #[inline]
    pub(super) fn live(&self, tensor: TensorRef) -> Result<StorageId> {
        match self.hot.get(tensor.id.index()) {
            Some(hot) if hot.generation == tensor.generation => Ok(hot.storage),
            _ => Err(self.not_live(tensor)),
        }
    }

    #[cold]
    fn not_live(&self, tensor: TensorRef) -> Error {
        match self.hot.get(tensor.id.index()) {
            Some(hot) => Error::Released {
                tensor: tensor.id.to_string(),
                // A slot keeps the origin of its last release alone.
                released: if hot.generation == tensor.generation.wrapping_add(1) {
                    self.origins[tensor.id.index()].clone()
                } else {
                    Origin::Unknown
                },
            },
            None => Error::Foreign { what: tensor.id.to_string() },
        }
    }

    /// Whether a use on `stream`, whose memory is `memory`, needs no wait and no check: the tensor
    /// is live, in `memory`, of this class and not held, and the uses that it must come after are
    /// on `stream` itself.
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

    /// Whether a tensor is live, in `memory`, of this class, and not held by a critical section.
    #[inline]
    pub(super) fn is_ready(&self, tensor: TensorRef, class: SpecClass, memory: ArenaId) -> bool {
        let Some(hot) = self.hot.get(tensor.id.index()) else { return false };
        hot.generation == tensor.generation
            && hot.class == class
            && hot.arena == memory
            && self.storages[hot.storage.index()].held.is_none()
    }

    /// Returns the class of a tensor that is live, in `memory`, and not held by a critical section,
    /// and whether all its earlier uses are on `stream`. Returns none if it is not, or if there are
    /// too many classes.
    #[inline]
    pub(super) fn class_if_free(
        &mut self,
        tensor: TensorRef,
        memory: ArenaId,
        stream: StreamId,
    ) -> Option<(SpecClass, bool)> {
        let hot = self.hot.get(tensor.id.index())?;
        let storage = &self.storages[hot.storage.index()];
        let is_free =
            (hot.generation == tensor.generation) & (hot.arena == memory) & storage.held.is_none();
        if !is_free {
            return None;
        }
        let ordered = storage.is_ordered_by(stream, true);
        let class = match hot.class {
            SpecClass::UNKNOWN => self.class_if_known(tensor.id)?,
            class => class,
        };
        Some((class, ordered))
    }

    /// Returns the class of a live tensor; none if there are too many classes.
    pub(super) fn class_if_known(&mut self, tensor: TensorId) -> Option<SpecClass> {
        (self.classes.all.len() < MAX_CLASSES).then(|| self.classify(tensor))
    }

    /// Whether the tensors of a class cover their storages.
    pub(super) fn is_whole_class(&self, class: SpecClass) -> bool {
        self.classes.all[class.0 as usize - 1].1
    }

    /// Records a use of a live tensor.
    #[inline]
    pub(super) fn used(&mut self, tensor: TensorId, at: Point, access: Access) {
        let storage = &mut self.storages[self.hot[tensor.index()].storage.index()];
        storage.used(at, access);
        if self.keeps_last_uses {
            storage.last_use = at;
        }
    }

    /// Returns the class of a live tensor.
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

    /// Describes the tensors of a class.
    pub(super) fn describe_class(&self, class: SpecClass) -> String {
        let (spec, whole) = &self.classes.all[class.0 as usize - 1];
        if *whole { spec.to_string() } else { format!("{spec} within a larger storage") }
    }

    /// Returns the storage of a tensor that is known to be live.
    pub(super) fn storage_of(&self, tensor: TensorId) -> StorageId {
        self.hot[tensor.index()].storage
    }

    pub(super) fn live_tensors(&self) -> impl Iterator<Item = TensorId> + '_ {
        let lives = self.hot.iter().enumerate().filter(|(_, h)| h.generation % 2 == 1);
        lives.map(|(k, _)| TensorId(k as u32))
    }

    /// Returns the origin of a live tensor's beginning.
    pub(super) fn made(&self, tensor: TensorId) -> &Origin {
        &self.origins[tensor.index()]
    }

    pub(super) fn spec(&self, tensor: TensorId) -> &TensorSpec {
        &self.specs[tensor.index()]
    }

    pub(super) fn shared_spec(&self, tensor: TensorId) -> &Arc<TensorSpec> {
        &self.specs[tensor.index()]
    }

    pub(super) fn storage(&self, id: StorageId) -> &Storage {
        &self.storages[id.index()]
    }

    pub(super) fn storage_mut(&mut self, id: StorageId) -> &mut Storage {
        &mut self.storages[id.index()]
    }

    /// Ends a live tensor. If no other tensor is a view of its storage, returns the storage's block
    /// and last uses.
    pub(super) fn end(
        &mut self,
        tensor: TensorId,
        origin: &Origin,
    ) -> Option<(Option<BlockId>, Frontier)> {
        let hot = &mut self.hot[tensor.index()];
        hot.generation = hot.generation.wrapping_add(1);
        let id = hot.storage;
        self.origins[tensor.index()] = origin.clone();
        let storage = &mut self.storages[id.index()];
        let last_uses = storage.last_use_frontier();
        self.free_tensors.push_back((tensor, last_uses.clone()));
        storage.tensors -= 1;
        if storage.tensors > 0 {
            return None;
        }
        let bytes = if storage.block.is_some() { storage.bytes } else { 0 };
        self.busy_bytes += bytes;
        let block = storage.block;
        self.free_storages.push_back(((id, bytes), last_uses.clone()));
        Some((block, last_uses))
    }

    pub(super) const fn last_storage_number(&self) -> u64 {
        self.last_storage
    }

    /// Ends a live tensor as [`SlotTable::end`] does, if its slots can be kept as a record. Returns
    /// the record, without its place in memory, and the block.
    #[inline]
    pub(super) fn end_recorded(
        &mut self,
        tensor: TensorId,
        origin: &Origin,
        suits: impl FnOnce(BlockId, StreamId) -> Option<u64>,
    ) -> Option<(BlockId, Record)> {
        let hot = &mut self.hot[tensor.index()];
        let storage = &mut self.storages[hot.storage.index()];
        let alone = storage.tensors == 1 && storage.root == tensor;
        if !alone || storage.is_watched || hot.class == SpecClass::UNKNOWN {
            return None;
        }
        let (block, last_use) = (storage.block?, storage.last_use_on_one_stream()?);
        let offset = suits(block, last_use.stream)?;
        storage.tensors = 0;
        storage.held = None;
        hot.generation = hot.generation.wrapping_add(1);
        self.origins[tensor.index()].clone_from(origin);
        let (storage, class) = (hot.storage, hot.class);
        Some((block, Record { tensor, storage, class, offset, last_use }))
    }

    /// Begins a tensor in the slots of a record.
    #[inline]
    pub(super) fn renew(&mut self, record: &Record, tail: Point, origin: &Origin) -> TensorRef {
        self.last_storage += 1;
        self.storages[record.storage.index()].renew(tail, self.last_storage);
        let hot = &mut self.hot[record.tensor.index()];
        hot.generation = hot.generation.wrapping_add(1);
        self.origins[record.tensor.index()].clone_from(origin);
        TensorRef { id: record.tensor, generation: hot.generation }
    }

    /// Gives the slots of a record back.
    pub(super) fn retire(&mut self, record: &Record) {
        let Record { tensor, storage, last_use, .. } = *record;
        self.free_tensors.push_back((tensor, Frontier::of(last_use)));
        self.free_storages.push_back(((storage, 0), Frontier::of(last_use)));
    }

    /// Returns the bytes of ended storages that were still in use when it was last looked.
    #[inline]
    pub(super) const fn busy_bytes(&self) -> u64 {
        self.busy_bytes
    }

    /// Returns the last uses of the storage that ended first, if ended storages that are still in
    /// use take more than `most` bytes.
    pub(super) fn backpressure_frontier(
        &mut self,
        most: u64,
        sink: &dyn Sink,
    ) -> Option<&Frontier> {
        while self.busy_bytes > most {
            let ((id, bytes), last_uses) = self.free_storages.front()?;
            if !last_uses.iter().all(|p| sink.reached(p)) {
                break;
            }
            self.busy_bytes -= bytes;
            self.idle_storages.push(*id);
            self.free_storages.pop_front();
        }
        if self.busy_bytes <= most {
            return None;
        }
        self.free_storages.front().map(|(_, last_uses)| last_uses)
    }
}
