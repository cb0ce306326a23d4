//! The waits of calls that have moved to other streams.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use millstream_profile::Profile;
use millstream_profile::model::{Instruction, NONE, Resolution, Role, Wait};

use super::costs::{Action, Cost, Costs};

/// For each stream, the sequence number up to which a stream comes after it.
type Clock = Rc<Vec<u64>>;

/// The uses of a storage since its last write: instructions of the new profile.
#[derive(Default)]
struct Uses {
    write: Option<u32>,
    reads: Vec<u32>,
}

/// A profile whose instructions get other streams, with the waits that these need.
pub(super) struct Rebuilding<'a> {
    old: &'a Profile,
    streams: Vec<u32>,
    /// Whether the waits of an instruction were asked for by the program.
    is_asked: Vec<bool>,
    /// The waits of each instruction.
    waits: HashMap<u32, Vec<u32>>,
    made: Profile,
    costs: Vec<Cost>,
    /// The new position of each instruction.
    positions: Vec<u32>,
    /// The new position of the last kept instruction of each old stream.
    last_kept: Vec<u32>,
    /// For each instruction that goes: the last kept one before it on its old stream.
    kept_before: HashMap<u32, u32>,
    /// The clock of each stream, and of each new instruction.
    clocks: Vec<Clock>,
    at: Vec<Clock>,
    sequence: Vec<u64>,
    uses: HashMap<u32, Uses>,
    host: Clock,
    /// The launches whose steps are added, by their old positions.
    launches: HashMap<u32, Launch>,
}

/// A launch whose steps are added.
struct Launch {
    /// The waits that it needs itself.
    waits: Vec<usize>,
    /// What the next stream of its list begins with.
    begin: Clock,
    /// The streams of its steps.
    streams: Vec<u32>,
}

/// Returns whether an instruction needs the waits of its tensors.
const fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.role, Role::Work | Role::Launch | Role::Order)
}

