//! The search for the evictions that cost the least time.
//!
//! 1. Each rule runs the program. Where a run does not fit because too much must be live while a
//!    buffer is computed again, one of the buffers that it is computed from is kept from then on.
//! 2. The best runs are changed one gap at a time, a gap being the time between two uses of a
//!    buffer: a buffer that was evicted in it is kept, or another one is evicted at its beginning.
//!    A change stays if it saves time.
//!
//! The search ends when nothing saves time, or when it has computed as many prices as it may. No
//! time is measured, so the result is a function of the program.

use std::cmp::Reverse;

use super::program::Program;
use super::simulation::{Cost, Distance, Mark, Marks, Misfit, Outcome, Power, Rule, Runner};
use rustc_hash::FxHashSet;

/// The rules: DTR's own, the least cost by bytes and time until the next use, and others like it.
const RULES: [Rule; 6] = [
    rule(Cost::Neighbours, Distance::SinceUse, Power::One, false),
    rule(Cost::Inputs, Distance::UntilUse, Power::One, false),
    rule(Cost::Neighbours, Distance::UntilUse, Power::One, false),
    rule(Cost::Neighbours, Distance::UntilUse, Power::Two, false),
    rule(Cost::Neighbours, Distance::UntilUse, Power::Half, true),
    rule(Cost::Inputs, Distance::SinceUse, Power::Half, false),
];

const fn rule(cost: Cost, distance: Distance, power: Power, fits: bool) -> Rule {
    Rule { cost, distance, power, fits }
}

/// The number of runs that are improved.
const IMPROVED: usize = 3;

/// The most buffers that a run which does not fit is made to keep.
const MOST_REPAIRS: usize = 24;

/// The most prices that the improvement of a run computes.
const MOST_PRICES: u64 = 150_000;

/// Returns the cheapest run that was found.
///
/// # Errors
/// No run fits; the place at which one of them does not.
pub(super) fn cheapest(program: &Program) -> Result<Outcome, Misfit> {
    let mut runner = Runner::new(program);
    let mut found: Vec<(Rule, Outcome, Marks)> = Vec::new();
    let mut misfit = None;
    // Most programs fit without a repair, by one rule or another.
    for repairs in [0, MOST_REPAIRS] {
        if !found.is_empty() {
            break;
        }
        for rule in RULES {
            match fitting(&mut runner, rule, repairs) {
                Ok((outcome, marks)) => found.push((rule, outcome, marks)),
                Err(error) => misfit = misfit.or(Some(error)),
            }
        }
    }
    found.sort_by_key(|(_, outcome, _)| outcome.extra);
    for (rule, outcome, marks) in found.iter_mut().take(IMPROVED) {
        runner.prices = 0;
        let mut search = Search { runner: &mut runner, rule: *rule, marks, best: outcome };
        while search.improve() {}
    }
    let best = found.into_iter().map(|(_, outcome, _)| outcome).min_by_key(|o| o.extra);
    best.ok_or_else(|| misfit.unwrap_or(Misfit::Full(0, Vec::new())))
}

/// Runs the program by a rule; keeps buffers where it does not fit.
fn fitting(
    runner: &mut Runner<'_>,
    rule: Rule,
    repairs: usize,
) -> Result<(Outcome, Marks), Misfit> {
    let mut marks = Marks::of(runner.program);
    for _ in 0..repairs {
        let (step, gaps) = match runner.run(rule, &marks) {
            Ok(outcome) => return Ok((outcome, marks)),
            Err(Misfit::Full(step, gaps)) => (step, gaps),
            Err(endless) => return Err(endless),
        };
        let free = gaps.iter().copied().filter(|&gap| marks.all[gap] == Mark::Free);
        let bytes = |gap: &usize| runner.program.buffers[marks.buffer[*gap]].bytes;
        let Some(gap) = free.min_by_key(bytes) else { return Err(Misfit::Full(step, gaps)) };
        marks.all[gap] = Mark::Keep;
    }
    runner.run(rule, &marks).map(|outcome| (outcome, marks))
}

/// A search near the best run so far.
struct Search<'s, 'a> {
    runner: &'s mut Runner<'a>,
    rule: Rule,
    marks: &'s mut Marks,
    best: &'s mut Outcome,
}

impl Search<'_, '_> {
    /// Tries changes. Returns whether one of them saves time, and there may be more.
    fn improve(&mut self) -> bool {
        let before = self.best.extra;
        if before == 0 {
            return false;
        }
        let mut evicted: Vec<usize> = self.best.evicted.clone();
        evicted.sort_unstable();
        evicted.dedup();
        let free = evicted.iter().filter(|&&gap| self.marks.all[gap] == Mark::Free);
        let all: Vec<(usize, Mark)> = free.map(|&gap| (gap, Mark::Drop)).collect();
        self.attempt(&all);
        evicted.sort_by_key(|&gap| (Reverse(self.own(gap)), gap));
        let known: FxHashSet<usize> = evicted.iter().copied().collect();
        let program = self.runner.program;
        let has_bytes = |&gap: &usize| program.buffers[self.marks.buffer[gap]].bytes > 0;
        let mut others: Vec<usize> = (0..self.marks.all.len())
            .filter(|gap| !known.contains(gap) && self.own(*gap) > 0)
            .filter(has_bytes)
            .collect();
        // Cheap ones by their bytes first: by own / bytes, without a division.
        let bytes = |gap: usize| u128::from(program.buffers[self.marks.buffer[gap]].bytes);
        let own = |gap: usize| u128::from(self.own(gap));
        others.sort_by(|&a, &b| (own(a) * bytes(b), a).cmp(&(own(b) * bytes(a), b)));
        let kept = evicted.into_iter().map(|gap| (gap, Mark::Keep));
        for (gap, mark) in kept.chain(others.into_iter().map(|gap| (gap, Mark::Drop))) {
            if self.runner.prices >= MOST_PRICES {
                return false;
            }
            let mark = if self.marks.all[gap] == mark { Mark::Free } else { mark };
            self.attempt(&[(gap, mark)]);
        }
        self.best.extra < before
    }

    /// Marks gaps, and keeps the marks if that saves time.
    fn attempt(&mut self, gaps: &[(usize, Mark)]) {
        let set = |(gap, mark): (usize, Mark)| std::mem::replace(&mut self.marks.all[gap], mark);
        let old: Vec<Mark> = gaps.iter().copied().map(set).collect();
        match self.runner.run(self.rule, self.marks) {
            Ok(outcome) if outcome.extra < self.best.extra => *self.best = outcome,
            _ => gaps.iter().zip(old).for_each(|(&(gap, _), old)| self.marks.all[gap] = old),
        }
    }

    /// Returns the time of the calls that compute the buffer of a gap; 0 if it is never evicted.
    fn own(&self, gap: usize) -> u64 {
        let program = self.runner.program;
        let writers = program.buffers[self.marks.buffer[gap]].writers.iter();
        let again = writers.filter(|w| w.first.is_some());
        again.map(|w| program.steps[w.step].time).sum()
    }
}
