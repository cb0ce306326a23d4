//! The changes of a prediction.

use std::str::FromStr;

use millstream_profile::summary::{bare_name, ops};
use millstream_profile::{Profile, model::Role};
use millstream_runner::Assigner;
use millstream_trace::Assignment;
use millstream_types::nearest::did_you_mean;

use super::costs::Costs;
use super::model::Kernels;

/// A new time, or a factor of the measured one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    /// A time in nanoseconds.
    Time(u64),
    /// A factor.
    Factor(f64),
}

impl Scaling {
    /// Returns the new time.
    pub fn of(self, ns: u64) -> u64 {
        match self {
            Scaling::Time(time) => time,
            Scaling::Factor(factor) => (ns as f64 * factor).round() as u64,
        }
    }
}

impl std::fmt::Display for Scaling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scaling::Time(ns) => f.write_str(&millstream_profile::summary::time(*ns)),
            Scaling::Factor(factor) => write!(f, "x{factor}"),
        }
    }
}

impl FromStr for Scaling {
    type Err = String;

    /// Parses a time, as in `12us`, or a factor, as in `x0.5`.
    fn from_str(text: &str) -> Result<Scaling, String> {
        let wrong =
            || format!("expected a time as in 12us or 1.5ms, or a factor as in x0.5, got '{text}'");
        let number = |digits: &str| {
            let plain = digits.bytes().all(|c| c.is_ascii_digit() || c == b'.');
            let number: f64 =
                digits.parse().ok().filter(|_| plain && !digits.is_empty()).ok_or_else(wrong)?;
            Ok::<f64, String>(number)
        };
        let text = text.trim();
        for mark in ["x", "×", "*"] {
            if let Some(digits) = text.strip_prefix(mark).or_else(|| text.strip_suffix(mark)) {
                return Ok(Scaling::Factor(number(digits.trim())?));
            }
        }
        let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
        for (unit, ns) in units {
            if let Some(digits) = text.strip_suffix(unit) {
                return Ok(Scaling::Time((number(digits.trim_end())? * ns).round() as u64));
            }
        }
        match text {
            "0" => Ok(Scaling::Time(0)),
            _ => Err(wrong()),
        }
    }
}

/// A new time for the calls of an op.
#[derive(Clone, Debug, PartialEq)]
pub struct OpChange {
    /// The op's name.
    pub name: String,
    /// The time of each call.
    pub time: Scaling,
}

impl FromStr for OpChange {
    type Err = String;

    /// Parses `NAME=TIME` or `NAME=xF`.
    fn from_str(text: &str) -> Result<OpChange, String> {
        let wrong = || format!("expected an op and its time, as in matmul=x0.5, got '{text}'");
        let (name, time) = text.split_once('=').ok_or_else(wrong)?;
        match name.trim() {
            "" => Err(wrong()),
            name => Ok(OpChange { name: name.to_owned(), time: time.parse()? }),
        }
    }
}

impl OpChange {
    pub(super) fn apply(&self, profile: &Profile, costs: &mut Costs) -> Result<(), String> {
        let mut found = false;
        for (instruction, cost) in profile.instructions.iter().zip(&mut costs.instructions) {
            let works = matches!(instruction.role, Role::Work | Role::Launch);
            if works && profile.name_of(instruction) == self.name {
                cost.takes = self.time.of(cost.takes);
                found = true;
            }
        }
        if found {
            return Ok(());
        }
        let all = ops(profile);
        let same = all.iter().find(|op| bare_name(&op.name) == bare_name(&self.name));
        let help = same.map(|op| format!("did you mean '{}'?", op.name));
        let nearest = || did_you_mean(&self.name, all.iter().map(|op| op.name.as_str()));
        let help = help.or_else(nearest);
        let help = help.map(|help| format!("; {help}")).unwrap_or_default();
        Err(format!("the profile has no op '{}'{help}", self.name))
    }
}

/// What is to be different.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// New times of ops.
    pub ops: Vec<OpChange>,
    /// Waits that are left out, by their numbers in [`numbered_waits`](super::numbered_waits),
    /// counted from 1.
    pub without_waits: Vec<usize>,
    /// The latency of instructions.
    pub launch: Option<Scaling>,
    /// The number of compute streams that calls are spread over.
    pub compute_streams: Option<u32>,
    /// How they are spread. [`Assigner::Auto`] takes the measured times.
    pub assigner: Assigner,
    /// The streams of calls.
    pub assignment: Option<Assignment>,
    /// The number of workers that the host's streams share.
    pub threads: Option<u32>,
    /// The times of kernels on another device.
    pub model: Option<Kernels>,
}

impl Changes {
    /// Returns whether nothing is to be different.
    pub fn is_empty(&self) -> bool {
        self.describe().is_empty()
    }

    /// Returns a line for each change.
    pub fn describe(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        lines.extend(self.compute_streams.map(|n| match n {
            1 => "with 1 compute stream".to_owned(),
            n if self.assigner == Assigner::RoundRobin => {
                format!("with {n} compute streams in turn")
            }
            n => format!("with up to {n} compute streams"),
        }));
        lines.extend(self.assignment.as_ref().map(|a| format!("with the streams of {}", a.file())));
        lines.extend(self.threads.map(|n| format!("with {n} threads")));
        lines.extend(self.without_waits.iter().map(|n| format!("without wait {n}")));
        lines.extend(self.ops.iter().map(|op| format!("with {}={}", op.name, op.time)));
        lines.extend(self.launch.map(|time| format!("with a launch of {time}")));
        lines.extend(self.model.as_ref().map(|model| format!("on {}", model.name())));
        lines
    }
}
