//! Removes records and waits.
//!
//! 1. The builder finds the waits that data, memory and side effects need. The program's own waits
//!    go.
//! 2. A wait that comes later on the same stream for a later point of the same source is merged
//!    into the earlier one: that one waits for the later point at once, and the later one is known.
//!    It may do so if the later point stands before it in the list and, by the cost model,
//!    completes before the wait would delay the end of the list.
//! 3. Where waits are by the device, an event is recorded for each of them at any point between the
//!    one that it needs and the last that would not delay it. The fewest records that leave none of
//!    these intervals without one are found greedily, by the ends of the intervals (the classical
//!    stabbing of intervals by points).
//!
//! The result is the list with the fewest records and waits, and of those the one that ends first,
//! among these: the list as it is, and lists that take no longer than it and than the list without
//! any merge.

use std::collections::BTreeSet;

use millstream_types::{Result, StreamId, StreamMode};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::catalog::StreamCatalog;
use crate::instruction::Class;
use crate::list::InstructionList;
use crate::passes::facts::Facts;
use crate::passes::rebuild::{ListCatalog, Plan, Rebuilt, Waits, rebuild};
use crate::passes::timeline::{Interval, by_costs, latest_starts, makespan};
use crate::passes::{PassOptions, sync_points};
use crate::table::{Body, Instruction};

/// Applies the pass.
pub(super) fn waits(list: &InstructionList, options: &PassOptions<'_>) -> Result<InstructionList> {
    let facts = Facts::of(list)?;
    let is_begin = |i: &Instruction| matches!(i.body, Body::CriticalSectionBegin { .. });
    // Whether sections end shows when the list is emitted again.
    if sync_points(list) == 0 && !list.instructions.iter().any(is_begin) {
        return Ok(list.clone());
    }
    let plan = Plan { waits: Waits::Needed, ..Plan::unchanged(&facts)? };
    let exact = Exact::of(by_host(&facts, &plan)?, &facts, &plan, options)?;
    let unmerged = exact.rebuilt(&facts, &plan, &exact.starts(), false)?.list;
    let time = time_of(list, options)?;
    let most = time.min(time_of(&unmerged, options)?);
    let mut candidates = vec![unmerged];
    for starts in [exact.starts(), latest_starts(&exact.timeline)] {
        candidates.push(exact.rebuilt(&facts, &plan, &starts, true)?.list);
    }
    let mut best = (sync_points(list), time, list.clone());
    for candidate in candidates {
        let (points, time) = (sync_points(&candidate), time_of(&candidate, options)?);
        if time <= most && (points, time) < (best.0, best.1) {
            best = (points, time, candidate);
        }
    }
    Ok(best.2)
}

/// Emits a plan with the waits that are needed. Events are recorded early enough to delay no wait.
pub(super) fn needed(
    facts: &Facts<'_>,
    plan: &Plan<'_>,
    options: &PassOptions<'_>,
) -> Result<Rebuilt> {
    let rebuilt = by_host(facts, plan)?;
    if sync_points(&rebuilt.list) == 0 {
        return Ok(rebuilt);
    }
    let exact = Exact::of(rebuilt, facts, plan, options)?;
    exact.rebuilt(facts, plan, &exact.starts(), false)
}

/// Emits a plan with waits that each name the very point that they are for.
fn by_host(facts: &Facts<'_>, plan: &Plan<'_>) -> Result<Rebuilt> {
    rebuild(facts, &Plan { by_host: true, ..plan.clone() })
}

pub(super) fn time_of(list: &InstructionList, options: &PassOptions<'_>) -> Result<u64> {
    Ok(makespan(&by_costs(&Facts::of(list)?, options.costs)))
}

/// A list whose waits each name the very point that they are for, with its timeline.
struct Exact {
    rebuilt: Rebuilt,
    timeline: Vec<Interval>,
    waits: Vec<Wait>,
    /// For each stream the instructions that are neither records nor waits.
    work: FxHashMap<StreamId, Vec<Work>>,
}

/// An instruction that is neither a record nor a wait.
#[derive(Clone, Copy)]
struct Work {
    seq: u64,
    /// Its index in the list.
    index: usize,
    /// Its interval.
    interval: usize,
}

/// A wait.
struct Wait {
    on: StreamId,
    source: StreamId,
    /// Its index in the list.
    index: usize,
    interval: usize,
    /// The number of the instruction that it needs among its source's work.
    needs: usize,
    /// Whether it is by the device, where waits are not all by the host.
    by_device: bool,
}

impl Exact {
    /// Reads the result of [`by_host`].
    fn of(
        rebuilt: Rebuilt,
        facts: &Facts<'_>,
        plan: &Plan<'_>,
        options: &PassOptions<'_>,
    ) -> Result<Exact> {
        let timeline = by_costs(&Facts::of(&rebuilt.list)?, options.costs);
        let catalog = ListCatalog::of(facts.list, plan);
        let mut exact = Exact { rebuilt, timeline, waits: Vec::new(), work: FxHashMap::default() };
        let mut interval = 0;
        for (index, instruction) in exact.rebuilt.list.instructions.iter().enumerate() {
            let Some(at) = instruction.body.at() else { continue };
            let body = &instruction.body;
            if let Some(until) = body.until() {
                let work = exact.work.get(&until.stream).map_or(&[][..], Vec::as_slice);
                let upto = work.partition_point(|w| w.seq <= until.seq);
                if let Some(needs) = upto.checked_sub(1) {
                    let (on, source) = (at.stream, until.stream);
                    let key = |s: StreamId| &plan.streams[s.index()].key;
                    let by_device = catalog.waits_on_device(key(on), key(source));
                    exact.waits.push(Wait { on, source, index, interval, needs, by_device });
                }
            } else if body.class() != Class::Records {
                let work = Work { seq: at.seq, index, interval };
                exact.work.entry(at.stream).or_default().push(work);
            }
            interval += 1;
        }
        Ok(exact)
    }

