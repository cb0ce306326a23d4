//! The waits of calls that have moved to other streams.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use millstream_instructions::assigner::LastUses;
use millstream_profile::Profile;
use millstream_profile::model::{Instruction, NONE, Of, Operand, Resolution, Role, Wait};
use millstream_profile::order::Order;

use super::costs::{Cost, Costs, is_of_thread};
use super::threads::observed;

/// For each stream, how many instructions of the profile are known to have passed: those of the
/// stream among them.
type Clock = Vec<u32>;

/// A need of an instruction to come after one of another stream.
struct Need {
    /// The instruction before which the wait stands: the first step, if the user is a launch.
    before: usize,
    user: u32,
    until: u32,
    tensors: Vec<u32>,
    /// Whether other waits imply it.
    is_known: bool,
}

/// The needs of a profile's calls, as far as they are found.
struct Needs<'a> {
    profile: &'a Profile,
    order: Order,
    /// What comes before the end of each instruction.
    clocks: Vec<Clock>,
    /// What the program has waited for.
    host: Clock,
    /// What each launch comes after, and so its steps.
    launches: HashMap<u32, Clock>,
    uses: LastUses<u32, u32>,
    all: Vec<Need>,
}

/// Returns a profile whose instructions run on other streams, with the waits that these need.
pub(super) fn rebuilt(old: &Profile, costs: &Costs, streams: &[u32]) -> (Profile, Costs) {
    let mut bare = old.clone();
    bare.instructions.iter_mut().zip(streams).for_each(|(i, stream)| i.stream = *stream);
    let gone = waits_of_data(&bare);
    let is_gone = |k: u32| gone.get(k as usize).copied().unwrap_or(true);
    bare.waits.retain(|wait| !wait.resolution.is_elided() && !is_gone(wait.waiter));
    for (instruction, _) in bare.instructions.iter_mut().zip(&gone).filter(|(_, gone)| **gone) {
        instruction.role = Role::Order;
    }
    let needs = Needs::of(&bare);
    let mut made = Profile { instructions: Vec::new(), waits: Vec::new(), ..bare.clone() };
    let mut own = costs.clone();
    own.instructions.clear();
    let name = made.names.iter().position(|name| name == "StreamWaitEvent");
    let name = name.unwrap_or_else(|| {
        made.names.push("StreamWaitEvent".to_owned());
        made.names.len() - 1
    }) as u32;
    // The new position of each instruction; of one that is gone, of the last one before it on its
    // old stream.
    let mut positions = vec![NONE; gone.len()];
    let mut last = vec![NONE; made.streams.len()];
    let mut sequence = vec![0; made.streams.len()];
    let mut needs = needs.into_iter().peekable();
    for (k, instruction) in bare.instructions.into_iter().enumerate() {
        let mut push = |instruction: Instruction, cost, is_part: bool| {
            let stream = sequence.get_mut(instruction.stream as usize).filter(|_| !is_part);
            let seq = stream.map_or(instruction.seq, |count| {
                *count += 1;
                *count
            });
            made.instructions.push(Instruction { seq, ..instruction });
            own.instructions.push(cost);
            made.instructions.len() as u32 - 1
        };
        while let Some(Need { user, until, tensors, is_known, .. }) =
            needs.next_if(|need| need.before <= k)
        {
            let mut resolution = Resolution::Known;
            let mut waiter = NONE;
            if !is_known {
                resolution = Resolution::Host;
                // It is submitted together with its instruction.
                let of = &old.instructions[user as usize];
                let Instruction { place, issued, parent, submitter, .. } = *of;
                let (role, stream) = (Role::Wait, streams[user as usize]);
                let wait = Instruction { place, issued, parent, submitter, ..Default::default() };
                let wait = Instruction { name, role, stream, ..wait };
                waiter = push(wait, Cost::nothing(*costs.usual()), false);
            }
            let until = positions[until as usize];
            made.waits.push(Wait { waiter, until, user, resolution, tensors, ..Wait::default() });
        }
        let stream = old.instructions[k].stream as usize;
        if gone[k] {
            positions[k] = last.get(stream).copied().unwrap_or(NONE);
            continue;
        }
        let at = push(instruction, costs.instructions[k], old.is_part(k));
        positions[k] = at;
        last.get_mut(stream).into_iter().for_each(|last| *last = at);
    }
    let at = |k: u32| positions.get(k as usize).copied().unwrap_or(NONE);
    let mut waits = std::mem::take(&mut made.waits);
    for wait in &mut waits {
        wait.user = at(wait.user);
        if wait.waiter == NONE {
            wait.waiter = wait.user;
        }
    }
    // What stays has the old positions.
    made.waits = bare.waits.into_iter().map(|wait| Wait { user: NONE, ..wait }).collect();
    made.each_position(&mut |of, k| {
        if of == Of::Instructions {
            *k = at(*k);
        }
    });
    made.waits.splice(0..0, waits);
    // The submission of an instruction that is gone takes no time.
    let submitters = old.instructions.iter().zip(gone).filter(|(_, gone)| *gone);
    for submitter in submitters.filter_map(|(i, _)| i.submitter) {
        own.instructions[at(submitter) as usize] = Cost::nothing([0; 4]);
    }
    (made, own)
}

