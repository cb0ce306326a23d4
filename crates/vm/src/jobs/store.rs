//! The rewriting of a list's ids to the machine's.

use std::collections::HashMap;

use millstream_instructions::{
    ArenaId, Body, Instruction, InstructionList, Operand, Remap, Role, TensorRef,
};
use millstream_stream_policy::PrivateArena;
use millstream_types::{
    Access, Error, EventId, OpId, Origin, Point, ReadId, Result, StreamId, TensorId,
};

use crate::emission::Emission;
use crate::emission::router::StreamScope;
use crate::tables::slots::TensorSlot;

use super::StoredJob;

/// The state of a rewriting.
struct Storing<'a> {
    emission: &'a mut Emission,
    list: &'a InstructionList,
    /// The current slot of each of the list's tensors.
    tensors: HashMap<TensorId, TensorId>,
    /// The external tensor whose storage a slot shares.
    outside: HashMap<TensorId, TensorRef>,
    uses: Vec<(TensorRef, Access)>,
    events: HashMap<EventId, EventId>,
    arenas: Vec<ArenaId>,
    made: Vec<TensorRef>,
    storages: Vec<u64>,
    list_reads: HashMap<ReadId, ReadId>,
}

/// Returns whether an instruction has the same meaning wherever its list runs.
pub(super) const fn storable(body: &Body) -> bool {
    match body {
        Body::LazyJobLauncher { .. } | Body::AccessBlobByCallback { .. } => false,
        Body::OpCall { .. }
        | Body::AllocateTensor { .. }
        | Body::ViewTensor { .. }
        | Body::ReleaseTensor { .. }
        | Body::TouchTensors { .. }
        | Body::SoftSyncStream { .. }
        | Body::RecordEvent { .. }
        | Body::StreamWaitEvent { .. }
        | Body::StreamWait { .. }
        | Body::Barrier { .. }
        | Body::GlobalSync { .. }
        | Body::HostObserved { .. }
        | Body::SyncRead { .. }
        | Body::CriticalSectionBegin { .. }
        | Body::CriticalSectionEnd { .. } => true,
    }
}

pub(super) fn refused(message: String, origin: &Origin) -> Error {
    Error::List { message }.at(origin)
}

/// Rewrites a list to the machine's ids. `bound` are its externals, in order.
pub(super) fn store(
    emission: &mut Emission,
    list: &InstructionList,
    bound: &[TensorRef],
) -> Result<StoredJob> {
    let (arenas, private) = take_memory(emission, list)?;
    let mut storing = Storing {
        emission,
        list,
        tensors: HashMap::new(),
        outside: HashMap::new(),
        uses: Vec::new(),
        events: HashMap::new(),
        arenas,
        made: Vec::new(),
        storages: Vec::new(),
        list_reads: HashMap::new(),
    };
    for (external, tensor) in list.externals.iter().zip(bound) {
        storing.tensors.insert(external.tensor, tensor.id);
        storing.outside.insert(tensor.id, *tensor);
    }
    let mut instructions = Vec::new();
    for instruction in &list.instructions {
        if let Some(kept) = storing.rewrite(instruction)? {
            instructions.push(kept);
        }
    }
    let reads = storing.list_reads.values().copied().collect();
    Ok(StoredJob {
        instructions,
        decls: list.streams.clone(),
        scope: StreamScope::default(),
        storages: storing.storages.into(),
        uses: storing.uses,
        list_reads: storing.list_reads,
        reads,
        tensors: storing.made,
        launched: Point::new(StreamId(0), 0),
        _arenas: private,
    })
}

/// Allocates the memory of all placements of the list.
fn take_memory(
    emission: &mut Emission,
    list: &InstructionList,
) -> Result<(Vec<ArenaId>, Vec<PrivateArena>)> {
    let mut extents = vec![0u64; list.arenas.len()];
    for instruction in &list.instructions {
        let Some(place) = instruction.body.placement() else { continue };
        let extent = extents.get_mut(place.arena.index()).ok_or_else(|| {
            refused(format!("{} is not declared", place.arena), &instruction.origin)
        })?;
        let end = place.offset.checked_add(place.size).ok_or_else(|| {
            refused("a placement ends past all memory".to_owned(), &instruction.origin)
        })?;
        *extent = (*extent).max(end);
    }
    let mut ids = Vec::new();
    let mut private = Vec::new();
    for (device, extent) in list.arenas.iter().zip(extents) {
        let id = emission.router.private_arena();
        ids.push(id);
        if extent > 0 {
            let bytes = usize::try_from(extent).unwrap_or(usize::MAX);
            private.push(emission.router.tables.memory.create_private(id, device, bytes)?);
        }
    }
    Ok((ids, private))
}

