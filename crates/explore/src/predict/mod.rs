//! Predicts the time that a list takes on a device that is absent: a profile of the times by a cost
//! model.
//!
//! # Rules
//! The list runs by the [rules](mod@crate::what_if) of all predictions. Besides:
//!
//! 1. No stream has a worker, so all run side by side at full speed and share nothing: a prediction
//!    is a lower bound where streams compete.
//! 2. An op takes its launch and the longer of two times: the time of its operations, and the time
//!    of its operands' bytes through the device's memory. A copy to or from the device, and a read
//!    by the host, take a launch and the time of their bytes over the link.
//! 3. Records, waits and barriers take no time. A wait ends when its point has completed.
//! 4. The host submits in no time. After a host wait it continues when the wait has ended.
//! 5. Time is counted in whole picoseconds, and rounded to nanoseconds at the end.
//!
//! A list does not contain the time of a host function. It counts as zero, and a remark of the
//! profile counts such instructions.

pub mod model;

use millstream_instructions::InstructionList;
use millstream_profile::model::Role;
use millstream_profile::{LaunchSteps, ListTimes, Outcome, Profile, Source, Times, of_list};
use millstream_types::Point;

use crate::what_if::costs::Costs;
use crate::what_if::replay::replay;
use crate::what_if::threads::Threads;

pub use model::{DeviceCosts, Model};

/// A list without times.
struct Untimed<'a>(&'a InstructionList);

impl ListTimes for Untimed<'_> {
    fn issued(&self, _: usize) -> Option<u64> {
        None
    }

    fn at(&self, _: usize, _: Point) -> Option<(Times, Outcome)> {
        Some((Times::default(), Outcome::Completed))
    }

    fn steps(&self, index: usize, _: Point) -> Option<LaunchSteps> {
        let list = self.0.instructions[index].body.list()?.index();
        LaunchSteps::untimed(self.0.executables.get(list)?)
    }
}

/// Refuses a list whose instructions name what it does not declare.
fn check(list: &InstructionList) -> Result<(), String> {
    for (index, instruction) in list.instructions.iter().enumerate() {
        let stream = instruction.body.at().map(|at| at.stream);
        if let Some(stream) = stream.filter(|stream| stream.index() >= list.streams.len()) {
            return Err(format!("instruction {index} runs on {stream}, which is not declared"));
        }
        let launched = instruction.body.list();
        if let Some(of) = launched.filter(|of| of.index() >= list.executables.len()) {
            return Err(format!("instruction {index} launches {of}, which is not declared"));
        }
    }
    list.executables.iter().try_for_each(check)
}

/// Predicts the time that a list takes, as a profile.
///
/// # Errors
/// The list names a stream or an executable that it does not declare, or the model lacks a kind of
/// device that the list uses.
pub fn predict(title: &str, list: &InstructionList, model: &Model) -> Result<Profile, String> {
    check(list)?;
    let mut profile = of_list(title, Source::Predicted, list, &Untimed(list));
    let threads = Threads::add(&mut profile);
    let mut costs = Costs::of(&profile);
    let mut unknown = 0;
    let work = profile.instructions.iter().zip(&mut costs.instructions);
    for (instruction, cost) in work.filter(|(i, _)| i.role == Role::Work) {
        let is_op = instruction.arguments.is_some();
        match is_op || profile.name_of(instruction) == "SyncRead" {
            true => cost.takes = model.time(&profile, instruction, None)?.unwrap_or(0),
            false => unknown += 1,
        }
    }
    replay(&mut profile, &costs);
    threads.remove(&mut profile);
    let ns = |picoseconds: u64| picoseconds.saturating_add(500) / 1000;
    for times in profile.instructions.iter_mut().filter_map(|i| i.times.as_mut()) {
        let Times { ready, start, end } = *times;
        *times = Times { ready: ns(ready), start: ns(start), end: ns(end) };
    }
    profile.total = ns(profile.total);
    if unknown > 0 {
        let what = "host functions, whose time is unknown, count as 0";
        profile.remarks.push(format!("{unknown} {what}"));
    }
    Ok(profile)
}
