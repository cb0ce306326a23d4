//! From the times of a profile to what each step takes by itself.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use millstream_profile::Profile;
use millstream_profile::model::{Instruction, NONE, Role};
use millstream_profile::order::{Order, Reason};

use super::change::Scaling;

/// The kind of the last event that an instruction waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// The program submitted it.
    Submission,
    /// The instruction before it, on its stream or its worker, has ended.
    Before,
    /// What a wait is for has ended.
    Wait,
    /// One of these two, and its worker had been idle for so long that it was parked.
    Parked,
}

/// How long a worker is idle before it parks, in nanoseconds: a worker checks its queue for some
/// ten microseconds.
const PARKS: u64 = 20_000;

impl Cause {
    /// Returns the cause for a worker that had been idle for some time; none if it has no worker.
    pub(super) fn after(self, idle: Option<u64>) -> Cause {
        match self {
            Cause::Submission | Cause::Wait if idle.is_some_and(|idle| idle > PARKS) => {
                Cause::Parked
            }
            other => other,
        }
    }
}

/// The time from the last event that an instruction waited for to its beginning; for a wait, to
/// its end. Two threads read their clocks, so it may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Latency {
    pub(super) cause: Cause,
    pub(super) ns: i64,
}

/// What an instruction takes by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// The time from its beginning to its end; 0 for waits.
    pub(super) takes: u64,
    /// The measured latency.
    pub(super) latency: Option<Latency>,
    /// The step of the program that submits it, as a position in [`Costs::steps`], or [`NONE`].
    pub(super) submitted: u32,
    /// The instruction that its worker ended last before it, or [`NONE`].
    pub(super) worker_before: u32,
    /// Whether a change is about what it comes after: then the measured latency holds only if the
    /// same kind of event holds it up.
    pub(super) is_moved: bool,
}

impl Cost {
    /// Lets the instruction run at another place of its worker's order.
    pub(super) fn release(&mut self) {
        self.worker_before = NONE;
        self.is_moved = true;
    }
}

/// What the program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It submits an instruction.
    Submit(u32),
    /// It begins to wait: the position of the pause.
    Pause(u32),
    /// It goes on after that pause.
    Resume(u32),
}

/// A step of the program.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) action: Action,
    /// The instructions that it waits for.
    pub(super) until: Vec<u32>,
    /// The time after the step before it, or after the end of what it waited for.
    pub(super) gap: i64,
    /// Whether it had to wait.
    pub(super) waited: bool,
    /// When it was measured.
    pub(super) at: u64,
    /// The step of the same program before it, or [`NONE`].
    pub(super) before: u32,
}

/// The usual latencies of a profile: the lower quartiles. The distributions have long tails, of
/// threads that the operating system had stopped, and few samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Typical {
    submission: i64,
    before: i64,
    wait: i64,
    parked: i64,
    /// The time from the end of what the program waited for until it goes on.
    pub(super) resume: i64,
}

impl Typical {
    pub(super) const fn of(&self, cause: Cause) -> i64 {
        match cause {
            Cause::Submission => self.submission,
            Cause::Before => self.before,
            Cause::Wait => self.wait,
            Cause::Parked => self.parked,
        }
    }
}

/// What the steps of a profile take by themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    /// By instruction.
    pub(super) instructions: Vec<Cost>,
    /// The steps of the program, in order.
    pub(super) steps: Vec<Step>,
    pub(super) typical: Typical,
    /// The measured time after the last step and the last instruction.
    pub(super) tail: u64,
}

/// Returns whether the end of an instruction is that of a wait.
pub(super) const fn is_wait(role: Role) -> bool {
    matches!(role, Role::Wait | Role::Fence)
}

/// Returns whether an instruction ends when others have: a wait, or a launch with its steps.
pub(super) fn ends_with(order: &Order, profile: &Profile, instruction: usize) -> bool {
    is_wait(profile.instructions[instruction].role) || order.has_steps(instruction)
}

