//! The order of a profile's instructions: what each comes after, and the critical path.

use std::collections::HashMap;

use millstream_instructions::assigner::LastUses;

use crate::model::{Instruction, NONE, Profile, Role, Stream, Times};

/// Why an instruction comes after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It follows on the same stream.
    Stream,
    /// Its stream waits for it.
    Wait,
    /// A barrier stands between, or it is the barrier.
    Fence,
    /// The host waited for it before it submitted.
    Host,
    /// Both use a storage, on a pool.
    Data,
    /// Another stream of its tape comes to it in the list of the executable.
    List,
    /// It is a launch, which ends when its steps have.
    Step,
}

/// What each instruction comes after, by position.
#[derive(Clone, Debug, Default)]
pub struct Order {
    first: Vec<u32>,
    edges: Vec<(u32, Reason)>,
}

/// A launch whose steps are added.
struct Launch {
    /// The streams of its steps.
    streams: Vec<u32>,
    /// The last barrier between them, or [`NONE`].
    fence: u32,
}

/// An order under construction.
struct Ordering<'a> {
    profile: &'a Profile,
    order: Order,
    waits: Vec<Vec<u32>>,
    /// The last instruction of each stream and of each tape, and the last barrier before the next
    /// instruction of each stream.
    last: Vec<u32>,
    of_tape: HashMap<u32, u32>,
    gate: Vec<u32>,
    /// What the host of each rank has waited for.
    observed: HashMap<u32, Vec<u32>>,
    uses: LastUses<u32, u32>,
    launches: HashMap<u32, Launch>,
}

impl Order {
    /// Returns the order of a profile's instructions. Parts of launches are left out.
    pub fn of(profile: &Profile) -> Order {
        let mut waits: Vec<Vec<u32>> = vec![Vec::new(); profile.instructions.len()];
        for wait in &profile.waits {
            if !wait.resolution.is_elided() && wait.until != NONE && wait.waiter != NONE {
                waits[wait.waiter as usize].push(wait.until);
            }
        }
        let mut ordering = Ordering {
            profile,
            order: Order::default(),
            waits,
            last: vec![NONE; profile.streams.len()],
            of_tape: HashMap::new(),
            gate: vec![NONE; profile.streams.len()],
            observed: HashMap::new(),
            uses: LastUses::default(),
            launches: HashMap::new(),
        };
        for (k, instruction) in (0..).zip(&profile.instructions) {
            ordering.order.first.push(ordering.order.edges.len() as u32);
            let is_step = instruction.parent != NONE;
            match instruction.role {
                _ if profile.is_part(k as usize) => {}
                // What the host waited for when the list was recorded is a wait of its tapes.
                Role::Observe if is_step => {}
                Role::Observe => ordering.observe(k),
                _ if instruction.stream == NONE => {}
                _ if is_step => ordering.step(k, instruction),
                _ => ordering.instruction(k, instruction),
            }
        }
        let mut order = ordering.order;
        order.first.push(order.edges.len() as u32);
        order
    }

    /// Returns whether an instruction is a launch that ends when its steps have.
    pub fn has_steps(&self, instruction: usize) -> bool {
        self.before(instruction).iter().any(|(_, reason)| *reason == Reason::Step)
    }

    /// Returns what an instruction comes after.
    pub fn before(&self, instruction: usize) -> &[(u32, Reason)] {
        let range = self.first.get(instruction).zip(self.first.get(instruction + 1));
        range.map_or(&[], |(from, to)| &self.edges[*from as usize..*to as usize])
    }
}

