//! What single changes would gain.

use millstream_profile::Profile;

use super::change::{Changes, OpChange, Scaling};
use super::{numbered_waits, what_if};

/// What a change would gain.
#[derive(Clone, Debug)]
pub struct Gain {
    /// The change.
    pub changes: Changes,
    /// The predicted time of the run with the change.
    pub total: u64,
}

/// Returns what the removal of each of the waits that cost most would gain, and what it would if
/// each of the ops that take most time took half of it; at most so many of each. All on top of
/// `changes`.
///
/// # Errors
/// As [`what_if`].
pub fn gains(profile: &Profile, changes: &Changes, most: usize) -> Result<[Vec<Gain>; 2], String> {
    let predicted = |changes: Changes| {
        let total = what_if(profile, &changes)?.total;
        Ok::<Gain, String>(Gain { changes, total })
    };
    let waits = (1..=numbered_waits(profile).len()).filter(|n| !changes.without_waits.contains(n));
    let waits = waits.take(most).map(|number| {
        let mut changes = changes.clone();
        changes.without_waits.push(number);
        predicted(changes)
    });
    let waits = waits.collect::<Result<_, String>>()?;
    let ops = millstream_profile::summary::ops(profile).into_iter().take(most).map(|op| {
        let mut changes = changes.clone();
        changes.ops.push(OpChange { name: op.name, time: Scaling::Factor(0.5) });
        predicted(changes)
    });
    let ops = ops.collect::<Result<_, String>>()?;
    Ok([waits, ops])
}
