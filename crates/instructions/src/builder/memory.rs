//! Tensors and their memory: allocation, views, release.
//!
//! Long because tensors begin, are viewed and end in one place.

use std::cmp::Reverse;
use std::sync::Arc;

use smallvec::SmallVec;

use millstream_types::{
    Attrs, DeviceId, Error, Origin, Point, Result, StreamId, TensorId, TensorSpec,
};

use crate::builder::region::SectionId;
use crate::builder::slot::SpecClass;
use crate::builder::storage::Storage;
use crate::builder::stream::Known;
use crate::builder::{InstructionsBuilder, Need, Outcome, Sink, SyncPolicy, TensorRef};
use crate::frontier::Frontier;
use crate::instruction::{Operands, Placement, Priority};
use crate::planner::{Answer, ArenaId, BlockId, Knowledge, Placed, Planner, Points};
use crate::table::{Body, Kind};

/// How many of the largest tensors an error about a full memory names.
const HOLDERS: usize = 3;

/// Memory for a storage or a workspace. An allocation of no bytes has no block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocation {
    pub(super) placement: Placement,
    pub(super) block: Option<BlockId>,
}

pub(super) type Allocations = SmallVec<[Allocation; 2]>;

impl InstructionsBuilder {
    /// Begins a tensor of unspecified content in the memory of `stream`'s device. Its storage has
    /// `bytes` bytes, at least as many as the layout spans.
    ///
    /// # Errors
    /// The memory is used up, the storage is too small for the layout, or the stream runs no ops:
    /// nothing could use the tensor there.
    pub fn allocate(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        spec: TensorSpec,
        bytes: u64,
        origin: &Origin,
    ) -> Result<Outcome<TensorRef>> {
        self.runs_kernels(stream)?;
        if bytes < spec.span_bytes() as u64 {
            return Err(Error::Invalid {
                what: "storage",
                message: format!("{spec} spans {} bytes of {bytes}", spec.span_bytes()),
            });
        }
        let arena = self.streams[stream.index()].memory;
        match self.place(sink, stream, &[(arena, bytes)], |_, _| spec.brief(), origin)? {
            Outcome::Need(need) => Ok(Outcome::Need(need)),
            Outcome::Done(made) => {
                Ok(Outcome::Done(self.begin_tensor(sink, stream, spec, made[0], origin)))
            }
        }
    }

    /// Allocates memory for all of `sizes`, or for none, and orders the stream behind earlier uses
    /// of that memory. A size is a number of bytes in an arena; `purpose` names the use of each
    /// allocation, for errors.
    pub(super) fn place(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        sizes: &[(ArenaId, u64)],
        purpose: impl Fn(&InstructionsBuilder, usize) -> String,
        origin: &Origin,
    ) -> Result<Outcome<Allocations>> {
        self.catch_up(stream);
        let mut made = Allocations::new();
        let mut after = Points::new();
        for (k, &(arena, bytes)) in sizes.iter().enumerate() {
            if bytes == 0 {
                // Every stream may use an allocation of no bytes at any time.
                let placement = Placement { arena, offset: 0, size: 0, generation: 0 };
                made.push(Allocation { placement, block: None });
                continue;
            }
            let (planner, known) = self.memory_and_known();
            let need = match planner.place(arena, bytes, stream, &known) {
                Answer::Placed(placed) => {
                    let Placed { placement, block, .. } = placed;
                    made.push(Allocation { placement, block: Some(block) });
                    after.extend(placed.after);
                    continue;
                }
                Answer::NeedGrow { bytes, least } => Need::Grow { arena, bytes, least },
                Answer::NeedReturn(bytes) => Need::Return { arena, bytes },
                Answer::NeedWait(points) => Need::Wait(points),
                Answer::Full => {
                    let purpose = purpose(self, k);
                    Need::Everything(Box::new(self.out_of_memory(arena, bytes, purpose)))
                }
            };
            let (planner, known) = self.memory_and_known();
            for block in made.into_iter().filter_map(|m| m.block) {
                planner.cancel(block, &known);
            }
            return Ok(Outcome::Need(need));
        }
        if !after.is_empty() {
            self.wait_for_points(sink, stream, &after, origin);
        }
        let checked = self.scrub.is_some();
        for allocation in made.iter_mut().filter(|_| checked) {
            if let Some(block) = allocation.block
                && self.fill(sink, block, origin).is_some()
            {
                let size = allocation.placement.size;
                allocation.placement = Placement { size, ..self.planner.renew(block) };
            }
        }
        Ok(Outcome::Done(made))
    }

