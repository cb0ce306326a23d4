//! Tensors' lives.

use smallvec::SmallVec;

use millstream_types::{DeviceId, Error, Origin, Point, Result, StreamId, TensorSpec};

use crate::builder::region::SectionId;
use crate::builder::slot::Storage;
use crate::builder::{Builder, Need, Outcome, Sink, TensorRef};
use crate::frontier::Frontier;
use crate::instruction::Placement;
use crate::planner::{Answer, ArenaId};
use crate::table::Body;

impl Builder {
    /// A new tensor in the memory of `stream`'s device, of unspecified content. Its storage has
    /// `bytes` bytes, at least as many as the layout spans.
    ///
    /// # Errors
    /// The memory is used up, or the storage is too small for the layout.
    pub fn allocate(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        spec: TensorSpec,
        bytes: u64,
        origin: &Origin,
    ) -> Result<Outcome<TensorRef>> {
        self.known_stream(stream)?;
        if bytes < spec.span_bytes() as u64 {
            return Err(Error::Invalid {
                what: "storage",
                message: format!("{spec} spans {} bytes of {bytes}", spec.span_bytes()),
            });
        }
        let arena = self.streams[stream.index()].memory;
        match self.place(stream, arena, &[bytes], &spec.brief())? {
            Outcome::Need(need) => Ok(Outcome::Need(need)),
            Outcome::Done(places) => {
                Ok(Outcome::Done(self.begin_tensor(sink, stream, spec, places[0], origin)))
            }
        }
    }

    /// Finds places for all of `sizes`, or for none.
    pub(super) fn place(
        &mut self,
        stream: StreamId,
        arena: ArenaId,
        sizes: &[u64],
        purpose: &str,
    ) -> Result<Outcome<SmallVec<[Placement; 2]>>> {
        self.catch_up(stream);
        let mut places: SmallVec<[Placement; 2]> = SmallVec::new();
        for &bytes in sizes {
            let track = &self.streams[stream.index()];
            let answer = match bytes {
                // No memory, no place: every stream may have it at any time.
                0 => Answer::Placed(Placement { arena, offset: 0, size: 0, generation: 0 }),
                _ => self.planner.place(arena, bytes, |p| track.knows(stream, p)),
            };
            let need = match answer {
                Answer::Placed(place) => {
                    places.push(place);
                    continue;
                }
                Answer::NeedGrow(bytes) => Ok(Outcome::Need(Need::Grow { arena, bytes })),
                Answer::NeedWait(point) => Ok(Outcome::Need(Need::Wait(point))),
                Answer::Full => Err(self.out_of_memory(arena, bytes, purpose)),
            };
            // The stream knew what these blocks waited for: whoever knows its tail does.
            let death: Frontier = [self.tail(stream)].into_iter().collect();
            for place in places {
                self.give_back(place, death.clone());
            }
            return need;
        }
        Ok(Outcome::Done(places))
    }

    fn out_of_memory(&self, arena: ArenaId, wanted: u64, purpose: &str) -> Error {
        let device = self.planner.device(arena);
        let usage = self.planner.usage();
        Error::OutOfMemory {
            device: device.clone(),
            purpose: purpose.to_owned(),
            wanted,
            in_use: usage[arena.index()].in_use,
            limit: self.planner.limit(device).unwrap_or(0),
        }
    }

    pub(super) fn give_back(&mut self, place: Placement, death: Frontier) {
        if place.size > 0 {
            self.planner.release(place, death);
        }
    }

    /// A tensor at a place that the planner gave.
    pub(super) fn begin_tensor(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        spec: TensorSpec,
        place: Placement,
        origin: &Origin,
    ) -> TensorRef {
        // The memory is free from the stream's tail on: uses elsewhere come after that.
        let born = self.tail(stream);
        let storage = Storage {
            last_write: born,
            reads: SmallVec::new(),
            last_use: born,
            tensors: 0,
            bytes: place.size,
            arena: place.arena,
            placement: Some(place),
            held: None,
        };
        let storage = self.slots.new_storage(storage, sink);
        let tensor = self.slots.new_tensor(spec.clone(), storage, sink);
        let body = Body::AllocateTensor {
            on: stream,
            tensor: tensor.id,
            spec: Box::new(spec),
            placement: Box::new(place),
        };
        self.emit(sink, body, origin);
        tensor
    }

    /// A tensor whose memory is somebody else's, on `device`. Nothing is emitted.
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
        let storage = Storage {
            last_write: start,
            reads: SmallVec::new(),
            last_use: start,
            tensors: 0,
            bytes,
            arena: self.planner.arena(device),
            placement: None,
            held: None,
        };
        let storage = self.slots.new_storage(storage, sink);
        Ok(self.slots.new_tensor(spec, storage, sink))
    }

    /// Ends an imported tensor, all uses of which have completed. Nothing is emitted.
    pub fn end_import(&mut self, tensor: TensorRef) {
        if self.slots.live(tensor).is_ok() {
            self.slots.end(tensor.id, &Origin::Unknown);
        }
    }

    /// A view of `of`'s storage. It costs no kernel.
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
        let storage = self.slots.live(of)?;
        let bytes = self.slots.storage(storage).bytes;
        if spec.span_bytes() as u64 > bytes {
            return Err(Error::Invalid {
                what: "view",
                message: format!(
                    "{spec} reaches byte {} of a storage of {bytes}",
                    spec.span_bytes()
                ),
            });
        }
        let tensor = self.slots.new_tensor(spec.clone(), storage, sink);
        let body = Body::ViewTensor { tensor: tensor.id, of: of.id, spec: Box::new(spec) };
        self.emit(sink, body, origin);
        Ok(tensor)
    }

    /// Ends a tensor. Its storage ends with its last tensor.
    ///
    /// # Errors
    /// It was released before, or a critical section holds it.
    pub fn release(
        &mut self,
        sink: &mut dyn Sink,
        tensor: TensorRef,
        section: Option<SectionId>,
        origin: &Origin,
    ) -> Result<()> {
        self.usable(tensor, section)?;
        self.emit(sink, Body::ReleaseTensor { tensor: tensor.id }, origin);
        if let Some(storage) = self.slots.end(tensor.id, origin)
            && let Some(place) = storage.placement
        {
            self.give_back(place, storage.death());
        }
        Ok(())
    }

    /// Checks that a tensor lives and that nobody else holds it.
    pub(super) fn usable(&self, tensor: TensorRef, section: Option<SectionId>) -> Result<()> {
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
