//! From the times of a profile to what each instruction takes by itself.

use std::collections::HashMap;

use millstream_profile::Profile;
use millstream_profile::model::{Instruction, NONE, Role, Times};
use millstream_profile::order::{Order, Reason};

use super::change::Scaling;

/// The kind of an event that an instruction comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cause {
    /// A thread of the program submitted it.
    Submission,
    /// The instruction before it, on its stream or its worker, has ended.
    Before,
    /// What it waits for has ended.
    Wait,
    /// One of these two, and its worker had been idle for so long that it was parked.
    Parked,
}

/// A time for each cause.
pub(super) type Delays = [i64; 4];

/// How long a worker is idle before it parks, in nanoseconds: a worker checks its queue for some
/// ten microseconds.
pub(super) const PARKS: u64 = 20_000;

/// What an instruction comes after.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) cause: Cause,
    /// Whether it ends after that, and may begin before.
    pub(super) at_end: bool,
}

impl Edge {
    /// Returns the moment from which on the other instruction holds nothing up, by its times.
    pub(super) const fn moment(self, from: Times) -> u64 {
        match self.cause {
            Cause::Submission => from.start,
            _ => from.end,
        }
    }
}

/// The instructions of a profile, and their order.
pub(super) struct Graph<'a> {
    pub(super) profile: &'a Profile,
    order: Order,
}

impl<'a> Graph<'a> {
    pub(super) fn of(profile: &'a Profile) -> Graph<'a> {
        Graph { profile, order: Order::of(profile) }
    }

    /// Returns whether an instruction runs on a stream by itself.
    pub(super) fn runs(&self, k: u32) -> bool {
        let Instruction { stream, role, .. } = self.profile.instructions[k as usize];
        stream != NONE && role != Role::Observe && !self.profile.is_part(k as usize)
    }

    /// Returns whether an instruction ends when others have: a wait, or a launch with its steps.
    pub(super) fn ends_with(&self, k: u32) -> bool {
        let role = self.profile.instructions[k as usize].role;
        matches!(role, Role::Wait | Role::Fence) || self.order.has_steps(k as usize)
    }

    /// Returns the worker of an instruction.
    pub(super) fn worker(&self, k: u32) -> Option<u32> {
        let stream = self.profile.instructions[k as usize].stream;
        self.profile.streams.get(stream as usize)?.worker
    }

    /// Returns what an instruction comes after. What the host waited for holds up its submission.
    pub(super) fn before(&self, k: u32) -> impl Iterator<Item = Edge> + '_ {
        let (ends, worker) = (self.ends_with(k), self.worker(k));
        let order = self.order.before(k as usize).iter();
        let order = order.filter(move |(from, reason)| *reason != Reason::Host && *from < k);
        let order = order.map(move |&(from, reason)| {
            let waits = matches!(reason, Reason::Wait | Reason::Step | Reason::Fence);
            // A worker goes on after its own calls at once.
            let own = reason != Reason::Fence && worker.is_some() && worker == self.worker(from);
            let cause = if waits && !own { Cause::Wait } else { Cause::Before };
            Edge { from, cause, at_end: ends && waits }
        });
        let submitter = self.profile.instructions[k as usize].submitter;
        let submitted =
            submitter.map(|from| Edge { from, cause: Cause::Submission, at_end: false });
        order.chain(submitted).filter(|edge| self.runs(edge.from))
    }
}

/// What an instruction takes by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// The time from its beginning to its end; of one that ends with others, the time that it takes
    /// if these have ended before.
    pub(crate) takes: u64,
    /// The time from each event until it begins; from what it waits for until it ends, if it ends
    /// with others. Two threads read their clocks, so it may be negative.
    pub(super) delays: Delays,
    /// Whether a delay is a measured one: that event held it up. The others are the usual ones, as
    /// far as the measured times leave room for them.
    measured: [bool; 4],
    /// The instruction that its worker ended last before it, or [`NONE`].
    pub(super) worker_before: u32,
}

impl Cost {
    /// Returns the cost of what takes no time, with the usual delays.
    pub(super) fn nothing(delays: Delays) -> Cost {
        Cost { takes: 0, delays, measured: [false; 4], worker_before: NONE }
    }

    /// Lets the instruction run at another place of its worker's order, and after other events.
    fn release(&mut self, usual: &Delays) {
        self.worker_before = NONE;
        let known = self.delays.iter_mut().zip(usual).zip(self.measured);
        known.filter(|(_, measured)| !measured).for_each(|((own, usual), _)| *own = *usual);
    }

    fn measure(&mut self, cause: Cause, ns: i64) {
        self.delays[cause as usize] = ns;
        self.measured[cause as usize] = true;
    }
}

