//! A run of a program within its budgets: where memory is full, buffers are evicted, and where an
//! evicted buffer is used, the calls that computed it are made again.
//!
//! The run is online, as DTR's is, but knows the rest of the program: it never evicts a buffer that
//! could not be computed again in time, and its rules may count the time until the next use.
//! Source: Kirisame et al., "Dynamic Tensor Rematerialization", 2021, sections 3 and 4.

use std::cmp::Reverse;

use super::program::{Buffer, Program, Writer};

mod price;

pub(super) use price::{Cost, Distance, Power, Rule};
use price::{Memo, Need};

/// A decision about a buffer between two of its uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mark {
    /// The rule decides.
    #[default]
    Free,
    /// It is evicted after all others.
    Keep,
    /// It is evicted at once.
    Drop,
}

/// Decisions by buffer and by the number of its uses so far.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    first: Vec<usize>,
    /// The buffer of each gap.
    pub(super) buffer: Vec<usize>,
    pub(super) all: Vec<Mark>,
}

impl Marks {
    pub(super) fn of(program: &Program) -> Marks {
        let (mut first, mut buffer) = (Vec::with_capacity(program.buffers.len()), Vec::new());
        for (b, Buffer { uses, .. }) in program.buffers.iter().enumerate() {
            first.push(buffer.len());
            buffer.extend(std::iter::repeat_n(b, uses.len() + 1));
        }
        Marks { first, all: vec![Mark::Free; buffer.len()], buffer }
    }

    pub(super) fn gap(&self, buffer: usize, uses: usize) -> usize {
        self.first[buffer] + uses
    }
}

/// A call that is made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Again {
    /// The step before which it is made.
    pub(super) before: usize,
    /// The step whose call it is.
    pub(super) step: usize,
    /// The buffers that it computes. What it writes besides is dropped at once.
    pub(super) of: Vec<usize>,
    /// The buffers of `of` that begin anew; others were begun by a call before it.
    pub(super) begins: Vec<usize>,
}

/// A run that fitted.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The time of the calls made again.
    pub(super) extra: u64,
    pub(super) again: Vec<Again>,
    /// For each eviction of a buffer that is used later, its gap.
    pub(super) evicted: Vec<usize>,
}

/// The place at which a run does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// At this step there is no memory, and nothing left to evict. The gaps are those of the
    /// buffers that were being computed again, the innermost last.
    Full(usize, Vec<usize>),
    /// Up to this step, so many calls were made again that the run was given up.
    Endless(usize),
}

/// The most calls made again, for each call of the program.
const MOST_AGAIN: usize = 16;

/// The most calls that a call made again may wait for, each for the next.
const MOST_NESTED: usize = 2000;

/// The facts about a program that every run needs.
#[derive(Debug)]
pub(super) struct Runner<'a> {
    pub(super) program: &'a Program,
    /// For each buffer, the others computed from it, each with the number of the writer that reads
    /// it.
    children: Vec<Vec<(usize, usize)>>,
    /// The time at which each step begins if no call is made again.
    starts: Vec<u64>,
    /// The prices computed so far: the measure of the work of a search.
    pub(super) prices: u64,
}

