//! Slots of tensors and storages.
//!
//! A slot is given out again once every instruction that can name it has completed. Until then it
//! waits in a queue; each new owner looks at the queue's head, so the price is the same however
//! many wait.

use std::collections::VecDeque;

use smallvec::SmallVec;

use millstream_types::{Access, Error, Origin, Point, Result, StorageId, TensorId, TensorSpec};

use crate::builder::region::SectionId;
use crate::builder::{Sink, TensorRef};
use crate::frontier::Frontier;
use crate::planner::{ArenaId, BlockId};

/// The memory that one or more tensors are views of, and who used it last.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub(super) last_write: Point,
    /// The newest read of each stream since the last write. On a pool a read stands for all of
    /// the pool up to it.
    pub(super) reads: SmallVec<[Point; 2]>,
    /// The last use of any kind.
    pub(super) last_use: Point,
    /// The live tensors that are views of it.
    pub(super) tensors: u32,
    pub(super) bytes: u64,
    pub(super) arena: ArenaId,
    /// None if the memory is not the planner's, or there is none.
    pub(super) block: Option<BlockId>,
    pub(super) held: Option<SectionId>,
}

impl Storage {
    /// The points of all last uses.
    pub(super) fn death(&self) -> Frontier {
        self.reads.iter().copied().chain([self.last_write]).collect()
    }

    /// Notes a use at `point`.
    pub(super) fn used(&mut self, point: Point, access: Access) {
        self.last_use = point;
        if access.writes() {
            self.last_write = point;
            self.reads.clear();
        } else if let Some(read) = self.reads.iter_mut().find(|r| r.stream == point.stream) {
            read.seq = point.seq;
        } else {
            self.reads.push(point);
        }
    }
}

/// What every use of a tensor looks at, apart from the rest to keep it dense.
#[derive(Clone, Copy, Debug)]
struct Hot {
    storage: StorageId,
    /// Odd while the tensor lives.
    generation: u32,
}

#[derive(Debug, Default)]
pub(super) struct SlotTable {
    hot: Vec<Hot>,
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
        if let Some(id) = reuse(&mut self.free_tensors, sink) {
            let hot = &mut self.hot[id.index()];
            *hot = Hot { storage, generation: hot.generation.wrapping_add(1) };
            self.specs[id.index()] = spec;
            self.places[id.index()] = origin.clone();
            return TensorRef { id, generation: hot.generation };
        }
        self.hot.push(Hot { storage, generation: 1 });
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
    pub(super) fn crowd(&mut self, most: u64, sink: &dyn Sink) -> Option<&Frontier> {
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
