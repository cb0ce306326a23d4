//! The assigner: which stream each call of a program runs on.
//!
//! List scheduling: each task goes to the stream on which it begins first, where an operand from
//! another stream costs a wait. Tasks are taken in the order of the program, as a machine emits
//! them, or by their rank, the time from their start to the end of the program along the longest
//! path. Source: Topcuoglu, Hariri & Wu, "Performance-effective and low-complexity task scheduling
//! for heterogeneous computing", 2002, sections 4.1 and 4.2 (HEFT), without insertion into gaps.
//!
//! The pass `assign`, eager runs of traces, and predictions of other streams share it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::Hash;

use crate::passes::CostModel;
use rustc_hash::FxHashMap;

/// The part of a program's time that other streams must save to be used. Times are estimates, and
/// streams share caches and memory, so a smaller gain is as often a loss.
const LEAST_GAIN: f64 = 0.1;

/// A call, or another instruction that takes a place in an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The time on its stream, in nanoseconds.
    pub time: u64,
    /// The time of all cores together, in nanoseconds: more than `time` if the call is split, and 0
    /// for a call of a device whose streams are taken to share nothing.
    pub work: u64,
    /// The tasks that must end before it begins, all of which come earlier.
    pub before: Vec<usize>,
    /// The streams that may run it.
    pub place: Place,
}

/// The streams that may run a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Any stream of the group of this number.
    Group(usize),
    /// This stream, which is in no group.
    Stream(usize),
    /// All streams: what comes before the task ends before it, and what comes after begins later.
    Fence,
    /// The host, which waits for `before` and goes on afterwards.
    Host,
}

/// The stream of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A stream of a group: the numbers of both.
    Group(usize, usize),
    /// A stream that is in no group.
    Stream(usize),
    /// All streams, or the host.
    Other,
}

impl Task {
    /// Returns a task that takes no time, and comes after none.
    pub const fn nothing(place: Place) -> Task {
        Task { time: 0, work: 0, before: Vec::new(), place }
    }

    /// Returns a task of this time of one core, which so many threads share if the model of costs
    /// says that such a call is split.
    pub fn of_call(costs: &dyn CostModel, threads: usize, (place, time): (Place, u64)) -> Task {
        let (shared, work) = match (costs.split(), place) {
            (Some(least), Place::Group(_)) if time >= least => (time / threads.max(1) as u64, time),
            (Some(_), Place::Group(_)) => (time, time),
            (None, _) | (_, Place::Stream(_) | Place::Fence | Place::Host) => (time, 0),
        };
        Task { time: shared, work, before: Vec::new(), place }
    }

    /// Returns this task, which has a number of its own, after others.
    pub fn after(mut self, before: impl IntoIterator<Item = usize>, number: usize) -> Task {
        self.before.extend(before.into_iter().filter(|k| *k != number));
        self.before.sort_unstable();
        self.before.dedup();
        self
    }
}

/// The uses of each storage since its last write: they decide what a new use comes after.
#[derive(Clone, Debug)]
pub struct LastUses<S = usize, U = usize>(FxHashMap<S, (Option<U>, Vec<U>)>);

impl<S, U> Default for LastUses<S, U> {
    fn default() -> LastUses<S, U> {
        LastUses(FxHashMap::default())
    }
}

impl<S: Hash + Eq, U: Copy> LastUses<S, U> {
    /// Returns the uses that a use of a storage comes after: the last write, and if it writes the
    /// reads since.
    pub fn before(&self, storage: &S, writes: bool) -> impl Iterator<Item = U> {
        let uses = self.0.get(storage).into_iter();
        uses.flat_map(move |(write, reads)| {
            write.iter().chain(reads.iter().filter(move |_| writes)).copied()
        })
    }

    /// Adds a use.
    pub fn add(&mut self, storage: S, writes: bool, at: U) {
        let uses = self.0.entry(storage).or_default();
        match writes {
            true => *uses = (Some(at), Vec::new()),
            false => uses.1.push(at),
        }
    }

    /// Adds a use. Returns those that it comes after.
    pub fn note(&mut self, storage: S, writes: bool, at: U) -> Vec<U> {
        let before = self.before(&storage, writes).collect();
        self.add(storage, writes, at);
        before
    }
}

