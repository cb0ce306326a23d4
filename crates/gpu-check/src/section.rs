//! What a part of the check found.

use std::time::{Duration, Instant};

use serde::Serialize;

/// What a failure says for want of a kernel; that is no failure of the device's.
pub const LACKS: [&str; 2] = ["has no kernel on", "not yet supported by the kernels"];

/// One part of the check.
#[derive(Default, Serialize)]
pub struct Section {
    /// Its name, by which `--only` asks for it.
    pub name: &'static str,
    /// How many checks passed.
    pub passed: usize,
    /// What was not checked, and why.
    pub skipped: Vec<String>,
    /// What failed, and how.
    pub failed: Vec<String>,
    /// What the time did not suffice for; none if it did.
    pub cut: Option<String>,
    /// What else there is to say.
    pub notes: Vec<String>,
    /// What was measured.
    pub measured: Vec<Measurement>,
    /// How long it took.
    pub seconds: f64,
}

/// A number, and what it should be.
#[derive(Serialize)]
pub struct Measurement {
    /// Of what.
    pub what: String,
    /// The number; none where nothing is measured, and `why` says why.
    pub value: Option<f64>,
    /// Its unit; empty for a share.
    pub unit: &'static str,
    /// The least that it should be, where there is such a target.
    pub target: Option<f64>,
    /// How it was measured, or why not.
    pub why: String,
}

/// The time that a part may take.
pub struct Time(Instant);

impl Time {
    /// So long from now on, and no longer than until `end`.
    pub fn new(share: Duration, end: Instant) -> Time {
        Time((Instant::now() + share).min(end))
    }

    /// Returns whether the time is over.
    pub fn is_up(&self) -> bool {
        Instant::now() >= self.0
    }

    /// What is left of it.
    pub fn left(&self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

impl Section {
    /// Takes note of what a check came to. What fails for want of a kernel is skipped.
    pub fn check(&mut self, what: &str, failure: Option<String>) {
        match failure {
            None => self.passed += 1,
            Some(why) if LACKS.iter().any(|lacks| why.contains(lacks)) => {
                self.skipped.push(format!("{what}: {why}"));
            }
            Some(why) => self.failed.push(format!("{what}: {why}")),
        }
    }

    /// Takes note of a number. On what is no GPU nothing is measured.
    pub fn measure(
        &mut self,
        real: bool,
        what: impl Into<String>,
        (value, unit): (f64, &'static str),
        target: Option<f64>,
        how: impl Into<String>,
    ) {
        let (what, how) = (what.into(), how.into());
        let (value, why) = match real {
            true => (Some(value), how),
            false => (None, "not measured: no GPU".to_owned()),
        };
        self.measured.push(Measurement { what, value, unit, target, why });
    }

    /// Takes note of a number that cannot be had.
    pub fn unmeasured(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let (what, why) = (what.into(), format!("not measured: {}", why.into()));
        self.measured.push(Measurement { what, value: None, unit: "", target: None, why });
    }
}

impl Measurement {
    /// Whether the target was missed.
    pub fn is_missed(&self) -> bool {
        self.value.zip(self.target).is_some_and(|(value, target)| value < target)
    }
}

/// The median.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
