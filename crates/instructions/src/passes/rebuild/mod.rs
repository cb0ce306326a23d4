//! The one way in which passes change streams, waits, events and memory: the instructions of a list
//! are emitted again through a fresh [`InstructionsBuilder`], which finds the waits anew.
//!
//! A pass decides; its [`Plan`] says which instructions are emitted, in which order, on which
//! stream, and what they are replaced by. Accesses are those that the instructions state. A tensor
//! keeps its id, reads and callbacks keep theirs.
//!
//! # Order
//! Waits that the data need are the builder's. With [`Waits::Needed`] the list's own waits go,
//! except for the order between instructions with side effects: for each of them the emission waits
//! for the side effects that it came after in the old list. With [`Waits::Kept`] each old wait is
//! requested again at its place, for the last instruction that is left of those that it waited for;
//! the builder leaves out those that are known.
//!
//! # Memory
//! With [`Memory::Kept`] placements stay, and a new owner of bytes waits for the last uses by their
//! earlier owners, as the planner has it wait when memory is full. With [`Memory::Planned`] the
//! emission ignores memory, and all offsets are found when the whole order is known. A list that is
//! complete needs no online planner: that one serves each request before it sees the next, reserves
//! chunks, and may have the host wait.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `plan` | what a pass decides |
//! | `steps` | the emission of one instruction |
//! | `order` | the order of side effects |
//! | `memory` | tensors and the owners of their memory |
//! | `tight` | tight lifetimes |
//! | `catalog`, `sink` | what the builder asks, and where it emits to |

mod catalog;
mod memory;
mod order;
mod plan;
mod sink;
mod steps;
mod tight;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use millstream_ops::OpRegistry;
use millstream_types::{DeviceId, Error, Point, Result, StreamId, TensorId};

use crate::builder::{BuilderConfig, InstructionsBuilder, SectionId, SyncPolicy, TensorRef};
use crate::frontier::Frontier;
use crate::instruction::{Class, Placement, Via};
use crate::list::InstructionList;
use crate::passes::facts::Facts;
use crate::passes::offsets::Effort;
use crate::passes::placement::{self, Owner};
use crate::table::{Body, Instruction};

pub(super) use catalog::ListCatalog;
pub(super) use plan::{Lifetimes, Memory, Plan, Step, Waits};

use memory::Region;
use order::Passed;
use sink::ListSink;

/// A rebuilt list.
#[derive(Clone, Debug)]
pub(super) struct Rebuilt {
    pub(super) list: InstructionList,
    /// The old instruction that each instruction was emitted for, by index: itself, or the one that
    /// a wait stands before.
    pub(super) sources: Vec<usize>,
    /// The owners of memory that have no place yet.
    pub(super) owners: Vec<Owner>,
    /// The instructions with a side effect.
    side_effects: Vec<Passed>,
}

impl Rebuilt {
    /// Returns the list with places that only its order allows, none of which may be used before
    /// the last uses by earlier owners; none if too many live at once.
    pub(super) fn placed_in_order(mut self, effort: Effort) -> Option<InstructionList> {
        for owner in &mut self.owners {
            (owner.on, owner.known, owner.uses) = (StreamId(0), Frontier::new(), Frontier::new());
        }
        self.placed(effort)
    }

    /// Returns the list with a place for each storage and workspace; none if too many live at once.
    pub(super) fn placed(self, effort: Effort) -> Option<InstructionList> {
        let Rebuilt { mut list, owners, .. } = self;
        place(&mut list, &owners, effort)?;
        Some(list)
    }
}

/// Gives each owner in a list a place; returns none if too many live at once.
pub(super) fn place(list: &mut InstructionList, owners: &[Owner], effort: Effort) -> Option<()> {
    let offsets = placement::offsets(owners, list.streams.len(), effort)?;
    let mut generations = vec![0; list.arenas.len()];
    for (owner, offset) in owners.iter().zip(offsets).filter(|(o, _)| o.bytes > 0) {
        generations[owner.arena.index()] += 1;
        let generation = generations[owner.arena.index()];
        let new = Placement { arena: owner.arena, offset, size: owner.bytes, generation };
        let body = &mut list.instructions[owner.instruction].body;
        if let Body::AllocateTensor { placement, .. } = body {
            **placement = new;
        } else if let Body::OpCall { workspace, .. } = body {
            *workspace = Some(Box::new(new));
        }
    }
    Some(())
}

