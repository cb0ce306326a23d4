//! Waits from uses: the hazards of an instruction, and the waits that its stream's clock does not
//! make needless.

use smallvec::SmallVec;

use millstream_types::{Access, EventId, Origin, Point, StreamId, TensorId};

use crate::builder::clock::Clock;
use crate::builder::stream::StreamTrack;
use crate::builder::{InstructionsBuilder, Sink, SyncPolicy, TensorRef, Tensors};
use crate::instruction::{Operand, Resolution, Via};
use crate::table::{Body, Kind};

/// The points that an instruction must come after, at most one for each other stream.
type Hazards = SmallVec<[Point; 4]>;

fn add_hazard(hazards: &mut Hazards, point: Point) {
    match hazards.iter_mut().find(|h| h.stream == point.stream) {
        Some(h) => h.seq = h.seq.max(point.seq),
        None => hazards.push(point),
    }
}

impl InstructionsBuilder {
    /// Emits the waits that a use of `operands` on `stream` needs, and joins what they wait for to
    /// the stream's clock. On a pool, only the next instruction knows it.
    pub(super) fn wait_for_operands(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        operands: &[Operand],
        origin: &Origin,
    ) {
        self.wait_for_uses(sink, stream, operands.iter().map(|o| (o.tensor, o.access)), origin);
    }

    /// Does the same as [`InstructionsBuilder::wait_for_operands`] for tensors and their accesses.
    #[inline]
    pub(super) fn wait_for_uses(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        uses: impl Iterator<Item = (TensorId, Access)> + Clone,
        origin: &Origin,
    ) {
        self.catch_up(stream);
        if !self.protection.waits() {
            return;
        }
        let annotated = sink.annotated();
        let asked = &mut self.streams[stream.index()].requested;
        let requested = if asked.is_empty() { SmallVec::new() } else { std::mem::take(asked) };
        if !annotated
            && requested.is_empty()
            && self.policy == SyncPolicy::Frontier
            && self.streams.len() <= 64
        {
            let open = self.open_hazards(stream, uses);
            return self.settle(sink, stream, &open, origin);
        }
        let mut hazards = Hazards::new();
        requested.iter().for_each(|&p| add_hazard(&mut hazards, p));
        for (tensor, access) in uses.clone() {
            self.for_each_hazard(stream, tensor, access, |p| add_hazard(&mut hazards, p));
        }
        if hazards.is_empty() {
            return;
        }
        // Waits are in the order of stream ids, so that equal programs give equal lists.
        hazards.sort_unstable();
        if !annotated {
            return self.resolve(sink, stream, &hazards, |_| Tensors::new(), origin);
        }
        let mut causes: SmallVec<[(Point, TensorId); 8]> = SmallVec::new();
        for (tensor, access) in uses {
            self.for_each_hazard(stream, tensor, access, |p| causes.push((p, tensor)));
        }
        let tensors_of = |source: StreamId| {
            // In the order of the operands, because slot numbers depend on when slots become free.
            let mut tensors = Tensors::new();
            for &(point, tensor) in &causes {
                if point.stream == source && !tensors.contains(&tensor) {
                    tensors.push(tensor);
                }
            }
            tensors
        };
        self.resolve(sink, stream, &hazards, tensors_of, origin);
    }

    /// Returns the hazards that the stream does not know, in the order of stream ids, and counts
    /// the others. Supports at most 64 streams: elided hazards are counted in bit masks.
    #[inline]
    fn open_hazards(
        &mut self,
        stream: StreamId,
        uses: impl Iterator<Item = (TensorId, Access)>,
    ) -> Hazards {
        let (mut open, mut known, mut fenced) = (Hazards::new(), 0u64, 0u64);
        let knows = &self.streams[stream.index()].known;
        for (tensor, access) in uses {
            self.for_each_hazard(stream, tensor, access, |p| {
                let bit = 1 << (p.stream.0 % 64);
                if self.fence.covers(p) {
                    fenced |= bit;
                } else if knows.covers(p) {
                    known |= bit;
                } else {
                    add_hazard(&mut open, p);
                }
            });
        }
        // One hazard counts for each stream, its newest: an unknown one goes before a known one,
        // and a known one before one behind the fence.
        for p in &open {
            known &= !(1 << (p.stream.0 % 64));
            fenced &= !(1 << (p.stream.0 % 64));
        }
        self.stats.elided(u64::from(known.count_ones()), u64::from((fenced & !known).count_ones()));
        if open.len() > 1 {
            open.sort_unstable();
        }
        open
    }

