//! Records: the slots of a tensor and of its storage, kept with the block that they lay in.
//!
//! Most tensors are results that a program drops and soon makes again, with the same shape and in
//! the same memory. A record remembers the slots of such a tensor. The next tensor of its class in
//! its block takes them over as they are, so nothing is published to the workers.
//!
//! # Rules
//! 1. A record is kept for a tensor that alone had its storage, covered it, and was used on the
//!    in-order stream of its block alone.
//! 2. Whoever places the block comes after these uses. So instructions that name the slots may be
//!    pending when the slots are taken over: the workers find the address and layout that they
//!    expect, since neither changes.
//! 3. A record whose block is placed otherwise gives its slots back, with its last use.

use millstream_types::{Point, StorageId, TensorId};

use crate::builder::slot::SpecClass;
use crate::planner::{ArenaId, BlockId};

/// The slots of an ended tensor and its storage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) tensor: TensorId,
    pub(super) storage: StorageId,
    pub(super) class: SpecClass,
    /// The offset of the block within its arena.
    pub(super) offset: u64,
    pub(super) last_use: Point,
}

/// The records of all blocks, by arena and by block.
#[derive(Debug, Default)]
pub(super) struct Records(Vec<Vec<Option<Record>>>);

impl Records {
    /// Keeps the record of a block. Returns one that was left there.
    #[inline]
    pub(super) fn keep(&mut self, block: BlockId, record: Record) -> Option<Record> {
        let (arena, at) = (block.arena().index(), block.index());
        if self.0.len() <= arena {
            self.0.resize_with(arena + 1, Vec::new);
        }
        let records = &mut self.0[arena];
        if records.len() <= at {
            records.resize(at + 1, None);
        }
        records[at].replace(record)
    }

    /// Takes out the record of a block.
    #[inline]
    pub(super) fn take(&mut self, block: BlockId) -> Option<Record> {
        self.0.get_mut(block.arena().index())?.get_mut(block.index())?.take()
    }

    /// Takes out all records of an arena.
    pub(super) fn take_all(&mut self, arena: ArenaId) -> impl Iterator<Item = Record> + use<> {
        let records = self.0.get_mut(arena.index()).map(std::mem::take);
        records.into_iter().flatten().flatten()
    }
}
