//! From uses to waits.

use smallvec::SmallVec;

use millstream_types::{EventId, Origin, Point, StreamId, TensorId};

use crate::builder::stream::RECENT_EVENTS;
use crate::builder::{Builder, Sink, SyncPolicy, Tensors};
use crate::frontier::Frontier;
use crate::instruction::{Operand, Resolution, Via};
use crate::table::Body;

/// The points that an instruction must come after, at most one for each other stream.
type Hazards = SmallVec<[Point; 4]>;

fn add_hazard(hazards: &mut Hazards, point: Point) {
    match hazards.iter_mut().find(|h| h.stream == point.stream) {
        Some(h) => h.seq = h.seq.max(point.seq),
        None => hazards.push(point),
    }
}

impl Builder {
    /// Emits the waits that a use of `operands` on `stream` needs. What they bring is known to the
    /// stream from now on; on a pool, to the next instruction alone.
    pub(super) fn wait_for_operands(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        operands: &[Operand],
        origin: &Origin,
    ) {
        self.catch_up(stream);
        if !self.protection.waits() {
            return;
        }
        let mut hazards = Hazards::new();
        for operand in operands {
            self.for_each_hazard(stream, operand, |p| add_hazard(&mut hazards, p));
        }
        if hazards.is_empty() {
            return;
        }
        // Waits stand in the order of stream ids, so that equal programs give equal lists.
        hazards.sort_unstable();
        if !sink.annotated() {
            self.resolve(sink, stream, &hazards, |_| Tensors::new(), origin);
            return;
        }
        let mut causes: SmallVec<[(Point, TensorId); 8]> = SmallVec::new();
        for operand in operands {
            self.for_each_hazard(stream, operand, |p| causes.push((p, operand.tensor)));
        }
        let tensors_of = |source: StreamId| {
            // In the order of the operands: slots' numbers depend on when slots came free.
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

    /// Emits the waits for `points`, which the stream does not know.
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

    /// Calls `found` for every point on another stream that a use must come after.
    fn for_each_hazard(&self, stream: StreamId, operand: &Operand, mut found: impl FnMut(Point)) {
        let storage = self.slots.storage(self.slots.storage_of(operand.tensor));
        // Within an in-order stream the queue orders; within a pool the engine does.
        let mut other = |p: Point| {
            if p.stream != stream && p.seq > 0 {
                found(p);
            }
        };
        // An earlier use on the same pool waited for itself alone: what came before it must be
        // waited for again.
        let here = storage.last_use.stream == stream && self.streams[stream.index()].is_pool();
        match self.policy {
            SyncPolicy::LastUsedStream if !here => other(storage.last_use),
            SyncPolicy::LastUsedStream | SyncPolicy::Frontier => {
                other(storage.last_write);
                if operand.access.writes() {
                    storage.reads().for_each(other);
                }
            }
        }
    }

    /// Emits what each of `hazards` needs.
    pub(super) fn resolve(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        hazards: &[Point],
        tensors_of: impl Fn(StreamId) -> Tensors,
        origin: &Origin,
    ) {
        let known_at_first = |b: &Builder, p: Point| b.streams[stream.index()].known.covers(p);
        // OneFlow's rule knows nothing of what other waits brought along.
        let transitive = self.policy == SyncPolicy::Frontier;
        let mut open: SmallVec<[Point; 4]> = SmallVec::new();
        let mut resolved: SmallVec<[Resolution; 4]> = SmallVec::new();
        for &h in hazards {
            resolved.push(if self.fence.covers(h) {
                Resolution::Fenced
            } else if transitive && known_at_first(self, h) {
                Resolution::Known
            } else {
                open.push(h);
                Resolution::Host
            });
        }
        // What this instruction's waits have brought so far. On a pool it lives for this
        // instruction alone; elsewhere it is also what the stream learns.
        let mut brought = Frontier::new();
        for (h, mut resolution) in hazards.iter().copied().zip(resolved) {
            if !resolution.is_elided() {
                let implied_by = open.iter().copied().find(|&other| {
                    other != h && self.passed_at(other).is_some_and(|f| f.covers(h))
                });
                resolution = match implied_by {
                    Some(other) if transitive => Resolution::Implied(other),
                    _ if transitive && brought.covers(h) => Resolution::Implied(h),
                    _ if self.waits_on_device(stream, h.stream) => Resolution::Device,
                    _ => Resolution::Host,
                };
            }
            self.stats.resolved(resolution);
            if sink.annotated() {
                let tensors = tensors_of(h.stream);
                let body = Body::SoftSyncStream { on: stream, needs: h, tensors, resolution };
                self.emit(sink, body, origin);
            }
            match resolution {
                Resolution::Host => self.wait(sink, stream, h, Via::Host, &mut brought, origin),
                Resolution::Device => {
                    let (event, at) = self.event_at(sink, h, origin);
                    self.wait(sink, stream, at, Via::Device(event), &mut brought, origin);
                }
                _ => {}
            }
        }
    }

    /// What has passed once `point` has, but for the point itself, as far as it is remembered.
    fn passed_at(&self, point: Point) -> Option<&Frontier> {
        self.streams[point.stream.index()].at(point.seq)
    }

    /// What has passed once `point` has, itself included.
    pub(super) fn passed(&self, point: Point) -> Frontier {
        let mut passed = self.passed_at(point).cloned().unwrap_or_default();
        passed.add(point);
        passed
    }

    /// Emits one wait and lets the stream know what it brings.
    fn wait(
        &mut self,
        sink: &mut dyn Sink,
        stream: StreamId,
        until: Point,
        via: Via,
        brought: &mut Frontier,
        origin: &Origin,
    ) {
        let at = self.next(stream);
        if let Via::Device(event) = via {
            self.events.used(event, at);
        }
        self.emit(sink, Body::StreamWaitEvent { at, until, via }, origin);
        let passed = self.passed(until);
        brought.join(&passed);
        self.learn_from_wait(at, &passed);
    }

    /// The instruction at `at` has waited for what `passed` knows.
    pub(super) fn learn_from_wait(&mut self, at: Point, passed: &Frontier) {
        let track = &mut self.streams[at.stream.index()];
        if track.is_pool() { track.pass(at.seq, passed) } else { track.learn(at.seq, passed) }
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

    /// An event recorded at or after `point`, and where: the earliest of the stream's recent ones,
    /// or one recorded now.
    fn event_at(&mut self, sink: &mut dyn Sink, point: Point, origin: &Origin) -> (EventId, Point) {
        let recent = &self.streams[point.stream.index()].events;
        if let Some(&(event, seq)) = recent.iter().find(|(_, seq)| *seq >= point.seq) {
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

    /// A slot for a new event.
    pub(super) fn new_event(&mut self, sink: &dyn Sink, holders: u32) -> EventId {
        let (event, new) = self.events.take(holders, sink);
        self.stats.events_created += u64::from(new);
        event
    }

    /// Keeps an event, of which the stream is one holder, to be waited for again.
    pub(super) fn keep_event(&mut self, event: EventId, at: Point) {
        let recent = &mut self.streams[at.stream.index()].events;
        if recent.len() == RECENT_EVENTS {
            let (oldest, _) = recent.remove(0);
            self.events.let_go(oldest);
        }
        self.streams[at.stream.index()].events.push((event, at.seq));
    }

    /// Notes what an instruction at `at` used.
    pub(super) fn note_uses(&mut self, at: Point, operands: &[Operand]) {
        for operand in operands {
            self.slots.used(operand.tensor, at, operand.access);
        }
    }
}
