//! Collects the facts of a recording: what it states about order and memory.

use std::collections::{HashMap, HashSet};

use millstream_profile::model::NONE;

use crate::facts::{Fact, FactKind, Facts, Until};
use crate::link::{Links, Uses};
use crate::recording::{HostEvent, HostKind, Recording, StreamId, Sync, SyncKind};

use super::Call;
use super::events::Records;
use super::host::{Host, OUTERMOST, Segment};
use super::items::Items;

/// The positions of the profile that facts refer to.
pub(super) struct Drawn<'a> {
    /// The profile's stream of each of the file's.
    pub(super) streams: HashMap<StreamId, u32>,
    /// The process of each of the profile's streams.
    pub(super) processes: Vec<u32>,
    /// The instruction of each segment.
    pub(super) segments: &'a [u32],
    /// The instruction of each work.
    pub(super) works: &'a [u32],
}

struct Collecting<'a> {
    recording: &'a Recording,
    host: &'a Host,
    items: &'a Items,
    links: Option<&'a Links>,
    drawn: Drawn<'a>,
    facts: Facts,
    /// The work that each segment submits.
    submitted: HashMap<u32, Vec<u32>>,
    /// The ops around a submission: their work uses the memory that they are given.
    with_work: HashSet<u32>,
    /// Of each op, the stream that a copy of its own was submitted to last.
    copied: HashMap<u32, u32>,
    /// The threads whose launches are captured, rather than run.
    capturing: HashSet<u32>,
}

/// Returns the facts of a recording.
pub(super) fn facts(
    recording: &Recording,
    host: &Host,
    items: &Items,
    links: Option<&Links>,
    drawn: Drawn<'_>,
) -> Facts {
    let mut submitted: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut with_work = HashSet::new();
    for (k, work) in items.work.iter().enumerate() {
        let Some(segment) = work.segment else { continue };
        submitted.entry(segment).or_default().push(k as u32);
        let mut op = host.inside[host.segments[segment as usize].event as usize];
        while op != OUTERMOST && with_work.insert(op) {
            op = host.inside[op as usize];
        }
    }
    let facts = Facts { processes: drawn.processes.clone(), ..Facts::default() };
    let mut collecting = Collecting {
        recording,
        host,
        items,
        links,
        drawn,
        facts,
        submitted,
        with_work,
        copied: HashMap::new(),
        capturing: HashSet::new(),
    };
    collecting.all();
    collecting.facts
}

