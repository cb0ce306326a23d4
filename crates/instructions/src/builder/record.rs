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
//! 4. The planner hears of the record that was released last when it is next asked for anything
//!    ([`InstructionsBuilder::settle_record`]). The planner would give the next tensor of that size
//!    and stream this very block; so a tensor of the record's class takes it over without asking.

use millstream_types::{Point, StorageId, StreamId, TensorId};

use crate::builder::InstructionsBuilder;
use crate::builder::slot::SpecClass;
use crate::frontier::Frontier;
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

/// The records of all blocks.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// By arena and by block.
    kept: Vec<Vec<Option<Record>>>,
    /// The record that was released last, while the planner takes its block for used.
    newest: Option<(BlockId, Record)>,
}

impl Records {
    /// Keeps the record of a block. Returns one that was left there.
    #[inline]
    pub(super) fn keep(&mut self, block: BlockId, record: Record) -> Option<Record> {
        let (arena, at) = (block.arena().index(), block.index());
        if self.kept.len() <= arena {
            self.kept.resize_with(arena + 1, Vec::new);
        }
        let records = &mut self.kept[arena];
        if records.len() <= at {
            records.resize(at + 1, None);
        }
        records[at].replace(record)
    }

    /// Takes out the record of a block.
    #[inline]
    pub(super) fn take(&mut self, block: BlockId) -> Option<Record> {
        self.kept.get_mut(block.arena().index())?.get_mut(block.index())?.take()
    }

    /// Takes out all records of an arena.
    pub(super) fn take_all(&mut self, arena: ArenaId) -> impl Iterator<Item = Record> + use<> {
        let records = self.kept.get_mut(arena.index()).map(std::mem::take);
        records.into_iter().flatten().flatten()
    }

    /// Returns the record that was released last, if it is of this class and was last used on this
    /// stream.
    #[inline]
    pub(super) fn newest(&self, class: SpecClass, stream: StreamId) -> Option<&(BlockId, Record)> {
        let newest = self.newest.as_ref();
        newest.filter(|(_, record)| record.class == class && record.last_use.stream == stream)
    }

    /// Takes out the record that was released last.
    #[inline]
    pub(super) fn take_newest(&mut self) -> Option<(BlockId, Record)> {
        self.newest.take()
    }
}

impl InstructionsBuilder {
    /// Keeps the record of a tensor that was released, by rule 4.
    #[inline]
    pub(super) fn keep_newest(&mut self, block: BlockId, record: Record) {
        self.settle_record();
        self.records.newest = Some((block, record));
    }

    /// Tells the planner of the block of the newest record.
    #[inline]
    pub(super) fn settle_record(&mut self) {
        if let Some((block, record)) = self.records.newest.take() {
            self.give_to_planner(block, record);
        }
    }

    fn give_to_planner(&mut self, block: BlockId, record: Record) {
        if let Some(left) = self.records.keep(block, record) {
            self.slots.retire(&left);
        }
        let (planner, known) = self.memory_and_known();
        planner.release(block, Frontier::of(record.last_use), &known);
    }
}
