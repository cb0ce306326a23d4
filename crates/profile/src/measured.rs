//! From the times of a run to a profile.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use millstream_instructions::builder::{InferenceStats, NotKept};
use millstream_types::{ListId, Point, StreamId};
use millstream_vm::{LaunchTimes, RunTimes};

use crate::from_list::{ListTimes, of_list};
use crate::launches::{LaunchSteps, outcome};
use crate::model::{NONE, Outcome, Pause, Profile, Range, Role, Source, Times};

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
    profile.is_inline = run.is_inline;
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
        lines.push(format!("{op}: {count} never kept, {reason}"));
    }
    lines
}

/// Returns the number at the end of a place: of a node or a line.
fn number(place: &str) -> Option<u64> {
    place.rsplit([' ', ':']).next()?.parse().ok()
}

/// Puts the names that a program has for its nodes before these, as in
/// `layers.0, train.py:12 node 65`.
pub fn name_places<'a>(profile: &mut Profile, name: impl Fn(u64) -> Option<&'a str>) {
    for place in &mut profile.places {
        if let Some(node) = number(place)
            && let Some(name) = name(node)
        {
            *place = format!("{name} node {node}");
        }
    }
}

/// Adds ranges for parts of the program that are known by the numbers of their places, of one file:
/// from the begin of the first instruction of such a place to the end of the last one.
pub fn add_ranges<'a>(profile: &mut Profile, parts: impl IntoIterator<Item = (&'a str, u64, u64)>) {
    let of_place: Vec<Option<u64>> = profile.places.iter().map(|place| number(place)).collect();
    let works = profile.shown().filter(|(_, i, _)| i.role == Role::Work);
    let mut all: Vec<(u64, Times)> = works
        .filter_map(|(_, i, times)| Some(((*of_place.get(i.place as usize)?)?, times)))
        .collect();
    all.sort_unstable_by_key(|(number, _)| *number);
    for (name, first, last) in parts {
        let from = all.partition_point(|(number, _)| *number < first);
        let to = all.partition_point(|(number, _)| *number <= last);
        let own = || all[from..to].iter().map(|(_, times)| times);
        let (begin, end) = (own().map(|t| t.start).min(), own().map(|t| t.end).max());
        if let (Some(begin), Some(end)) = (begin, end) {
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
    use crate::model::Instruction;

    #[test]
    fn labels_have_the_times_of_execution_and_places_the_names_of_the_program() {
        let one = |place: u32| Instruction {
            place,
            times: Some(Times {
                start: u64::from(place) * 10,
                end: 9 + u64::from(place) * 10,
                ready: 0,
            }),
            issued: Some(place.into()),
            ..Instruction::default()
        };
        let places = [3, 5, 8].map(|node| format!("a folder/et.json node {node}"));
        let mut profile = Profile {
            places: places.to_vec(),
            instructions: (0..3).map(one).collect(),
            ..Profile::default()
        };
        add_ranges(&mut profile, [("forward", 2, 5), ("backward", 6, 9), ("nothing", 10, 12)]);
        let times: Vec<(&str, u64, u64)> =
            profile.ranges.iter().map(|r| (&*r.name, r.begin, r.end)).collect();
        assert_eq!(times, [("forward", 0, 19), ("backward", 20, 29)]);
        name_places(&mut profile, |node| (node == 3).then_some("layers.0, train.py:7"));
        assert_eq!(profile.places[..2], ["layers.0, train.py:7 node 3", &*places[1]]);
    }

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
