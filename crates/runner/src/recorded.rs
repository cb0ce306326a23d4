//! The times of recorded runs: sums of each, and all times of one in the middle.

use std::collections::BTreeMap;

use millstream_instructions::{Class, InstructionList};
use millstream_vm::{Machine, RunTimes};

use crate::report::RunReport;

/// The sums of a recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedRun {
    /// The time of the whole run, in nanoseconds.
    pub total: u64,
    /// The time of the calls of each op, by name.
    pub ops: BTreeMap<String, u64>,
}

impl RecordedRun {
    fn of(times: &RunTimes) -> RecordedRun {
        let mut run = RecordedRun { total: times.total, ops: BTreeMap::new() };
        let mut add = |list: &InstructionList, index: usize, takes: u64| {
            let Some(instruction) = list.instructions.get(index) else { return };
            let body = &instruction.body;
            // The steps of a launch work in its stead.
            if body.class() == Class::Computes && body.list().is_none() {
                *run.ops.entry(list.name_of(body).to_owned()).or_default() += takes;
            }
        };
        for (index, instruction) in times.list.instructions.iter().enumerate() {
            let Some(at) = instruction.body.at() else { continue };
            let Some(stream) = times.streams.get(at.stream.index()) else { continue };
            let found = stream.instructions.binary_search_by_key(&at.seq, |times| times.seq);
            if let Some(own) = found.ok().map(|k| stream.instructions[k]) {
                add(&times.list, index, own.end.saturating_sub(own.start));
            }
        }
        for launch in &times.launches {
            let Some(list) = times.list.executables.get(launch.executable.index()) else {
                continue;
            };
            for step in launch.steps.iter().filter(|step| !step.waits) {
                add(list, step.instruction as usize, step.end.saturating_sub(step.ready));
            }
        }
        run
    }
}

/// Adds a recorded run to a report. The report keeps all times of one run near the median: the new
/// run replaces it if it is as near to the median so far. Runs that were replaced are gone, so the
/// kept one need not be the nearest in the end. Of several ranks the last run is kept, which is the
/// same one for all of them.
pub(crate) fn keep(machine: &Machine, times: RunTimes, report: &mut RunReport) {
    report.recorded.push(RecordedRun::of(&times));
    let mut totals: Vec<u64> = report.recorded.iter().map(|run| run.total).collect();
    totals.sort_unstable();
    let median = totals[(totals.len() - 1) / 2];
    let off = |times: &RunTimes| times.total.abs_diff(median);
    let is_alone = machine.communicator().ranks() == 1;
    let is_nearer = report.times.as_ref().is_none_or(|kept| off(&times) <= off(kept));
    if is_nearer || !is_alone {
        report.times = Some(times);
    }
}
