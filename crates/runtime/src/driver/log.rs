//! The log of a simulated run, step by step: lines of text and their hash.

use std::fmt::{self, Write};

/// The steps of a simulated machine so far.
///
/// ```
/// # use millstream_vm::*;
/// let machine = Machine::new(MachineConfig::default().driver(DriverKind::Simulated))?;
/// Tensor::arange(0..3, &machine)?.synchronize()?;
/// let schedule: Schedule = machine.schedule()?.expect("the machine is simulated");
/// println!("{schedule:?}");
/// # Ok::<(), millstream_types::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// How many steps were taken.
    pub steps: u64,
    /// The hash of the log's bytes (BLAKE3, hexadecimal), whether or not they were kept.
    pub hash: String,
    /// The log, if [`Simulation::keep_log`](super::Simulation::keep_log) asked for it.
    pub log: Option<String>,
}

/// The log of a simulated run. It contains nothing that differs between computers: no address, no
/// time, no thread.
pub(super) struct Log {
    steps: u64,
    hasher: blake3::Hasher,
    /// Lines that have not been hashed, or all of them if they are kept.
    text: String,
    kept: bool,
    /// How much of `text` has been hashed.
    hashed: usize,
}

/// The number of bytes that are hashed at once.
const BLOCK: usize = 4096;

impl Log {
    pub(super) fn new(kept: bool) -> Log {
        let text = String::with_capacity(BLOCK);
        Log { steps: 0, hasher: blake3::Hasher::new(), text, kept, hashed: 0 }
    }

    /// Returns how many steps were taken.
    pub(super) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Logs a step.
    pub(super) fn step(&mut self, what: fmt::Arguments<'_>) {
        self.steps += 1;
        // Writing to a string does not fail.
        let _ = write!(self.text, "{} {what}", self.steps);
        self.end_line();
    }

    /// Logs a consequence of the last step, or an action of the program.
    pub(super) fn note(&mut self, what: fmt::Arguments<'_>) {
        let _ = write!(self.text, "  {what}");
        self.end_line();
    }

    fn end_line(&mut self) {
        self.text.push('\n');
        if self.text.len() - self.hashed >= BLOCK {
            self.hasher.update(&self.text.as_bytes()[self.hashed..]);
            if self.kept {
                self.hashed = self.text.len();
            } else {
                self.text.clear();
            }
        }
    }

    pub(super) fn so_far(&self) -> Schedule {
        let mut hasher = self.hasher.clone();
        hasher.update(&self.text.as_bytes()[self.hashed..]);
        Schedule {
            steps: self.steps,
            hash: hasher.finalize().to_hex().to_string(),
            log: self.kept.then(|| self.text.clone()),
        }
    }
}