    /// Emits the waits for `points`, unless they are known.
    pub(super) fn wait_for_points(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        points: &[Point],
        origin: &Origin,
    ) {
        let mut hazards = Hazards::new();
        points.iter().for_each(|&p| add_hazard(&mut hazards, p));
        hazards.sort_unstable();
        self.resolve(sink, stream, &hazards, |_| Tensors::new(), origin);
    }

    /// Calls `found` with every point on another stream that a use must come after.
    #[inline]
    pub(super) fn for_each_hazard(
        &self,
        stream: StreamId,
        tensor: TensorId,
        access: Access,
        mut found: impl FnMut(Point),
    ) {
        let storage = self.slots.storage(self.slots.storage_of(tensor));
        // The queue orders an in-order stream; the workers of a pool order the pool.
        let mut other = |p: Point| {
            if p.stream != stream && p.seq > 0 {
                found(p);
            }
        };
        if self.policy == SyncPolicy::LastUsedStream {
            // On a pool, an earlier use waited for itself alone. Its own hazards must be waited for
            // again.
            let here = storage.last_use.stream == stream && self.streams[stream.index()].is_pool();
            if !here {
                return other(storage.last_use);
            }
        }
        other(storage.last_write);
        if access.writes() {
            storage.each_read(other);
        }
    }

    /// Returns whether all uses that a use of `tensor` must come after have completed.
    pub fn is_settled(&self, tensor: TensorRef, access: Access, sink: &dyn Sink) -> bool {
        let Ok(storage) = self.slots.live(tensor) else { return false };
        let storage = self.slots.storage(storage);
        let reads = || storage.reads().all(|p| sink.reached(p));
        sink.reached(storage.last_write) && (!access.writes() || reads())
    }

    /// Resolves each of `hazards`: counts it, annotates it, and emits its wait if it needs one.
    pub(super) fn resolve(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        hazards: &[Point],
        tensors_of: impl Fn(StreamId) -> Tensors,
        origin: &Origin,
    ) {
        let mut elided: SmallVec<[Option<Resolution>; 4]> = SmallVec::new();
        let mut open = Hazards::new();
        for &h in hazards {
            let by = self.elided(stream, h);
            elided.push(by);
            if by.is_none() {
                open.push(h);
            }
        }
        let mut brought = Clock::new();
        for (&h, elided) in hazards.iter().zip(elided) {
            let is_open = elided.is_none();
            let resolution = elided.unwrap_or_else(|| self.resolution(stream, h, &open, &brought));
            self.stats.resolved(resolution);
            if sink.annotated() {
                let tensors = tensors_of(h.stream);
                let body = Body::SoftSyncStream { on: stream, needs: h, tensors, resolution };
                self.emit(sink, body, origin);
            }
            if is_open {
                let brought = (open.len() > 1).then_some(&mut brought);
                self.wait(sink, stream, h, resolution, brought, origin);
            }
        }
    }

    /// Returns why `h` needs no wait on `stream`; none if it may need one.
    pub(super) fn elided(&self, stream: StreamId, h: Point) -> Option<Resolution> {
        // OneFlow's rule does not use what other waits imply.
        let transitive = self.policy == SyncPolicy::Frontier;
        if self.fence.covers(h) {
            Some(Resolution::Fenced)
        } else if transitive && self.streams[stream.index()].known.covers(h) {
            Some(Resolution::Known)
        } else {
            None
        }
    }

    /// Emits the waits for `open`, none of which the stream knows.
    fn settle(&mut self, sink: &mut dyn Sink, stream: StreamId, open: &[Point], origin: &Origin) {
        let mut brought = Clock::new();
        for &h in open {
            let resolution = self.resolution(stream, h, open, &brought);
            self.stats.resolved(resolution);
            let brought = (open.len() > 1).then_some(&mut brought);
            self.wait(sink, stream, h, resolution, brought, origin);
        }
    }

    /// Returns how to wait for `h`, one of `open`. `brought` holds the points that this
    /// instruction's earlier waits imply.
    #[inline]
    fn resolution(
        &mut self,
        stream: StreamId,
        h: Point,
        open: &[Point],
        brought: &Clock,
    ) -> Resolution {
        if self.policy == SyncPolicy::Frontier && open.len() > 1 {
            let brings = |other: &Point| {
                *other != h && self.passed_at(*other).is_some_and(|passed| passed.covers(h))
            };
            if let Some(&other) = open.iter().find(|other| brings(other)) {
                return Resolution::Implied(other);
            }
            if brought.covers(h) {
                return Resolution::Implied(h);
            }
        }
        match self.waits_on_device(stream, h.stream) {
            true => Resolution::Device,
            false => Resolution::Host,
        }
    }

