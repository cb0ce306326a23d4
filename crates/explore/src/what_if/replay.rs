//! The steps of a run, run again in simulated time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use millstream_profile::Profile;
use millstream_profile::model::{NONE, Role, Times};
use millstream_profile::order::{Order, Reason};

use super::costs::{Action, Cause, Costs, ends_with};
use super::servers::{Server, servers};

/// The simulated time of a step of the program, or of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Step(u32),
    Instruction(u32),
}

/// An event of simulated time. Of the events of one time, a server's choice comes last:
/// it is among all instructions that can run by then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Nothing that a node comes after keeps it from running.
    Ready(Node),
    /// A server takes the first of its waiting instructions.
    Take(usize),
}

struct Replay<'a> {
    profile: &'a Profile,
    costs: &'a Costs,
    order: Order,
    /// How many nodes each instruction and each step still comes after.
    left: [Vec<u32>; 2],
    /// The nodes that come after each instruction, and after each step.
    after: [Vec<Vec<Node>>; 2],
    /// The last event so far that each instruction comes after.
    last: Vec<(u64, Cause)>,
    /// The end of the last instruction that each step waits for.
    awaited: Vec<u64>,
    servers: Vec<Server>,
    /// The server of each stream.
    server: Vec<Option<usize>>,
    times: Vec<Option<Times>>,
    steps: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
}

/// Gives a profile the times that its steps take.
pub(super) fn replay(profile: &mut Profile, costs: &Costs) {
    let mut replay = Replay::new(profile, costs);
    replay.run();
    let is_stuck = replay.left.iter().flatten().any(|left| *left > 0);
    let Replay { times, steps, .. } = replay;
    if is_stuck {
        // Threads read their clocks apart, so the order of a worker may contradict the waits.
        let mut free = costs.clone();
        if free.forget_order_of_workers() {
            return self::replay(profile, &free);
        }
    }
    let measured: Vec<Option<Times>> = profile.instructions.iter().map(|i| i.times).collect();
    let mut end = 0;
    for (k, instruction) in profile.instructions.iter_mut().enumerate() {
        if instruction.parent != NONE && (instruction.parent as usize) < k {
            // The parts of a launch keep their places in it.
            let parent = instruction.parent as usize;
            if let (Some(old), Some(new)) = (measured[parent], times[parent]) {
                instruction.times = instruction.times.map(|own| moved(own, old, new));
            }
            continue;
        }
        instruction.times = times[k];
        end = end.max(times[k].map_or(0, |times| times.end));
    }
    let mut known = vec![(0, 0)];
    for (step, &at) in costs.steps.iter().zip(&steps) {
        known.push((step.at, at));
        match step.action {
            Action::Submit(k) => profile.instructions[k as usize].issued = Some(at),
            Action::Pause(k) => profile.pauses[k as usize].begin = at,
            Action::Resume(k) => profile.pauses[k as usize].end = at,
        }
        end = end.max(at);
    }
    for k in 0..profile.instructions.len() {
        // A launch is submitted with its steps.
        let root = profile.root_of(k as u32) as usize;
        if root != k && profile.instructions[k].issued.is_some() {
            profile.instructions[k].issued = profile.instructions[root].issued;
        }
    }
    for range in &mut profile.ranges {
        range.begin = interpolated(&known, range.begin);
        range.end = interpolated(&known, range.end).max(range.begin);
    }
    profile.total = end + costs.tail;
}

/// Returns the times of a part of an instruction whose times have changed.
fn moved(own: Times, old: Times, new: Times) -> Times {
    let scale = (new.end - new.start) as f64 / (old.end - old.start).max(1) as f64;
    let at = |t: u64| {
        let offset = t.saturating_sub(old.start) as f64 * scale;
        (new.start + offset.round() as u64).min(new.end)
    };
    Times { ready: at(own.ready), start: at(own.start), end: at(own.end) }
}

/// Returns the predicted time of a moment of the program, from those of its steps.
fn interpolated(known: &[(u64, u64)], at: u64) -> u64 {
    let next = known.partition_point(|(measured, _)| *measured <= at);
    let (from, to) = known[next - 1];
    let later = at - from;
    match known.get(next) {
        Some(&(end, until)) if end > from => {
            let share = later as f64 / (end - from) as f64;
            to + ((until.saturating_sub(to)) as f64 * share) as u64
        }
        _ => to + later,
    }
}