/// What runs the tasks: its cores, and its times besides those of tasks, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// The number of cores that the streams of a group share.
    pub cores: u64,
    /// The time from the end of a task until a task on another stream that waits for it begins.
    pub wait: u64,
    /// The time of the host to submit a task; 0 if all tasks are known at the start.
    pub submit: u64,
    /// The time of the host to submit a wait.
    pub submit_wait: u64,
}

impl Platform {
    /// Calls that a machine emits one by one, on so many cores. The times to submit are of a
    /// desktop computer (docs/performance.md).
    pub const fn eager(cores: usize, wait: u64) -> Platform {
        Platform { cores: cores as u64, wait, submit: 400, submit_wait: 150 }
    }

    /// Calls of a compiled list, on so many cores.
    pub const fn compiled(cores: usize, wait: u64) -> Platform {
        Platform { cores: cores as u64, wait, submit: 0, submit_wait: 0 }
    }
}

/// The order in which tasks are assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// That of the tasks.
    Program,
    /// By rank, as far as `before` allows.
    Rank,
}

/// A task in an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The number of the task.
    pub task: usize,
    /// Its stream.
    pub target: Target,
    /// The time at which it begins.
    pub start: u64,
    /// The time at which it has ended.
    pub end: u64,
}

/// Tasks with their streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The tasks in the order in which they run; tasks of one stream run in this order.
    pub tasks: Vec<Assigned>,
    /// The predicted time of all, in nanoseconds.
    pub time: u64,
}

impl Assignment {
    /// Returns whether this assignment gains enough over `other` to be used in its place.
    pub fn beats(&self, other: u64) -> bool {
        (self.time as f64) < other as f64 * (1.0 - LEAST_GAIN)
    }
}

/// Assigns tasks in the order of the program to the streams of groups, of each of which there are
/// at most `most`: to fewer if that is predicted to take as long, and to one if more save little.
pub fn assign_in_order(tasks: &[Task], most: &[usize], platform: Platform) -> Assignment {
    let on = |streams: usize| {
        let of_group = |most: &usize| streams.min(*most).max(1);
        let streams: Vec<usize> = most.iter().map(of_group).collect();
        schedule(tasks, &streams, platform, Order::Program)
    };
    let mut best = on(1);
    let single = best.time;
    let largest = most.iter().copied().max().unwrap_or(1).min(LARGEST);
    for made in (2..=largest).map(on) {
        // More streams of the same time are more memory, and more waits.
        if made.beats(single) && made.beats(best.time) {
            best = made;
        }
    }
    best
}

/// The most streams that are tried. The gain of more is small, and each number of streams is tried.
const LARGEST: usize = 16;

/// Assigns tasks to the streams of groups; `streams` holds the number of each group's.
pub fn schedule(tasks: &[Task], streams: &[usize], platform: Platform, order: Order) -> Assignment {
    let mut placing = Placing::new(tasks, platform);
    match order {
        Order::Program => (0..tasks.len()).for_each(|k| placing.place(k, streams)),
        Order::Rank => by_rank(tasks, |k| placing.place(k, streams)),
    }
    let mut made = placing.finish();
    if order == Order::Rank {
        // By time, so that lifetimes are short. The sort is stable: what takes no time stays
        // before what needs it.
        made.tasks.sort_by_key(|call| call.start);
    }
    made
}

/// Returns tasks of known streams, in the order of the program; `streams` holds the number of each
/// task's stream in its group.
pub fn schedule_on(tasks: &[Task], streams: &[usize], platform: Platform) -> Assignment {
    let mut placing = Placing::new(tasks, platform);
    for (k, (task, stream)) in tasks.iter().zip(streams).enumerate() {
        let target = match task.place {
            Place::Group(group) => Target::Group(group, *stream),
            Place::Stream(stream) => Target::Stream(stream),
            Place::Fence | Place::Host => Target::Other,
        };
        placing.place_on(k, target);
    }
    placing.finish()
}

