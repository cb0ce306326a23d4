//! What a timeline of a program states, before order is restored: events of host threads, work of
//! devices, records and waits. The readers of Kineto's files and of Nsight Systems' fill it.

use millstream_profile::Interned;
use millstream_profile::model::{NONE, Range};

/// Nanoseconds of a day, and of a year: a recording is shorter.
const DAY: i64 = 86_400 * 1_000_000_000;
const YEAR: i64 = 365 * DAY;

/// A position in [`Recording::names`].
pub(crate) type Name = u32;

/// The kind of an event on a host thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// An op of the framework.
    Op,
    /// A call of the CUDA runtime or driver.
    Call,
    /// A function of the program's source.
    Function,
}

/// An event on a host thread. Events of a thread nest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostEvent {
    pub(crate) name: Name,
    pub(crate) thread: u32,
    pub(crate) kind: HostKind,
    /// Nanoseconds; the readers' zero is anywhere.
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// Of a call: what it submits or waits for has the same number; 0 if there is none.
    pub(crate) correlation: u64,
    /// Of an op: its number in an execution trace of the same run.
    pub(crate) record_function: Option<u64>,
    /// Of an op: its number in the order of begins.
    pub(crate) index: u64,
    /// Of an op: its node of the execution trace, or `NONE`.
    pub(crate) link: u32,
}

impl HostEvent {
    /// Returns an event without numbers.
    pub(crate) const fn new(
        name: Name,
        thread: u32,
        kind: HostKind,
        (start, end): (i64, i64),
    ) -> HostEvent {
        let (correlation, record_function, index, link) = (0, None, 0, NONE);
        HostEvent { name, thread, kind, start, end, correlation, record_function, index, link }
    }
}

/// A stream of a device, as the file names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StreamId {
    pub(crate) process: u32,
    pub(crate) device: i64,
    pub(crate) stream: i64,
}

/// Work of a device: a kernel, a copy, a fill.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceEvent {
    pub(crate) name: Name,
    pub(crate) on: StreamId,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) correlation: u64,
}

/// The record of an event on a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) on: StreamId,
    pub(crate) context: i64,
    pub(crate) event: i64,
    pub(crate) correlation: u64,
    /// A number that the record shares with the waits for it.
    pub(crate) shared: Option<i64>,
}

/// A wait: the side that waits, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncKind {
    /// A stream waits for an event.
    StreamWait,
    /// A host thread waits for an event.
    Event,
    /// A host thread waits for a stream.
    Stream,
    /// A host thread waits for all streams of a device.
    Context,
}

/// A wait, as far as the file states it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sync {
    pub(crate) kind: SyncKind,
    /// The call that waits or makes a stream wait.
    pub(crate) correlation: u64,
    /// The stream that waits or is waited for, if it is known.
    pub(crate) on: Option<StreamId>,
    pub(crate) process: u32,
    pub(crate) device: i64,
    pub(crate) context: i64,
    /// The event, if it is known.
    pub(crate) event: Option<i64>,
    /// The stream that the event was recorded on, if it is known.
    pub(crate) source: Option<StreamId>,
    /// The call that recorded the event, if it is known.
    pub(crate) record: Option<u64>,
    /// A number that the wait shares with its record.
    pub(crate) shared: Option<i64>,
}

/// A forward op, by its thread and start, and the backward op on another thread that follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrow {
    pub(crate) name: Name,
    pub(crate) from: (u32, i64),
    pub(crate) to: (u32, i64),
}

/// A host thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) process: u32,
}

/// Everything that a file states.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) names: Vec<String>,
    interned: Interned<String>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) host: Vec<HostEvent>,
    pub(crate) work: Vec<DeviceEvent>,
    pub(crate) records: Vec<Record>,
    pub(crate) syncs: Vec<Sync>,
    pub(crate) arrows: Vec<Arrow>,
    /// Parts of the program with a name: begin, end, thread.
    pub(crate) ranges: Vec<Named>,
    pub(crate) remarks: Vec<String>,
    /// What the file calls its processes.
    pub(crate) processes: Vec<String>,
    /// How many events are left out: work, and what orders it, may be among them.
    pub(crate) skipped: usize,
}

/// A part of the program with a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) name: Name,
    pub(crate) thread: u32,
    pub(crate) start: i64,
    pub(crate) end: i64,
}

impl Recording {
    /// Returns the position of a name.
    pub(crate) fn name(&mut self, name: &str) -> Name {
        self.interned.number_of(name, &mut self.names)
    }

    /// Adds a remark about what is not read: how many of each, the most frequent first.
    pub(crate) fn not_read(&mut self, what: &str, all: &[(&String, &u64)]) {
        const MOST: usize = 8;
        let named = all.iter().take(MOST).map(|(name, count)| format!("{count} of '{name}'"));
        let named: Vec<String> = named.collect();
        let more = match all.len().saturating_sub(MOST) {
            0 => String::new(),
            more => format!(", and of {more} more"),
        };
        if !all.is_empty() {
            self.remarks.push(format!("{what} that are not read: {}{more}", named.join(", ")));
        }
    }

    /// Leaves out events whose times cannot be, and makes the numbers of calls unique.
    pub(crate) fn settle(&mut self) {
        self.check_times();
        self.number_calls();
    }