impl<'a> Rebuilding<'a> {
    pub(super) fn new(old: &'a Profile, streams: Vec<u32>) -> Rebuilding<'a> {
        let mut is_asked = vec![false; old.instructions.len()];
        let mut waits: HashMap<u32, Vec<u32>> = HashMap::new();
        for (k, wait) in (0..).zip(&old.waits) {
            let Some(asked) = is_asked.get_mut(wait.waiter as usize) else { continue };
            if wait.resolution.is_elided() {
                continue;
            }
            waits.entry(wait.waiter).or_default().push(k);
            if wait.tensors.is_empty() {
                *asked = true;
                if let Some(record) = is_asked.get_mut(wait.until as usize) {
                    *record = true;
                }
            }
        }
        let count = old.streams.len();
        let start: Clock = Rc::new(vec![0; count]);
        Rebuilding {
            old,
            streams,
            is_asked,
            waits,
            made: Profile { instructions: Vec::new(), waits: Vec::new(), ..old.clone() },
            costs: Vec::new(),
            positions: vec![NONE; old.instructions.len()],
            last_kept: vec![NONE; count],
            kept_before: HashMap::new(),
            clocks: vec![start.clone(); count],
            at: Vec::new(),
            sequence: vec![0; count],
            uses: HashMap::new(),
            host: start,
            launches: HashMap::new(),
        }
    }

    pub(super) fn run(mut self, costs: Costs) -> (Profile, Costs) {
        for k in 0..self.old.instructions.len() {
            self.instruction(k, &costs);
        }
        let Rebuilding { mut made, positions, costs: own, .. } = self;
        let at = |k: u32| positions.get(k as usize).copied().unwrap_or(NONE);
        for storage in &mut made.storages {
            for place in [&mut storage.allocated, &mut storage.released, &mut storage.last_use] {
                *place = at(*place);
            }
        }
        made.pauses.iter_mut().for_each(|pause| pause.until = at(pause.until));
        for instruction in made.instructions.iter_mut().filter(|i| i.parent != NONE) {
            instruction.parent = at(instruction.parent);
        }
        // The submission of an instruction that is gone goes, too.
        let mut numbers = vec![NONE; costs.steps.len()];
        let mut steps = Vec::with_capacity(costs.steps.len());
        for (number, mut step) in costs.steps.into_iter().enumerate() {
            // What comes after a step that is gone comes after the one before it.
            step.before = numbers.get(step.before as usize).copied().unwrap_or(NONE);
            if let Action::Submit(k) = &mut step.action {
                *k = at(*k);
                if *k == NONE {
                    numbers[number] = step.before;
                    continue;
                }
            }
            step.until = step.until.iter().map(|&k| at(k)).filter(|&k| k != NONE).collect();
            numbers[number] = steps.len() as u32;
            steps.push(step);
        }
        let instructions = own.into_iter().map(|mut cost| {
            cost.submitted = numbers.get(cost.submitted as usize).copied().unwrap_or(NONE);
            cost
        });
        let instructions = instructions.collect();
        (made, Costs { instructions, steps, typical: costs.typical, tail: costs.tail })
    }

    fn push(&mut self, instruction: Instruction, cost: Cost, is_part: bool) -> u32 {
        let stream = instruction.stream as usize;
        let mut instruction = instruction;
        if let Some(sequence) = self.sequence.get_mut(stream).filter(|_| !is_part) {
            *sequence += 1;
            instruction.seq = *sequence;
            let clock = Rc::make_mut(&mut self.clocks[stream]);
            clock[stream] = *sequence;
            self.at.push(self.clocks[stream].clone());
        } else {
            self.at.push(self.host.clone());
        }
        self.made.instructions.push(instruction);
        self.costs.push(cost);
        self.made.instructions.len() as u32 - 1
    }

    fn instruction(&mut self, k: usize, costs: &Costs) {
        let old = self.old;
        let instruction = &old.instructions[k];
        let stream = self.streams[k];
        let goes = match instruction.role {
            // A pool's waits and records stay, as its instructions do.
            Role::Wait | Role::Record => !self.is_asked[k] && !self.is_pool(stream),
            _ => false,
        };
        let last_kept = |made: &Rebuilding<'_>| {
            made.last_kept.get(instruction.stream as usize).copied().unwrap_or(NONE)
        };
        let is_part = old.is_part(k);
        if !is_part && instruction.parent != NONE && stream != NONE {
            self.enter(instruction.parent, stream, costs);
        }
        if goes && !is_part {
            self.kept_before.insert(k as u32, last_kept(self));
            return;
        }
        let cost = costs.instructions[k];
        let is_call = !is_part && is_call(instruction) && stream != NONE;
        let mut open = Vec::new();
        if let Some(launch) = self.launches.remove(&(k as u32)) {
            open = launch.waits;
            for of in launch.streams {
                let after = self.clocks[of as usize].clone();
                self.join(stream as usize, &after);
            }
        } else if is_call && !self.is_pool(stream) {
            open = self.needed_waits(k, stream, cost);
        }
        let moved = Instruction { stream, ..instruction.clone() };
        let own = self.push(moved, cost, is_part);
        self.positions[k] = own;
        if let Some(last) = self.last_kept.get_mut(instruction.stream as usize) {
            *last = own;
        }
        for wait in open {
            self.made.waits[wait].user = own;
            if self.made.waits[wait].waiter == NONE {
                self.made.waits[wait].waiter = own;
            }
        }
        self.kept_waits(k as u32, own);
        if instruction.role == Role::Fence {
            self.fence(instruction.parent);
        }
        if is_call {
            self.note_uses(k, own);
        }
    }

    /// Begins a launch, if it has not begun, and one of its streams: they begin with what the
    /// launch comes after.
    fn enter(&mut self, launch: u32, stream: u32, costs: &Costs) {
        let old = self.old;
        let (of, own) = (&old.instructions[launch as usize], self.streams[launch as usize]);
        if own == NONE {
            return;
        }
        if !self.launches.contains_key(&launch) {
            if of.parent != NONE {
                self.enter(of.parent, own, costs);
            }
            let cost = costs.instructions[launch as usize];
            let waits = match is_call(of) && !self.is_pool(own) {
                true => self.needed_waits(launch as usize, own, cost),
                false => Vec::new(),
            };
            let (begin, streams) = (self.clocks[own as usize].clone(), Vec::new());
            self.launches.insert(launch, Launch { waits, begin, streams });
        }
        let Some(known) = self.launches.get_mut(&launch) else { return };
        if !known.streams.contains(&stream) {
            known.streams.push(stream);
            let begin = known.begin.clone();
            self.join(stream as usize, &begin);
        }
    }

    /// Brings the streams of a launch, or those of the machine, behind one another.
    fn fence(&mut self, launch: u32) {
        let Some(known) = self.launches.get(&launch) else {
            let all = Rc::new(self.sequence.clone());
            self.clocks.iter_mut().for_each(|clock| *clock = all.clone());
            return;
        };
        let streams = known.streams.clone();
        let first = streams[0] as usize;
        for &of in &streams {
            let after = self.clocks[of as usize].clone();
            self.join(first, &after);
        }
        let all = self.clocks[first].clone();
        streams.iter().for_each(|&of| self.join(of as usize, &all));
        if let Some(known) = self.launches.get_mut(&launch) {
            known.begin = all;
        }
    }