/// Visits tasks by their rank: of those whose `before` have been visited the highest one comes
/// first, and of equal ones the first of the program.
fn by_rank(tasks: &[Task], mut visit: impl FnMut(usize)) {
    let mut ranks: Vec<u64> = vec![0; tasks.len()];
    let mut after = vec![Vec::new(); tasks.len()];
    for (k, task) in tasks.iter().enumerate().rev() {
        ranks[k] += task.time;
        for &before in &task.before {
            ranks[before] = ranks[before].max(ranks[k]);
            after[before].push(k);
        }
    }
    let mut open: Vec<usize> = tasks.iter().map(|task| task.before.len()).collect();
    let key = |k: usize| (ranks[k], Reverse(k));
    let mut ready: BinaryHeap<_> = (0..tasks.len()).filter(|&k| open[k] == 0).map(key).collect();
    while let Some((_, Reverse(k))) = ready.pop() {
        visit(k);
        for &next in &after[k] {
            open[next] -= 1;
            if open[next] == 0 {
                ready.push(key(next));
            }
        }
    }
}

/// An assignment while it is made.
struct Placing<'a> {
    tasks: &'a [Task],
    platform: Platform,
    /// The time at which each stream has ended its tasks.
    free: FxHashMap<Target, u64>,
    /// The time at which the last fence has ended.
    fenced: u64,
    /// The time up to which the host is busy.
    host: u64,
    /// The number of waits between streams.
    waits: u64,
    /// The place of each task in `assigned`.
    at: Vec<Option<usize>>,
    assigned: Vec<Assigned>,
}

impl<'a> Placing<'a> {
    fn new(tasks: &'a [Task], platform: Platform) -> Placing<'a> {
        Placing {
            tasks,
            platform,
            free: FxHashMap::default(),
            fenced: 0,
            host: 0,
            waits: 0,
            at: vec![None; tasks.len()],
            assigned: Vec::with_capacity(tasks.len()),
        }
    }

    /// Places a task on the stream of its group on which it begins first.
    fn place(&mut self, k: usize, streams: &[usize]) {
        let task = &self.tasks[k];
        let target = match task.place {
            Place::Group(group) => {
                let targets = (0..streams[group]).map(|s| Target::Group(group, s));
                // Of equal ones the one that has been idle for the shortest time, which is most
                // often the one with the operands.
                targets
                    .min_by_key(|t| (self.start_on(task, *t), Reverse(self.free_at(*t))))
                    .unwrap_or(Target::Group(group, 0))
            }
            Place::Stream(stream) => Target::Stream(stream),
            Place::Fence | Place::Host => Target::Other,
        };
        self.place_on(k, target);
    }

    fn place_on(&mut self, k: usize, target: Target) {
        let task = &self.tasks[k];
        let others = self.befores(task).filter(|before| waits(before, target)).count() as u64;
        self.waits += others;
        self.host += self.platform.submit + others * self.platform.submit_wait;
        let start = match task.place {
            Place::Fence => self.free.values().fold(self.host.max(self.fenced), |a, b| a.max(*b)),
            Place::Group(_) | Place::Stream(_) | Place::Host => self.start_on(task, target),
        };
        let end = start + task.time;
        match task.place {
            Place::Fence => self.fenced = end,
            Place::Host => self.host = end,
            Place::Group(_) | Place::Stream(_) => {
                self.free.insert(target, end);
            }
        }
        self.at[k] = Some(self.assigned.len());
        self.assigned.push(Assigned { task: k, target, start, end });
    }

    fn finish(self) -> Assignment {
        // All cores together take at least the time of the work, and of the host's part.
        let Platform { cores, submit, submit_wait, .. } = self.platform;
        let work: u64 = self.tasks.iter().map(|task| task.work + submit).sum();
        let work = work + self.waits * submit_wait;
        let ends = self.assigned.iter().map(|call| call.end);
        let time = ends.max().unwrap_or(0).max(work / cores.max(1));
        Assignment { tasks: self.assigned, time }
    }

    fn befores<'s>(&'s self, task: &'s Task) -> impl Iterator<Item = &'s Assigned> {
        task.before.iter().filter_map(|&before| Some(&self.assigned[self.at[before]?]))
    }

    fn free_at(&self, target: Target) -> u64 {
        self.free.get(&target).copied().unwrap_or(0)
    }

    fn start_on(&self, task: &Task, target: Target) -> u64 {
        let known = |before: &Assigned| {
            before.end + if waits(before, target) { self.platform.wait } else { 0 }
        };
        let free = self.free_at(target).max(self.fenced).max(self.host);
        self.befores(task).map(known).fold(free, u64::max)
    }
}

/// Returns whether a task on a stream has to wait for another one by an event.
fn waits(before: &Assigned, target: Target) -> bool {
    before.target != target && before.target != Target::Other && target != Target::Other
}
