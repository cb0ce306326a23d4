//! Which record a wait is for.

use std::collections::{BTreeMap, HashMap};

use crate::recording::{HostKind, Recording, StreamId, Sync, SyncKind};

use super::Call;
use super::host::Host;

/// How a record was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The file names it.
    Stated,
    /// The order of the calls allows no other reading.
    Inferred,
}

/// The record that a wait is for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Awaited {
    /// The correlation number of the call that recorded.
    pub(super) record: u64,
    /// The stream that it recorded on.
    pub(super) on: StreamId,
    pub(super) found: Found,
}

/// A wait that the calls allow one reading of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guess {
    pub(super) on: StreamId,
    pub(super) awaited: Awaited,
}

/// The records of a file.
pub(super) struct Records {
    /// By the number that waits share with them.
    shared: HashMap<i64, (u64, StreamId)>,
    /// By process, context and event.
    by_event: BTreeMap<(u32, i64, i64), Vec<(u64, StreamId)>>,
    /// By call.
    by_call: HashMap<u64, StreamId>,
    /// All calls that record, by time.
    calls: Vec<(i64, u64)>,
}

impl Records {
    pub(super) fn of(recording: &Recording) -> Records {
        let mut records = Records {
            shared: HashMap::new(),
            by_event: BTreeMap::new(),
            by_call: HashMap::new(),
            calls: Vec::new(),
        };
        for record in &recording.records {
            let found = (record.correlation, record.on);
            if let Some(shared) = record.shared {
                records.shared.insert(shared, found);
            }
            let event = (record.on.process, record.context, record.event);
            records.by_event.entry(event).or_default().push(found);
            records.by_call.insert(record.correlation, record.on);
        }
        for sync in &recording.syncs {
            if let (Some(record), Some(source)) = (sync.record, sync.source) {
                records.by_call.insert(record, source);
            }
        }
        let is_record = |name: u32| Call::of(&recording.names[name as usize]) == Call::Record;
        let calls = recording.host.iter().filter(|e| e.kind == HostKind::Call);
        let calls = calls.filter(|e| e.correlation != 0 && is_record(e.name));
        records.calls = calls.map(|e| (e.start, e.correlation)).collect();
        records.calls.sort_unstable();
        records
    }

    /// Returns the stream of the record of a call, if the file names it.
    pub(super) fn stream(&self, call: u64) -> Option<StreamId> {
        self.by_call.get(&call).copied()
    }

    /// Returns the record that a wait is for and its stream, if the file states it.
    pub(super) fn stated(
        &self,
        sync: &Sync,
        recording: &Recording,
        host: &Host,
    ) -> Option<(u64, StreamId)> {
        if let Some(record) = sync.record {
            return Some((record, self.by_call.get(&record).copied().or(sync.source)?));
        }
        if let Some(found) = sync.shared.and_then(|shared| self.shared.get(&shared)) {
            return Some(*found);
        }
        let all = self.by_event.get(&(sync.process, sync.context, sync.event?))?;
        let call = |correlation: u64| {
            let segment = host.segments.get(*host.calls.get(&correlation)? as usize)?;
            Some(recording.host[segment.event as usize])
        };
        // The newest record of the event before the wait, by the times of the calls: their numbers
        // wrap. A record on another thread during the wait may be it or not.
        let wait = call(sync.correlation)?;
        let mut newest = None;
        for &(record, on) in all {
            let made = call(record)?;
            let is_apart = made.end <= wait.start || made.start >= wait.end;
            if made.thread != wait.thread && !is_apart {
                return None;
            }
            if made.start < wait.start {
                newest = newest.max(Some((made.start, record, on)));
            }
        }
        newest.map(|(_, record, on)| (record, on))
    }

    /// Returns the record that a wait is for, if the file states it or leaves one reading.
    pub(super) fn awaited(
        &self,
        sync: &Sync,
        recording: &Recording,
        host: &Host,
    ) -> Option<Awaited> {
        if let Some((record, on)) = self.stated(sync, recording, host) {
            return Some(Awaited { record, on, found: Found::Stated });
        }
        if sync.record.is_some() || sync.event.is_some_and(|_| !self.by_event.is_empty()) {
            return None;
        }
        // The stream is known, the record is not: the newest one that may be on the stream.
        let source = sync.source?;
        let called = host.segments.get(*host.calls.get(&sync.correlation)? as usize)?.start;
        let earlier = self.calls.partition_point(|(start, _)| *start < called);
        let may_be = |call: &&(i64, u64)| self.by_call.get(&call.1).is_none_or(|on| *on == source);
        let &(_, record) = self.calls[..earlier].iter().rev().find(may_be)?;
        Some(Awaited { record, on: source, found: Found::Inferred })
    }
}

/// Returns the waits of streams that the calls of each thread allow one reading of, by the calls'
/// correlation numbers, where the file does not name streams and events at all: a thread submits to
/// a stream, records, makes a stream wait, and submits to another stream.
pub(super) fn guesses(recording: &Recording, host: &Host) -> HashMap<u64, Guess> {
    let mut guesses = HashMap::new();
    if recording.syncs.iter().any(|sync| sync.kind == SyncKind::StreamWait) {
        return guesses;
    }
    let streams: HashMap<u64, StreamId> =
        recording.work.iter().map(|work| (work.correlation, work.on)).collect();
    let thread = |k: &u32| recording.host[*k as usize].thread;
    let calls: Vec<u32> = host.segments.iter().map(|segment| segment.event).collect();
    for calls in calls.chunk_by(|a, b| thread(a) == thread(b)) {
        let mut last: Option<StreamId> = None;
        let mut recorded: Option<(u64, StreamId)> = None;
        let mut waits: Option<(u64, u64, StreamId)> = None;
        for &k in calls {
            let event = &recording.host[k as usize];
            if event.kind != HostKind::Call {
                continue;
            }
            if let Some(&on) = streams.get(&event.correlation) {
                if let Some((call, record, source)) = waits.take().filter(|w| w.2 != on) {
                    let awaited = Awaited { record, on: source, found: Found::Inferred };
                    guesses.insert(call, Guess { on, awaited });
                }
                (last, recorded) = (Some(on), None);
                continue;
            }
            match Call::of(&recording.names[event.name as usize]) {
                Call::Record => recorded = last.map(|on| (event.correlation, on)),
                Call::StreamWait => {
                    waits = recorded.map(|(record, on)| (event.correlation, record, on));
                }
                _ => {}
            }
        }
    }
    guesses
}