fn is_pool(profile: &Profile, stream: u32) -> bool {
    profile.streams.get(stream as usize).is_some_and(|stream| stream.pool)
}

/// Returns whether each instruction is a wait or a record for the sake of tensors. Those that the
/// program asked for are none, nor those of threads and pools, whose instructions stay.
fn waits_of_data(profile: &Profile) -> Vec<bool> {
    let is_one = |(k, i): (usize, &Instruction)| {
        let waits = matches!(i.role, Role::Wait | Role::Record);
        let is_own = is_of_thread(profile, k as u32) || is_pool(profile, i.stream);
        waits && !profile.is_part(k) && !is_own
    };
    let mut gone: Vec<bool> = profile.instructions.iter().enumerate().map(is_one).collect();
    let asked = profile.waits.iter().filter(|wait| {
        wait.tensors.is_empty()
            && !wait.resolution.is_elided()
            && !is_of_thread(profile, wait.waiter)
    });
    for k in asked.flat_map(|wait| [wait.waiter, wait.until]) {
        gone.get_mut(k as usize).into_iter().for_each(|gone| *gone = false);
    }
    gone
}

fn join(clock: &mut Clock, after: &Clock) {
    clock.iter_mut().zip(after).for_each(|(own, other)| *own = (*own).max(*other));
}

impl<'a> Needs<'a> {
    /// Returns the needs of a profile whose instructions have no waits for their tensors.
    fn of(profile: &'a Profile) -> Vec<Need> {
        let (order, observed) = (Order::of(profile), observed(profile));
        let (clocks, uses, all) = (Vec::new(), LastUses::default(), Vec::new());
        let (host, launches) = (vec![0; profile.streams.len()], HashMap::new());
        let mut needs = Needs { profile, order, clocks, host, launches, uses, all };
        for k in 0..profile.instructions.len() {
            let clock = if profile.is_part(k) { needs.host.clone() } else { needs.instruction(k) };
            needs.clocks.push(clock);
            for &until in observed.get(&(k as u32)).into_iter().flatten() {
                join(&mut needs.host, &needs.clocks[until as usize]);
            }
        }
        needs.all
    }

    /// Adds the needs of an instruction, and returns what comes before the next one.
    fn instruction(&mut self, k: usize) -> Clock {
        let Instruction { stream, parent, .. } = self.profile.instructions[k];
        let mut clock = self.begin(k as u32);
        if parent != NONE && stream != NONE {
            join(&mut clock, &self.enter(parent, k));
        }
        match self.launches.remove(&(k as u32)) {
            Some(begin) => join(&mut clock, &begin),
            None => self.find(k as u32, k, &mut clock),
        }
        if let Some(own) = clock.get_mut(stream as usize) {
            *own = k as u32 + 1;
        }
        for operand in self.call(k as u32) {
            let storage = self.storage(operand);
            self.uses.add(storage, operand.writes, k as u32);
        }
        clock
    }

    /// Returns what an instruction comes after, by the order and by what the host waited for.
    fn begin(&self, k: u32) -> Clock {
        let mut clock = self.host.clone();
        let before = self.order.before(k as usize).iter();
        let before = before.filter_map(|(from, _)| self.clocks.get(*from as usize));
        before.for_each(|after| join(&mut clock, after));
        clock
    }

    /// Returns what the steps of a launch come after. The waits of a launch stand before its first
    /// step.
    fn enter(&mut self, launch: u32, first: usize) -> Clock {
        if let Some(begin) = self.launches.get(&launch) {
            return begin.clone();
        }
        let mut clock = self.begin(launch);
        let outer = self.profile.instructions[launch as usize].parent;
        if outer != NONE {
            join(&mut clock, &self.enter(outer, first));
        }
        self.find(launch, first, &mut clock);
        self.launches.insert(launch, clock.clone());
        clock
    }

    /// Returns the operands whose hazards order an instruction.
    fn call(&self, k: u32) -> &'a [Operand] {
        let profile: &'a Profile = self.profile;
        let instruction = &profile.instructions[k as usize];
        let is_call = matches!(instruction.role, Role::Work | Role::Launch | Role::Order);
        match is_call && instruction.stream != NONE {
            true => profile.operands_of(instruction),
            false => &[],
        }
    }

    fn storage(&self, operand: &Operand) -> u32 {
        self.profile.tensors[operand.tensor as usize].storage
    }

    /// Adds the needs of an instruction, and what they imply to its clock.
    fn find(&mut self, user: u32, before: usize, clock: &mut Clock) {
        let stream = self.profile.instructions[user as usize].stream;
        if is_pool(self.profile, stream) {
            return;
        }
        let mut needs: BTreeMap<Reverse<u32>, Vec<u32>> = BTreeMap::new();
        for operand in self.call(user) {
            for earlier in self.uses.before(&self.storage(operand), operand.writes) {
                let tensors = needs.entry(Reverse(earlier)).or_default();
                if !tensors.contains(&operand.tensor) {
                    tensors.push(operand.tensor);
                }
            }
        }
        // The latest need of a stream implies the earlier ones.
        for (Reverse(until), tensors) in needs {
            let source = self.profile.instructions[until as usize].stream;
            if source == stream {
                continue;
            }
            let is_known = clock[source as usize] > until;
            join(clock, &self.clocks[until as usize]);
            self.all.push(Need { before, user, until, tensors, is_known });
        }
    }
}
