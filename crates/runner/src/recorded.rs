//! The times of recorded runs: sums of each, and all times of one in the middle.

use std::collections::BTreeMap;

use millstream_comm::{CommError, Communicator};
use millstream_instructions::{Class, InstructionList};
use millstream_vm::{Machine, RunTimes};

use crate::exchange::Exchange;
use crate::report::RunReport;

/// The sums of a recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedRun {
    /// The time of the program, without the reads of its outputs, in nanoseconds: of the program of
    /// all ranks.
    pub program: u64,
    /// The time of the calls of each op, by name.
    pub ops: BTreeMap<String, u64>,
}

impl RecordedRun {
    fn of(times: &RunTimes) -> RecordedRun {
        let [begin, end] = times.program();
        let mut run = RecordedRun { program: end - begin, ops: BTreeMap::new() };
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
                let takes = step.end.saturating_sub(step.start);
                let index = step.instruction as usize;
                let launched = list.instructions.get(index).and_then(|i| i.body.list());
                let inner = launched.and_then(|id| list.executables.get(id.index()));
                match step.inner.zip(inner) {
                    Some((index, inner)) => add(inner, index as usize, takes),
                    None => add(list, index, takes),
                }
            }
        }
        run
    }
}

/// A reserved group index.
const GROUP: u32 = u32::MAX - 3;

/// Adds a recorded run to a report. The report keeps all times of one run near the median: the new
/// run replaces it if it is as near to the median so far. Runs that were replaced are gone, so the
/// kept one need not be the nearest in the end. All ranks learn how long a run of all takes, so
/// that they keep the same one.
pub(crate) fn keep(machine: &Machine, times: RunTimes, report: &mut RunReport) {
    let mut own = RecordedRun::of(&times);
    match of_ranks(&**machine.communicator(), &times, report.recorded.len()) {
        Ok(of_ranks) => own.program = of_ranks,
        // Another rank has ended, and keeps an earlier run.
        Err(_) if report.times.is_some() => return,
        Err(_) => {}
    }
    report.recorded.push(own);
    let totals: Vec<u64> = report.recorded.iter().map(|run| run.program).collect();
    let off = |run: usize, median: u64| totals[run].abs_diff(median);
    let last = totals.len() - 1;
    let mut sorted = totals.clone();
    sorted.sort_unstable();
    let median = sorted[last / 2];
    if report.times.is_none() || off(last, median) <= off(report.kept, median) {
        (report.times, report.kept) = (Some(times), last);
    }
}

/// Returns the time of the program of all ranks in a run, by the run's number: from the first begin
/// to the last end. The clocks of several processes have nothing in common, so there it is the time
/// of the slowest rank.
fn of_ranks(
    communicator: &dyn Communicator,
    times: &RunTimes,
    run: usize,
) -> Result<u64, CommError> {
    let [begin, end] = times.program();
    let own = end - begin;
    if communicator.ranks() == 1 {
        return Ok(own);
    }
    let next = Exchange::NUMBERS * run as u64;
    let what = "the times of the ranks' runs";
    let mut exchange = Exchange { communicator, group: GROUP, what, next };
    let all: Vec<(u64, u64)> = exchange.all(&(times.began + begin, own))?;
    let is_one_process = communicator.kind() == "local";
    let first = all.iter().map(|(began, _)| *began).min().unwrap_or(0);
    let time = |(began, takes): &(u64, u64)| match is_one_process {
        true => began + takes - first,
        false => *takes,
    };
    Ok(all.iter().map(time).max().unwrap_or(own))
}
