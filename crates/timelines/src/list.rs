//! A timeline as a list of instructions, for the verifier: conflicting uses without order are
//! violations of the list.
//!
//! A timeline has two lists, of the same uses. In the *certain* order threads and streams run in
//! order, work comes after its submission, and a wait counts only if the file names what it is for.
//! The *possible* order has every order that the run can have had: a wait that names no event comes
//! after all records made before it; if it names no waiting stream either, all that its thread
//! submits later comes after it; and threads are ordered as their times show.
//!
//! Threads are streams of the host. All waits are waits for points, so that records take no place.
//! Storages are tensors from outside, unless the file has allocations.

use std::collections::HashMap;
use std::sync::Arc;

use millstream_instructions::{
    Body, Instruction, InstructionList, Operand, Operands, Priority, StreamDecl, Via,
};
use millstream_profile::Profile;
use millstream_profile::model::{NONE, Operand as Used};
use millstream_types::{
    Access, DeviceId, Origin, Point, StreamId, StreamKey, StreamMode, TensorId,
};

use crate::facts::{Fact, FactKind, Facts, Until};
use crate::{Timeline, memory};

/// How much of the order of a timeline a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// What the file states.
    Certain,
    /// All that the run may have had.
    Possible,
    /// The certain order, with memory that is used again: whatever works on a stream may have been
    /// given memory whose last use was before, so a write of that memory, named `reuse`, precedes
    /// it.
    Reuse,
}

/// The name of the writes of memory that is used again.
pub(crate) const REUSE: &str = "reuse";

/// The list of a timeline.
#[derive(Clone, Debug)]
pub struct TimelineList {
    /// The list.
    pub list: InstructionList,
    /// The position in the profile of each of its instructions; none where a tensor begins, and for
    /// the order of a submission.
    pub positions: Vec<Option<u32>>,
    /// How many of its streams, the first ones, are threads of the host.
    pub threads: usize,
}

/// The instructions so far.
struct Listing<'a> {
    profile: &'a Profile,
    facts: &'a Facts,
    knowledge: Knowledge,
    list: InstructionList,
    positions: Vec<Option<u32>>,
    threads: usize,
    /// The number of points of each stream.
    counts: Vec<u64>,
    /// The point of each of the profile's instructions.
    points: HashMap<u32, Point>,
    /// The point of each record whose stream is known.
    records: HashMap<u64, Point>,
    /// For each stream, the newest point that any record so far may be of.
    recorded: Vec<u64>,
    /// For each pair of streams, the point of the second that the first comes after.
    known: HashMap<(u32, u32), u64>,
    /// The storages whose last use was in an instruction so far.
    dead: Vec<u32>,
    /// How many of them each stream may have got.
    reused: Vec<usize>,
}

/// Returns the list of a timeline whose tensors are known.
///
/// # Errors
/// No kernel of the timeline has tensors, or it has more streams or tensors than a list.
pub fn list(timeline: &Timeline, knowledge: Knowledge) -> Result<TimelineList, String> {
    let (profile, facts) = (&timeline.profile, &timeline.facts);
    if profile.tensors.is_empty() {
        let message = "no kernel of it has known tensors: give the execution trace of the same \
                       run with --trace";
        return Err(message.to_owned());
    }
    let streams = facts.processes.len();
    if streams > usize::from(u16::MAX) {
        return Err(format!("it has {streams} streams: a list has fewer"));
    }
    let mut listing = Listing {
        profile,
        facts,
        knowledge,
        list: InstructionList::default(),
        positions: Vec::new(),
        threads: profile.streams.iter().filter(|stream| stream.thread).count(),
        counts: vec![0; streams],
        points: HashMap::new(),
        records: HashMap::new(),
        recorded: vec![0; streams],
        known: HashMap::new(),
        dead: Vec::new(),
        reused: vec![0; streams],
    };
    listing.streams();
    memory::declare(timeline, &mut listing.list)?;
    listing.positions.resize(listing.list.instructions.len(), None);
    let order = listing.order();
    let storages = |fact: &Fact| -> Vec<u32> {
        let on_device = fact.operands().iter().filter(|used| !facts.on_host.contains(&used.tensor));
        on_device.map(|used| profile.tensors[used.tensor as usize].storage).collect()
    };
    let mut last: HashMap<u32, usize> = HashMap::new();
    for (at, &k) in order.iter().enumerate().filter(|_| knowledge == Knowledge::Reuse) {
        last.extend(storages(&facts.all[k]).into_iter().map(|storage| (storage, at)));
    }
    for (at, &k) in order.iter().enumerate() {
        listing.fact(&facts.all[k]);
        let used = storages(&facts.all[k]).into_iter();
        listing.dead.extend(used.filter(|storage| last.get(storage) == Some(&at)));
    }
    let Listing { list, positions, threads, .. } = listing;
    Ok(TimelineList { list, positions, threads })
}

