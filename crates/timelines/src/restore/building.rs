//! The instructions of a profile, their times and waits.

use std::collections::{BTreeMap, HashMap};

use millstream_profile::Interned;
use millstream_profile::model::{Instruction, NONE, Profile, Role, Source, Stream, Times};

use crate::facts::Facts;
use crate::link::Links;
use crate::recording::{Recording, StreamId, counted, range};

use super::facts::{Drawn, facts};
use super::host::{Host, OUTERMOST};
use super::items::{Items, What, Work};

/// A stream of a device while its instructions are added.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// The profile's stream.
    pub(super) stream: u32,
    /// When everything so far has ended.
    pub(super) ended: i64,
    /// The last work.
    pub(super) last: Option<u32>,
    /// The starts of its work, and how many of them are added.
    pub(super) starts: Vec<i64>,
    pub(super) added: usize,
    /// Waits whose first work follows.
    pub(super) open: Vec<u32>,
}

pub(super) struct Building<'a> {
    pub(super) recording: &'a Recording,
    pub(super) host: &'a Host,
    pub(super) items: &'a Items,
    pub(super) links: Option<&'a Links>,
    pub(super) profile: Profile,
    pub(super) places: Interned<String>,
    pub(super) base: i64,
    pub(super) tracks: BTreeMap<StreamId, Track>,
    /// The number of instructions of each stream so far.
    pub(super) counts: Vec<u64>,
    /// For each thread, the stream that it submitted to last.
    pub(super) submitted: HashMap<u32, StreamId>,
    /// The instruction of each segment.
    pub(super) segments: Vec<u32>,
    /// The instruction of each work.
    pub(super) works: Vec<u32>,
    /// The instruction of each record.
    pub(super) records: HashMap<u64, u32>,
    /// The path of functions around an instruction of a thread, or the call that submits one.
    called: HashMap<u32, u32>,
    pub(super) inferred: usize,
    pub(super) unknown_waits: usize,
    pub(super) unknown_syncs: usize,
    pub(super) contradicted: usize,
}

/// Builds the profile, the path of functions around the call that submits an instruction, and the
/// facts of the file.
pub(super) fn build(
    title: &str,
    recording: &Recording,
    host: &Host,
    items: &Items,
    links: Option<&Links>,
) -> (Profile, HashMap<u32, u32>, Facts) {
    let profile = Profile {
        title: title.to_owned(),
        source: Source::Imported,
        names: recording.names.clone(),
        ..Profile::default()
    };
    let mut building = Building {
        recording,
        host,
        items,
        links,
        profile,
        places: Interned::default(),
        base: recording.begin(),
        tracks: BTreeMap::new(),
        counts: Vec::new(),
        submitted: HashMap::new(),
        segments: vec![NONE; host.segments.len()],
        works: vec![NONE; items.work.len()],
        records: HashMap::new(),
        called: HashMap::new(),
        inferred: 0,
        unknown_waits: items.unknown_waits,
        unknown_syncs: items.unknown_syncs,
        contradicted: 0,
    };
    building.streams();
    for what in &items.all {
        match *what {
            What::Segment(k) => building.segment(k),
            What::Work(k) => building.work(k),
            What::Record { call, on, segment } => building.record(call, on, segment),
            What::StreamWait { on, segment, awaited } => {
                building.stream_wait(on, segment, awaited);
            }
        }
    }
    building.steps();
    let mut processes: Vec<u32> = recording.threads.iter().map(|thread| thread.process).collect();
    processes.extend(building.tracks.keys().map(|id| id.process));
    let streams = building.tracks.iter().map(|(id, track)| (*id, track.stream)).collect();
    let (segments, works) = (&building.segments[..], &building.works[..]);
    let drawn = Drawn { streams, processes, segments, works };
    let facts = facts(recording, host, items, links, drawn);
    let called = std::mem::take(&mut building.called);
    (building.finish(), called, facts)
}

