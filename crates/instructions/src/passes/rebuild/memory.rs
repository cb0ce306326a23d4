//! Tensors and their memory: who owns which bytes, and whose last uses come before whose beginning.

use smallvec::SmallVec;

use millstream_types::{Error, Origin, Point, Result, StreamId, StreamMode, TensorId};

use crate::frontier::Frontier;
use crate::instruction::Placement;
use crate::passes::placement::Owner;
use crate::passes::rebuild::Emitter;
use crate::passes::rebuild::plan::Memory;
use crate::table::{Body, Instruction};

/// The newest owner of some bytes: their end, and the owner's number.
pub(super) type Region = (u64, usize);

impl Emitter<'_> {
    /// Records a use of a tensor's storage.
    pub(super) fn used(&mut self, tensor: TensorId, at: Point) {
        if let Some((owner, _)) = self.storages.get(&self.facts.storage_of(tensor)) {
            self.owners[*owner].uses.add(at);
        }
    }

    /// Begins the tensor that the old instruction at `index` begins; a storage on `stream`.
    pub(super) fn begin(&mut self, tensor: TensorId, stream: StreamId, index: usize) -> Result<()> {
        let Instruction { body, origin } = &self.facts.list.instructions[index];
        self.sink.source = index;
        self.sink.names.next = tensor;
        let made = if let Body::AllocateTensor { spec, placement, .. } = body {
            let (placement, owner) = self.claim(**placement, stream, origin)?;
            let tail = self.builder.tail(stream);
            let Emitter { builder, sink, .. } = self;
            let spec = (**spec).clone();
            let made = builder.begin_placed(sink, stream, spec, placement, origin)?;
            let instruction = self.sink.instructions.len() - 1;
            let uses = [tail].into_iter().collect();
            let owner = self.own(placement, Owner { instruction, uses, ..owner });
            self.storages.insert(self.facts.storage_of(tensor), (owner, 1));
            made
        } else if let Body::ViewTensor { of, spec, .. } = body {
            let base = self.tensor(*of)?;
            if let Some((_, live)) = self.storages.get_mut(&self.facts.storage_of(tensor)) {
                *live += 1;
            }
            self.builder.view(&mut self.sink, base, (**spec).clone(), origin)?
        } else {
            let message = format!("{} begins no tensor", body.kind().name());
            return Err(Error::Internal { message });
        };
        self.refs.insert(tensor, made);
        Ok(())
    }

    pub(super) fn release(&mut self, tensor: TensorId, index: usize) -> Result<()> {
        let origin = &self.facts.list.instructions[index].origin;
        let made = self.tensor(tensor)?;
        let section = self.builder.held_by(made)?;
        self.builder.release(&mut self.sink, made, section, origin)?;
        self.refs.remove(&tensor);
        if let Some((owner, live)) = self.storages.get_mut(&self.facts.storage_of(tensor)) {
            *live -= 1;
            if *live == 0 {
                self.owners[*owner].end = Some(self.sink.instructions.len() - 1);
            }
        }
        Ok(())
    }

    /// Returns the placement of a new owner of memory on `stream`, and the owner, but for its
    /// instruction and its uses. Where placements are kept, the stream waits for the last uses by
    /// earlier owners.
    pub(super) fn claim(
        &mut self,
        wanted: Placement,
        stream: StreamId,
        origin: &Origin,
    ) -> Result<(Placement, Owner)> {
        let is_kept = self.plan.memory == Memory::Kept && wanted.size > 0;
        if is_kept {
            self.wait_for_owners(&wanted, stream, origin)?;
        }
        let owner = Owner {
            instruction: 0,
            arena: wanted.arena,
            bytes: wanted.size,
            on: stream,
            known: self.builder.clock_of(stream)?,
            end: None,
            uses: Frontier::new(),
        };
        let offset = if is_kept || wanted.size == 0 { wanted.offset } else { 0 };
        Ok((Placement { offset, ..wanted }, owner))
    }

    /// Has `stream` wait for the last uses of a placement's bytes.
    pub(super) fn wait_for_owners(
        &mut self,
        wanted: &Placement,
        stream: StreamId,
        origin: &Origin,
    ) -> Result<()> {
        let known = self.builder.clock_of(stream)?;
        let mut open = Frontier::new();
        for owner in self.owners_within(wanted) {
            let Owner { uses, end, .. } = &self.owners[owner];
            if end.is_none() {
                let message = "its memory has a live owner".to_owned();
                return Err(Error::List { message });
            }
            uses.iter().filter(|p| !known.covers(*p)).for_each(|p| _ = open.add(p));
        }
        let open: Vec<Point> = open.iter().collect();
        if open.is_empty() {
            return Ok(());
        }
        match self.plan.streams[stream.index()].mode {
            StreamMode::InOrder => self.builder.wait_points(&mut self.sink, stream, &open, origin),
            // A wait on a pool orders the next instruction alone.
            StreamMode::Pool => {
                self.builder.observe(&mut self.sink, &open, origin);
                Ok(())
            }
        }
    }

    /// Returns the newest owners of a placement's bytes.
    pub(super) fn owners_within(&self, place: &Placement) -> SmallVec<[usize; 4]> {
        let regions = &self.regions[place.arena.index()];
        let end = place.offset.saturating_add(place.size);
        let first = regions.range(..place.offset).next_back();
        let first = first.filter(|(_, (to, _))| *to > place.offset).map(|(_, (_, owner))| *owner);
        let rest = regions.range(place.offset..end).map(|(_, (_, owner))| *owner);
        first.into_iter().chain(rest).collect()
    }

    /// Adds an owner of memory. Returns its number.
    pub(super) fn own(&mut self, place: Placement, owner: Owner) -> usize {
        let number = self.owners.len();
        self.owners.push(owner);
        if self.plan.memory == Memory::Kept && place.size > 0 {
            let regions = &mut self.regions[place.arena.index()];
            let (start, end) = (place.offset, place.offset.saturating_add(place.size));
            let before = regions.range(..start).next_back().map(|(from, region)| (*from, *region));
            if let Some((from, (to, owner))) = before.filter(|(_, (to, _))| *to > start) {
                regions.insert(from, (start, owner));
                if to > end {
                    regions.insert(end, (to, owner));
                }
            }
            let covered: Vec<(u64, Region)> =
                regions.range(start..end).map(|(from, region)| (*from, *region)).collect();
            for (from, (to, owner)) in covered {
                regions.remove(&from);
                if to > end {
                    regions.insert(end, (to, owner));
                }
            }
            regions.insert(start, (end, number));
        }
        number
    }
}
