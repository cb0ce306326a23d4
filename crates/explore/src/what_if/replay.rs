//! The instructions of a run, run again in simulated time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use millstream_profile::Profile;
use millstream_profile::model::{NONE, Times};

use super::costs::{Cause, Costs, Edge, Graph, PARKS, servers};

/// An event of simulated time. Of the events of one time, a server's choice comes last: it is among
/// all instructions that can run by then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Nothing that an instruction comes after keeps it from running.
    Ready(u32),
    /// A server takes the first of its waiting instructions.
    Take(usize),
}

/// What is known of an instruction so far.
#[derive(Clone, Copy)]
struct State {
    /// How many others it still comes after.
    left: u32,
    /// The last event that it comes after.
    last: (u64, Cause),
    /// When it may begin, and if it ends with others, when it may end.
    begin: u64,
    end: u64,
}

struct Replay<'a> {
    graph: Graph<'a>,
    costs: &'a Costs,
    states: Vec<State>,
    /// What comes after each instruction: the instruction, and the edge to it.
    after: Vec<Vec<(u32, Edge)>>,
    /// When each thread of a server is free.
    servers: Vec<Vec<u64>>,
    /// The instructions that could run if a thread of a server were free, the first one on top.
    /// While there are any, the server has an event.
    waiting: Vec<BinaryHeap<Reverse<u32>>>,
    /// The server of each stream.
    server: Vec<Option<usize>>,
    times: Vec<Option<Times>>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
}

/// Gives a profile the times that its instructions take.
pub(crate) fn replay(profile: &mut Profile, costs: &Costs) {
    let mut replay = Replay::new(profile, costs);
    replay.run();
    let is_stuck = replay.states.iter().any(|state| state.left > 0);
    let times = replay.times;
    if is_stuck {
        // Threads read their clocks apart, so the order of a worker may contradict the waits.
        let mut free = costs.clone();
        let count = (0..times.len()).filter(|&k| free.free_of_worker(k)).count();
        if count > 0 {
            return self::replay(profile, &free);
        }
    }
    let measured: Vec<Option<Times>> = profile.instructions.iter().map(|i| i.times).collect();
    for (k, instruction) in profile.instructions.iter_mut().enumerate() {
        let parent = instruction.parent as usize;
        instruction.times = match (instruction.parent != NONE && parent < k, instruction.times) {
            (false, _) => times[k],
            // The parts of a launch keep their places in it.
            (true, Some(own)) => {
                let both = measured[parent].zip(times[parent]);
                Some(both.map_or(own, |(old, new)| moved(own, old, new)))
            }
            (true, None) => None,
        };
    }
    let end = times.iter().flatten().map(|times| times.end).max().unwrap_or(0);
    profile.total = end.saturating_add(costs.tail);
    move_ranges(profile, &measured);
}

/// Returns the times of a part of an instruction whose times have changed.
fn moved(own: Times, old: Times, new: Times) -> Times {
    let known = [(old.start, new.start), (old.end, new.end)];
    let [ready, start, end] =
        [own.ready, own.start, own.end].map(|at| interpolated(&known, at.max(old.start)));
    Times { ready, start, end }
}

/// Moves the ranges of the program with the instructions of their threads.
fn move_ranges(profile: &mut Profile, measured: &[Option<Times>]) {
    let is_thread = |k: u32| profile.streams.get(k as usize).is_some_and(|stream| stream.thread);
    let mut known: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let own = profile.instructions.iter().zip(measured).filter(|(i, _)| is_thread(i.stream));
    for (instruction, old) in own {
        let Some((old, new)) = old.zip(instruction.times) else { continue };
        // The ranges of our own programs name none of the profile's streams.
        for thread in [instruction.stream, NONE] {
            let known = known.entry(thread).or_default();
            known.extend([(old.start, new.start), (old.end, new.end)]);
        }
    }
    known.values_mut().for_each(|all| all.sort_unstable());
    for k in 0..profile.ranges.len() {
        let range = &profile.ranges[k];
        let thread = if is_thread(range.thread) { range.thread } else { NONE };
        let known = known.get(&thread).map_or(&[][..], |all| all);
        let [begin, end] = [range.begin, range.end].map(|at| interpolated(known, at));
        (profile.ranges[k].begin, profile.ranges[k].end) = (begin, end.max(begin));
    }
}

/// Returns the predicted time of a moment of the program, from those of its instructions.
fn interpolated(known: &[(u64, u64)], at: u64) -> u64 {
    let next = known.partition_point(|(measured, _)| *measured <= at);
    let (from, to) = next.checked_sub(1).map_or((0, 0), |last| known[last]);
    let later = at - from;
    match known.get(next) {
        Some(&(end, until)) if end > from => {
            let share = later as f64 / (end - from) as f64;
            to + (until.saturating_sub(to) as f64 * share).round() as u64
        }
        _ => to + later,
    }
}