    fn is_pool(&self, stream: u32) -> bool {
        self.old.streams.get(stream as usize).is_some_and(|stream| stream.pool)
    }

    /// Adds the waits that an instruction needs, and returns their positions.
    fn needed_waits(&mut self, k: usize, stream: u32, cost: Cost) -> Vec<usize> {
        let old = self.old;
        let mut needs: BTreeMap<Reverse<u32>, Vec<u32>> = BTreeMap::new();
        for operand in old.operands_of(&old.instructions[k]) {
            let storage = old.tensors[operand.tensor as usize].storage;
            let Some(uses) = self.uses.get(&storage) else { continue };
            let reads = uses.reads.iter().filter(|_| operand.writes);
            for &earlier in uses.write.iter().chain(reads) {
                let tensors = needs.entry(Reverse(earlier)).or_default();
                if !tensors.contains(&operand.tensor) {
                    tensors.push(operand.tensor);
                }
            }
        }
        let mut open = Vec::new();
        // The latest need of a stream implies the earlier ones.
        for (Reverse(earlier), tensors) in needs {
            let source = &self.made.instructions[earlier as usize];
            let (from, seq) = (source.stream as usize, source.seq);
            if source.stream == stream {
                continue;
            }
            let own = &self.clocks[stream as usize];
            let known = own[from].max(self.host[from]) >= seq;
            let resolution = if known { Resolution::Known } else { Resolution::Host };
            let mut wait = Wait {
                waiter: NONE,
                until: earlier,
                user: NONE,
                resolution,
                covered_by: NONE,
                tensors,
            };
            if !known {
                wait.waiter = self.new_wait(k, stream, cost);
                let after = self.at[earlier as usize].clone();
                self.join(stream as usize, &after);
            }
            open.push(self.made.waits.len());
            self.made.waits.push(wait);
        }
        open
    }

    fn new_wait(&mut self, k: usize, stream: u32, cost: Cost) -> u32 {
        let names = &mut self.made.names;
        let name = names.iter().position(|name| name == "StreamWaitEvent").unwrap_or_else(|| {
            names.push("StreamWaitEvent".to_owned());
            names.len() - 1
        });
        let of = &self.old.instructions[k];
        let wait = Instruction {
            name: name as u32,
            role: Role::Wait,
            stream,
            place: of.place,
            issued: of.issued,
            parent: of.parent,
            ..Instruction::default()
        };
        // It is submitted together with its instruction.
        let cost = Cost { submitted: cost.submitted, worker_before: NONE, ..Cost::default() };
        self.push(wait, cost, false)
    }

    fn join(&mut self, stream: usize, after: &Clock) {
        let clock = Rc::make_mut(&mut self.clocks[stream]);
        clock.iter_mut().zip(after.iter()).for_each(|(own, other)| *own = (*own).max(*other));
    }

    /// Keeps the waits of an instruction that is kept itself.
    fn kept_waits(&mut self, old: u32, own: u32) {
        for k in self.waits.get(&old).cloned().unwrap_or_default() {
            let wait = &self.old.waits[k as usize];
            let until = self.kept(wait.until);
            let user = NONE;
            self.made.waits.push(Wait { waiter: own, until, user, ..wait.clone() });
            if until == NONE {
                continue;
            }
            let after = self.at[until as usize].clone();
            let instruction = &self.made.instructions[own as usize];
            if instruction.role == Role::Observe {
                let host = Rc::make_mut(&mut self.host);
                host.iter_mut().zip(after.iter()).for_each(|(own, new)| *own = (*own).max(*new));
            } else if instruction.stream != NONE {
                self.join(instruction.stream as usize, &after);
            }
        }
    }

    /// Returns the new position of an instruction; for a record that is gone, of the last kept one
    /// before it on its stream.
    fn kept(&self, old: u32) -> u32 {
        let own = self.positions.get(old as usize).copied().unwrap_or(NONE);
        let before = || self.kept_before.get(&old).copied().unwrap_or(NONE);
        if own == NONE { before() } else { own }
    }

    fn note_uses(&mut self, k: usize, own: u32) {
        let old = self.old;
        for operand in old.operands_of(&old.instructions[k]) {
            let storage = old.tensors[operand.tensor as usize].storage;
            let uses = self.uses.entry(storage).or_default();
            match operand.writes {
                true => *uses = Uses { write: Some(own), reads: Vec::new() },
                false => uses.reads.push(own),
            }
        }
    }
}
