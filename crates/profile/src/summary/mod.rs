//! What took the time of a run: streams, ops, waits, the critical path, memory.

mod counts;
mod repeats;
mod report;
mod text;

use std::collections::HashMap;

use serde::Serialize;

use crate::model::{NONE, Profile, Role, Stream};
use crate::order::{OnPath, Order, critical_path};

pub use report::report;
pub use text::{
    PathParts, ShortNames, Show, more, plural, short_name, time, write, write_path, write_runs,
};

/// The load of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Load {
    /// The number of instructions, waits included.
    pub instructions: usize,
    /// The time in which it works.
    pub busy: u64,
    /// The time in which a wait blocks it.
    pub blocked: u64,
}

/// Returns the load of each stream.
pub fn loads(profile: &Profile) -> Vec<Load> {
    let mut loads = vec![Load::default(); profile.streams.len()];
    for (_, instruction, times) in profile.shown() {
        let load = &mut loads[instruction.stream as usize];
        load.instructions += 1;
        match instruction.role {
            Role::Wait | Role::Fence => load.blocked += times.end - times.start,
            // The steps of a launch work in its stead.
            Role::Launch => {}
            _ => load.busy += times.end - times.start,
        }
    }
    loads
}

/// How many streams work at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// The time in which so many streams work, by their number from 0.
    pub at_once: Vec<u64>,
}

impl Overlap {
    /// Returns the time in which any stream works.
    pub fn any(&self) -> u64 {
        self.at_once.iter().skip(1).sum()
    }

    /// Returns the average number of working streams while any works.
    pub fn average(&self) -> f64 {
        let sum: u64 = self.at_once.iter().enumerate().map(|(n, time)| n as u64 * time).sum();
        sum as f64 / self.any().max(1) as f64
    }
}

/// Returns how many instructions work at once, over the time of the run. Those of threads of the
/// program do not count.
pub fn overlap(profile: &Profile) -> Overlap {
    let mut changes: Vec<(u64, i32)> = Vec::new();
    for (_, instruction, times) in profile.shown() {
        let is_thread = profile.streams[instruction.stream as usize].thread;
        if instruction.role == Role::Work && times.end > times.start && !is_thread {
            changes.extend([(times.start, 1), (times.end, -1)]);
        }
    }
    changes.sort_unstable();
    let (mut at_once, mut working, mut before) = (vec![0], 0, 0);
    for (at, change) in changes {
        if at_once.len() <= working as usize {
            at_once.resize(working as usize + 1, 0);
        }
        at_once[working as usize] += at - before;
        (working, before) = (working + change, at);
    }
    at_once[0] += profile.total.saturating_sub(before);
    Overlap { at_once }
}

/// The time of the instructions of one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpTime {
    /// Their name.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// The time of all.
    pub total: u64,
    /// The time of the longest.
    pub longest: u64,
}

/// Returns the name of an op as our profiles have it: PyTorch's timelines write `aten::add_`.
pub fn bare_name(name: &str) -> &str {
    name.strip_prefix("aten::").unwrap_or(name)
}

/// Returns the time by name, the most first.
pub fn ops(profile: &Profile) -> Vec<OpTime> {
    ops_where(profile, |_| true)
}

/// Returns the time by name on some of the streams, the most first.
pub fn ops_where(profile: &Profile, on: impl Fn(&Stream) -> bool) -> Vec<OpTime> {
    let mut all: HashMap<u32, OpTime> = HashMap::new();
    let works = profile.shown().filter(|(_, i, _)| i.role == Role::Work);
    let works = works.filter(|(_, i, _)| on(&profile.streams[i.stream as usize]));
    for (_, instruction, times) in works {
        let name = || profile.name_of(instruction).to_owned();
        let op = all.entry(instruction.name);
        let op = op.or_insert_with(|| OpTime { name: name(), count: 0, total: 0, longest: 0 });
        let time = times.end - times.start;
        op.count += 1;
        op.total += time;
        op.longest = op.longest.max(time);
    }
    let mut all: Vec<OpTime> = all.into_values().collect();
    all.sort_by(|a, b| b.total.cmp(&a.total).then_with(|| a.name.cmp(&b.name)));
    all
}

/// The cost of the waits of one stream at one place for instructions of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitCost {
    /// The waiting stream.
    pub stream: u32,
    /// The name of the instruction that waits.
    pub user: String,
    /// Its place.
    pub place: String,
    /// The stream that is waited for.
    pub source: u32,
    /// The name of the instruction that is waited for.
    pub until: String,
    /// How many waits there are.
    pub count: usize,
    /// The time for which they block the stream.
    pub blocked: u64,
    /// The positions of the waits in the profile.
    pub members: Vec<u32>,
}

/// Returns the waits that were made, by what they cost, the most first.
pub fn waits(profile: &Profile) -> Vec<WaitCost> {
    let mut all: HashMap<(u32, u32, u32, u32, u32), WaitCost> = HashMap::new();
    let instruction = |k: u32| profile.instructions.get(k as usize);
    let mut before: Vec<u32> = vec![NONE; profile.instructions.len()];
    let mut last: Vec<u32> = vec![NONE; profile.streams.len()];
    for (k, instruction) in profile.instructions.iter().enumerate() {
        if let Some(last) = last.get_mut(instruction.stream as usize) {
            before[k] = std::mem::replace(last, k as u32);
        }
    }
    let made = (0..).zip(&profile.waits).filter(|(_, wait)| !wait.resolution.is_elided());
    for (number, wait) in made {
        let Some(waiter) = instruction(wait.waiter).filter(|i| i.stream != NONE) else { continue };
        let Some(until) = instruction(wait.until) else { continue };
        let user = instruction(wait.user).unwrap_or(waiter);
        // A record stands for the work before it.
        let until = match until.role {
            Role::Record => instruction(before[wait.until as usize]).unwrap_or(until),
            _ => until,
        };
        let blocked = waiter.times.map_or(0, |times| times.end - times.start);
        let key = (waiter.stream, user.name, user.place, until.stream, until.name);
        let cost = all.entry(key).or_insert_with(|| WaitCost {
            stream: waiter.stream,
            user: profile.name_of(user).to_owned(),
            place: profile.place_of(user).to_owned(),
            source: until.stream,
            until: profile.name_of(until).to_owned(),
            count: 0,
            blocked: 0,
            members: Vec::new(),
        });
        cost.members.push(number);
        cost.count += 1;
        cost.blocked += blocked;
    }
    let mut all: Vec<WaitCost> = all.into_values().collect();
    all.sort_by(|a, b| {
        let order = b.blocked.cmp(&a.blocked);
        let order = order.then_with(|| (a.stream, &a.place).cmp(&(b.stream, &b.place)));
        order.then_with(|| (&a.until, &a.members).cmp(&(&b.until, &b.members)))
    });
    all
}

/// Returns the critical path.
pub fn path(profile: &Profile) -> Vec<OnPath> {
    critical_path(profile, &Order::of(profile))
}