impl Ordering<'_> {
    fn add(&mut self, earlier: u32, reason: Reason) {
        if earlier != NONE {
            self.order.edges.push((earlier, reason));
        }
    }

    fn add_waits(&mut self, k: u32) {
        for until in std::mem::take(&mut self.waits[k as usize]) {
            self.add(until, Reason::Wait);
        }
    }

    fn observe(&mut self, k: u32) {
        let until = std::mem::take(&mut self.waits[k as usize]);
        let profile = self.profile;
        let first = until.first().map(|&until| profile.instructions[until as usize].stream);
        let rank = first.and_then(|stream| profile.streams.get(stream as usize)).map(|s| s.rank);
        self.observed.insert(rank.unwrap_or(0), until);
    }

    /// Adds what an instruction on the machine's streams comes after.
    fn instruction(&mut self, k: u32, instruction: &Instruction) {
        let stream = instruction.stream as usize;
        let Stream { pool, rank, .. } = self.profile.streams[stream];
        self.add_waits(k);
        self.add_begin(instruction, pool);
        if instruction.role == Role::Fence {
            let streams = &self.profile.streams;
            let own = |of: &usize| streams[*of].rank == rank && !streams[*of].thread;
            let own: Vec<usize> = (0..self.last.len()).filter(own).collect();
            own.iter().for_each(|&of| self.add(self.last[of], Reason::Fence));
            own.iter().for_each(|&of| self.gate[of] = k);
        }
        for operand in self.profile.operands_of(instruction) {
            let storage = self.profile.tensors[operand.tensor as usize].storage;
            if pool {
                let before = self.uses.before(&storage, operand.writes);
                self.order.edges.extend(before.map(|k| (k, Reason::Data)));
            }
            self.uses.add(storage, operand.writes, k);
        }
        if instruction.role != Role::Fence {
            self.gate[stream] = if pool && instruction.role == Role::Wait { k } else { NONE };
        }
        self.add_steps(k);
        self.last[stream] = k;
    }

    /// Adds what the next instruction of a stream of the machine comes after.
    fn add_begin(&mut self, instruction: &Instruction, pool: bool) {
        let stream = instruction.stream as usize;
        if !pool {
            self.add(self.last[stream], Reason::Stream);
        }
        self.add(self.gate[stream], Reason::Fence);
        let rank = self.profile.streams[stream].rank;
        let awaited = self.observed.get(&rank).into_iter().flatten();
        self.order.edges.extend(awaited.map(|&until| (until, Reason::Host)));
    }

    /// Adds what the first step of a stream of a launch comes after: what the launch does.
    fn add_begin_of(&mut self, launch: u32) {
        let instruction = &self.profile.instructions[launch as usize];
        if instruction.stream == NONE {
            return;
        }
        if instruction.parent == NONE {
            let pool = self.profile.streams[instruction.stream as usize].pool;
            return self.add_begin(instruction, pool);
        }
        match self.launches.get(&instruction.parent) {
            Some(outer) if outer.streams.contains(&instruction.stream) => {
                let fence = outer.fence;
                self.add(self.last[instruction.stream as usize], Reason::Stream);
                self.add(fence, Reason::Fence);
            }
            _ => self.add_begin_of(instruction.parent),
        }
    }

    /// Adds what a step of a launch comes after: the steps of its stream and of its tape, and the
    /// barrier before it.
    fn step(&mut self, k: u32, instruction: &Instruction) {
        let stream = instruction.stream;
        let none = || Launch { streams: Vec::new(), fence: NONE };
        let launch = self.launches.entry(instruction.parent).or_insert_with(none);
        let fence = launch.fence;
        let is_first = !launch.streams.contains(&stream);
        if is_first {
            launch.streams.push(stream);
        }
        let all = match instruction.role {
            Role::Fence => {
                launch.fence = k;
                launch.streams.clone()
            }
            _ => Vec::new(),
        };
        self.add_waits(k);
        if is_first {
            self.add_begin_of(instruction.parent);
        }
        let last = std::mem::replace(&mut self.last[stream as usize], k);
        self.add(last, Reason::Stream);
        self.add(fence, Reason::Fence);
        let others = all.into_iter().filter(|other| *other != stream);
        others.for_each(|other| self.add(self.last[other as usize], Reason::Fence));
        if let Some(tape) = self.profile.streams[stream as usize].tape {
            let of_tape = self.of_tape.insert(tape, k).filter(|step| *step != last);
            self.add(of_tape.unwrap_or(NONE), Reason::List);
        }
        self.add_steps(k);
    }

    /// Adds the last steps of a launch.
    fn add_steps(&mut self, k: u32) {
        let streams = self.launches.remove(&k).map(|launch| launch.streams);
        for stream in streams.into_iter().flatten() {
            self.add(self.last[stream as usize], Reason::Step);
        }
    }
}

/// A part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// An instruction runs.
    Runs(u32),
    /// Nothing runs: the time between an instruction and the next one on the path, which is spent
    /// on the way to the worker or the device.
    Gap {
        /// The instruction that is about to run.
        before: u32,
    },
    /// The program has not submitted the next instruction yet.
    Submits {
        /// The instruction that it is about to submit.
        before: u32,
    },
    /// The program has waited for an instruction, which has completed, and does not go on yet.
    Resumes {
        /// The instruction that it has waited for.
        after: u32,
    },
}

/// A part of the critical path, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnPath {
    /// What takes the time.
    pub segment: Segment,
    /// When it begins.
    pub start: u64,
    /// When it ends.
    pub end: u64,
}