    fn check_times(&mut self) {
        let starts = self.host.iter().map(|e| e.start).chain(self.work.iter().map(|e| e.start));
        let mut starts: Vec<i64> = starts.filter(|start| *start > 0).collect();
        let middle = starts.len() / 2;
        let usual = match starts.is_empty() {
            true => 0,
            false => *starts.select_nth_unstable(middle).1,
        };
        let can_be =
            |start: i64| start.abs_diff(usual) < YEAR.unsigned_abs() && (start > 0 || usual < DAY);
        let all = self.host.len() + self.work.len() + self.ranges.len();
        self.host.retain(|event| can_be(event.start));
        self.work.retain(|event| can_be(event.start));
        self.ranges.retain(|range| can_be(range.start));
        let kept = self.host.len() + self.work.len() + self.ranges.len();
        self.skipped += all - kept;
        let times = self.host.iter_mut().map(|e| (e.start, &mut e.end));
        let times = times.chain(self.work.iter_mut().map(|e| (e.start, &mut e.end)));
        let times = times.chain(self.ranges.iter_mut().map(|e| (e.start, &mut e.end)));
        let (mut negative, mut long) = (0, 0);
        for (start, end) in times {
            negative += usize::from(*end < start);
            long += usize::from(*end >= start.saturating_add(YEAR));
            if *end < start || *end >= start.saturating_add(YEAR) {
                *end = start;
            }
        }
        self.remarks.extend(counted(
            all - kept,
            "event is left out, as it begins long before or after the others",
            "events are left out, as they begin long before or after the others",
        ));
        self.remarks.extend(counted(
            negative,
            "event ends before it begins: it counts as an instant",
            "events end before they begin: they count as instants",
        ));
        self.remarks.extend(counted(
            long,
            "event takes more than a year: it counts as an instant",
            "events take more than a year: they count as instants",
        ));
    }

    /// Makes the numbers of calls, of which each process has its own, unique, and lets later calls
    /// have higher ones: numbers have 32 bits, and begin anew when they are used up.
    fn number_calls(&mut self) {
        let mut ends = vec![(u64::MAX, 0); self.processes.len()];
        let process = |thread: u32| self.threads[thread as usize].process;
        for event in self.host.iter().filter(|event| event.correlation != 0) {
            if let Some((least, most)) = ends.get_mut(process(event.thread) as usize) {
                *least = event.correlation.min(*least);
                *most = event.correlation.max(*most);
            }
        }
        let quarter = 1 << 30;
        let wraps = |process: u32| {
            ends.get(process as usize).is_some_and(|(least, most)| {
                *least < quarter && *most >= 3 * quarter && *most < 4 * quarter
            })
        };
        let number = |process: u32, number: &mut u64| {
            if *number != 0 {
                let is_later = wraps(process) && *number < 2 * quarter;
                *number += u64::from(is_later) << 32;
                *number = (u64::from(process) << 40) | (*number & ((1 << 40) - 1));
            }
        };
        self.host.iter_mut().for_each(|e| number(process(e.thread), &mut e.correlation));
        self.work.iter_mut().for_each(|e| number(e.on.process, &mut e.correlation));
        self.records.iter_mut().for_each(|e| number(e.on.process, &mut e.correlation));
        for sync in &mut self.syncs {
            number(sync.process, &mut sync.correlation);
            sync.record.iter_mut().for_each(|record| number(sync.process, record));
        }
    }

    /// Returns the time of the first event.
    pub(crate) fn begin(&self) -> i64 {
        let host = self.host.iter().filter(|e| e.kind != HostKind::Function).map(|e| e.start);
        host.chain(self.work.iter().map(|e| e.start)).min().unwrap_or(0)
    }

    /// Keeps the events within a range of this name, and the work that they submitted.
    ///
    /// # Errors
    /// There is no such range.
    pub(crate) fn keep_within(&mut self, name: &str, number: usize) -> Result<(), String> {
        let named = self.ranges.iter().filter(|r| self.names[r.name as usize] == name);
        let mut found: Vec<Named> = named.copied().collect();
        found.sort_by_key(|range| range.start);
        let Some(range) = found.get(number).copied() else { return Err(self.no_range(name)) };
        let within = |start: i64, end: i64| start >= range.start && end <= range.end;
        self.host.retain(|event| within(event.start, event.end));
        let mut calls: Vec<u64> = self.host.iter().map(|event| event.correlation).collect();
        calls.sort_unstable();
        calls.dedup();
        let known = |correlation: u64| calls.binary_search(&correlation).is_ok();
        self.work.retain(|event| event.correlation != 0 && known(event.correlation));
        self.syncs.retain(|sync| known(sync.correlation));
        self.records.retain(|record| known(record.correlation));
        self.arrows.retain(|arrow| within(arrow.from.1, arrow.to.1));
        self.ranges.retain(|other| within(other.start, other.end));
        Ok(())
    }

    fn no_range(&self, name: &str) -> String {
        let mut names: Vec<&str> =
            self.ranges.iter().map(|range| self.names[range.name as usize].as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let some: Vec<&str> = names.iter().take(8).copied().collect();
        match names.len() {
            0 => format!("it has no range '{name}': it has none"),
            n if n > 8 => format!(
                "it has no range '{name}' of that number; it has {n}, among them {}",
                some.join(", ")
            ),
            _ => format!("it has no range '{name}' of that number; it has {}", some.join(", ")),
        }
    }
}

/// Returns a remark that begins with a count, if it is not 0.
pub(crate) fn counted(count: usize, one: &str, more: &str) -> Option<String> {
    match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {more}")),
    }
}

/// Returns a range of the profile, whose time begins at `base`.
pub(crate) fn range(recording: &Recording, named: &Named, base: i64) -> Range {
    let at = |time: i64| u64::try_from(time.saturating_sub(base)).unwrap_or(0);
    Range {
        name: recording.names[named.name as usize].clone(),
        thread: named.thread,
        begin: at(named.start),
        end: at(named.end).max(at(named.start)),
    }
}
