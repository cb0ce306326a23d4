//! Places in streams, records and waits.

use millstream_types::{EventId, Point};

use millstream_instructions::Via;

use crate::check::Walk;
use crate::clock::Clock;
use crate::violation::Violation;

impl Walk<'_> {
    pub(super) fn counts_up(&mut self, index: usize, at: Point) {
        if self.streams.has(at) {
            let last = self.streams.tail(at.stream);
            self.report(|walk| Violation::OutOfOrder { site: walk.site(index), at, last });
        }
    }

    pub(super) fn exists(&mut self, index: usize, until: Point) -> bool {
        let has = self.streams.has(until);
        if !has {
            let last = self.streams.tail(until.stream);
            self.report(|walk| Violation::NoSuchPoint { site: walk.site(index), until, last });
        }
        has
    }

    pub(super) fn record(&mut self, index: usize, at: Point, event: EventId) {
        self.counts_up(index, at);
        let clock = self.streams.arrive(at);
        self.streams.leave(at, &clock);
        self.records.insert(event, (at, index));
    }

    pub(super) fn wait(&mut self, index: usize, at: Point, until: Point, via: Via) {
        // The point must stand before the wait itself, also on the wait's own stream.
        let fits = match via {
            Via::Host => self.exists(index, until),
            Via::Device(event) => self.is_record(index, until, event),
        };
        self.counts_up(index, at);
        // A wait that waits for nothing brings no knowledge.
        let passed =
            if fits { self.streams.passed(until) } else { Clock::new(self.list.streams.len()) };
        self.streams.wait(at, &passed);
    }

    /// Whether the newest record of `event` stands at `until`.
    pub(super) fn is_record(&mut self, index: usize, until: Point, event: EventId) -> bool {
        let newest = self.records.get(&event).copied();
        match newest {
            Some((at, _)) if at == until => return true,
            Some((at, record)) => self.report(|walk| Violation::OtherRecord {
                site: walk.site(index),
                until,
                event,
                at,
                record: walk.site(record),
            }),
            None => {
                self.report(|walk| Violation::NotRecorded { site: walk.site(index), event });
            }
        }
        false
    }
}
