//! What becomes an instruction, in program order.

use std::collections::{BTreeMap, HashMap};

use crate::recording::{HostKind, Recording, StreamId, SyncKind};

use super::Call;
use super::events::{Awaited, Guess, Records, guesses};
use super::host::{Host, Segment};

/// Work as the profile shows it: one event of a device, or all that one launch of a graph ran.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) name: u32,
    pub(super) on: StreamId,
    pub(super) start: i64,
    pub(super) end: i64,
    /// The segment that submitted it.
    pub(super) segment: Option<u32>,
    /// The events of a graph's launch, by position in [`Recording::work`].
    pub(super) steps: Vec<u32>,
}

/// What becomes an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A part of an event of a thread.
    Segment(u32),
    /// Work of a device, by its position in [`Items::work`].
    Work(u32),
    /// The record of an event.
    Record { call: u64, on: StreamId, segment: u32 },
    /// A wait of a stream.
    StreamWait { on: StreamId, segment: u32, awaited: Option<Awaited> },
}

/// The point of the program at which an item is submitted: the time, a number that orders what has
/// the same time, and one that orders what a call submits.
type Key = (i64, u64, u32);

/// Everything that becomes an instruction.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// In program order.
    pub(super) all: Vec<What>,
    /// Sorted by start.
    pub(super) work: Vec<Work>,
    /// For each segment that waits for a copy, the copy.
    pub(super) copies: HashMap<u32, u32>,
    /// What the wait of a segment is for, where it is a synchronization.
    pub(super) syncs: HashMap<u32, HostWait>,
    /// How many events of devices no call of the file submitted.
    pub(super) not_submitted: usize,
    /// How many events of devices ran before others that were submitted earlier.
    pub(super) reordered: usize,
    /// How many calls make a stream wait for an event that the file does not name.
    pub(super) unknown_waits: usize,
    /// How many calls wait for something that the file does not name.
    pub(super) unknown_syncs: usize,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostWait {
    /// A record.
    Event(Awaited),
    /// What was submitted to a stream.
    Stream(StreamId),
    /// What the thread submitted last; the file does not name the stream.
    LastStream,
    /// What was submitted to a device, or to any.
    Device(Option<i64>),
}

/// Returns what becomes an instruction. Calls of copies that wait are cut into two segments.
pub(super) fn items(recording: &Recording, host: &mut Host) -> Items {
    let mut items = Items { work: work(recording, host), ..Items::default() };
    items.not_submitted = items.work.iter().filter(|work| work.segment.is_none()).count();
    wait_for_copies(recording, host, &mut items);
    let mut keyed: Vec<(Key, What)> = Vec::new();
    for (k, segment) in host.segments.iter().enumerate() {
        keyed.push(((segment.start, 2 * k as u64, 0), What::Segment(k as u32)));
    }
    let keys = work_keys(host, &mut items);
    keyed.extend(keys.into_iter().enumerate().map(|(k, key)| (key, What::Work(k as u32))));
    sync_items(recording, host, &mut items, &mut keyed);
    keyed.sort_by_key(|(key, _)| *key);
    items.all = keyed.into_iter().map(|(_, what)| what).collect();
    items
}

/// Returns the work of all devices by its start, a graph's launch as one.
fn work(recording: &Recording, host: &Host) -> Vec<Work> {
    let segment_of = |correlation: u64| host.calls.get(&correlation).copied();
    let name_of = |segment: u32| {
        let event = host.segments[segment as usize].event;
        recording.host[event as usize].name
    };
    let mut graphs: HashMap<u64, usize> = HashMap::new();
    let mut all: Vec<Work> = Vec::with_capacity(recording.work.len());
    for (k, event) in recording.work.iter().enumerate() {
        let segment = segment_of(event.correlation).filter(|_| event.correlation != 0);
        let call = segment.map(name_of);
        let of_graph =
            call.filter(|&call| Call::of(&recording.names[call as usize]) == Call::GraphLaunch);
        if let Some(call) = of_graph {
            let known = *graphs.entry(event.correlation).or_insert(all.len());
            if let Some(launch) = all.get_mut(known) {
                if event.start < launch.start {
                    (launch.start, launch.on) = (event.start, event.on);
                }
                launch.end = launch.end.max(event.end);
                launch.steps.push(k as u32);
                continue;
            }
            let steps = vec![k as u32];
            let (on, start, end) = (event.on, event.start, event.end);
            all.push(Work { name: call, on, start, end, segment, steps });
            continue;
        }
        let (name, on, start, end) = (event.name, event.on, event.start, event.end);
        all.push(Work { name, on, start, end, segment, steps: Vec::new() });
    }
    all.sort_by_key(|work| (work.start, work.end));
    all
}

