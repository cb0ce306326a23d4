//! From a prediction to a profile.

use std::collections::HashMap;

use millstream_instructions::InstructionList;
use millstream_profile::{ListTimes, Outcome, Profile, Source, Times, of_list};
use millstream_types::Point;

use super::{Prediction, Span};

/// The predicted times, by the index of the instruction.
struct Predicted<'a>(HashMap<usize, &'a Span>);

/// Returns a time in nanoseconds.
const fn ns(picoseconds: u64) -> u64 {
    (picoseconds + 500) / 1000
}

impl ListTimes for Predicted<'_> {
    fn issued(&self, _: usize) -> Option<u64> {
        None
    }

    fn at(&self, index: usize, _: Point) -> Option<(Times, Outcome)> {
        let span = self.0.get(&index)?;
        let (start, end) = (ns(span.start), ns(span.end));
        Some((Times { ready: start, start, end }, Outcome::Completed))
    }
}

/// Returns the profile of a predicted run.
pub fn profile(title: &str, list: &InstructionList, prediction: &Prediction) -> Profile {
    let by_index = prediction.timeline.iter().map(|span| (span.index, span)).collect();
    let mut profile = of_list(title, Source::Predicted, list, &Predicted(by_index));
    if prediction.unknown > 0 {
        let what = "host functions and executables, whose time is unknown, count as 0";
        profile.remarks.push(format!("{} {what}", prediction.unknown));
    }
    profile
}