impl<'a> Replay<'a> {
    fn new(profile: &'a Profile, costs: &'a Costs) -> Replay<'a> {
        let (instructions, steps) = (profile.instructions.len(), costs.steps.len());
        let (servers, server) = servers(profile);
        let mut replay = Replay {
            profile,
            costs,
            order: Order::of(profile),
            left: [vec![0; instructions], vec![0; steps]],
            after: [vec![Vec::new(); instructions], vec![Vec::new(); steps]],
            last: vec![(0, Cause::Before); instructions],
            awaited: vec![0; steps],
            servers,
            server,
            times: vec![None; instructions],
            steps: vec![0; steps],
            events: BinaryHeap::new(),
        };
        for (k, instruction) in (0..).zip(&profile.instructions) {
            if !replay.runs(k) {
                continue;
            }
            let before: Vec<(u32, Reason)> = replay.order.before(k as usize).to_vec();
            for (earlier, reason) in before {
                // The steps of the program wait for what the host waited for.
                let by_step = reason == Reason::Host && instruction.issued.is_some();
                if !by_step && earlier < k && replay.runs(earlier) {
                    replay.edge(Node::Instruction(earlier), Node::Instruction(k));
                }
            }
            let cost = &costs.instructions[k as usize];
            if cost.submitted != NONE {
                replay.edge(Node::Step(cost.submitted), Node::Instruction(k));
            }
            if cost.worker_before != NONE && replay.runs(cost.worker_before) {
                replay.edge(Node::Instruction(cost.worker_before), Node::Instruction(k));
            }
        }
        for (k, step) in (0..).zip(&costs.steps) {
            if step.before != NONE {
                replay.edge(Node::Step(step.before), Node::Step(k));
            }
            for &until in &step.until {
                // A step waits only for what was submitted before it.
                let earlier = costs.instructions[until as usize].submitted;
                if replay.runs(until) && (earlier == NONE || earlier < k) {
                    replay.edge(Node::Instruction(until), Node::Step(k));
                }
            }
        }
        replay
    }

    /// Returns whether an instruction runs on a stream by itself.
    fn runs(&self, k: u32) -> bool {
        let instruction = &self.profile.instructions[k as usize];
        let is_part = self.profile.is_part(k as usize);
        instruction.stream != NONE && !is_part && instruction.role != Role::Observe
    }

    fn edge(&mut self, from: Node, to: Node) {
        let (kind, k) = from.place();
        self.after[kind][k].push(to);
        let (kind, k) = to.place();
        self.left[kind][k] += 1;
    }

    fn run(&mut self) {
        for k in 0..self.profile.instructions.len() as u32 {
            if self.left[0][k as usize] == 0 && self.runs(k) {
                self.enqueue(Node::Instruction(k));
            }
        }
        for k in 0..self.steps.len() as u32 {
            if self.left[1][k as usize] == 0 {
                self.enqueue(Node::Step(k));
            }
        }
        while let Some(Reverse((at, event))) = self.events.pop() {
            match event {
                Event::Ready(Node::Step(k)) => {
                    self.steps[k as usize] = at;
                    self.completed(Node::Step(k), at);
                }
                Event::Ready(Node::Instruction(k)) => self.arrives(k, at),
                Event::Take(server) => {
                    if let Some(Reverse(k)) = self.servers[server].waiting.pop() {
                        self.execute(k, self.begins(k));
                    }
                    self.take_later(server);
                }
            }
        }
    }

    /// Executes an instruction that can run, or lets it wait for its server.
    fn arrives(&mut self, k: u32, at: u64) {
        let stream = self.profile.instructions[k as usize].stream;
        if let Some(number) = self.server[stream as usize] {
            let server = &mut self.servers[number];
            let is_first = server.waiting.is_empty();
            if !is_first || server.is_free_at() > at {
                server.waiting.push(Reverse(k));
                if is_first {
                    self.take_later(number);
                }
                return;
            }
        }
        self.execute(k, self.begins(k));
    }

    /// Lets a server choose once it is free, if there is anything to choose from.
    fn take_later(&mut self, number: usize) {
        let server = &self.servers[number];
        if !server.waiting.is_empty() {
            self.events.push(Reverse((server.is_free_at(), Event::Take(number))));
        }
    }

    fn enqueue(&mut self, node: Node) {
        let at = match node {
            Node::Step(k) => self.step(k as usize),
            Node::Instruction(k) => self.last[k as usize].0,
        };
        self.events.push(Reverse((at, Event::Ready(node))));
    }

    /// Returns when a step of the program is over.
    fn step(&self, k: usize) -> u64 {
        let step = &self.costs.steps[k];
        let before = self.steps.get(step.before as usize).copied().unwrap_or(0);
        let awaited = self.awaited[k];
        let gap = match (awaited > before, step.waited, step.action) {
            (true, false, Action::Resume(_)) => self.costs.typical.resume,
            (false, true, Action::Resume(_)) => 0,
            _ => step.gap,
        };
        later(awaited.max(before), gap)
    }

    /// Returns when nothing keeps an instruction from running any more as things stand, and why it
    /// could not before.
    fn may_begin(&self, k: u32) -> (u64, Cause) {
        let (mut at, mut cause) = self.last[k as usize];
        let instruction = &self.profile.instructions[k as usize];
        // A wait's end is noticed by the worker, too.
        let mut idle = None;
        if let Some(server) = self.server[instruction.stream as usize] {
            let free = self.servers[server].is_free_at();
            let has_worker = self.profile.streams[instruction.stream as usize].worker.is_some();
            idle = has_worker.then(|| at.saturating_sub(free));
            if free > at {
                (at, cause) = (free, Cause::Before);
            }
        }
        (at, cause.after(idle))
    }

    /// Returns when an instruction begins, or when a wait ends. The worker is with it during its
    /// latency already: it was chosen, and other instructions come behind it.
    fn begins(&self, k: u32) -> u64 {
        let (at, cause) = self.may_begin(k);
        let cost = &self.costs.instructions[k as usize];
        let holds = |cause_then| !cost.is_moved || cause_then == cause || at == 0;
        let latency = match cost.latency.filter(|latency| holds(latency.cause)) {
            Some(latency) => latency.ns,
            None => self.costs.typical.of(cause),
        };
        later(at, latency)
    }

    fn execute(&mut self, k: u32, begins: u64) {
        let instruction = &self.profile.instructions[k as usize];
        let end = begins + self.costs.instructions[k as usize].takes;
        let stream = instruction.stream as usize;
        let times = match ends_with(&self.order, self.profile, k as usize) {
            false => {
                if let Some(server) = self.server[stream]
                    && let Some(free) = self.servers[server].free.iter_mut().min()
                {
                    *free = end;
                }
                Times { ready: begins, start: begins, end }
            }
            true => {
                // A wait blocks its stream from the moment at which the stream gets to it.
                let before = self.order.before(k as usize).iter();
                let own = before.filter(|(_, reason)| *reason == Reason::Stream);
                let own = own.filter_map(|(k, _)| Some(self.times[*k as usize]?.end)).max();
                let submitted = self.costs.instructions[k as usize].submitted;
                let submitted = self.steps.get(submitted as usize).copied().unwrap_or(0);
                let reached = own.unwrap_or(0).max(submitted).min(end);
                Times { ready: reached, start: reached, end }
            }
        };
        self.times[k as usize] = Some(times);
        self.completed(Node::Instruction(k), end);
    }

    /// Tells the nodes after a node when it ended.
    fn completed(&mut self, node: Node, end: u64) {
        let (kind, k) = node.place();
        for next in std::mem::take(&mut self.after[kind][k]) {
            let (next_kind, next_k) = next.place();
            match next {
                Node::Step(_) if matches!(node, Node::Instruction(_)) => {
                    self.awaited[next_k] = self.awaited[next_k].max(end);
                }
                Node::Step(_) => {}
                Node::Instruction(of) => {
                    let cause = self.cause(node, of);
                    if end >= self.last[next_k].0 {
                        self.last[next_k] = (end, cause);
                    }
                }
            }
            self.left[next_kind][next_k] -= 1;
            if self.left[next_kind][next_k] == 0 {
                self.enqueue(next);
            }
        }
    }

    /// Returns why an instruction comes after a node.
    fn cause(&self, earlier: Node, of: u32) -> Cause {
        let Node::Instruction(earlier) = earlier else { return Cause::Submission };
        let before = self.order.before(of as usize).iter();
        let reasons = before.filter(|(k, _)| *k == earlier).map(|(_, reason)| *reason);
        let own = |reason| matches!(reason, Reason::Stream | Reason::Data | Reason::List);
        let reasons: Vec<Reason> = reasons.collect();
        let server = |k: u32| self.server[self.profile.instructions[k as usize].stream as usize];
        let is_same = server(earlier).is_some() && server(earlier) == server(of);
        // Without a reason of the program's order it is the worker that was busy. A worker goes on
        // after its own calls at once.
        match is_same || reasons.is_empty() || reasons.into_iter().any(own) {
            true => Cause::Before,
            false => Cause::Wait,
        }
    }
}

impl Node {
    const fn place(self) -> (usize, usize) {
        match self {
            Node::Instruction(k) => (0, k as usize),
            Node::Step(k) => (1, k as usize),
        }
    }
}

const fn later(at: u64, by: i64) -> u64 {
    at.saturating_add_signed(by)
}
