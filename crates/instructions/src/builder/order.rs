//! Order that the program asks for: events, waits, touches, barriers, observed points.

use smallvec::SmallVec;

use millstream_types::{Error, Origin, Point, Result, StreamId};

use crate::builder::region::SectionId;
use crate::builder::{EventRef, InstructionsBuilder, Sink, TensorRef, Tensors};
use crate::frontier::Frontier;
use crate::instruction::{Operand, Operands, Resolution, Via};
use crate::list::StreamDecl;
use crate::table::{Body, Kind};

use millstream_types::Access;

impl InstructionsBuilder {
    /// Records an event on `stream`, behind all its instructions so far.
    ///
    /// # Errors
    /// The stream is not this builder's.
    pub fn record_event(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        origin: &Origin,
    ) -> Result<EventRef> {
        self.known_stream(stream)?;
        // The holders are the user and the stream, whose later waits may use the event.
        let event = self.new_event(sink, 2);
        let at = self.next(stream);
        self.events.used(event, at);
        self.keep_event(event, at);
        self.emit(sink, Body::RecordEvent { at, event }, origin);
        Ok(EventRef { id: event, at, passed: self.passed(at) })
    }

    /// Releases an event that a user asked for.
    pub fn release_event(&mut self, event: &EventRef) {
        self.events.release(event.id);
    }

    /// Orders `stream` behind an event. Emits only an annotation if the stream is ordered so
    /// already.
    ///
    /// # Errors
    /// The stream is not this builder's.
    pub fn wait_event(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        event: &EventRef,
        origin: &Origin,
    ) -> Result<()> {
        self.known_stream(stream)?;
        self.catch_up(stream);
        if event.at.stream == stream {
            return Ok(());
        }
        let resolution = self.resolution_of_wait(stream, event.at);
        self.annotate(sink, stream, event.at, resolution, origin);
        let via = match resolution {
            Resolution::Device => Via::Device(event.id),
            Resolution::Host => Via::Host,
            _ => return Ok(()),
        };
        let at = self.next(stream);
        if let Via::Device(event) = via {
            self.events.used(event, at);
        }
        self.emit_wait(sink, at, event.at, via, origin);
        // The event carries the clock at its record, even if the stream's history has lost it.
        self.streams[at.stream.index()].waited(at, event.at, Some(&event.passed));
        self.holds(at.stream);
        Ok(())
    }

    /// Orders `stream` behind all instructions of `source` so far.
    ///
    /// # Errors
    /// A stream is not this builder's.
    pub fn wait_stream(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        source: StreamId,
        origin: &Origin,
    ) -> Result<()> {
        self.known_stream(stream)?;
        self.known_stream(source)?;
        self.catch_up(stream);
        let tail = self.tail(source);
        if source == stream || tail.seq == 0 {
            return Ok(());
        }
        let resolution = self.resolution_of_wait(stream, tail);
        self.annotate(sink, stream, tail, resolution, origin);
        let (via, until) = match resolution {
            Resolution::Device => {
                let event = self.new_event(sink, 1);
                let until = self.next(source);
                self.events.used(event, until);
                self.keep_event(event, until);
                (Via::Device(event), until)
            }
            Resolution::Host => (Via::Host, tail),
            _ => return Ok(()),
        };
        let at = self.next(stream);
        if let Via::Device(event) = via {
            self.events.used(event, at);
        }
        self.emit(sink, Body::StreamWait { at, until, via }, origin);
        self.waited(at, until);
        Ok(())
    }

    fn resolution_of_wait(&mut self, stream: StreamId, point: Point) -> Resolution {
        match self.elided(stream, point) {
            Some(elided) => elided,
            None if self.waits_on_device(stream, point.stream) => Resolution::Device,
            None => Resolution::Host,
        }
    }

    fn annotate(
        &mut self,
        sink: &mut dyn Sink,
        on: StreamId,
        needs: Point,
        resolution: Resolution,
        origin: &Origin,
    ) {
        self.stats.resolved(resolution);
        if sink.annotated() {
            let tensors = Tensors::new();
            self.emit(sink, Body::SoftSyncStream { on, needs, tensors, resolution }, origin);
        }
    }

    /// Uses tensors on `stream` without changing or reading them.
    ///
    /// # Errors
    /// A tensor was released, or the stream is not this builder's.
    pub fn touch(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        tensors: &[TensorRef],
        section: Option<SectionId>,
        origin: &Origin,
    ) -> Result<Point> {
        self.known_stream(stream)?;
        let mut operands = Operands::new();
        for &tensor in tensors {
            self.usable(tensor, section)?;
            operands.push(Operand { tensor: tensor.id, access: Access::Read });
        }
        self.wait_for_operands(sink, stream, &operands, origin);
        let at = self.next(stream);
        self.note_uses(at, &operands);
        self.emit(sink, Body::TouchTensors { at, operands }, origin);
        Ok(at)
    }

    /// Emits a barrier between all earlier and all later instructions, on a `stream` that accepts
    /// barriers. With `global`, all ranks synchronize there.
    ///
    /// # Errors
    /// The stream is of another type.
    pub fn barrier(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        global: bool,
        origin: &Origin,
    ) -> Result<Point> {
        let kind = if global { Kind::GlobalSync } else { Kind::Barrier };
        self.runs(stream, kind)?;
        let tails = (0..self.streams.len()).map(|s| self.tail(StreamId(s as u16)));
        let tails: SmallVec<[Point; 8]> = tails.collect();
        for tail in tails {
            let passed = self.passed(tail);
            self.fence.join(&passed);
        }
        self.fence_has_grown();
        self.behind_barrier.clone_from(&self.fence);
        let at = self.next(stream);
        self.fence.add(at);
        let body = if global { Body::GlobalSync { at } } else { Body::Barrier { at } };
        self.emit(sink, body, origin);
        Ok(at)
    }

    /// Refuses a stream that runs no ops.
    #[inline]
    pub(super) fn runs_kernels(&self, stream: StreamId) -> Result<()> {
        match self.streams.get(stream.index()) {
            Some(track) if track.runs_ops => Ok(()),
            _ => self.runs(stream, Kind::OpCall),
        }
    }

    /// Refuses a stream that does not run instructions of this kind, by the table.
    pub(super) fn runs(&self, stream: StreamId, kind: Kind) -> Result<()> {
        self.known_stream(stream)?;
        let StreamDecl { key, work, .. } = &self.streams[stream.index()].decl;
        if kind.runs_on().allows(*work) {
            return Ok(());
        }
        let (types, kind) = (kind.runs_on(), kind.name());
        let message = format!("{key}: expected one of type {types} for {kind}");
        Err(Error::Invalid { what: "stream", message })
    }

    /// Records that the host has waited for these points. Every stream's clock holds them from now
    /// on.
    pub fn observe(&mut self, sink: &mut dyn Sink, points: &[Point], origin: &Origin) {
        for &point in points {
            if self.observed.covers(point) {
                continue;
            }
            // Clocks leave out the points behind the fence. The host has observed those of them
            // that are behind a barrier once it has observed a point after the barrier.
            if !self.behind_barrier.covers(point) {
                self.observed.join(&self.behind_barrier);
            }
            self.observed.join(&self.passed(point));
        }
        let mut news = Frontier::new();
        for &point in points.iter().filter(|p| !self.fence.covers(**p)) {
            news.add(point);
        }
        if news.is_empty() {
            return;
        }
        for point in news.iter() {
            let passed = self.passed(point);
            self.fence.join(&passed);
        }
        self.fence_has_grown();
        self.emit(sink, Body::HostObserved { points: news.iter().collect() }, origin);
    }
}
