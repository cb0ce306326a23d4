//! The records and waits of streams, and what threads wait for.

use millstream_profile::model::{Instruction, NONE, Resolution, Role, Wait};

use crate::recording::StreamId;

use super::building::{Building, Track};
use super::events::{Awaited, Found};
use super::host::Segment;
use super::items::HostWait;

/// How much earlier than a wait's end the next work may begin, as times are rounded.
const ROUNDING: i64 = 1_000;

impl Building<'_> {
    /// Adds what a thread that synchronizes waits for.
    pub(super) fn host_waits(&mut self, own: u32, thread: u32, wait: HostWait, end: i64) {
        let last = |track: &Track| track.last.map(|k| (k, track.ended));
        match wait {
            HostWait::Event(awaited) => match self.records.get(&awaited.record).copied() {
                Some(record) => {
                    self.inferred += usize::from(awaited.found == Found::Inferred);
                    self.host_wait(own, record);
                }
                None => self.unknown_syncs += 1,
            },
            HostWait::Stream(on) => {
                if let Some((k, _)) = self.tracks.get(&on).and_then(last) {
                    self.host_wait(own, k);
                }
            }
            HostWait::LastStream => {
                let on = self.submitted.get(&thread);
                match on.and_then(|on| self.tracks.get(on)).and_then(last) {
                    Some((k, ended)) if ended <= end + ROUNDING => {
                        self.inferred += 1;
                        self.host_wait(own, k);
                    }
                    _ => self.unknown_syncs += 1,
                }
            }
            HostWait::Device(device) => {
                let process = self.recording.threads[thread as usize].process;
                let of_device = |id: &StreamId| {
                    id.process == process && device.is_none_or(|device| device == id.device)
                };
                let tracks = self.tracks.iter().filter(|(id, _)| of_device(id));
                let all: Vec<u32> = tracks.filter_map(|(_, track)| track.last).collect();
                all.into_iter().for_each(|k| self.host_wait(own, k));
            }
        }
    }

    pub(super) fn host_wait(&mut self, waiter: u32, until: u32) {
        if until != NONE {
            let (user, resolution) = (waiter, Resolution::Host);
            self.profile.waits.push(Wait { waiter, until, user, resolution, ..Wait::default() });
        }
    }

    /// Returns the time of a call, and what it submits.
    fn called(&self, segment: u32) -> (i64, Instruction) {
        let Segment { event, start, .. } = self.host.segments[segment as usize];
        let name = self.recording.host[event as usize].name;
        let submitter = Some(self.segments[segment as usize]).filter(|k| *k != NONE);
        let issued = Some(self.at(start));
        (start, Instruction { name, place: NONE, issued, submitter, ..Instruction::default() })
    }

    /// Adds the record of an event.
    pub(super) fn record(&mut self, call: u64, on: StreamId, segment: u32) {
        let (called, own) = self.called(segment);
        let Some(track) = self.tracks.get(&on) else { return };
        let (stream, at) = (track.stream, track.ended.max(called));
        let own = Instruction { role: Role::Record, times: self.times(at, at, at), ..own };
        let own = self.push(stream, own);
        self.records.insert(call, own);
    }

    /// Adds a wait of a stream.
    pub(super) fn stream_wait(&mut self, on: StreamId, segment: u32, awaited: Option<Awaited>) {
        let (called, own) = self.called(segment);
        let found = awaited.and_then(|awaited| {
            let record = *self.records.get(&awaited.record)?;
            let source = self.tracks.get(&awaited.on).and_then(|track| track.last);
            Some((record, source, awaited.found))
        });
        self.unknown_waits += usize::from(awaited.is_some() && found.is_none());
        let Some(track) = self.tracks.get(&on) else { return };
        let ready = track.ended.max(called);
        let next = track.starts.get(track.added).copied().unwrap_or(i64::MAX);
        let until = found.and_then(|(record, ..)| self.profile.instructions.get(record as usize));
        let until = until.and_then(|i| i.times).map_or(ready, |t| self.base + t.end as i64);
        if until > next.saturating_add(ROUNDING) {
            // What follows began before what it would have waited for had ended.
            if found.is_some_and(|(.., found)| found == Found::Inferred) {
                self.unknown_waits += 1;
                return;
            }
            self.contradicted += 1;
        }
        let stream = track.stream;
        let event = self.host.segments[segment as usize].event;
        let place = self.place(self.host.around[event as usize], None);
        let end = until.max(ready).min(next.max(ready));
        let times = self.times(ready, ready, end);
        let own = Instruction { role: Role::Wait, place, times, ..own };
        let own = self.push(stream, own);
        if let Some((record, _, how)) = found {
            self.inferred += usize::from(how == Found::Inferred);
            let wait = self.profile.waits.len() as u32;
            self.profile.waits.push(Wait { waiter: own, until: record, ..Wait::default() });
            if let Some(track) = self.tracks.get_mut(&on) {
                track.open.push(wait);
            }
        }
        if let Some(track) = self.tracks.get_mut(&on) {
            track.ended = track.ended.max(end);
        }
    }
}