    /// Allocates memory from an idle block of the stream, as [`InstructionsBuilder::place`] would.
    /// Returns none if that takes another step.
    #[inline]
    pub(super) fn place_idle(
        &mut self,
        stream: StreamId,
        arena: ArenaId,
        bytes: u64,
    ) -> Option<Allocation> {
        if bytes == 0 || self.scrub.is_some() {
            return None;
        }
        self.catch_up(stream);
        let (planner, known) = self.memory_and_known();
        let (placement, block) = planner.place_idle(arena, bytes, stream, &known)?;
        Some(Allocation { placement, block: Some(block) })
    }

    /// Returns the planner, and the streams' knowledge that it asks for.
    #[inline]
    pub(super) fn memory_and_known(&mut self) -> (&mut Planner, Known<'_>) {
        self.settle_record();
        let InstructionsBuilder { planner, streams, fence, fence_epoch, observed, .. } = self;
        (planner, Known { streams, fence, fence_epoch: *fence_epoch, observed })
    }

    pub(super) fn known(&self) -> Known<'_> {
        let InstructionsBuilder { streams, fence, fence_epoch, observed, .. } = self;
        Known { streams, fence, fence_epoch: *fence_epoch, observed }
    }

    /// Returns the live storages in the planner's memory, the largest first: the bytes of each, and
    /// the tensor of it that was made first.
    fn held(&self, of: impl Fn(ArenaId) -> bool) -> Vec<(u64, TensorId)> {
        let live = self.slots.live_tensors().filter_map(|tensor| {
            let storage = self.slots.storage_of(tensor);
            let held = self.slots.storage(storage);
            (of(held.arena) && held.block.is_some()).then_some((held.bytes, storage, tensor))
        });
        let mut live: Vec<_> = live.collect();
        live.sort_unstable_by_key(|&(bytes, storage, tensor)| (Reverse(bytes), storage, tensor));
        live.dedup_by_key(|(_, storage, _)| *storage);
        live.into_iter().map(|(bytes, _, tensor)| (bytes, tensor)).collect()
    }

    /// Describes a tensor: its description, its size, and where it was made.
    fn holder(&self, (bytes, tensor): (u64, TensorId)) -> String {
        let (spec, made) = (self.slots.spec(tensor).brief(), self.slots.made(tensor));
        let at = if made.is_unknown() { String::new() } else { format!(", made at {made}") };
        format!("{tensor} {spec}, {bytes} bytes{at}")
    }

    /// Describes the tensors that have not been released, the largest first.
    pub fn holders(&self) -> Vec<String> {
        self.held(|_| true).into_iter().map(|held| self.holder(held)).collect()
    }

    fn out_of_memory(&self, arena: ArenaId, wanted: u64, purpose: String) -> Error {
        let device = self.planner.device(arena);
        let holders = self.held(|a| a == arena).into_iter().take(HOLDERS);
        Error::OutOfMemory {
            device: device.clone(),
            purpose,
            wanted,
            in_use: self.planner.in_use(arena),
            limit: self.planner.limit(device).unwrap_or(0),
            holders: holders.map(|held| self.holder(held)).collect(),
        }
    }

    pub(super) fn release_block(
        &mut self,
        sink: &mut (impl Sink + ?Sized),
        block: Option<BlockId>,
        mut last_uses: Frontier,
        origin: &Origin,
    ) {
        let Some(block) = block else { return };
        if self.scrub.is_some() {
            let stream = self.planner.stream_of(block);
            // A block whose last uses the stream does not know is filled when it is placed again:
            // filling it now would need a wait.
            if self.known().open(stream, &last_uses).is_none()
                && let Some(at) = self.fill(sink, block, origin)
            {
                last_uses = [at].into_iter().collect();
            }
        }
        let (planner, known) = self.memory_and_known();
        planner.release(block, last_uses, &known);
    }

    /// Fills an unused block with a pattern, on the stream that it was placed for, if that stream
    /// runs ops. Pools are left out: they order instructions by operands alone, and the block is
    /// none.
    fn fill(
        &mut self,
        sink: &mut (impl Sink + ?Sized),
        block: BlockId,
        origin: &Origin,
    ) -> Option<Point> {
        let stream = self.planner.stream_of(block);
        let track = &self.streams[stream.index()];
        let op = self.scrub.filter(|_| track.runs_ops && !track.is_pool())?;
        let placement = self.planner.renew(block);
        let at = self.next(stream);
        let attrs = Some(Arc::new(Attrs::new().with("bytes", placement.size as i64)));
        let (operands, workspace) = (Operands::new(), Some(Box::new(placement)));
        let priority = Priority::default();
        self.emit(sink, Body::OpCall { at, op, operands, attrs, workspace, priority }, origin);
        Some(at)
    }

    /// Begins a tensor in allocated memory.
    pub(super) fn begin_tensor(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        spec: TensorSpec,
        memory: Allocation,
        origin: &Origin,
    ) -> TensorRef {
        self.begin_classified(sink, stream, &Arc::new(spec), SpecClass::default(), memory, origin)
    }

    /// Begins a tensor of this class in allocated memory.
    #[inline]
    pub(super) fn begin_classified(
        &mut self,
        sink: &mut (impl Sink + ?Sized),
        stream: StreamId,
        spec: &Arc<TensorSpec>,
        class: SpecClass,
        memory: Allocation,
        origin: &Origin,
    ) -> TensorRef {
        // The memory is free from the stream's tail on. Uses on other streams come after the tail.
        let Allocation { placement, block } = memory;
        let tail = self.tail(stream);
        self.stats.count(Kind::AllocateTensor);
        if let Some(record) = block.and_then(|block| self.records.take(block)) {
            let bytes = self.slots.storage(record.storage).bytes;
            if record.class == class && record.offset == placement.offset && bytes == placement.size
            {
                let tensor = self.slots.renew(&record, tail, origin);
                sink.renew_tensor(stream, tensor.id, spec, placement, origin);
                return tensor;
            }
            self.slots.retire(&record);
        }
        let storage = Storage::new(tail, placement.size, placement.arena, block);
        let storage = self.slots.new_storage(storage, sink);
        let tensor = self.slots.new_tensor(spec, class, storage, sink, origin);
        self.slots.storage_mut(storage).root = tensor.id;
        sink.begin_tensor(stream, tensor.id, spec, placement, origin);
        tensor
    }

    /// Begins a tensor whose memory on `device` the planner does not manage. Emits nothing.
    ///
    /// # Errors
    /// The storage is too small for the layout.
    pub fn import(
        &mut self,
        sink: &dyn Sink,
        spec: TensorSpec,
        bytes: u64,
        device: &DeviceId,
    ) -> Result<TensorRef> {
        if bytes < spec.span_bytes() as u64 {
            return Err(Error::Invalid {
                what: "storage",
                message: format!("{spec} spans {} bytes of {bytes}", spec.span_bytes()),
            });
        }
        let start = Point::new(StreamId(0), 0);
        let storage = Storage::new(start, bytes, self.planner.arena(device), None);
        let storage = self.slots.new_storage(storage, sink);
        let (spec, class) = (Arc::new(spec), SpecClass::default());
        Ok(self.slots.new_tensor(&spec, class, storage, sink, &Origin::Unknown))
    }

    /// Ends an imported tensor. All uses of it have completed. Emits nothing.
    pub fn end_import(&mut self, tensor: TensorRef) {
        if self.slots.live(tensor).is_ok() {
            self.slots.end(tensor.id, &Origin::Unknown);
        }
    }

    /// Begins a view of `of`'s storage. Runs no kernel.
    ///
    /// # Errors
    /// The tensor was released, or the view reaches past its storage.
    pub fn view(
        &mut self,
        sink: &mut dyn Sink,
        of: TensorRef,
        spec: TensorSpec,
        origin: &Origin,
    ) -> Result<TensorRef> {
        self.check_view(of, &spec, spec.span_bytes() as u64)?;
        Ok(self.begin_view(sink, of, &Arc::new(spec), SpecClass::default(), origin))
    }

    /// Checks that a view, whose last element ends at byte `end`, lies within `of`'s storage.
    ///
    /// # Errors
    /// The tensor was released, or the view reaches past its storage.
    #[inline]
    pub(super) fn check_view(&self, of: TensorRef, spec: &TensorSpec, end: u64) -> Result<()> {
        let storage = self.slots.live(of)?;
        let bytes = self.slots.storage(storage).bytes;
        if end <= bytes {
            return Ok(());
        }
        let message = format!("{spec} reaches byte {end} of a storage of {bytes}");
        Err(Error::Invalid { what: "view", message })
    }

    /// Begins a checked view of this class.
    #[inline]
    pub(super) fn begin_view(
        &mut self,
        sink: &mut (impl Sink + ?Sized),
        of: TensorRef,
        spec: &Arc<TensorSpec>,
        class: SpecClass,
        origin: &Origin,
    ) -> TensorRef {
        let storage = self.slots.storage_of(of.id);
        self.stats.count(Kind::ViewTensor);
        let tensor = self.slots.new_tensor(spec, class, storage, sink, origin);
        sink.begin_view(tensor.id, of.id, spec, origin);
        tensor
    }

    /// Ends a tensor. Its storage ends with its last tensor.
    ///
    /// # Errors
    /// It was released before, or a critical section holds it.
    #[inline]
    pub fn release(
        &mut self,
        sink: &mut (impl Sink + ?Sized),
        tensor: TensorRef,
        section: Option<SectionId>,
        origin: &Origin,
    ) -> Result<()> {
        self.usable(tensor, section)?;
        self.stats.count(Kind::ReleaseTensor);
        sink.end_tensor(tensor.id, origin);
        if sink.renews_tensors() && self.release_recorded(tensor.id, origin) {
            return Ok(());
        }
        self.release_unrecorded(sink, tensor, origin);
        Ok(())
    }

    fn release_unrecorded(
        &mut self,
        sink: &mut (impl Sink + ?Sized),
        tensor: TensorRef,
        origin: &Origin,
    ) {
        if let Some((block, last_uses)) = self.slots.end(tensor.id, origin) {
            if block.is_none() {
                sink.end_import(tensor.id, &last_uses);
            }
            self.release_block(sink, block, last_uses, origin);
        }
    }

    /// Ends a tensor whose slots are kept as a record. Returns whether they are.
    #[inline]
    fn release_recorded(&mut self, tensor: TensorId, origin: &Origin) -> bool {
        if self.scrub.is_some() || self.policy != SyncPolicy::Frontier {
            return false;
        }
        let InstructionsBuilder { slots, planner, streams, .. } = self;
        let ended = slots.end_recorded(tensor, origin, |block, stream| {
            let suits = planner.stream_of(block) == stream && !streams[stream.index()].is_pool();
            suits.then(|| planner.offset_of(block))
        });
        let Some((block, record)) = ended else { return false };
        self.keep_newest(block, record);
        true
    }

    /// Checks that a tensor is live, and that no critical section but those of `section` holds it.
    ///
    /// # Errors
    /// It was released, or is held; the error names the place where the hold began.
    #[inline]
    pub fn usable(&self, tensor: TensorRef, section: Option<SectionId>) -> Result<()> {
        let storage = self.slots.live(tensor)?;
        match self.slots.storage(storage).held {
            Some(holder) if !self.is_within(section, holder) => Err(Error::Held {
                tensor: tensor.id.to_string(),
                begun: self.sections[holder.index()].begun.clone(),
            }),
            _ => Ok(()),
        }
    }
}
