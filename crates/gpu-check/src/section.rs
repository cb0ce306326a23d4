//! The results of a part of the check, and the time that it has.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::Serialize;

/// The errors for a missing kernel, which is no failure of the device.
pub const LACKS: [&str; 2] = ["has no kernel on", "not yet supported by the kernels"];

/// The least time between two reports of an unfinished part.
const INTERVAL: Duration = Duration::from_secs(1);

/// Writes the report with an unfinished part.
pub(super) type Save = Arc<dyn Fn(&Section) -> Result<()> + Send + Sync>;

/// One part of the check.
#[derive(Clone, Default, Serialize)]
pub struct Section {
    /// Its name, as in `--only`.
    pub name: &'static str,
    /// The number of checks that passed.
    pub passed: usize,
    /// The checks that were skipped, with the reasons.
    pub skipped: Vec<String>,
    /// The checks that failed, with the errors.
    pub failed: Vec<String>,
    /// The checks for which the time did not suffice; none if it did.
    pub cut: Option<String>,
    /// Additional remarks.
    pub notes: Vec<String>,
    /// The measurements.
    pub measured: Vec<Measurement>,
    /// The time of the part in seconds.
    pub seconds: f64,
    /// None outside of `gpu-check`, where nothing limits a part and nothing is written.
    #[serde(skip)]
    clock: Option<Clock>,
}

/// The time of a part, and how its results so far are written.
#[derive(Clone)]
struct Clock {
    begun: Instant,
    end: Instant,
    saved: Instant,
    save: Save,
}

/// A number with its target.
#[derive(Clone, Serialize)]
pub struct Measurement {
    /// The measured quantity.
    pub what: String,
    /// The number; none if it was not measured, and `why` gives the reason.
    pub value: Option<f64>,
    /// Its unit; empty for a share.
    pub unit: &'static str,
    /// The least acceptable number, if there is one.
    pub target: Option<f64>,
    /// The method of the measurement, or the reason why there is none.
    pub why: String,
}

impl Section {
    /// Returns a part without results that begins now. Its time ends after `share`, or at `end` if
    /// that is earlier.
    pub(super) fn new(name: &'static str, share: Duration, end: Instant, save: Save) -> Section {
        let begun = Instant::now();
        let clock = Clock { begun, end: end.min(begun + share), saved: begun, save };
        Section { name, clock: Some(clock), ..Section::default() }
    }

    /// Returns whether the time is over, and notes then what `left` says was not done. A report
    /// that is older than a second is written anew, so a killed process loses little.
    pub fn is_over(&mut self, left: impl FnOnce() -> String) -> bool {
        if self.clock.as_ref().is_some_and(|clock| clock.saved.elapsed() >= INTERVAL)
            && let Err(error) = self.save()
        {
            self.failed.push(format!("the report cannot be written: {error:#}"));
            return true;
        }
        let over = self.left().is_zero();
        if over {
            self.cut = Some(left());
        }
        over
    }

    /// Writes the report with the results so far.
    pub(super) fn save(&mut self) -> Result<()> {
        let Some(clock) = &mut self.clock else { return Ok(()) };
        clock.saved = Instant::now();
        self.seconds = clock.begun.elapsed().as_secs_f64();
        let save = clock.save.clone();
        save(self)
    }

    /// Returns the remaining time.
    pub fn left(&self) -> Duration {
        let end = |clock: &Clock| clock.end.saturating_duration_since(Instant::now());
        self.clock.as_ref().map_or(Duration::MAX, end)
    }

    /// Adds the result of a check. A failure because a kernel is missing counts as skipped.
    pub fn check(&mut self, what: &str, failure: Option<String>) {
        match failure {
            None => self.passed += 1,
            Some(why) if LACKS.iter().any(|lacks| why.contains(lacks)) => {
                self.skipped.push(format!("{what}: {why}"));
            }
            Some(why) => self.failed.push(format!("{what}: {why}")),
        }
    }

    /// Adds a measurement. Without a GPU the number is dropped.
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

    /// Adds a measurement that could not be made, with the reason.
    pub fn unmeasured(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let (what, why) = (what.into(), format!("not measured: {}", why.into()));
        self.measured.push(Measurement { what, value: None, unit: "", target: None, why });
    }
}

impl Measurement {
    /// Returns whether the number misses its target.
    pub fn is_missed(&self) -> bool {
        self.value.zip(self.target).is_some_and(|(value, target)| value < target)
    }
}

/// Returns the median.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