    fn starts(&self) -> Vec<u64> {
        self.timeline.iter().map(|i| i.start).collect()
    }

    /// Emits the plan again, with events recorded so that each wait may begin at its time of
    /// `starts`, and with waits merged if `merged`.
    fn rebuilt(
        &self,
        facts: &Facts<'_>,
        plan: &Plan<'_>,
        starts: &[u64],
        merged: bool,
    ) -> Result<Rebuilt> {
        let mut plan = plan.clone();
        let mut needs: Vec<usize> = self.waits.iter().map(|w| w.needs).collect();
        if merged {
            let merges = self.merges(starts, &mut needs);
            for step in &mut plan.steps {
                step.after.extend(merges.get(&step.index).into_iter().flatten());
            }
        }
        plan.records = self.records(starts, &needs);
        let first = rebuild(facts, &plan)?;
        let unused = unused_records(&first);
        if unused.is_empty() {
            return Ok(first);
        }
        // A wait knew its point already, from a record that is behind the one that it needs.
        plan.records.retain(|k| !unused.contains(k));
        rebuild(facts, &plan)
    }

    /// Whether a wait may be for this instruction of its source as well.
    fn may_need(&self, wait: &Wait, work: &Work, starts: &[u64]) -> bool {
        work.index < wait.index && self.timeline[work.interval].end <= starts[wait.interval]
    }

    /// Returns, for old instructions, further old instructions to wait for, so that later waits of
    /// their streams become needless. Raises what the waits need.
    fn merges(&self, starts: &[u64], needs: &mut [usize]) -> FxHashMap<usize, Vec<usize>> {
        let mut pairs: FxHashMap<(StreamId, StreamId), Vec<usize>> = FxHashMap::default();
        for (k, wait) in self.waits.iter().enumerate() {
            // On a pool each instruction waits for itself.
            let decl = &self.rebuilt.list.streams[wait.on.index()];
            if decl.mode == StreamMode::InOrder {
                pairs.entry((wait.on, wait.source)).or_default().push(k);
            }
        }
        let mut merges: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for ((_, source), waits) in pairs {
            let work = &self.work[&source];
            let mut first = 0;
            while first < waits.len() {
                let wait = &self.waits[waits[first]];
                let fits = |k: &&usize| self.may_need(wait, &work[self.waits[**k].needs], starts);
                let served = waits[first + 1..].iter().take_while(fits).count();
                let all = &waits[first..=first + served];
                let last = all.iter().map(|k| needs[*k]).max().unwrap_or(0);
                if served > 0 {
                    let target = self.rebuilt.sources[work[last].index];
                    merges.entry(self.rebuilt.sources[wait.index]).or_default().push(target);
                    all.iter().for_each(|k| needs[*k] = last);
                }
                first += served + 1;
            }
        }
        merges.values_mut().for_each(|targets| targets.sort_unstable());
        merges
    }

    /// Returns the old instructions behind which to record events.
    fn records(&self, starts: &[u64], needs: &[usize]) -> FxHashSet<usize> {
        // For each source, the intervals of its work that a record may stand behind, by their ends.
        let mut intervals: FxHashMap<StreamId, BTreeSet<(usize, usize)>> = FxHashMap::default();
        for (wait, &needs) in self.waits.iter().zip(needs).filter(|(w, _)| w.by_device) {
            let work = &self.work[&wait.source];
            let later = work[needs + 1..].iter();
            // Both the places in the list and the ends grow along a stream.
            let more = later.as_slice().partition_point(|w| self.may_need(wait, w, starts));
            intervals.entry(wait.source).or_default().insert((needs + more, needs));
        }
        let mut records = FxHashSet::default();
        for (source, intervals) in intervals {
            let mut last = None;
            for (end, begin) in intervals {
                if last.is_none_or(|last| last < begin) {
                    last = Some(end);
                    records.insert(self.rebuilt.sources[self.work[&source][end].index]);
                }
            }
        }
        records
    }
}

/// Returns the old instructions whose records no wait names.
fn unused_records(rebuilt: &Rebuilt) -> FxHashSet<usize> {
    let instructions = rebuilt.list.instructions.iter();
    let awaited: FxHashSet<_> = instructions.clone().filter_map(|i| i.body.until()).collect();
    let records = instructions
        .zip(&rebuilt.sources)
        .filter(|(i, _)| i.body.class() == Class::Records)
        .filter(|(i, _)| i.body.at().is_some_and(|at| !awaited.contains(&at)));
    records.map(|(_, source)| *source).collect()
}