/// Returns the critical path of a profile, from the start to the end: each part begins when the one
/// before it ends, so that the parts' times add up to the whole.
///
/// From the last instruction that ends, the path goes back to the one that ended last among those
/// that it comes after. Where that one had ended before the instruction was submitted, the program
/// itself is on the path.
pub fn critical_path(profile: &Profile, order: &Order) -> Vec<OnPath> {
    let timed = |k: u32| profile.instructions[k as usize].times;
    let ends = profile.shown().filter(|(k, ..)| !profile.is_part(*k));
    let Some((last, ..)) = ends.max_by_key(|(_, _, times)| times.end) else { return Vec::new() };
    let mut ended_pauses: HashMap<u32, Vec<(u64, u32)>> = HashMap::new();
    for pause in profile.pauses.iter().filter(|p| p.until != NONE) {
        ended_pauses.entry(pause.rank).or_default().push((pause.end, pause.until));
    }
    ended_pauses.values_mut().for_each(|all| all.sort_unstable());
    let mut path = Vec::new();
    let mut push = |segment, start: u64, end: u64| {
        if end > start {
            path.push(OnPath { segment, start, end });
        }
    };
    let mut at = last as u32;
    let mut upto = timed(at).map_or(0, |t| t.end);
    while let Some(Times { ready, start, .. }) = timed(at) {
        let instruction = &profile.instructions[at as usize];
        let before = order.before(at as usize).iter().filter_map(|&(k, reason)| {
            let end = timed(k)?.end;
            // A later instruction may have been measured to end earlier.
            (k < at).then_some((end, k, reason))
        });
        let latest = before.max_by_key(|(end, k, _)| (*end, *k));
        let ended = latest.map_or(0, |(end, ..)| end);
        // A wait is over when what it waits for has ended, and a launch when its steps have: the
        // rest is the way there and back.
        let begun = match instruction.role {
            Role::Wait | Role::Fence => start.max(ended),
            Role::Launch if order.has_steps(at as usize) => start.max(ended),
            _ => start,
        }
        .min(upto);
        push(Segment::Runs(at), begun, upto);
        let issued = instruction.issued.unwrap_or(0);
        // A call that submits an instruction to an empty stream is on the path, with the delay
        // until the instruction begins. Source: Holistic Trace Analysis, "critical path".
        let submitter = instruction.submitter.filter(|&k| k < at);
        if let Some((k, call)) = submitter.and_then(|k| Some((k, timed(k)?)))
            && (latest.is_none() || call.start > ended)
        {
            let submitted = call.end.min(begun);
            push(Segment::Gap { before: at }, submitted, begun);
            (at, upto) = (k, submitted);
            continue;
        }
        let host = latest.is_none_or(|(_, _, reason)| reason == Reason::Host) || issued > ended;
        if host && instruction.issued.is_some() {
            let issued = issued.min(begun);
            push(Segment::Gap { before: at }, issued, begun);
            // The inline driver runs each instruction before the program goes on.
            let is_done = |k: &u32| {
                let own = &profile.instructions[*k as usize];
                own.is_shown() && own.parent == NONE && own.times.is_some_and(|t| t.end <= issued)
            };
            if let Some(k) = (0..at).rev().find(is_done).filter(|_| profile.is_inline)
                && let Some(Times { end, .. }) = timed(k)
            {
                push(Segment::Submits { before: profile.root_of(at) }, end, issued);
                (at, upto) = (k, end);
                continue;
            }
            // The program goes on after its last wait.
            let rank = profile.streams[instruction.stream as usize].rank;
            let ended_pauses = ended_pauses.get(&rank).map_or(&[][..], |all| all);
            let waited = ended_pauses.partition_point(|(end, _)| *end <= issued);
            if let Some(&(resumed, until)) = ended_pauses[..waited].last()
                && let Some(end) = timed(until).map(|t| t.end).filter(|end| *end <= resumed)
                && until < at
            {
                push(Segment::Submits { before: profile.root_of(at) }, resumed, issued);
                push(Segment::Resumes { after: until }, end, resumed);
                (at, upto) = (until, end);
                continue;
            }
            // The program goes on when the last thing that it waited for has completed.
            let awaited = order.before(at as usize).iter();
            let awaited = awaited.filter(|(_, reason)| *reason == Reason::Host);
            let awaited = awaited.filter_map(|&(k, _)| Some((timed(k)?.end, k)));
            match awaited.filter(|(end, _)| *end <= issued).max() {
                Some((end, k)) => {
                    push(Segment::Submits { before: profile.root_of(at) }, end, issued);
                    (at, upto) = (k, end);
                }
                None => {
                    push(Segment::Submits { before: profile.root_of(at) }, 0, issued);
                    break;
                }
            }
            continue;
        }
        let Some((end, k, _)) = latest else {
            push(Segment::Gap { before: at }, 0, begun.min(ready.max(begun)));
            break;
        };
        push(Segment::Gap { before: at }, end.min(begun), begun);
        (at, upto) = (k, end.min(begun));
    }
    path.reverse();
    path
}
