//! From a prediction to a profile.

use std::collections::HashMap;

use millstream_instructions::InstructionList;
use millstream_profile::{LaunchSteps, ListTimes, Outcome, Profile, Source, Times, of_list};
use millstream_types::Point;

use super::Prediction;

/// The predicted times of a list, by the index of the instruction, and those of the lists that it
/// launches.
struct Predicted<'a> {
    list: &'a InstructionList,
    prediction: &'a Prediction,
    own: HashMap<usize, [u64; 2]>,
}

/// Returns a time in nanoseconds.
const fn ns(picoseconds: u64) -> u64 {
    (picoseconds + 500) / 1000
}

/// Returns the time of each instruction of a predicted list, in picoseconds.
fn by_index(list: &InstructionList, prediction: &Prediction) -> HashMap<usize, [u64; 2]> {
    let mut ended: HashMap<usize, u64> = HashMap::new();
    let mut by_index = HashMap::new();
    for span in &prediction.timeline {
        let before = ended.insert(span.stream, span.end).unwrap_or(0);
        // A wait blocks its stream from the moment at which the stream gets to it.
        let waits = list.instructions[span.index].body.until().is_some();
        by_index.insert(span.index, [if waits { before } else { span.start }, span.end]);
    }
    by_index
}

fn times([start, end]: [u64; 2]) -> Times {
    let (start, end) = (ns(start), ns(end));
    Times { ready: start, start, end }
}

impl ListTimes for Predicted<'_> {
    fn issued(&self, _: usize) -> Option<u64> {
        None
    }

    fn at(&self, index: usize, _: Point) -> Option<(Times, Outcome)> {
        Some((times(*self.own.get(&index)?), Outcome::Completed))
    }

    fn steps(&self, index: usize, _: Point) -> Option<LaunchSteps> {
        let [begin, _] = *self.own.get(&index)?;
        let list = self.list.instructions[index].body.list()?.index();
        let inner = self.prediction.executables.get(list)?;
        let own = by_index(self.list.executables.get(list)?, inner).into_iter();
        let later = |at: [u64; 2]| times(at.map(|at| at + begin));
        LaunchSteps::predicted(own.map(|(index, at)| (index, later(at))))
    }
}

/// Returns the profile of a predicted run.
pub fn profile(title: &str, list: &InstructionList, prediction: &Prediction) -> Profile {
    let own = by_index(list, prediction);
    let predicted = Predicted { list, prediction, own };
    let mut profile = of_list(title, Source::Predicted, list, &predicted);
    if prediction.unknown > 0 {
        let what = "host functions, whose time is unknown, count as 0";
        profile.remarks.push(format!("{} {what}", prediction.unknown));
    }
    profile
}