impl Costs {
    /// Divides the times of a profile.
    pub(super) fn of(profile: &Profile) -> Costs {
        let order = Order::of(profile);
        let mut costs = Costs { steps: steps(profile, &order), ..Costs::default() };
        let mut submitted = vec![NONE; profile.instructions.len()];
        for (k, step) in (0..).zip(&costs.steps) {
            if let Action::Submit(instruction) = step.action {
                submitted[instruction as usize] = k;
            }
        }
        let busy = WorkerTimes::of(profile, &order);
        let mut latencies: HashMap<Cause, Vec<i64>> = HashMap::new();
        for (k, instruction) in profile.instructions.iter().enumerate() {
            // The program submits a launch, and its steps with it.
            let submitted = submitted[profile.root_of(k as u32) as usize];
            let mut cost = Cost { submitted, worker_before: NONE, ..Cost::default() };
            if let Some(times) = instruction.times.filter(|_| !profile.is_part(k)) {
                let begun = if ends_with(&order, profile, k) { times.end } else { times.start };
                cost.takes = times.end - begun;
                let mut last = (0, Cause::Before);
                let mut note = |at: u64, cause| {
                    if at >= last.0 {
                        last = (at, cause);
                    }
                };
                if let Some(at) = instruction.issued {
                    note(at, Cause::Submission);
                }
                let worked = busy.before(instruction.stream, begun);
                if let Some((_, before)) = worked.filter(|(_, before)| *before != k as u32) {
                    cost.worker_before = before;
                }
                let worked = worked.map(|(end, _)| end);
                note(worked.unwrap_or(0), Cause::Before);
                if let Some(&free) = busy.pool.get(&(k as u32)) {
                    note(free, Cause::Before);
                }
                for &(earlier, reason) in order.before(k) {
                    let Some(end) = profile.instructions[earlier as usize].times.map(|t| t.end)
                    else {
                        continue;
                    };
                    match reason {
                        Reason::Host if instruction.issued.is_some() => {}
                        Reason::Stream | Reason::Data | Reason::List => note(end, Cause::Before),
                        // A worker goes on after its own calls at once.
                        Reason::Wait | Reason::Step if busy.are_of_one(earlier, k as u32) => {
                            note(end, Cause::Before);
                        }
                        Reason::Wait | Reason::Step | Reason::Fence | Reason::Host => {
                            note(end, Cause::Wait);
                        }
                    }
                }
                let ns = begun as i64 - last.0 as i64;
                let cause = last.1.after(worked.map(|worked| last.0.saturating_sub(worked)));
                cost.latency = Some(Latency { cause, ns });
                // What nothing held up says nothing about latencies.
                if last.0 > 0 {
                    latencies.entry(cause).or_default().push(ns);
                }
            }
            costs.instructions.push(cost);
        }
        let usual = |cause| latencies.get(&cause).and_then(|all| quartile(all.clone()));
        let submission = usual(Cause::Submission);
        let handoff = profile.handoff.map(|ns| ns as i64);
        let resumed: Vec<i64> = costs.steps.iter().filter(|s| s.waited).map(|s| s.gap).collect();
        let resume = quartile(resumed);
        costs.typical = Typical {
            submission: submission.unwrap_or(0),
            before: usual(Cause::Before).unwrap_or(0),
            // A stream that waited resumes as one does that was idle.
            wait: usual(Cause::Wait).or(handoff).or(submission).unwrap_or(0),
            // The program parks as workers do.
            parked: usual(Cause::Parked).or(handoff).or(resume).or(submission).unwrap_or(0),
            resume: resume.unwrap_or(0),
        };
        let ends = profile.shown().map(|(_, _, times)| times.end);
        let last = ends.chain(costs.steps.last().map(|step| step.at)).max().unwrap_or(0);
        costs.tail = profile.total.saturating_sub(last);
        costs
    }

