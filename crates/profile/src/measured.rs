//! From the times of a run to a profile.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use millstream_instructions::builder::{InferenceStats, NotKept};
use millstream_types::{ListId, Origin, Point, StreamId};
use millstream_vm::{LaunchTimes, RunTimes};

use crate::from_list::{ListTimes, of_list};
use crate::launches::{LaunchSteps, outcome};
use crate::model::{NONE, Outcome, Pause, Profile, Range, Source, Times};

struct Measured<'a> {
    run: &'a RunTimes,
    launches: HashMap<Point, &'a LaunchTimes>,
    /// Numbers for the streams that run tapes, and the instances of each executable's private
    /// memory: the streams of their first tapes.
    tapes: RefCell<HashMap<StreamId, u32>>,
    instances: RefCell<HashMap<ListId, Vec<StreamId>>>,
}

impl<'a> Measured<'a> {
    fn of(run: &'a RunTimes) -> Measured<'a> {
        let launches = run.launches.iter().map(|launch| (launch.at, launch)).collect();
        Measured { run, launches, tapes: RefCell::default(), instances: RefCell::default() }
    }

    /// Returns which instance of its private memory a launch has.
    fn instance(&self, launch: &LaunchTimes) -> usize {
        let Some(tape) = launch.tapes.first() else { return 0 };
        let mut all = self.instances.borrow_mut();
        let own = all.entry(launch.executable).or_default();
        own.iter().position(|stream| *stream == tape.stream).unwrap_or_else(|| {
            own.push(tape.stream);
            own.len() - 1
        })
    }
}

impl ListTimes for Measured<'_> {
    fn issued(&self, index: usize) -> Option<u64> {
        self.run.issued.get(index).copied()
    }

    fn steps(&self, _: usize, at: Point) -> Option<LaunchSteps> {
        let launch = self.launches.get(&at)?;
        let list = self.run.list.executables.get(launch.executable.index())?;
        let mut tapes = self.tapes.borrow_mut();
        let number = |stream| {
            let next = tapes.len() as u32;
            *tapes.entry(stream).or_insert(next)
        };
        LaunchSteps::of(list, launch, self.instance(launch), number)
    }

    fn at(&self, _: usize, point: Point) -> Option<(Times, Outcome)> {
        let all = &self.run.streams.get(point.stream.index())?.instructions;
        let found = all.binary_search_by_key(&point.seq, |times| times.seq).ok()?;
        let one = &all[found];
        let times = Times { ready: one.ready, start: one.start, end: one.end };
        Some((times, outcome(one.outcome)))
    }
}

/// Returns the profile of a run.
pub fn measured(title: &str, run: &RunTimes) -> Profile {
    let mut profile = of_list(title, Source::Measured, &run.list, &Measured::of(run));
    for (stream, times) in profile.streams.iter_mut().zip(&run.streams) {
        stream.by_device = times.by_device;
        // Other devices run instructions by themselves, and pools on all workers.
        let is_host = times.key.device.kind() == "cpu" && !stream.pool;
        stream.worker = times.worker.filter(|_| is_host).map(|worker| worker as u32);
    }
    profile.host_workers = run.host_workers as u32;
    profile.handoff = run.handoff;
    profile.total = run.total;
    profile.remarks.extend(inference(&run.inference));
    profile.ranges = run
        .ranges
        .iter()
        .map(|r| Range { name: r.name.clone(), thread: r.thread, begin: r.begin, end: r.end })
        .collect();
    profile.pauses = pauses(&profile, run);
    profile
}

/// Returns how often calls were found in the inference cache, if any was looked up. Where entries
/// gave way, or more calls are never kept than found, the ops that were found least follow.
fn inference(of_ops: &BTreeMap<String, InferenceStats>) -> Vec<String> {
    let all = of_ops.values().fold(InferenceStats::default(), |sum, stats| sum.plus(*stats));
    let InferenceStats { hits, misses, replaced, .. } = all;
    let passed = all.all_passed();
    if hits + misses + passed == 0 {
        return Vec::new();
    }
    let mut remarks = vec![format!(
        "inference cache: {hits} calls found, {misses} not found, {passed} never kept; {replaced} \
         entries replaced"
    )];
    if replaced > 0 || passed > hits {
        let others = |stats: &InferenceStats| stats.misses + stats.all_passed();
        let mut ops: Vec<_> = of_ops.iter().filter(|(_, stats)| others(stats) > 0).collect();
        ops.sort_by_key(|(_, stats)| std::cmp::Reverse(others(stats)));
        remarks.extend(ops.iter().take(OPS).flat_map(|(op, stats)| of_op(op, stats)));
    }
    remarks
}