/// What the instructions of a profile take by themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Costs {
    pub(crate) instructions: Vec<Cost>,
    /// The usual delays on the streams of devices, and on threads of the program: the lower
    /// quartiles. The distributions have long tails, of threads that the operating system had
    /// stopped, and few samples.
    usual: [Delays; 2],
    /// The measured time after the last instruction.
    pub(super) tail: u64,
}

impl Costs {
    /// Divides the times of a profile.
    pub(crate) fn of(profile: &Profile) -> Costs {
        let graph = Graph::of(profile);
        let worked = free_before(&graph);
        let mut samples: HashMap<(bool, Cause), Vec<i64>> = HashMap::new();
        let mut costs = Costs::default();
        for (k, instruction) in (0..).zip(&profile.instructions) {
            let mut cost = Cost::nothing([i64::MAX; 4]);
            if let Some(times) = instruction.times.filter(|_| graph.runs(k)) {
                let is_thread = is_of_thread(profile, k);
                let sample = |cause, ns| samples.entry((is_thread, cause)).or_default().push(ns);
                cost.divide(k, times, (&graph, worked.get(&k).copied()), sample);
            }
            costs.instructions.push(cost);
        }
        let mut usual = |of_thread, cause| {
            let all = samples.get_mut(&(of_thread, cause))?;
            let at = all.len() / 4;
            Some(*all.select_nth_unstable(at).1)
        };
        let resume = usual(true, Cause::Wait);
        let of_thread = [None, usual(true, Cause::Before), resume, None];
        let submission = usual(false, Cause::Submission);
        let handoff = profile.handoff.map(|ns| ns as i64);
        // A stream that waited resumes as one does that was idle; the program parks as workers do.
        let wait = usual(false, Cause::Wait).or(handoff).or(submission);
        let parked = usual(false, Cause::Parked).or(handoff).or(resume).or(submission);
        let of_stream = [submission, usual(false, Cause::Before), wait, parked];
        costs.usual = [of_stream, of_thread].map(|of| of.map(|ns| ns.unwrap_or(0)));
        for (k, cost) in (0..).zip(&mut costs.instructions) {
            let usual = &costs.usual[usize::from(is_of_thread(profile, k))];
            let known = cost.delays.iter_mut().zip(usual).zip(cost.measured);
            known.filter(|(_, known)| !known).for_each(|((ns, usual), _)| *ns = *usual.min(ns));
        }
        let last = profile.shown().map(|(_, _, times)| times.end).max().unwrap_or(0);
        costs.tail = profile.total.saturating_sub(last);
        costs
    }

    /// Returns the usual delays of an instruction of a device's stream.
    pub(super) const fn usual(&self) -> &Delays {
        &self.usual[0]
    }

    /// Lets an instruction run at another place of its worker's order. Returns whether it has one.
    pub(super) fn free_of_worker(&mut self, k: usize) -> bool {
        let cost = &mut self.instructions[k];
        let is_known = cost.worker_before != NONE;
        if is_known {
            cost.release(&self.usual[0]);
        }
        is_known
    }

    /// Lets all instructions of a device's streams run after other events than the measured ones.
    pub(super) fn release(&mut self, profile: &Profile) {
        let all = (0..).zip(&mut self.instructions);
        let own = all.filter(|(k, _)| !is_of_thread(profile, *k));
        own.for_each(|(_, cost)| cost.release(&self.usual[0]));
    }

    /// Changes the delays of instructions that compute or copy.
    pub(super) fn scale_latencies(&mut self, profile: &Profile, scaling: Scaling) {
        let scale = |ns: &mut i64| *ns = scaling.of((*ns).max(0) as u64) as i64;
        for (k, cost) in (0..).zip(&mut self.instructions) {
            let role = profile.instructions[k as usize].role;
            if !matches!(role, Role::Wait | Role::Fence) && !is_of_thread(profile, k) {
                cost.delays.iter_mut().for_each(scale);
            }
        }
        let [submission, before, _, parked] = &mut self.usual[0];
        [submission, before, parked].into_iter().for_each(scale);
    }
}

/// Returns whether an instruction is one of a thread of the program.
pub(super) fn is_of_thread(profile: &Profile, k: u32) -> bool {
    let stream = profile.instructions.get(k as usize).map_or(NONE, |i| i.stream);
    profile.streams.get(stream as usize).is_some_and(|stream| stream.thread)
}