impl<'a> Replay<'a> {
    fn new(profile: &'a Profile, costs: &'a Costs) -> Replay<'a> {
        let (servers, server) = servers(profile, 0);
        let count = profile.instructions.len();
        let state = |k: usize| {
            let begin = later(0, costs.instructions[k].delays[Cause::Before as usize]);
            State { left: 0, last: (0, Cause::Before), begin, end: 0 }
        };
        let mut replay = Replay {
            graph: Graph::of(profile),
            costs,
            states: (0..count).map(state).collect(),
            after: vec![Vec::new(); count],
            waiting: vec![BinaryHeap::new(); servers.len()],
            servers,
            server,
            times: vec![None; count],
            events: BinaryHeap::new(),
        };
        for k in (0..count as u32).filter(|&k| replay.graph.runs(k)) {
            let worker = costs.instructions[k as usize].worker_before;
            let worker = Some(worker).filter(|&from| from != NONE && replay.graph.runs(from));
            let at_end = replay.graph.ends_with(k);
            let worker = worker.map(|from| Edge { from, cause: Cause::Before, at_end });
            for edge in replay.graph.before(k).chain(worker) {
                replay.after[edge.from as usize].push((k, edge));
                replay.states[k as usize].left += 1;
            }
        }
        replay
    }

    fn run(&mut self) {
        for k in (0..self.states.len() as u32).filter(|&k| self.graph.runs(k)) {
            if self.states[k as usize].left == 0 {
                self.events.push(Reverse((0, Event::Ready(k))));
            }
        }
        while let Some(Reverse((at, event))) = self.events.pop() {
            match event {
                Event::Ready(k) => self.arrives(k, at),
                Event::Take(server) => {
                    if let Some(Reverse(k)) = self.waiting[server].pop() {
                        self.execute(k);
                    }
                    self.take_later(server);
                }
            }
        }
    }

    /// Executes an instruction that can run, or lets it wait for its server.
    fn arrives(&mut self, k: u32, at: u64) {
        let server = self.server_of(k);
        match server.filter(|&of| !self.waiting[of].is_empty() || self.is_free_at(of) > at) {
            Some(server) => {
                self.waiting[server].push(Reverse(k));
                if self.waiting[server].len() == 1 {
                    self.take_later(server);
                }
            }
            None => self.execute(k),
        }
    }

    fn server_of(&self, k: u32) -> Option<usize> {
        self.server[self.graph.profile.instructions[k as usize].stream as usize]
    }

    /// Returns when the first thread of a server is free.
    fn is_free_at(&self, server: usize) -> u64 {
        self.servers[server].iter().copied().min().unwrap_or(0)
    }

    /// Lets a server choose once it is free, if there is anything to choose from.
    fn take_later(&mut self, server: usize) {
        if !self.waiting[server].is_empty() {
            self.events.push(Reverse((self.is_free_at(server), Event::Take(server))));
        }
    }

    /// Executes an instruction. The worker is with it during its delay already: it was chosen, and
    /// other instructions come behind it.
    fn execute(&mut self, k: u32) {
        let State { last: (last, cause), mut begin, mut end, .. } = self.states[k as usize];
        let cost = &self.costs.instructions[k as usize];
        let delay = |cause: Cause| cost.delays[cause as usize];
        let server = self.server_of(k);
        let free = server.map(|server| self.is_free_at(server));
        let idle = free.filter(|_| self.graph.worker(k).is_some());
        let idle = idle.map_or(0, |free| last.saturating_sub(free));
        let parked = match cause {
            Cause::Submission | Cause::Wait if idle > PARKS => later(last, delay(Cause::Parked)),
            _ => 0,
        };
        if self.graph.ends_with(k) {
            // A wait blocks its stream, and not its worker, which notices its end, too.
            end = end.max(begin).max(free.unwrap_or(0)).max(parked).saturating_add(cost.takes);
        } else {
            begin = begin.max(free.map_or(0, |free| later(free, delay(Cause::Before)))).max(parked);
            end = begin.saturating_add(cost.takes);
            if let Some(server) = server
                && let Some(free) = self.servers[server].iter_mut().min()
            {
                *free = end;
            }
        }
        let times = Times { ready: begin, start: begin, end };
        self.times[k as usize] = Some(times);
        for (next, edge) in std::mem::take(&mut self.after[k as usize]) {
            self.completed(next, edge, edge.moment(times));
        }
    }

    /// Handles that one of the instructions before an instruction holds it up no longer.
    fn completed(&mut self, k: u32, Edge { cause, at_end, .. }: Edge, at: u64) {
        let state = &mut self.states[k as usize];
        let delay = self.costs.instructions[k as usize].delays[cause as usize];
        match (at_end, cause) {
            (false, _) => state.begin = state.begin.max(later(at, delay)),
            (true, Cause::Wait) => state.end = state.end.max(later(at, delay)),
            (true, _) => state.end = state.end.max(at),
        }
        if at >= state.last.0 {
            state.last = (at, cause);
        }
        state.left -= 1;
        if state.left == 0 {
            self.events.push(Reverse((state.last.0, Event::Ready(k))));
        }
    }
}

const fn later(at: u64, by: i64) -> u64 {
    at.saturating_add_signed(by)
}
