//! From a prediction to a profile.

use std::collections::HashMap;

use millstream_instructions::InstructionList;
use millstream_profile::{ListTimes, Outcome, Profile, Source, Times, of_list};
use millstream_types::Point;

use super::Prediction;

/// The predicted times, by the index of the instruction.
struct Predicted(HashMap<usize, [u64; 2]>);

/// Returns a time in nanoseconds.
const fn ns(picoseconds: u64) -> u64 {
    (picoseconds + 500) / 1000
}

impl ListTimes for Predicted {
    fn issued(&self, _: usize) -> Option<u64> {
        None
    }

    fn at(&self, index: usize, _: Point) -> Option<(Times, Outcome)> {
        let [start, end] = self.0.get(&index)?.map(ns);
        Some((Times { ready: start, start, end }, Outcome::Completed))
    }
}

/// Returns the profile of a predicted run.
pub fn profile(title: &str, list: &InstructionList, prediction: &Prediction) -> Profile {
    let mut ended: HashMap<usize, u64> = HashMap::new();
    let mut by_index = HashMap::new();
    for span in &prediction.timeline {
        let before = ended.insert(span.stream, span.end).unwrap_or(0);
        // A wait blocks its stream from the moment at which the stream gets to it.
        let waits = list.instructions[span.index].body.until().is_some();
        by_index.insert(span.index, [if waits { before } else { span.start }, span.end]);
    }
    let mut profile = of_list(title, Source::Predicted, list, &Predicted(by_index));
    if prediction.unknown > 0 {
        let what = "host functions and executables, whose time is unknown, count as 0";
        profile.remarks.push(format!("{} {what}", prediction.unknown));
    }
    profile
}