impl Cost {
    /// Divides the times of an instruction. Delays of events that did not hold it up become the
    /// longest that its times allow.
    fn divide(
        &mut self,
        k: u32,
        Times { start, end, .. }: Times,
        (graph, worked): (&Graph<'_>, Option<(u64, u32)>),
        mut sample: impl FnMut(Cause, i64),
    ) {
        let ends = graph.ends_with(k);
        let is_thread = is_of_thread(graph.profile, k);
        // The last event of each cause; the last that it waits for, if it ends with others.
        let (mut last, mut awaited, mut free) = ([None, Some(0), None], None, 0);
        for edge in graph.before(k) {
            let times = graph.profile.instructions[edge.from as usize].times;
            let Some(at) = times.map(|times| edge.moment(times)) else { continue };
            match (edge.at_end, edge.cause) {
                (false, cause) => last[cause as usize] = last[cause as usize].max(Some(at)),
                (true, Cause::Wait) => awaited = awaited.max(Some(at)),
                (true, _) => free = free.max(at),
            }
        }
        let worker = worked.filter(|_| graph.worker(k).is_some());
        self.worker_before = worker.map_or(NONE, |(_, before)| before);
        let worked = worked.map(|(end, _)| end);
        let parked = |at: u64| worker.is_some_and(|(end, _)| at.saturating_sub(end) > PARKS);
        if !ends {
            self.takes = end - start;
            let before = &mut last[Cause::Before as usize];
            *before = (*before).max(worked);
        }
        let mut held = (0, Cause::Before);
        for cause in [Cause::Submission, Cause::Before, Cause::Wait] {
            if let Some(at) = last[cause as usize].filter(|at| *at >= held.0) {
                held = (at, cause);
            }
        }
        let (at, mut cause) = held;
        // A wait blocks its stream from the moment at which the stream gets to it. A thread may do
        // something before, but not where an arrow ends while it has no calls.
        let is_arrow = start == end && awaited.is_some_and(|of| at < of && of <= start);
        let start = if ends && (!is_thread || is_arrow) { at.min(end) } else { start };
        for (delay, at) in self.delays.iter_mut().zip(last) {
            *delay = at.map_or(i64::MAX, |at| start as i64 - at as i64);
        }
        if !ends && matches!(cause, Cause::Submission | Cause::Wait) && parked(at) {
            cause = Cause::Parked;
        }
        let ns = start as i64 - at as i64;
        self.measure(cause, ns);
        // What nothing held up says nothing about delays.
        if at > 0 && !ends {
            sample(cause, ns);
        }
        if !ends {
            return;
        }
        let free = free.max(start).max(worked.unwrap_or(0)).min(end);
        let room = |to: u64| awaited.map_or(i64::MAX, |at| to as i64 - at as i64);
        match awaited.filter(|at| *at >= free) {
            Some(at) => {
                let cause = if parked(at) { Cause::Parked } else { Cause::Wait };
                self.delays[Cause::Wait as usize] = room(end);
                self.measure(cause, room(end));
                sample(cause, room(end));
            }
            None => {
                self.takes = end - free;
                self.delays[Cause::Wait as usize] = room(free);
                let last = at.max(awaited.unwrap_or(0));
                self.delays[Cause::Parked as usize] = free as i64 - last as i64;
            }
        }
    }
}

/// Returns when the server of each instruction was free for it, and what it had ended last; none
/// without a server.
fn free_before(graph: &Graph<'_>) -> HashMap<u32, (u64, u32)> {
    let (mut servers, server) = servers(graph.profile, (0, NONE));
    let mut all: Vec<(u64, u32, u64)> = Vec::new();
    for (k, instruction, times) in graph.profile.shown() {
        let k = k as u32;
        if graph.runs(k) && server[instruction.stream as usize].is_some() {
            all.push((if graph.ends_with(k) { times.end } else { times.start }, k, times.end));
        }
    }
    all.sort_unstable();
    let mut before = HashMap::new();
    for (at, k, end) in all {
        let stream = graph.profile.instructions[k as usize].stream as usize;
        let Some(free) = server[stream].and_then(|of| servers[of].iter_mut().min()) else {
            continue;
        };
        // Threads read their clocks apart.
        if free.0 <= at {
            before.insert(k, *free);
        }
        if !graph.ends_with(k) {
            *free = (end, k);
        }
    }
    before
}

/// Returns the threads of each server, one worker or the workers of a pool, and the server of each
/// stream.
pub(super) fn servers<T: Clone>(profile: &Profile, free: T) -> (Vec<Vec<T>>, Vec<Option<usize>>) {
    let (mut servers, mut known) = (Vec::new(), HashMap::new());
    let of_stream = profile.streams.iter().map(|stream| {
        let threads = match (stream.worker, stream.pool) {
            (Some(_), _) => 1,
            (None, true) => profile.host_workers as usize,
            (None, false) => 0,
        };
        (threads > 0).then(|| {
            *known.entry(stream.worker).or_insert_with(|| {
                servers.push(vec![free.clone(); threads]);
                servers.len() - 1
            })
        })
    });
    let of_stream = of_stream.collect();
    (servers, of_stream)
}