impl Collecting<'_> {
    fn all(&mut self) {
        let records = Records::of(self.recording);
        let stated: HashMap<u64, &Sync> =
            self.recording.syncs.iter().map(|sync| (sync.correlation, sync)).collect();
        for (k, event) in self.recording.host.iter().enumerate() {
            if event.kind == HostKind::Op && event.link != NONE {
                self.op(k as u32);
            }
        }
        let mut last = OUTERMOST;
        for k in 0..self.host.segments.len() as u32 {
            let event = self.host.segments[k as usize].event;
            let HostEvent { kind, correlation, .. } = self.recording.host[event as usize];
            let is_first = match correlation {
                0 => event != last,
                correlation => self.host.calls.get(&correlation) == Some(&k),
            };
            if kind == HostKind::Call && is_first {
                self.call(k, event, &records, &stated);
            }
            last = event;
        }
        for (k, work) in self.items.work.iter().enumerate() {
            if work.segment.is_none() {
                self.facts.unknown.not_launched += 1;
                self.work(k as u32, None, (work.start, work.end), None);
            }
        }
        self.unknown();
    }

    /// Counts what is not known, but for work.
    fn unknown(&mut self) {
        let unknown = &mut self.facts.unknown;
        unknown.skipped = self.recording.skipped;
        if let Some(links) = self.links {
            unknown.no_node = links.uncovered;
            unknown.no_op = links.absent;
            unknown.is_ambiguous = links.is_ambiguous;
        }
        let mut busy: HashMap<u32, u32> = HashMap::new();
        for work in &self.items.work {
            let stream = self.drawn.streams[&work.on];
            let first = *busy.entry(work.on.process).or_insert(stream);
            unknown.reuse |= first != stream;
        }
    }

    fn push(&mut self, event: u32, segment: u32, kind: FactKind) {
        let event = &self.recording.host[event as usize];
        let instruction = self.drawn.segments[segment as usize];
        let (thread, start, end) = (Some(event.thread), event.start, event.end);
        self.facts.all.push(Fact { thread, start, end, instruction, kind });
    }

    /// Adds what an op does with the host's memory by itself.
    fn op(&mut self, op: u32) {
        let Some(uses) = self.uses(op).filter(|uses| uses.touches && !uses.host.is_empty()) else {
            return;
        };
        if self.with_work.contains(&op) {
            return;
        }
        let (host, is_known) = (uses.host.clone(), uses.is_known);
        self.facts.on_host.extend(host.iter().map(|operand| operand.tensor));
        self.facts.unknown.effects += usize::from(!is_known);
        let (recording, segments) = (self.recording, &self.host.segments);
        // The second halves of copies are at the end, out of order.
        let sorted = &segments[..segments.len() - self.items.copies.len()];
        let HostEvent { thread, start, .. } = recording.host[op as usize];
        let is_before =
            |s: &Segment| (recording.host[s.event as usize].thread, s.end) < (thread, start);
        let segment = sorted.partition_point(is_before).min(sorted.len().saturating_sub(1));
        self.push(op, segment as u32, FactKind::Use(host));
    }

    fn uses(&self, op: u32) -> Option<&Uses> {
        let link = self.recording.host[op as usize].link;
        self.links?.node(link)?.uses.as_ref()
    }

    /// Returns what the innermost op around a call that is a node uses. An op within it that is
    /// none uses that, too, and memory of its own.
    fn uses_around(&self, call: u32) -> Option<&Uses> {
        let links = self.links?;
        let mut op = self.host.inside[call as usize];
        while op != OUTERMOST {
            let node = links.node(self.recording.host[op as usize].link);
            if let Some(uses) = node.and_then(|node| node.uses.as_ref()) {
                return Some(uses);
            }
            op = self.host.inside[op as usize];
        }
        None
    }

    fn call(&mut self, k: u32, at: u32, records: &Records, stated: &HashMap<u64, &Sync>) {
        let event = &self.recording.host[at as usize];
        let name = &self.recording.names[event.name as usize];
        let (call, thread, correlation) = (Call::of(name), event.thread, event.correlation);
        let process = self.recording.threads[thread as usize].process;
        let sync = stated.get(&correlation).copied();
        let named = sync.and_then(|sync| sync.on);
        if named.is_some_and(|on| !self.drawn.streams.contains_key(&on)) {
            // Nothing of the file ran on that stream.
            return;
        }
        let work = self.submitted.remove(&k).unwrap_or_default();
        let stream = |on: Option<StreamId>| on.and_then(|on| self.drawn.streams.get(&on).copied());
        let awaited = || {
            let found = sync.and_then(|sync| records.stated(sync, self.recording, self.host));
            found.map_or(Until::SomeRecord, |(record, _)| Until::Record(record))
        };
        let wait = match call {
            Call::Record => {
                let stream = stream(records.stream(correlation));
                self.push(at, k, FactKind::Record { call: correlation, stream });
                None
            }
            Call::StreamWait => {
                let (stream, until) = (stream(named), awaited());
                self.push(at, k, FactKind::StreamWait { stream, until });
                None
            }
            Call::EventSync => Some((awaited(), true)),
            Call::StreamSync => {
                let op = self.host.inside[at as usize];
                // PyTorch's copies and reads of numbers synchronize the stream of their own copy.
                let own = self.copied.get(&op).copied().filter(|_| op != OUTERMOST);
                let on = stream(named).or(own);
                let unnamed = Until::Streams { process, is_certain: false };
                Some((on.map_or(unnamed, Until::Stream), true))
            }
            Call::DeviceSync => {
                let context = sync.filter(|sync| sync.kind == SyncKind::Context);
                let mut ids = self.drawn.streams.keys().filter(|id| id.process == process);
                let device = context.map(|sync| sync.device);
                let first = ids.next().map(|id| id.device);
                let is_certain = ids.all(|id| Some(id.device) == first)
                    && device.is_none_or(|device| Some(device) == first);
                Some((Until::Streams { process, is_certain }, true))
            }
            Call::EventQuery => Some((Until::SomeRecord, false)),
            Call::MayWait => Some((Until::Streams { process, is_certain: false }, false)),
            Call::BeginCapture => {
                self.capturing.insert(thread);
                None
            }
            Call::EndCapture => {
                self.capturing.remove(&thread);
                None
            }
            Call::GraphLaunch | Call::Copy | Call::Launch | Call::Other => None,
        };
        if let Some((until, is_certain)) = wait {
            self.push(at, k, FactKind::HostWait { until, is_certain });
        }
        let lacks = matches!(call, Call::GraphLaunch | Call::Copy | Call::Launch);
        let runs = !self.capturing.contains(&thread) && !self.recording.work.is_empty();
        if work.is_empty() && lacks && runs {
            self.facts.unknown.no_work += 1;
        }
        let times = (event.start, event.end);
        for work in work {
            self.work(work, Some(k), times, Some(thread));
        }
    }

    /// Adds work of a stream, with the memory of the host that it or its call uses.
    fn work(&mut self, k: u32, segment: Option<u32>, times: (i64, i64), thread: Option<u32>) {
        let work = &self.items.work[k as usize];
        let name = &self.recording.names[work.name as usize];
        let copy = Copy::of(name);
        let kind = match name {
            _ if !work.steps.is_empty() => 3,
            _ if copy.is_some() => 1,
            name if name.starts_with("Memset") => 2,
            _ => 0,
        };
        let call = segment.map(|segment| self.host.segments[segment as usize].event);
        // The kernels of a graph use what was captured, not what the op around its launch is given.
        let uses = call.filter(|_| kind != 3).and_then(|call| self.uses_around(call)).cloned();
        let uses = uses.unwrap_or_default();
        let stream = self.drawn.streams[&work.on];
        let instruction = self.drawn.works[k as usize];
        self.facts.on_host.extend(uses.host.iter().map(|operand| operand.tensor));
        let mut operands = uses.device;
        if kind == 2 {
            // A fill reads nothing.
            operands.retain(|operand| operand.writes);
        }
        let mut by_thread = Vec::new();
        match copy {
            // The call returns once the source was copied to where the device reads it.
            Some(Copy { from_host: true, is_pageable: true, .. }) | None => by_thread = uses.host,
            Some(_) => operands.extend(uses.host),
        }
        if copy.is_some() {
            // What a copy writes, it does not read.
            operands.iter_mut().for_each(|operand| operand.reads &= !operand.writes);
        }
        let unknown = &mut self.facts.unknown.work[kind];
        unknown.0 += usize::from(!uses.is_known || (operands.is_empty() && by_thread.is_empty()));
        unknown.1 += 1;
        if let (false, Some(call), Some(segment)) = (by_thread.is_empty(), call, segment) {
            self.push(call, segment, FactKind::Use(by_thread));
        }
        let (start, end) = times;
        let kind = FactKind::Work { stream, operands };
        self.facts.all.push(Fact { thread, start, end, instruction, kind });
        let (Some(copy), Some(call), Some(segment)) = (copy, call, segment) else { return };
        let op = self.host.inside[call as usize];
        if op != OUTERMOST {
            let name = self.recording.host[op as usize].name;
            let name = &self.recording.names[name as usize];
            if ["aten::copy_", "aten::_local_scalar_dense"].contains(&&**name) {
                self.copied.insert(op, stream);
            }
        }
        let event = &self.recording.host[call as usize];
        let is_asynchronous = self.recording.names[event.name as usize].contains("Async");
        // Source: CUDA's "API synchronization behavior".
        let is_certain = match copy {
            Copy { to_host: true, is_pageable: true, .. } => true,
            Copy { to_host: true, .. } => !is_asynchronous,
            Copy { from_host: true, is_pinned: true, .. } => !is_asynchronous,
            Copy { .. } => false,
        };
        let is_known = copy.is_pageable || copy.is_pinned;
        if is_certain || event.end >= work.end || !is_known {
            let until = Until::Work(instruction);
            self.push(call, segment, FactKind::HostWait { until, is_certain });
        }
    }
}

/// What the name of a copy says: `Memcpy DtoH (Device -> Pageable)`.
#[derive(Clone, Copy)]
struct Copy {
    from_host: bool,
    to_host: bool,
    is_pageable: bool,
    is_pinned: bool,
}

impl Copy {
    fn of(name: &str) -> Option<Copy> {
        let has = |part: &str| name.contains(part);
        name.starts_with("Memcpy").then(|| Copy {
            from_host: has("HtoD") || has("HtoH"),
            to_host: has("DtoH") || has("HtoH"),
            is_pageable: has("Pageable"),
            is_pinned: has("Pinned"),
        })
    }
}