/// The most ops whose counts are listed.
const OPS: usize = 5;

fn of_op(op: &str, stats: &InferenceStats) -> Vec<String> {
    let InferenceStats { hits, misses, passed, replaced } = stats;
    let mut lines = vec![format!("{op}: {hits} found, {misses} not found, {replaced} replaced")];
    for (reason, count) in NotKept::ALL.iter().zip(passed).filter(|(_, count)| **count > 0) {
        lines.push(format!("{op}: {count} never kept, {}", reason.reason()));
    }
    lines
}

/// Adds ranges for parts of the program that are known by the numbers of their places: from the
/// submission of the first instruction of such a place to that of the last one.
pub fn add_ranges<'a>(
    profile: &mut Profile,
    run: &RunTimes,
    parts: impl IntoIterator<Item = (&'a str, u64, u64)>,
) {
    let number = |origin: &Origin| match origin.first() {
        Origin::Trace(_, number) => Some(u64::from(*number)),
        Origin::Unknown | Origin::Code(_) | Origin::Text(_) | Origin::Again(_) => None,
    };
    let all = run.list.instructions.iter().zip(&run.issued);
    let mut issued: Vec<(u64, u64)> =
        all.filter_map(|(i, issued)| Some((number(&i.origin)?, *issued))).collect();
    issued.sort_unstable();
    for (name, first, last) in parts {
        let from = issued.partition_point(|(number, _)| *number < first);
        let to = issued.partition_point(|(number, _)| *number <= last);
        let times = || issued[from..to].iter().map(|(_, issued)| *issued);
        if let (Some(begin), Some(end)) = (times().min(), times().max()) {
            profile.ranges.push(Range { name: name.to_owned(), thread: 0, begin, end });
        }
    }
    profile.ranges.sort_by_key(|r| (r.thread, r.begin, std::cmp::Reverse(r.end)));
}

/// Returns the times in which the program waited. A wait within another one is part of it.
fn pauses(profile: &Profile, run: &RunTimes) -> Vec<Pause> {
    let positions = profile.instructions.iter().enumerate().filter(|(_, i)| i.stream != NONE);
    let positions: HashMap<(u32, u64), u32> =
        positions.map(|(k, i)| ((i.stream, i.seq), k as u32)).collect();
    let mut pauses: Vec<Pause> = Vec::new();
    for pause in &run.pauses {
        let at = |point: Point| positions.get(&(point.stream.0.into(), point.seq)).copied();
        let until = pause.until.and_then(at).unwrap_or(NONE);
        match pauses.last_mut().filter(|outer| pause.end <= outer.end) {
            Some(outer) => outer.until = until,
            None => pauses.push(Pause {
                reason: pause.reason.to_owned(),
                until,
                rank: 0,
                begin: pause.begin,
                end: pause.end,
            }),
        }
    }
    pauses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inference_cache_is_a_remark() {
        let passed = [1, 0, 0, 0, 0];
        let add = InferenceStats { hits: 2, misses: 19_998, passed, replaced: 19_996 };
        let inference = BTreeMap::from([("add".to_owned(), add)]);
        let profile = measured("round floats", &RunTimes { inference, ..RunTimes::default() });
        let expected = [
            "inference cache: 2 calls found, 19998 not found, 1 never kept; 19996 entries replaced",
            "add: 2 found, 19998 not found, 19996 replaced",
            "add: 1 never kept, into given tensors",
        ];
        assert_eq!(profile.remarks, expected);
        assert!(measured("nothing", &RunTimes::default()).remarks.is_empty());
    }
}