impl Building<'_> {
    /// Adds the threads, then the streams of devices.
    fn streams(&mut self) {
        for thread in &self.recording.threads {
            self.profile.streams.push(Stream {
                name: self.of_process(thread.process, &thread.name),
                device: "host".to_owned(),
                thread: true,
                ..Stream::default()
            });
        }
        for work in &self.items.work {
            self.tracks.entry(work.on).or_default().starts.push(work.start);
        }
        for what in &self.items.all {
            match what {
                What::Record { on, .. } | What::StreamWait { on, .. } => {
                    self.tracks.entry(*on).or_default();
                }
                What::Segment(_) | What::Work(_) => {}
            }
        }
        let ids: Vec<StreamId> = self.tracks.keys().copied().collect();
        for id in ids {
            let stream = self.profile.streams.len() as u32;
            let name = self.of_process(id.process, &format!("stream {}", id.stream));
            let name = format!("cuda:{} {name}", id.device);
            let device = format!("cuda:{}", id.device);
            self.profile.streams.push(Stream {
                name,
                device,
                by_device: true,
                ..Stream::default()
            });
            let track = self.tracks.entry(id).or_default();
            (track.stream, track.ended) = (stream, self.base);
        }
        self.counts = vec![0; self.profile.streams.len()];
    }

    /// Returns a name with its process, if there are several.
    fn of_process(&self, process: u32, name: &str) -> String {
        match &self.recording.processes[..] {
            [] | [_] => name.to_owned(),
            all => format!("{name} of process {}", all[process as usize]),
        }
    }

    pub(super) fn at(&self, time: i64) -> u64 {
        u64::try_from(time.saturating_sub(self.base)).unwrap_or(0)
    }

    pub(super) fn place(&mut self, path: u32, node: Option<u64>) -> u32 {
        let mut text = self.host.paths.text(path, &self.recording.names);
        if let Some(node) = node {
            let space = if text.is_empty() { "" } else { " " };
            text = format!("{text}{space}[node {node}]");
        }
        if text.is_empty() {
            return NONE;
        }
        self.places.number_of(&text, &mut self.profile.places)
    }

    /// Adds an instruction to a stream.
    pub(super) fn push(&mut self, stream: u32, instruction: Instruction) -> u32 {
        let seq = &mut self.counts[stream as usize];
        *seq += 1;
        let own = self.profile.instructions.len() as u32;
        let instruction = Instruction { stream, seq: *seq, parent: NONE, ..instruction };
        self.profile.instructions.push(instruction);
        own
    }

    pub(super) fn times(&self, ready: i64, start: i64, end: i64) -> Option<Times> {
        let [ready, start, end] = [ready, start, end].map(|time| self.at(time));
        Some(Times { ready, start: start.max(ready), end: end.max(start).max(ready) })
    }

    fn segment(&mut self, k: u32) {
        let segment = self.host.segments[k as usize];
        let event = &self.recording.host[segment.event as usize];
        let node = self.links.and_then(|links| links.node(event.link));
        let place = self.place(segment.path, node.and_then(|node| node.id));
        let times = self.times(segment.start, segment.start, segment.end);
        let role = if segment.waits { Role::Wait } else { Role::Work };
        let first_wait = self.profile.waits.len();
        for &(name, before) in self.host.followed.get(&k).into_iter().flatten() {
            let times = self.times(segment.start, segment.start, segment.start);
            let wait =
                Instruction { name, role: Role::Wait, place, times, ..Instruction::default() };
            let wait = self.push(event.thread, wait);
            self.host_wait(wait, self.segments[before as usize]);
        }
        let own = Instruction { name: event.name, role, place, times, ..Instruction::default() };
        let own = self.push(event.thread, own);
        let functions = self.host.called[segment.event as usize];
        if functions != OUTERMOST {
            self.called.insert(own, functions);
        }
        self.profile.waits[first_wait..].iter_mut().for_each(|wait| wait.user = own);
        self.segments[k as usize] = own;
        if let Some(&copy) = self.items.copies.get(&k) {
            self.host_wait(own, self.works[copy as usize]);
        }
        if let Some(wait) = self.items.syncs.get(&k) {
            self.host_waits(own, event.thread, *wait, segment.end);
        }
    }

    fn work(&mut self, k: u32) {
        let items = self.items;
        let work: &Work = &items.work[k as usize];
        let event = work.segment.map(|at| self.host.segments[at as usize].event);
        let submitter = work.segment.map(|at| self.segments[at as usize]).filter(|k| *k != NONE);
        let called = event.map(|event| self.recording.host[event as usize].start);
        let thread = event.map(|event| self.recording.host[event as usize].thread);
        let node = event.and_then(|event| self.op_node(event));
        let path = event.map_or(OUTERMOST, |event| self.host.around[event as usize]);
        let place = self.place(path, node.and_then(|node| node.0));
        let operands = node.map_or([0; 2], |node| self.operands(node.1));
        let Some(track) = self.tracks.get_mut(&work.on) else { return };
        let (stream, before) = (track.stream, track.ended);
        track.ended = track.ended.max(work.end);
        track.added += 1;
        let open = std::mem::take(&mut track.open);
        let ready = before.max(called.unwrap_or(before)).min(work.start);
        let role = if work.steps.is_empty() { Role::Work } else { Role::Launch };
        let own = Instruction {
            name: work.name,
            role,
            place,
            issued: called.map(|called| self.at(called)),
            times: self.times(ready, work.start, work.end),
            operands,
            submitter,
            ..Instruction::default()
        };
        let own = self.push(stream, own);
        self.works[k as usize] = own;
        let functions = event.map_or(OUTERMOST, |event| self.host.called[event as usize]);
        if functions != OUTERMOST {
            self.called.insert(own, functions);
        }
        open.into_iter().for_each(|wait| self.profile.waits[wait as usize].user = own);
        if let Some(track) = self.tracks.get_mut(&work.on) {
            track.last = Some(own);
        }
        if let Some(thread) = thread {
            self.submitted.insert(thread, work.on);
        }
    }

    /// Returns the innermost op with known operands around a call, by its node: the node's id and
    /// its position.
    fn op_node(&self, mut event: u32) -> Option<(Option<u64>, u32)> {
        let links = self.links?;
        while let Some(&around) = self.host.inside.get(event as usize) {
            let link = self.recording.host.get(around as usize)?.link;
            if let Some(node) = links.node(link).filter(|node| node.uses.is_some()) {
                return Some((node.id, link));
            }
            event = around;
        }
        None
    }

    /// Adds the operands of a node, and returns their range.
    fn operands(&mut self, node: u32) -> [u32; 2] {
        let node = self.links.and_then(|links| links.node(node));
        let Some(uses) = node.and_then(|node| node.uses.as_ref()) else { return [0; 2] };
        let from = self.profile.operands.len() as u32;
        self.profile.operands.extend_from_slice(&uses.device);
        [from, self.profile.operands.len() as u32]
    }

    /// Adds the steps of the launches of graphs, on streams of their own.
    fn steps(&mut self) {
        let mut streams: HashMap<StreamId, u32> = HashMap::new();
        for (k, work) in self.items.work.iter().enumerate() {
            for &step in &work.steps {
                let event = self.recording.work[step as usize];
                let of = self.tracks.get(&event.on).map_or(0, |track| track.stream);
                let stream = *streams.entry(event.on).or_insert_with(|| {
                    let own = self.profile.streams.get(of as usize).cloned().unwrap_or_default();
                    let name = format!("{} in graphs", own.name);
                    self.profile.streams.push(Stream { name, ..own });
                    self.counts.push(0);
                    self.profile.streams.len() as u32 - 1
                });
                let times = self.times(event.start, event.start, event.end);
                let step =
                    Instruction { name: event.name, place: NONE, times, ..Instruction::default() };
                let own = self.push(stream, step);
                self.profile.instructions[own as usize].parent = self.works[k];
            }
        }
    }

    fn finish(mut self) -> Profile {
        let ranges = self.recording.ranges.iter().map(|r| range(self.recording, r, self.base));
        self.profile.ranges = ranges.collect();
        let ends = self.profile.instructions.iter().filter_map(|i| i.times.map(|t| t.end));
        self.profile.total = ends.max().unwrap_or(0);
        self.profile.remarks = self.remarks();
        if let Some(links) = self.links {
            self.profile.tensors.clone_from(&links.tensors);
            self.profile.storages.clone_from(&links.storages);
            self.profile.arenas.clone_from(&links.arenas);
        }
        self.profile
    }

    /// Returns what is not known.
    fn remarks(&self) -> Vec<String> {
        let mut remarks = self.recording.remarks.clone();
        remarks.extend(self.links.map(|links| links.remark.clone()));
        let mut say = |count, one, more| remarks.extend(counted(count, one, more));
        say(
            self.items.not_submitted,
            "kernel or copy has no call that submits it: the file begins after it",
            "kernels and copies have no call that submits them: the file begins after it",
        );
        say(
            self.items.reordered,
            "kernel ran before others of its stream that were submitted earlier",
            "kernels ran before others of their stream that were submitted earlier",
        );
        say(
            self.inferred,
            "wait names no event or stream; the order of the calls leaves one reading, which is used",
            "waits name no event or stream; the order of the calls leaves one reading, which is used",
        );
        say(
            self.unknown_waits,
            "wait between streams names no event that is known: its order is not restored",
            "waits between streams name no event that is known: their order is not restored",
        );
        say(
            self.unknown_syncs,
            "wait of the host names nothing that is known: its order is not restored",
            "waits of the host name nothing that is known: their order is not restored",
        );
        say(
            self.contradicted,
            "wait ended before what it was for, by the recorded times",
            "waits ended before what they were for, by the recorded times",
        );
        let mut busy = vec![false; self.recording.threads.len()];
        for segment in &self.host.segments {
            busy[self.recording.host[segment.event as usize].thread as usize] = true;
        }
        let threads = busy.iter().filter(|busy| **busy).count();
        if threads > 1 {
            remarks.push(match self.recording.arrows.len() {
                0 => format!("the order between its {threads} host threads is not in the file"),
                _ => format!(
                    "of the order between its {threads} host threads, the file has only that of \
                     forward before backward ops"
                ),
            });
        }
        remarks
    }
}
