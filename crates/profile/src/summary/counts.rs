//! The numbers of waits, in a line.

use std::fmt;

use crate::model::Profile;

use super::plural;

/// The numbers of waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitCounts {
    /// Those between streams that were made, and those of them that blocked a stream.
    made: u64,
    blocked: u64,
    /// The needs that other waits or the host's cover.
    elided: u64,
    /// Those of the program.
    host: u64,
}

impl WaitCounts {
    pub(super) fn of(profile: &Profile) -> WaitCounts {
        let mut counts = WaitCounts::default();
        for wait in &profile.waits {
            let waiter = profile.instructions.get(wait.waiter as usize);
            let stream = waiter.and_then(|i| profile.streams.get(i.stream as usize));
            if wait.resolution.is_elided() {
                counts.elided += 1;
            } else if stream.is_none_or(|stream| stream.thread) {
                counts.host += 1;
            } else {
                counts.made += 1;
                counts.blocked += u64::from(waiter.is_some_and(|i| i.duration() > 0));
            }
        }
        counts
    }
}

impl fmt::Display for WaitCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitCounts { made, blocked, elided, host } = *self;
        write!(f, "{} between streams", plural(made, "wait"))?;
        if made > 0 {
            write!(f, ", {blocked} blocked")?;
        }
        if elided > 0 {
            write!(f, ", {elided} more implied")?;
        }
        match host {
            0 => Ok(()),
            host => write!(f, "; {host} of the host"),
        }
    }
}
