//! What a watchdog reports of an instruction that does not complete in time.

use std::fmt;
use std::time::Duration;

use crate::origin::Origin;

/// One instruction of a chain of those that wait for one another.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Its stream, as `cpu:0 compute 0`.
    pub stream: String,
    /// Its number there.
    pub seq: u64,
    /// What it is: an op's name, or the instruction's kind.
    pub instruction: String,
    /// Where it came from.
    pub origin: Origin,
    /// What it waits for, or where it is.
    pub state: String,
}

/// How far a stream has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamProgress {
    /// The stream, as `cpu:0 compute 0`.
    pub stream: String,
    /// Instructions given to it.
    pub given: u64,
    /// Those handed to its device.
    pub launched: u64,
    /// Those that have completed.
    pub completed: u64,
}

/// An instruction did not complete in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Overdue {
    /// The time that it had.
    pub limit: Duration,
    /// What is waited for, then what that waits for, and so on; the last is the first cause.
    pub chain: Vec<Waiting>,
    /// All streams that were given anything.
    pub streams: Vec<StreamProgress>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Waiting { stream, seq, instruction, origin, state } = self;
        write!(f, "{origin}: {instruction}, number {seq} of {stream}, {state}")
    }
}

impl fmt::Display for Overdue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an instruction has not completed within {:?}", self.limit)?;
        for waiting in &self.chain {
            write!(f, "\n  {waiting}")?;
        }
        for s in &self.streams {
            let StreamProgress { stream, given, launched, completed } = s;
            write!(f, "\n  {stream}: {given} given, {launched} launched, {completed} completed")?;
        }
        Ok(())
    }
}
