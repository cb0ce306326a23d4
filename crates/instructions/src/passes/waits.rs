//! Removes records and waits.
//!
//! 1. The builder finds the waits that data, memory and effects need. The program's own waits go.
//! 2. A wait that comes later on the same stream for a later point of the same source is merged
//!    into the earlier one: that one waits for the later point at once, and the later one is known.
//!    It may do so if the later point stands before it in the list and, by the cost model, completes
//!    before the wait would delay the end of the list.
//!
//! The result is the list with the fewest records and waits among those that do not take longer
//! than with the waits of step 1: merged where the later wait costs the earlier one no time, merged
//! where it costs slack, or as it was.

use std::collections::HashMap;

use millstream_types::{Point, Result, StreamId, StreamMode};

use crate::list::InstructionList;
use crate::passes::facts::Facts;
use crate::passes::rebuild::{Plan, Rebuilt, Waits, rebuild};
use crate::passes::timeline::{Interval, by_costs, latest_starts, makespan};
use crate::passes::{PassOptions, sync_points};
use crate::table::Body;

/// Applies the pass.
pub(super) fn waits(list: &InstructionList, options: &PassOptions<'_>) -> Result<InstructionList> {
    let facts = Facts::of(list)?;
    let plan = Plan { waits: Waits::Needed, ..Plan::unchanged(&facts)? };
    let needed = rebuild(&facts, &plan)?;
    let (longest, merged) = {
        let facts = Facts::of(&needed.list)?;
        let timeline = by_costs(&facts, options.costs);
        let starts: Vec<u64> = timeline.iter().map(|i| i.start).collect();
        let merges = [starts, latest_starts(&timeline)];
        let merges = merges.map(|starts| merges_of(&needed, &timeline, &starts));
        (makespan(&timeline).max(time_of(list, options)?), merges)
    };
    let mut best = list.clone();
    let mut consider = |candidate: InstructionList| -> Result<()> {
        if sync_points(&candidate) < sync_points(&best) && time_of(&candidate, options)? <= longest
        {
            best = candidate;
        }
        Ok(())
    };
    for merges in merged.into_iter().filter(|m| !m.is_empty()) {
        let mut plan = plan.clone();
        for step in &mut plan.steps {
            step.after.extend(merges.get(&step.index).into_iter().flatten());
        }
        consider(rebuild(&facts, &plan)?.list)?;
    }
    consider(needed.list)?;
    Ok(best)
}

fn time_of(list: &InstructionList, options: &PassOptions<'_>) -> Result<u64> {
    Ok(makespan(&by_costs(&Facts::of(list)?, options.costs)))
}

/// A wait of an in-order stream.
struct Wait {
    /// Its index in the list.
    index: usize,
    /// The old instruction that it stands before.
    before: usize,
    /// The old instruction that it waits for, and the index of that in the list.
    until: (usize, usize),
    /// The interval of that instruction.
    until_interval: usize,
    /// Its own interval.
    interval: usize,
}

/// Returns, for old instructions, further old instructions to wait for, so that later waits of
/// their streams become needless. A wait may begin at its time of `starts` and no later.
fn merges_of(
    rebuilt: &Rebuilt,
    timeline: &[Interval],
    starts: &[u64],
) -> HashMap<usize, Vec<usize>> {
    let mut waits: HashMap<(StreamId, StreamId), Vec<Wait>> = HashMap::new();
    // The instructions of each stream that are neither records nor waits, by sequence number.
    let mut work: HashMap<StreamId, Vec<(u64, usize, usize)>> = HashMap::new();
    let mut intervals = timeline.iter().enumerate().peekable();
    for (index, instruction) in rebuilt.list.instructions.iter().enumerate() {
        let Some(at) = instruction.body.at() else { continue };
        let Some((interval, _)) = intervals.next() else { break };
        match &instruction.body {
            Body::StreamWaitEvent { until, .. } => {
                let decl = &rebuilt.list.streams[at.stream.index()];
                let target = last_work(&work, *until);
                if let Some((_, target, until_interval)) = target
                    && decl.mode == StreamMode::InOrder
                {
                    let until = (rebuilt.sources[target], target);
                    let before = rebuilt.sources[index];
                    let wait = Wait { index, before, until, until_interval, interval };
                    let source = instruction.body.until().map_or(at.stream, |u| u.stream);
                    waits.entry((at.stream, source)).or_default().push(wait);
                }
            }
            Body::RecordEvent { .. } | Body::StreamWait { .. } => {}
            Body::OpCall { .. }
            | Body::AllocateTensor { .. }
            | Body::ViewTensor { .. }
            | Body::ReleaseTensor { .. }
            | Body::TouchTensors { .. }
            | Body::SoftSyncStream { .. }
            | Body::Barrier { .. }
            | Body::GlobalSync { .. }
            | Body::HostObserved { .. }
            | Body::AccessBlobByCallback { .. }
            | Body::SyncRead { .. }
            | Body::CriticalSectionBegin { .. }
            | Body::CriticalSectionEnd { .. }
            | Body::LazyJobLauncher { .. } => {
                work.entry(at.stream).or_default().push((at.seq, index, interval));
            }
        }
    }
    let mut merges: HashMap<usize, Vec<usize>> = HashMap::new();
    for waits in waits.into_values() {
        let mut first = 0;
        while first < waits.len() {
            let wait = &waits[first];
            let fits = |later: &&Wait| {
                later.until.1 < wait.index
                    && timeline[later.until_interval].end <= starts[wait.interval]
            };
            let served = waits[first + 1..].iter().take_while(fits).count();
            if served > 0 {
                let last = &waits[first + served];
                merges.entry(wait.before).or_default().push(last.until.0);
            }
            first += served + 1;
        }
    }
    merges.values_mut().for_each(|targets| targets.sort_unstable());
    merges
}

/// Returns the last instruction of a stream up to a point: its number, index and interval.
fn last_work(
    work: &HashMap<StreamId, Vec<(u64, usize, usize)>>,
    point: Point,
) -> Option<(u64, usize, usize)> {
    let all = work.get(&point.stream)?;
    all[..all.partition_point(|(seq, ..)| *seq <= point.seq)].last().copied()
}