/// Cuts the calls that return after their copy: from the copy's begin on they wait for it.
fn wait_for_copies(recording: &Recording, host: &mut Host, items: &mut Items) {
    for (k, work) in items.work.iter().enumerate() {
        let Some(at) = work.segment else { continue };
        let Segment { event, start, end, path, .. } = host.segments[at as usize];
        let name = recording.host[event as usize].name;
        let is_copy = Call::of(&recording.names[name as usize]) == Call::Copy;
        if !is_copy || end < work.end || items.copies.contains_key(&at) {
            continue;
        }
        let middle = work.start.clamp(start, end);
        if middle == end {
            continue;
        }
        host.segments[at as usize].end = middle;
        items.copies.insert(host.segments.len() as u32, k as u32);
        host.segments.push(Segment { event, start: middle, end, path, waits: true });
    }
}

/// Returns the key of all work: that of the call which submits it. Work of a stream runs in the
/// order of its submission, so what runs earlier has no later key.
fn work_keys(host: &Host, items: &mut Items) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::with_capacity(items.work.len());
    let mut of_stream: BTreeMap<StreamId, Vec<usize>> = BTreeMap::new();
    for (k, work) in items.work.iter().enumerate() {
        keys.push(match work.segment {
            Some(at) => (host.segments[at as usize].start, 2 * u64::from(at) + 1, k as u32),
            None => (work.start, u64::MAX, k as u32),
        });
        of_stream.entry(work.on).or_default().push(k);
    }
    for own in of_stream.values() {
        for pair in own.windows(2).rev() {
            let [first, second] = [keys[pair[0]], keys[pair[1]]];
            if (first.0, first.1) > (second.0, second.1) {
                items.reordered += usize::from(items.work[pair[0]].segment.is_some());
                keys[pair[0]] = (second.0, second.1, first.2);
            }
        }
    }
    keys
}

/// Adds the records and waits of streams, and finds what threads wait for.
fn sync_items(
    recording: &Recording,
    host: &mut Host,
    items: &mut Items,
    keyed: &mut Vec<(Key, What)>,
) {
    let records = Records::of(recording);
    let guesses = guesses(recording, host);
    let stated: HashMap<u64, usize> =
        recording.syncs.iter().enumerate().map(|(k, sync)| (sync.correlation, k)).collect();
    let mut recorded: BTreeMap<u64, StreamId> = BTreeMap::new();
    for k in 0..host.segments.len() as u32 {
        let Segment { event, start, .. } = host.segments[k as usize];
        let event = &recording.host[event as usize];
        let is_first = host.calls.get(&event.correlation) == Some(&k);
        if event.kind != HostKind::Call || (event.correlation != 0 && !is_first) {
            continue;
        }
        let sync = stated.get(&event.correlation).map(|k| &recording.syncs[*k]);
        let call = Call::of(&recording.names[event.name as usize]);
        let host_wait = match (call, sync) {
            (Call::StreamWait, Some(sync)) => {
                let awaited = records.awaited(sync, recording, host);
                items.unknown_waits += usize::from(awaited.is_none());
                if let Some(on) = sync.on {
                    let what = What::StreamWait { on, segment: k, awaited };
                    keyed.push(((start, 2 * u64::from(k) + 1, 0), what));
                }
                recorded.extend(awaited.map(|a| (a.record, a.on)));
                continue;
            }
            (Call::StreamWait, None) => {
                match guesses.get(&event.correlation) {
                    Some(&Guess { on, awaited }) => {
                        let what = What::StreamWait { on, segment: k, awaited: Some(awaited) };
                        keyed.push(((start, 2 * u64::from(k) + 1, 0), what));
                        recorded.insert(awaited.record, awaited.on);
                    }
                    None => items.unknown_waits += 1,
                }
                continue;
            }
            (Call::EventSync, sync) => {
                let awaited = sync.and_then(|sync| records.awaited(sync, recording, host));
                recorded.extend(awaited.map(|a| (a.record, a.on)));
                awaited.map(HostWait::Event)
            }
            (Call::StreamSync, sync) => match sync.and_then(|sync| sync.on) {
                Some(on) => Some(HostWait::Stream(on)),
                None => Some(HostWait::LastStream),
            },
            (Call::DeviceSync, sync) => {
                let context = sync.filter(|sync| sync.kind == SyncKind::Context);
                Some(HostWait::Device(context.map(|sync| sync.device)))
            }
            _ => continue,
        };
        host.segments[k as usize].waits = true;
        match host_wait {
            Some(wait) => drop(items.syncs.insert(k, wait)),
            None => items.unknown_syncs += 1,
        }
    }
    for (call, on) in recorded {
        let Some(&segment) = host.calls.get(&call) else { continue };
        let start = host.segments[segment as usize].start;
        let what = What::Record { call, on, segment };
        keyed.push(((start, 2 * u64::from(segment) + 1, 0), what));
    }
}
