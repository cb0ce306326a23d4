//! Reports of the watchdog about instructions that exceed their time limit.

use std::fmt;
use std::time::Duration;

use crate::origin::Origin;

/// One instruction of a chain in which each waits for the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The instruction's stream, as `cpu:0 compute 0`.
    pub stream: String,
    /// The instruction's sequence number on the stream.
    pub seq: u64,
    /// The name of the op, or the instruction's kind.
    pub instruction: String,
    /// The origin of the instruction.
    pub origin: Origin,
    /// The next instruction that this one waits for, or its state on the stream.
    pub state: String,
}

/// The progress of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamProgress {
    /// The stream, as `cpu:0 compute 0`.
    pub stream: String,
    /// The number of instructions submitted to the stream.
    pub submitted: u64,
    /// The number of instructions launched on the stream's device.
    pub launched: u64,
    /// The number of completed instructions.
    pub completed: u64,
}

/// A report that an instruction did not complete in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Overdue {
    /// The time limit.
    pub limit: Duration,
    /// The overdue instruction, then the instruction that it waits for, and so on. The last one is
    /// the root cause.
    pub chain: Vec<Waiting>,
    /// All streams with at least one submitted instruction.
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
            let StreamProgress { stream, submitted, launched, completed } = s;
            write!(
                f,
                "\n  {stream}: {submitted} submitted, {launched} launched, {completed} completed"
            )?;
        }
        Ok(())
    }
}