impl<'a> Runner<'a> {
    pub(super) fn new(program: &'a Program) -> Runner<'a> {
        let mut children = vec![Vec::new(); program.buffers.len()];
        for (child, buffer) in program.buffers.iter().enumerate() {
            for (number, writer) in buffer.writers.iter().enumerate() {
                writer.inputs.iter().for_each(|&input| children[input].push((child, number)));
            }
        }
        let mut starts = vec![0];
        for step in &program.steps {
            starts.push(starts[starts.len() - 1] + step.time);
        }
        Runner { program, children, starts, prices: 0 }
    }

    /// Runs the program.
    ///
    /// # Errors
    /// It does not fit.
    pub(super) fn run(&mut self, rule: Rule, marks: &Marks) -> Result<Outcome, Misfit> {
        let count = self.program.buffers.len();
        let mut run = Run {
            runner: self,
            rule,
            marks,
            step: 0,
            clock: 0,
            used: vec![0; 0],
            resident: Vec::new(),
            place: vec![0; count],
            live: vec![false; count],
            written: vec![0; count],
            pins: vec![0; count],
            uses: vec![0; count],
            touched: vec![0; count],
            version: 1,
            needs: vec![Memo::default(); count],
            deadlines: vec![Memo::default(); count],
            above: vec![Memo::default(); count],
            below: vec![Memo::default(); count],
            largest: vec![Memo::default(); count],
            making: Vec::new(),
            outcome: Outcome::default(),
        };
        run.used = vec![0; run.runner.program.budgets.len()];
        run.resident = vec![Vec::new(); run.used.len()];
        run.all()?;
        Ok(run.outcome)
    }
}

struct Run<'r, 'a> {
    runner: &'r mut Runner<'a>,
    rule: Rule,
    marks: &'r Marks,
    step: usize,
    /// The time, with that of the calls made again.
    clock: u64,
    /// The bytes in use, by arena.
    used: Vec<u64>,
    /// The live buffers, by arena, and the place of each.
    resident: Vec<Vec<usize>>,
    place: Vec<usize>,
    live: Vec<bool>,
    /// The number of calls that have written each buffer.
    written: Vec<usize>,
    /// How many calls in progress use each buffer.
    pins: Vec<u32>,
    /// The number of uses that each buffer has had.
    uses: Vec<usize>,
    /// The time of each buffer's last use.
    touched: Vec<u64>,
    /// The number of changes of the set of live buffers.
    version: u64,
    needs: Vec<Memo<Need>>,
    deadlines: Vec<Memo<usize>>,
    above: Vec<Memo<u64>>,
    below: Vec<Memo<u64>>,
    largest: Vec<Memo<u64>>,
    /// The buffers that are being computed again.
    making: Vec<usize>,
    outcome: Outcome,
}

impl<'a> Run<'_, 'a> {
    fn all(&mut self) -> Result<(), Misfit> {
        let program = self.runner.program;
        for step in 0..program.steps.len() {
            self.step = step;
            let operands: Vec<usize> = program.operands(step).collect();
            let (fresh, used): (Vec<usize>, Vec<usize>) =
                operands.iter().partition(|&&b| self.uses[b] == 0);
            self.gather(&used, 0)?;
            fresh.iter().for_each(|&b| self.pins[b] += 1);
            self.call(step, &fresh, 0)?;
            program.steps[step].writes.iter().for_each(|&b| self.written[b] += 1);
            for &b in &operands {
                self.pins[b] -= 1;
                self.uses[b] += 1;
                self.touched[b] = self.clock;
            }
            self.version += 1;
            for &b in &operands {
                let gap = self.marks.gap(b, self.uses[b]);
                if self.marks.all[gap] == Mark::Drop && self.pins[b] == 0 && self.may_evict(b) {
                    self.evict(b);
                }
            }
        }
        Ok(())
    }

    /// Runs a call with its new buffers, and `dropped` bytes of results that nobody needs.
    fn call(&mut self, step: usize, fresh: &[usize], dropped: u64) -> Result<(), Misfit> {
        let program = self.runner.program;
        let work = &program.steps[step];
        let mut need = vec![0; self.used.len()];
        for &b in fresh {
            need[program.buffers[b].arena] += program.buffers[b].bytes;
        }
        if let Some((arena, bytes)) = work.scratch {
            need[arena] += bytes;
        }
        let first = work.writes.first().map_or(0, |&b| program.buffers[b].arena);
        if let Some(need) = need.get_mut(first) {
            *need += dropped;
        }
        for (arena, &bytes) in need.iter().enumerate() {
            self.reserve(arena, bytes)?;
        }
        fresh.iter().for_each(|&b| self.revive(b));
        self.clock += work.time;
        Ok(())
    }

    fn revive(&mut self, b: usize) {
        let buffer = &self.runner.program.buffers[b];
        self.live[b] = true;
        self.used[buffer.arena] += buffer.bytes;
        self.place[b] = self.resident[buffer.arena].len();
        self.resident[buffer.arena].push(b);
        self.version += 1;
    }