/// Emits a plan.
///
/// # Errors
/// The list is not one that the checker accepts, or the plan contradicts itself.
pub(super) fn rebuild(facts: &Facts<'_>, plan: &Plan<'_>) -> Result<Rebuilt> {
    let waits = if plan.orders_within_pools(facts) { Waits::Replayed } else { plan.waits };
    let mut emitter = Emitter::new(facts, plan, waits)?;
    match plan.lifetimes {
        Lifetimes::Kept => {
            for step in &plan.steps {
                emitter.step(step)?;
            }
        }
        Lifetimes::Tight => emitter.tight()?,
    }
    emitter.builder.all_sections_ended()?;
    Ok(emitter.finish())
}

struct Emitter<'a> {
    facts: &'a Facts<'a>,
    plan: &'a Plan<'a>,
    waits: Waits,
    builder: InstructionsBuilder,
    sink: ListSink,
    refs: FxHashMap<TensorId, TensorRef>,
    /// For each old stream, the old sequence numbers so far, each with the new tail behind it.
    reached: Vec<Vec<(u64, Point)>>,
    /// For each old stream, the new points of all its instructions so far.
    passed: Vec<Frontier>,
    /// The new points of old instructions.
    points: FxHashMap<usize, Point>,
    owners: Vec<Owner>,
    /// The owner of each storage, and the number of the storage's live tensors.
    storages: FxHashMap<usize, (usize, u32)>,
    /// For each arena, the newest owner of all bytes, by first byte.
    regions: Vec<BTreeMap<u64, Region>>,
    /// The open sections: the old stream of each, and its held tensors.
    sections: Vec<(StreamId, SmallVec<[TensorId; 4]>, SectionId)>,
    side_effects: Vec<Passed>,
    /// For each storage and pool, what the pool's writers of it came after, and what its readers
    /// did: the pool's workers have later users of the storage come after both.
    in_pools: FxHashMap<(usize, StreamId), [Frontier; 2]>,
    /// The old records that waits by the device name.
    recorded: FxHashSet<Point>,
    /// For each pool, what has passed with its old waits since its last work: the next work comes
    /// after that.
    bound: FxHashMap<StreamId, Frontier>,
}

impl<'a> Emitter<'a> {
    fn new(facts: &'a Facts<'a>, plan: &'a Plan<'a>, waits: Waits) -> Result<Emitter<'a>> {
        let list = facts.list;
        let config = BuilderConfig { sync: SyncPolicy::Frontier, whole_history: true };
        let catalog = Box::new(ListCatalog::of(list, plan));
        let mut builder = InstructionsBuilder::new(&config, Arc::new(OpRegistry::new()), catalog);
        for (number, decl) in plan.streams.iter().enumerate() {
            if builder.stream_with_mode(&decl.key, decl.mode)?.index() != number {
                let message = format!("stream {} is declared twice", decl.key);
                return Err(Error::List { message });
            }
        }
        let is_annotation = |i: &Instruction| i.body.class() == Class::Annotates;
        let annotated = list.instructions.iter().any(is_annotation);
        let mut emitter = Emitter {
            facts,
            plan,
            waits,
            builder,
            sink: ListSink { annotated, ..ListSink::default() },
            refs: FxHashMap::default(),
            reached: vec![Vec::new(); list.streams.len()],
            passed: vec![Frontier::new(); list.streams.len()],
            points: FxHashMap::default(),
            owners: Vec::new(),
            storages: FxHashMap::default(),
            regions: vec![BTreeMap::new(); list.arenas.len()],
            sections: Vec::new(),
            side_effects: Vec::new(),
            in_pools: FxHashMap::default(),
            recorded: (list.instructions.iter())
                .filter(|i| matches!(i.body, Body::StreamWaitEvent { via: Via::Device(_), .. }))
                .filter_map(|i| i.body.until())
                .collect(),
            bound: FxHashMap::default(),
        };
        let nowhere = DeviceId::cpu(0);
        for external in &list.externals {
            let device = list.arenas.get(external.arena.index()).unwrap_or(&nowhere);
            let (spec, bytes) = (external.spec.clone(), external.bytes);
            let made = emitter.builder.import(&emitter.sink, spec, bytes, device)?;
            emitter.sink.names.by_slot.insert(made.id, external.tensor);
            emitter.refs.insert(external.tensor, made);
        }
        Ok(emitter)
    }

    fn finish(self) -> Rebuilt {
        let Emitter { facts, plan, sink, owners, side_effects, .. } = self;
        let list = InstructionList {
            streams: plan.streams.clone(),
            ops: plan.ops.clone(),
            arenas: facts.list.arenas.clone(),
            externals: facts.list.externals.clone(),
            scalars: facts.list.scalars.clone(),
            generators: facts.list.generators.clone(),
            executables: facts.list.executables.clone(),
            instructions: sink.instructions,
        };
        let owners = if plan.memory == Memory::Planned { owners } else { Vec::new() };
        Rebuilt { list, sources: sink.sources, owners, side_effects }
    }
}