impl Listing<'_> {
    fn is_possible(&self) -> bool {
        self.knowledge == Knowledge::Possible
    }

    /// Returns the order in which facts take effect. Where calls of several threads overlap, work
    /// counts as submitted late and waits as made early for what is certain; for what is possible
    /// it is the other way round. Work of a stream keeps the order in which the stream ran it.
    fn order(&self) -> Vec<usize> {
        let all = &self.facts.all;
        let at = |fact: &Fact| match (&fact.kind, self.knowledge) {
            (FactKind::HostWait { until: Until::Work(_), .. }, _) => fact.end,
            (FactKind::Work { .. }, Knowledge::Possible) => fact.start,
            (FactKind::Work { .. }, _) | (_, Knowledge::Possible) => fact.end,
            (_, _) => fact.start,
        };
        let key = |(k, fact): (usize, &Fact)| (at(fact), fact.start, fact.thread, k);
        let mut keys: Vec<_> = all.iter().enumerate().map(key).collect();
        let mut of_stream: HashMap<u32, Vec<usize>> = HashMap::new();
        for (k, fact) in all.iter().enumerate() {
            if let FactKind::Work { stream, .. } = fact.kind {
                of_stream.entry(stream).or_default().push(k);
            }
        }
        for own in of_stream.values_mut() {
            // The profile lists the work of a stream in this order.
            own.sort_by_key(|&k| all[k].instruction);
            own.windows(2).for_each(|two| keys[two[1]] = keys[two[1]].max(keys[two[0]]));
        }
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&k| (keys[k], all[k].instruction));
        order
    }

    fn streams(&mut self) {
        let mut taken: HashMap<StreamKey, u32> = HashMap::new();
        for (k, stream) in self.profile.streams.iter().take(self.counts.len()).enumerate() {
            let device = match stream.thread {
                true => DeviceId::cpu(0),
                false => stream.device.parse().unwrap_or(DeviceId::cuda(0)),
            };
            let own = stream.name.split(" of process ").next().unwrap_or_default();
            let number = own.rsplit(' ').next().and_then(|number| number.parse().ok());
            let mut index = number.filter(|_| !stream.thread).unwrap_or(k as u32);
            while taken.contains_key(&StreamKey::compute(device.clone(), index)) {
                index += 1;
            }
            let key = StreamKey::compute(device, index);
            taken.insert(key.clone(), index);
            self.list.streams.push(StreamDecl::new(key, StreamMode::InOrder));
        }
        self.list.arenas.push(DeviceId::cuda(0));
    }

    fn tensor(&self, tensor: u32) -> TensorId {
        TensorId(self.profile.storages.len() as u32 + tensor)
    }

    /// Returns the next point of a stream.
    fn point(&mut self, stream: u32) -> Point {
        let count = &mut self.counts[stream as usize];
        *count += 1;
        Point::new(StreamId(stream as u16), *count)
    }

    fn push(&mut self, k: Option<u32>, body: Body) {
        let k = k.filter(|k| *k != NONE);
        let origin = k.map_or(Origin::Unknown, |k| {
            let instruction = &self.profile.instructions[k as usize];
            let place = self.profile.place_of(instruction);
            let name = self.profile.name_of(instruction);
            let text =
                if place.is_empty() { name.to_owned() } else { format!("{name} in {place}") };
            Origin::Text(Arc::new(text))
        });
        self.list.instructions.push(Instruction { body, origin });
        self.positions.push(k);
    }

    fn fact(&mut self, fact: &Fact) {
        let k = fact.instruction;
        // In the possible order all threads are one.
        let thread = fact.thread.map(|thread| if self.is_possible() { 0 } else { thread });
        match &fact.kind {
            FactKind::Use(operands) => {
                let Some(thread) = thread else { return };
                self.call(k, thread, operands);
            }
            FactKind::Work { stream, operands } => {
                self.submitted(*stream, thread);
                self.reuse(*stream);
                self.call(k, *stream, operands);
            }
            FactKind::Record { call, stream: Some(stream) } => {
                self.submitted(*stream, thread);
                let count = self.counts[*stream as usize];
                self.recorded[*stream as usize] = count;
                let point = Point::new(StreamId(*stream as u16), count);
                self.records.insert(*call, point);
            }
            FactKind::Record { call: _, stream: None } => {
                let process = fact.thread.map(|thread| self.facts.processes[thread as usize]);
                for stream in self.streams_of(process) {
                    self.recorded[stream as usize] = self.counts[stream as usize];
                }
            }
            FactKind::StreamWait { stream, until } => {
                let waiter = match (stream, self.knowledge) {
                    (Some(stream), _) => Some(*stream),
                    (None, Knowledge::Possible) => thread,
                    (None, Knowledge::Certain | Knowledge::Reuse) => None,
                };
                if let Some(waiter) = waiter {
                    self.wait(k, waiter, *until, fact);
                }
            }
            FactKind::HostWait { until, is_certain } => {
                if let Some(thread) = thread.filter(|_| *is_certain || self.is_possible()) {
                    self.wait(k, thread, *until, fact);
                }
            }
        }
    }

    /// Adds a write of the memory that may have been given to the next work of a stream.
    fn reuse(&mut self, stream: u32) {
        let from = std::mem::replace(&mut self.reused[stream as usize], self.dead.len());
        if from < self.dead.len() {
            let written = |&storage: &u32| (TensorId(storage), Access::Write);
            let operands = self.dead[from..].iter().map(written).collect();
            self.operands(None, stream, REUSE, operands);
        }
    }

    /// Returns the streams of devices, of a process if it is known.
    fn streams_of(&self, process: Option<u32>) -> Vec<u32> {
        let streams = self.threads..self.counts.len();
        let own = |k: &usize| process.is_none_or(|process| self.facts.processes[*k] == process);
        streams.filter(own).map(|k| k as u32).collect()
    }

    /// Makes a stream or thread wait.
    fn wait(&mut self, k: u32, waiter: u32, until: Until, fact: &Fact) {
        let process = fact.thread.map(|thread| self.facts.processes[thread as usize]);
        let last = |listing: &Self, stream: u32| {
            Point::new(StreamId(stream as u16), listing.counts[stream as usize])
        };
        let possible = self.is_possible();
        let points: Vec<Point> = match until {
            Until::Record(call) => match self.records.get(&call) {
                Some(point) => vec![*point],
                None if possible => self.any_record(process),
                None => Vec::new(),
            },
            Until::SomeRecord if possible => self.any_record(process),
            Until::SomeRecord => Vec::new(),
            Until::Work(work) => self.points.get(&work).copied().into_iter().collect(),
            Until::Stream(stream) => vec![last(self, stream)],
            Until::Streams { process, is_certain } if is_certain || possible => {
                let streams = self.streams_of(Some(process));
                streams.into_iter().map(|stream| last(self, stream)).collect()
            }
            Until::Streams { .. } => Vec::new(),
        };
        for until in points {
            let source = u32::from(until.stream.0);
            if source == waiter {
                continue;
            }
            let known = self.known.entry((waiter, source)).or_default();
            if until.seq <= *known {
                continue;
            }
            *known = until.seq;
            let at = self.point(waiter);
            self.push(Some(k), Body::StreamWaitEvent { at, until, via: Via::Host });
        }
    }

    /// Returns the newest points that a record of a process so far may be of.
    fn any_record(&self, process: Option<u32>) -> Vec<Point> {
        let streams = self.streams_of(process).into_iter();
        let point = |k: u32| Point::new(StreamId(k as u16), self.recorded[k as usize]);
        streams.map(point).collect()
    }

    /// Orders a stream behind what the thread that submits to it has done.
    fn submitted(&mut self, stream: u32, thread: Option<u32>) {
        let Some(thread) = thread else { return };
        let done = self.counts[thread as usize];
        let known = self.known.entry((stream, thread)).or_default();
        if done <= *known {
            return;
        }
        *known = done;
        let until = Point::new(StreamId(thread as u16), done);
        let at = self.point(stream);
        self.push(None, Body::StreamWaitEvent { at, until, via: Via::Host });
    }

    fn call(&mut self, k: u32, stream: u32, uses: &[Used]) {
        let used = |used: &Used| {
            let access = match (used.reads, used.writes) {
                (_, false) => Access::Read,
                (false, true) => Access::Write,
                (true, true) => Access::ReadWrite,
            };
            (self.tensor(used.tensor), access)
        };
        let operands = uses.iter().map(used).collect();
        let instruction = self.profile.instructions.get(k as usize);
        let name = instruction.map_or("unknown", |instruction| self.profile.name_of(instruction));
        let at = self.operands(Some(k), stream, name, operands);
        self.points.insert(k, at);
    }

    /// Adds a call that uses these tensors, each once.
    fn operands(
        &mut self,
        k: Option<u32>,
        stream: u32,
        name: &str,
        uses: Vec<(TensorId, Access)>,
    ) -> Point {
        let mut operands = Operands::new();
        for (tensor, access) in uses {
            match operands.iter_mut().find(|operand| operand.tensor == tensor) {
                Some(operand) => operand.access = operand.access.join(access),
                None => operands.push(Operand { tensor, access }),
            }
        }
        let op = self.list.ops.id(name);
        let at = self.point(stream);
        let (attrs, workspace, priority) = (None, None, Priority::default());
        self.push(k, Body::OpCall { at, op, operands, attrs, workspace, priority });
        at
    }
}