impl Storing<'_> {
    /// Returns the instruction with the machine's ids; none if it has taken effect already.
    fn rewrite(&mut self, instruction: &Instruction) -> Result<Option<Instruction>> {
        let mut copy = instruction.clone();
        let origin = &instruction.origin;
        match &mut copy.body {
            Body::AllocateTensor { tensor, spec, placement, .. } => {
                let device = &self.list.arenas[placement.arena.index()];
                let (builder, router) = (&mut self.emission.builder, &mut self.emission.router);
                let made = builder.import(router, (**spec).clone(), placement.size, device)?;
                placement.arena = self.arenas[placement.arena.index()];
                router.begin_tensor(made.id, spec, placement);
                if let Some(slot) = router.slot(made.id) {
                    self.storages.push(slot.storage);
                }
                self.tensors.insert(*tensor, made.id);
                self.made.push(made);
                return Ok(None);
            }
            Body::ViewTensor { tensor, of, spec } => {
                let of = self.tensor(*of, Role::Uses).map_err(|e| e.at(origin))?;
                self.view(*tensor, of, spec)?;
                return Ok(None);
            }
            Body::ReleaseTensor { .. } | Body::SoftSyncStream { .. } => return Ok(None),
            Body::OpCall { .. }
            | Body::TouchTensors { .. }
            | Body::CriticalSectionBegin { .. }
            | Body::CriticalSectionEnd { .. }
            | Body::SyncRead { .. }
            | Body::RecordEvent { .. }
            | Body::StreamWaitEvent { .. }
            | Body::StreamWait { .. }
            | Body::Barrier { .. }
            | Body::GlobalSync { .. }
            | Body::HostObserved { .. } => copy.body.remap(self).map_err(|e| e.at(origin))?,
            Body::LazyJobLauncher { .. } | Body::AccessBlobByCallback { .. } => {
                let kind = copy.body.kind().name();
                return Err(refused(format!("{kind} cannot stand in a stored list"), origin));
            }
        }
        Ok(Some(copy))
    }

    fn view(
        &mut self,
        tensor: TensorId,
        of: TensorId,
        spec: &millstream_types::TensorSpec,
    ) -> Result<()> {
        let (builder, router) = (&mut self.emission.builder, &mut self.emission.router);
        let Some(whole) = router.slot(of).cloned() else {
            return Err(Error::Internal { message: format!("{of} has no slot") });
        };
        // The view is the job's own: it begins and ends with the job, not with its base.
        let device = millstream_types::DeviceId::cpu(0);
        let made = builder.import(router, spec.clone(), whole.bytes, &device)?;
        router.begin_foreign(made.id, TensorSlot { spec: spec.clone(), ..whole }, of);
        if let Some(&outside) = self.outside.get(&of) {
            self.outside.insert(made.id, outside);
        }
        self.tensors.insert(tensor, made.id);
        self.made.push(made);
        Ok(())
    }
}

impl Remap for Storing<'_> {
    type Error = Error;

    fn tensor(&mut self, id: TensorId, _: Role) -> Result<TensorId> {
        let slot = self.tensors.get(&id).copied();
        slot.ok_or_else(|| Error::List { message: format!("{id} is used before it begins") })
    }

    fn operand(&mut self, operand: Operand) -> Result<Operand> {
        let operand = Operand { tensor: self.tensor(operand.tensor, Role::Uses)?, ..operand };
        if let Some(&outside) = self.outside.get(&operand.tensor) {
            match self.uses.iter_mut().find(|(t, _)| *t == outside) {
                Some((_, access)) => *access = access.join(operand.access),
                None => self.uses.push((outside, operand.access)),
            }
        }
        Ok(operand)
    }

    fn event(&mut self, id: EventId, _: Role) -> Result<EventId> {
        let router = &mut self.emission.router;
        Ok(*self.events.entry(id).or_insert_with(|| router.private_event()))
    }

    fn arena(&mut self, id: ArenaId) -> Result<ArenaId> {
        Ok(self.arenas[id.index()])
    }

    fn op(&mut self, id: OpId) -> Result<OpId> {
        self.emission.builder.ops().id(self.list.ops.name(id))
    }

    fn read(&mut self, id: ReadId) -> Result<ReadId> {
        let host = &self.emission.router.tables.host;
        Ok(*self.list_reads.entry(id).or_insert_with(|| host.add_read()))
    }
}
