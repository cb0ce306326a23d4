//! What single changes would gain.

use millstream_profile::Profile;
use rayon::prelude::*;

use super::Recorded;
use super::change::{Changes, OpChange, Scaling};

/// What a change would gain.
#[derive(Clone, Debug)]
pub struct Gain {
    /// The change.
    pub changes: Changes,
    /// The predicted time of the program with the change.
    pub program: u64,
}

/// Returns what the removal of each of the waits that cost most would gain, and what it would if
/// each of the ops that take most time took half of it; at most so many of each. All on top of
/// `changes`.
///
/// # Errors
/// As [`what_if`](super::what_if).
pub fn gains(profile: &Profile, changes: &Changes, most: usize) -> Result<[Vec<Gain>; 2], String> {
    let recorded = Recorded::of(profile)?;
    let predicted = |changes: Changes| {
        let program = recorded.changed(&changes)?.parts().program;
        Ok::<Gain, String>(Gain { changes, program })
    };
    let waits = (1..=recorded.waits.len()).filter(|n| !changes.without_waits.contains(n));
    let waits = waits.take(most).map(|number| {
        let mut changes = changes.clone();
        changes.without_waits.push(number);
        changes
    });
    let ops = millstream_profile::summary::ops(profile).into_iter().take(most).map(|op| {
        let mut changes = changes.clone();
        changes.ops.push(OpChange { name: op.name, time: Scaling::Factor(0.5) });
        changes
    });
    let both = [waits.collect(), ops.collect()]
        .map(|all: Vec<Changes>| all.into_par_iter().map(predicted).collect::<Result<_, String>>());
    let [waits, ops] = both;
    Ok([waits?, ops?])
}
