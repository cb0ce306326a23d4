//! What automatic capture found and replayed.

use std::collections::BTreeMap;
use std::fmt;

use crate::capture::report::count_reason;

/// What automatic capture found and replayed. Printing it gives one line for each count and reason.
///
/// ```
/// # use millstream_vm::*;
/// let machine = Machine::new(MachineConfig::default().auto_capture(true))?;
/// let report: AutoCaptureReport = machine.auto_capture_report().expect("it was asked for");
/// println!("{report}");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutoCaptureReport {
    /// The calls so far, of which sequences can consist.
    pub calls: u64,
    /// Those of them that launches of sequences made.
    pub replayed_calls: u64,
    /// Launches of sequences.
    pub replays: u64,
    /// Calls that were held, and then made one by one, as their sequence did not go on.
    pub made_singly: u64,
    /// Sequences that were found and compiled.
    pub found: u64,
    /// Sequences that were given up for the limits.
    pub evictions: u64,
    /// The sequences that are now held.
    pub sequences: usize,
    /// The bytes of private memory of their executables.
    pub bytes: u64,
    /// Why sequences were not captured, given up or not replayed, and how often.
    pub reasons: BTreeMap<String, u64>,
}

impl AutoCaptureReport {
    /// Counts a reason.
    pub(super) fn count(&mut self, reason: String) {
        count_reason(&mut self.reasons, reason);
    }
}

impl fmt::Display for AutoCaptureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AutoCaptureReport {
            calls,
            replayed_calls,
            replays,
            made_singly,
            found,
            evictions,
            sequences,
            bytes,
            reasons,
        } = self;
        writeln!(f, "{replayed_calls} of {calls} calls replayed, by {replays} launches")?;
        writeln!(f, "{made_singly} calls held and then made one by one")?;
        write!(
            f,
            "{found} sequences found, {sequences} kept with {bytes} bytes of private memory, \
             {evictions} given up for the limits"
        )?;
        reasons.iter().try_for_each(|(reason, count)| write!(f, "\n{count} x {reason}"))
    }
}
