//! What became of the calls of a traced function.

use std::collections::BTreeMap;
use std::fmt;

/// The most reasons that are counted apart.
const MAX_REASONS: usize = 64;

/// What became of the calls of a traced function. Printing it gives one line for each count and
/// reason.
///
/// ```
/// # use millstream_vm::*;
/// # let machine = Machine::new(MachineConfig::default())?;
/// # let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0], (2, 2), &machine)?;
/// let f = machine.traced(|inputs, _| Ok(vec![inputs[0].relu()?]));
/// f.call(&[&x]).run()?;
/// let report: TracedReport = f.report();
/// assert_eq!(report.captures, 1);
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedReport {
    /// Calls that were launches alone.
    pub replays: u64,
    /// Calls that ran the function, and captured it.
    pub captures: u64,
    /// Captures for a symbolic size that were made without running the function.
    pub derived: u64,
    /// Calls that were launches up to a read with a new value, and ran the function from there on.
    pub resumptions: u64,
    /// Calls that ran the function without capturing it.
    pub plain: u64,
    /// Replays beside which the function ran, with equal calls.
    pub verified: u64,
    /// Captures that were given up for the limits.
    pub evictions: u64,
    /// The captures now held.
    pub entries: usize,
    /// The bytes of private memory of their executables.
    pub bytes: u64,
    /// Why calls were captured again, or not, and how often.
    pub reasons: BTreeMap<String, u64>,
    /// Why capturing has been switched off, if it has.
    pub switched_off: Option<String>,
}

impl TracedReport {
    /// Counts a reason.
    pub(super) fn count(&mut self, reason: String) {
        let is_known = self.reasons.contains_key(&reason);
        let reason = match is_known || self.reasons.len() < MAX_REASONS {
            true => reason,
            false => "other reasons".to_owned(),
        };
        *self.reasons.entry(reason).or_default() += 1;
    }
}

impl fmt::Display for TracedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TracedReport {
            replays, captures, resumptions, plain, evictions, entries, bytes, ..
        } = self;
        writeln!(
            f,
            "{replays} replayed, {captures} captured, {resumptions} resumed, {plain} run plainly"
        )?;
        write!(f, "{entries} captures with {bytes} bytes of private memory, {evictions} given up")?;
        if self.derived > 0 {
            write!(f, "\n{} captures derived for other sizes", self.derived)?;
        }
        if self.verified > 0 {
            write!(f, "\n{} verified", self.verified)?;
        }
        for (reason, count) in &self.reasons {
            write!(f, "\n{count} x {reason}")?;
        }
        if let Some(reason) = &self.switched_off {
            write!(f, "\nswitched off: {reason}")?;
        }
        Ok(())
    }
}