    fn evict(&mut self, b: usize) {
        let buffer = &self.runner.program.buffers[b];
        if self.need(b).is_some() {
            self.outcome.evicted.push(self.marks.gap(b, self.uses[b]));
        }
        self.live[b] = false;
        self.used[buffer.arena] -= buffer.bytes;
        let resident = &mut self.resident[buffer.arena];
        resident.swap_remove(self.place[b]);
        if let Some(&moved) = resident.get(self.place[b]) {
            self.place[moved] = self.place[b];
        }
        self.version += 1;
    }

    /// Evicts buffers until an arena has room for `bytes`.
    fn reserve(&mut self, arena: usize, bytes: u64) -> Result<(), Misfit> {
        let budget = self.runner.program.budgets[arena];
        while self.used[arena].saturating_add(bytes) > budget {
            let mut best: Option<(f64, usize)> = None;
            for at in 0..self.resident[arena].len() {
                let b = self.resident[arena][at];
                if self.pins[b] > 0 || self.runner.program.buffers[b].bytes == 0 {
                    continue;
                }
                self.runner.prices += 1;
                let Some(price) = self.price(b, self.used[arena].saturating_add(bytes) - budget)
                else {
                    continue;
                };
                if best.is_none_or(|(least, other)| (price, b) < (least, other)) {
                    best = Some((price, b));
                }
            }
            let Some((_, victim)) = best else { return Err(self.full()) };
            self.evict(victim);
        }
        Ok(())
    }

    /// Pins buffers, and computes those again that are not live: first the one for which the
    /// largest buffers are needed. What is live is pinned last, since it may have to make room.
    fn gather(&mut self, buffers: &[usize], depth: usize) -> Result<(), Misfit> {
        let mut open = buffers.to_vec();
        loop {
            let mut next: Option<(u64, Reverse<usize>, usize)> = None;
            for (k, &b) in open.iter().enumerate() {
                if !self.live[b] {
                    next = next.max(Some((self.largest(b), Reverse(b), k)));
                }
            }
            let Some((.., next)) = next else { break };
            let b = open.swap_remove(next);
            self.make(b, depth)?;
            self.pins[b] += 1;
        }
        open.iter().for_each(|&b| self.pins[b] += 1);
        Ok(())
    }

    /// Computes an evicted buffer again.
    fn make(&mut self, b: usize, depth: usize) -> Result<(), Misfit> {
        let program = self.runner.program;
        if depth > MOST_NESTED {
            return Err(Misfit::Endless(self.step));
        }
        let Some(recipe) = program.buffers[b].recipe(self.written[b]) else {
            return Err(self.full());
        };
        self.pins[b] += 1;
        self.making.push(b);
        for (k, &Writer { step, ref inputs, .. }) in recipe.iter().enumerate() {
            if self.outcome.again.len() > MOST_AGAIN * program.steps.len() {
                return Err(Misfit::Endless(self.step));
            }
            self.gather(inputs, depth + 1)?;
            let mut begins = if k == 0 { vec![b] } else { Vec::new() };
            let mut dropped = 0;
            for &other in program.steps[step].writes.iter().filter(|&&other| other != b) {
                let recipe = program.buffers[other].recipe(self.written[other]);
                let is_alone = recipe.is_some_and(|all| all.len() == 1 && all[0].step == step);
                if is_alone && !self.live[other] && self.need(other).is_some() {
                    begins.push(other);
                } else {
                    dropped += program.buffers[other].bytes;
                }
            }
            self.call(step, &begins, dropped)?;
            self.outcome.extra += program.steps[step].time;
            for &i in inputs {
                self.pins[i] -= 1;
                self.touched[i] = self.clock;
            }
            let mut of = begins.clone();
            if k > 0 {
                of.push(b);
            }
            of.iter().for_each(|&o| self.touched[o] = self.clock);
            self.outcome.again.push(Again { before: self.step, step, of, begins });
        }
        self.pins[b] -= 1;
        self.making.pop();
        Ok(())
    }

    fn full(&self) -> Misfit {
        let gaps = self.making.iter().map(|&b| self.marks.gap(b, self.uses[b]));
        Misfit::Full(self.step, gaps.collect())
    }
}
