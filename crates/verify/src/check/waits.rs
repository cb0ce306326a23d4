//! Checks of points, records and waits.

use millstream_types::{EventId, Point};

use millstream_instructions::{Body, Id, Role, Via};

use crate::check::Walk;
use crate::verdict::Reason;
use crate::violation::Violation;

impl Walk<'_> {
    pub(super) fn counts_up(&mut self, index: usize, at: Point) {
        if self.streams.has(at) {
            let last = self.streams.tail(at.stream);
            self.report(|walk| Violation::OutOfOrder { site: walk.site(index), at, last });
        }
    }

    pub(super) fn exists(&mut self, index: usize, until: Point) -> bool {
        if !self.streams.has(until) {
            let last = self.streams.tail(until.stream);
            self.report(|walk| Violation::NoSuchPoint {
                site: walk.site(index),
                until,
                last,
                cycle: walk.cycle(index, until),
            });
            return false;
        }
        if let Some((wait, before)) = self.streams.last_wait(until.stream)
            && until.seq > before
            && wait != index
        {
            self.needs.mark_needed(wait, Reason::Named { by: index });
        }
        true
    }

    pub(super) fn record(&mut self, index: usize, at: Point, event: EventId) {
        self.counts_up(index, at);
        let clock = self.streams.begin_instruction(at);
        self.streams.end_instruction(at, &clock);
        self.records.insert(event, (at, index));
    }

    /// Checks the record half of a StreamWait by the device.
    pub(super) fn record_half(&mut self, index: usize, at: Point, event: EventId) {
        if self.streams.has_pending(at.stream) {
            self.needs.mark_uncertain(index);
        }
        let before = self.streams.last_without(at.stream, index);
        self.record(index, at, event);
        self.streams.set_last_wait(at.stream, index, before);
    }

    pub(super) fn wait(&mut self, index: usize, at: Point, until: Point, via: Via) {
        // The point must precede the wait, also on the wait's own stream.
        let fits = match via {
            Via::Host => self.exists(index, until),
            Via::Device(event) => self.is_record(index, until, event),
        };
        if !fits {
            self.needs.mark_invalid(index);
        }
        self.counts_up(index, at);
        // A wait for a point that does not exist adds no knowledge.
        let passed = if fits { self.streams.passed(until) } else { self.streams.nothing().clone() };
        let before = self.streams.last_without(at.stream, index);
        let attributed = self.needs.traced().then_some(index);
        if !self.streams.wait(at, &passed, attributed) {
            self.needs.mark_redundant(index);
        }
        self.streams.set_last_wait(at.stream, index, before);
    }

    pub(super) fn observe(&mut self, index: usize, points: &[Point]) {
        let there: Vec<Point> = points.iter().copied().filter(|&p| self.exists(index, p)).collect();
        let attributed = self.needs.traced().then_some(index);
        if !self.streams.observe(&there, attributed) {
            self.needs.mark_redundant(index);
        }
    }

    /// Returns whether the newest record of `event` has the point `until`. Reports it otherwise.
    pub(super) fn is_record(&mut self, index: usize, until: Point, event: EventId) -> bool {
        let newest = self.records.get(&event).copied();
        match newest {
            Some((at, record)) if at == until => {
                let half = matches!(self.list.instructions[record].body, Body::StreamWait { .. });
                if half && record != index {
                    self.needs.mark_needed(record, Reason::Records { by: index });
                }
                return true;
            }
            Some((at, record)) => self.report(|walk| Violation::OtherRecord {
                site: walk.site(index),
                until,
                event,
                at,
                record: walk.site(record),
            }),
            None => self.report(|walk| Violation::NotRecorded {
                site: walk.site(index),
                event,
                later: walk.recorded_later(index, event),
                cycle: walk.cycle(index, until),
            }),
        }
        false
    }

    /// Where an event is recorded that is waited for at `index`.
    fn recorded_later(&self, index: usize, event: EventId) -> Option<crate::violation::Site> {
        let later = self.list.instructions.iter().skip(index + 1);
        let is_record = |body: &Body| {
            let mut found = false;
            body.visit_ids(&mut |id, role| {
                found |= (id, role) == (Id::Event(event), Role::Defines);
            });
            found
        };
        let found = later.map(|i| &i.body).position(is_record)?;
        Some(self.site(index + 1 + found))
    }
}