    /// Returns the clock at `point` without the point itself, if the history still has it.
    fn passed_at(&self, point: Point) -> Option<&Clock> {
        self.streams[point.stream.index()].at(point.seq)
    }

    /// Returns the clock at `point`, the point included.
    pub(super) fn passed(&self, point: Point) -> Clock {
        let mut passed = self.passed_at(point).cloned().unwrap_or_default();
        passed.add(point);
        passed
    }

    /// Emits a wait, if the resolution is one, and joins the clock at its point to the stream's,
    /// and to `brought` for the instruction's further waits.
    #[inline]
    fn wait(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        h: Point,
        resolution: Resolution,
        brought: Option<&mut Clock>,
        origin: &Origin,
    ) {
        let (until, via) = match resolution {
            Resolution::Host => (h, Via::Host),
            Resolution::Device => {
                let (event, at) = self.event_at(sink, h, origin);
                (at, Via::Device(event))
            }
            _ => return,
        };
        let at = self.next(stream);
        if let Via::Device(event) = via {
            self.events.used(event, at);
        }
        self.emit_wait(sink, at, until, via, origin);
        self.waited(at, until);
        // A pool's own clock does not hold it. An empty clock that joins another shares its points.
        let Some(brought) = brought else { return };
        if let Some(passed) = self.streams[until.stream.index()].at(until.seq) {
            brought.join(passed);
        }
        brought.add(until);
    }

    /// Emits a wait and counts it.
    pub(super) fn emit_wait(
        &mut self,
        sink: &mut dyn Sink,
        at: Point,
        until: Point,
        via: Via,
        origin: &Origin,
    ) {
        self.stats.count(Kind::StreamWaitEvent);
        sink.emit_wait(at, until, via, origin);
    }

    /// Records that the instruction at `at` has waited for `until`, a point of another stream.
    pub(super) fn waited(&mut self, at: Point, until: Point) {
        let (waiter, source) = (at.stream.index(), until.stream.index());
        if let Ok([waiter, source]) = self.streams.get_disjoint_mut([waiter, source]) {
            waiter.waited(at, until, source.at(until.seq));
        }
        self.holds(at.stream);
    }

    pub(super) fn waits_on_device(&mut self, waiter: StreamId, source: StreamId) -> bool {
        let answers = &self.streams[waiter.index()].on_device;
        if let Some(Some(answer)) = answers.get(source.index()) {
            return *answer;
        }
        let key = |s: StreamId| &self.streams[s.index()].decl.key;
        let answer = self.catalog.waits_on_device(key(waiter), key(source));
        let answers = &mut self.streams[waiter.index()].on_device;
        answers.resize(answers.len().max(source.index() + 1), None);
        answers[source.index()] = Some(answer);
        answer
    }

    /// Returns an event recorded at or after `point`, with the point of its record: the earliest of
    /// the stream's recent events, or a new one.
    fn event_at(&mut self, sink: &mut dyn Sink, point: Point, origin: &Origin) -> (EventId, Point) {
        let recent = &self.streams[point.stream.index()].events;
        let first = recent.partition_point(|(_, seq)| *seq < point.seq);
        if let Some(&(event, seq)) = recent.get(first) {
            self.stats.events_reused += 1;
            return (event, Point::new(point.stream, seq));
        }
        let event = self.new_event(sink, 1);
        let at = self.next(point.stream);
        self.events.used(event, at);
        self.keep_event(event, at);
        self.emit(sink, Body::RecordEvent { at, event }, origin);
        (event, at)
    }

    /// Returns a slot for a new event.
    pub(super) fn new_event(&mut self, sink: &dyn Sink, holders: u32) -> EventId {
        let (event, new) = self.events.take(holders, sink);
        self.stats.events_created += u64::from(new);
        event
    }

    /// Adds an event to its stream's recent ones. The stream is one of its holders.
    pub(super) fn keep_event(&mut self, event: EventId, at: Point) {
        let StreamTrack { events, most_events, .. } = &mut self.streams[at.stream.index()];
        if events.len() == *most_events {
            let (oldest, _) = events.remove(0);
            self.events.release(oldest);
        }
        self.streams[at.stream.index()].events.push((event, at.seq));
    }

    /// Records the uses of an instruction at `at`.
    pub(super) fn note_uses(&mut self, at: Point, operands: &[Operand]) {
        for operand in operands {
            self.slots.used(operand.tensor, at, operand.access);
        }
    }
}