    /// Lets workers run instructions in another order than the measured one. Returns whether that
    /// makes a difference.
    pub(super) fn forget_order_of_workers(&mut self) -> bool {
        let known = self.instructions.iter_mut().filter(|cost| cost.worker_before != NONE);
        known.map(Cost::release).count() > 0
    }

    /// Changes the latencies of instructions that compute or copy.
    pub(super) fn scale_latencies(&mut self, profile: &Profile, scaling: Scaling) {
        let scaled = |ns: i64| scaling.of(ns.max(0) as u64) as i64;
        for (instruction, cost) in profile.instructions.iter().zip(&mut self.instructions) {
            if let Some(latency) = cost.latency.as_mut().filter(|_| !is_wait(instruction.role)) {
                latency.ns = scaled(latency.ns);
            }
        }
        self.typical.submission = scaled(self.typical.submission);
        self.typical.before = scaled(self.typical.before);
        self.typical.parked = scaled(self.typical.parked);
    }
}

fn quartile(mut all: Vec<i64>) -> Option<i64> {
    let at = all.len() / 4;
    (!all.is_empty()).then(|| *all.select_nth_unstable(at).1)
}

/// Returns the steps of the program: submissions and pauses, in the order of their times.
fn steps(profile: &Profile, order: &Order) -> Vec<Step> {
    let end = |k: u32| profile.instructions.get(k as usize).and_then(|i| i.times).map(|t| t.end);
    let mut all: Vec<(u64, u8, Action)> = Vec::new();
    for (k, instruction) in (0..).zip(&profile.instructions) {
        let submitted = instruction.issued.filter(|_| instruction.parent == NONE);
        all.extend(submitted.map(|at| (at, 1, Action::Submit(k))));
    }
    for (k, pause) in (0..).zip(&profile.pauses) {
        all.push((pause.begin, 0, Action::Pause(k)));
        all.push((pause.end, 0, Action::Resume(k)));
    }
    // Of steps at one time, an instruction follows what the program waited for.
    all.sort_by_key(|&(at, rank, _)| (at, rank));
    let mut by_end: Vec<(u64, u32)> = profile
        .shown()
        .filter(|(_, i, _)| i.parent == NONE)
        .map(|(k, _, t)| (t.end, k as u32))
        .collect();
    by_end.sort_unstable();
    let mut steps: Vec<Step> = Vec::with_capacity(all.len());
    let mut last_submitted: HashMap<u32, u32> = HashMap::new();
    let (mut last_of, mut last_rank): (HashMap<u32, u32>, u32) = (HashMap::new(), 0);
    for (at, _, action) in all {
        let mut until = Vec::new();
        match action {
            Action::Submit(k) => {
                let awaited = order.before(k as usize).iter();
                until.extend(awaited.filter(|(_, r)| *r == Reason::Host).map(|(k, _)| *k));
                last_submitted.insert(profile.instructions[k as usize].stream, k);
            }
            Action::Pause(_) => {}
            Action::Resume(pause) => match profile.pauses[pause as usize].until {
                // It waited for room: for the instruction that ended last.
                NONE => {
                    let upto = by_end.partition_point(|(end, _)| *end <= at);
                    until.extend(by_end[..upto].last().map(|(_, k)| *k));
                }
                awaited => {
                    until.push(awaited);
                    // A program that waits for the last of everything, and not for a result, may
                    // have to wait longer for another stream.
                    let rank = profile.pauses[pause as usize].rank;
                    let is_own = |stream: u32| {
                        profile.streams.get(stream as usize).is_some_and(|s| s.rank == rank)
                    };
                    let own = last_submitted.iter().filter(|(stream, _)| is_own(**stream));
                    let own: Vec<u32> = own.map(|(_, last)| *last).collect();
                    let waits_for_all = own.contains(&awaited)
                        && profile.name_of(&profile.instructions[awaited as usize]) != "SyncRead";
                    if waits_for_all {
                        until.extend(own);
                    }
                }
            },
        }
        let rank = match action {
            Action::Submit(k) => {
                let stream = profile.instructions[k as usize].stream;
                profile.streams.get(stream as usize).map_or(last_rank, |stream| stream.rank)
            }
            Action::Pause(k) | Action::Resume(k) => profile.pauses[k as usize].rank,
        };
        last_rank = rank;
        let own = last_of.insert(rank, steps.len() as u32).unwrap_or(NONE);
        let before = steps.get(own as usize).map_or(0, |step: &Step| step.at);
        // Only what had ended by then can have been waited for.
        let ended = until.iter().filter_map(|&k| end(k)).filter(|end| *end <= at).max();
        let waited = ended.is_some_and(|end| end > before);
        let gap = at as i64 - ended.unwrap_or(0).max(before) as i64;
        steps.push(Step { action, until, gap, waited, at, before: own });
    }
    steps
}

/// When the workers were busy.
struct WorkerTimes<'a> {
    profile: &'a Profile,
    /// The ends of the instructions that ran on each worker, in order.
    ends: HashMap<u32, Vec<(u64, u32)>>,
    /// When a worker of the pools was free for each of their instructions.
    pool: HashMap<u32, u64>,
}

impl WorkerTimes<'_> {
    fn of<'a>(profile: &'a Profile, order: &Order) -> WorkerTimes<'a> {
        let mut ends: HashMap<u32, Vec<(u64, u32)>> = HashMap::new();
        for (k, instruction, times) in profile.shown().filter(|(k, ..)| !profile.is_part(*k)) {
            let worker = profile.streams[instruction.stream as usize].worker;
            if let Some(worker) = worker.filter(|_| !ends_with(order, profile, k)) {
                ends.entry(worker).or_default().push((times.end, k as u32));
            }
        }
        ends.values_mut().for_each(|ends| ends.sort_unstable());
        WorkerTimes { profile, ends, pool: WorkerTimes::of_pools(profile) }
    }

    /// Returns when a worker was free for each instruction of a pool: each goes to the worker that
    /// has been free for longest, as in a replay.
    fn of_pools(profile: &Profile) -> HashMap<u32, u64> {
        let is_pool = |i: &Instruction| {
            profile.streams[i.stream as usize].pool && i.parent == NONE && !is_wait(i.role)
        };
        let shown = profile.shown().filter(|(_, i, _)| is_pool(i));
        let mut all: Vec<(u64, u32, u64)> =
            shown.map(|(k, _, times)| (times.start, k as u32, times.end)).collect();
        all.sort_unstable();
        let workers = vec![Reverse(0); profile.host_workers as usize];
        let mut free: BinaryHeap<Reverse<u64>> = workers.into();
        let mut pool = HashMap::new();
        for (start, k, end) in all {
            let Some(Reverse(since)) = free.pop() else { break };
            if since <= start {
                pool.insert(k, since);
            }
            free.push(Reverse(end));
        }
        pool
    }

    /// Returns whether one worker runs two instructions.
    fn are_of_one(&self, a: u32, b: u32) -> bool {
        let [a, b] = [a, b].map(|k| self.profile.instructions[k as usize].stream);
        let worker = |stream: u32| self.profile.streams.get(stream as usize)?.worker;
        worker(a).is_some() && worker(a) == worker(b)
    }

    /// Returns when the worker of a stream last ended an instruction before a time, and which; none
    /// if the stream has no worker.
    fn before(&self, stream: u32, at: u64) -> Option<(u64, u32)> {
        let worker = self.profile.streams.get(stream as usize)?.worker?;
        let Some(ends) = self.ends.get(&worker) else { return Some((0, NONE)) };
        let upto = ends.partition_point(|(end, _)| *end <= at);
        Some(ends[..upto].last().copied().unwrap_or((0, NONE)))
    }
}
