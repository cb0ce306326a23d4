//! The checks that every backend passes, written once.
//!
//! A backend's test calls [`run`] with a [`Harness`] and asserts on the [`Report`]:
//!
//! ```
//! use std::sync::Arc;
//! use millstream_ep::conformance::{self, HostHarness};
//! use millstream_ep::cpu::CpuBackend;
//!
//! let report = conformance::run(Arc::new(CpuBackend::new()), &HostHarness);
//! println!("{report}");
//! report.into_result().unwrap();
//! ```
//!
//! A check that does not apply is a visible skip. There are two reasons. The *device is absent*:
//! with [`REQUIRE_DEVICES`] set in the environment, that is a failure. The device lacks a
//! *capability*, and says so: that is no failure, and [`Report::skipped`] lets a test state which
//! skips it expects.
//!
//! # Map
//! | module | checks |
//! |---|---|
//! | `device` | ids, counts, allocation |
//! | `stream` | order, tickets, errors of work, threads |
//! | `event` | queries, waits on the device, records again, refusals |

mod bed;
mod device;
mod event;
mod stream;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::device::{Backend, Work, WorkResult};

pub use bed::Bed;

/// The environment variable that turns skips for want of a device into failures.
pub const REQUIRE_DEVICES: &str = "MILLSTREAM_REQUIRE_DEVICES";

/// Something for the device to call when it reaches it.
pub type Call = Box<dyn FnOnce() + Send>;

/// What the checks need to know about a backend and cannot ask it.
pub trait Harness: Sync {
    /// Lets the device move, if it does not by itself. Called again and again while a check waits.
    fn progress(&self) {}

    /// Whether nothing runs but in [`Harness::progress`]; the checks can then be stricter.
    fn by_hand(&self) -> bool {
        false
    }

    /// Work that makes the device call `call` in the stream's order, when it gets there. As given,
    /// for devices that run work on the host.
    fn call(&self, call: Call) -> Box<dyn Work> {
        Box::new(HostCall(Some(call)))
    }
}

/// The harness of a device that runs work on the host and moves by itself or when polled.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostHarness;

impl Harness for HostHarness {}

/// Work that calls a function on the host.
struct HostCall(Option<Call>);

impl Work for HostCall {
    fn run(&mut self, _native: &dyn Any) -> WorkResult {
        let call = self.0.take().ok_or_else(|| anyhow::anyhow!("the work was run twice"))?;
        call();
        Ok(())
    }

    fn runs_on_host(&self) -> bool {
        true
    }

    fn detach(&mut self) -> Box<dyn Work> {
        Box::new(HostCall(self.0.take()))
    }
}

/// How a check ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that it looks at holds.
    Passed,
    /// The device says that it cannot do this.
    LacksCapability(&'static str),
    /// There is no device, and why.
    NoDevice(String),
}

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Runs it on a fresh bed. An error says what did not hold.
    pub run: fn(&Bed<'_>) -> anyhow::Result<Outcome>,
}

/// Every check.
pub fn all() -> Vec<Check> {
    [device::CHECKS, stream::CHECKS, event::CHECKS].concat()
}

/// How each check ended, in the order of [`all`].
#[derive(Debug)]
pub struct Report {
    backend: String,
    results: Vec<(&'static str, anyhow::Result<Outcome>)>,
}

/// Runs every check on device 0 of `backend`. A panic in a check is its failure.
pub fn run(backend: Arc<dyn Backend>, harness: &dyn Harness) -> Report {
    let required = std::env::var_os(REQUIRE_DEVICES).is_some_and(|v| !v.is_empty() && v != "0");
    let kind = backend.kind().to_owned();
    let mut results = Vec::new();
    for check in all() {
        let run = || match Bed::open(&backend, harness) {
            Ok(bed) => (check.run)(&bed),
            Err(absent) => Ok(Outcome::NoDevice(format!("{absent:#}"))),
        };
        let caught = catch_unwind(AssertUnwindSafe(run));
        let result = caught.unwrap_or_else(|_| Err(anyhow::anyhow!("the check panicked")));
        results.push((check.name, strict(result, required)));
    }
    Report { backend: kind, results }
}

/// With devices required, a missing one is a failure.
fn strict(result: anyhow::Result<Outcome>, required: bool) -> anyhow::Result<Outcome> {
    match result {
        Ok(Outcome::NoDevice(why)) if required => {
            Err(anyhow::anyhow!("no device, and {REQUIRE_DEVICES} is set: {why}"))
        }
        other => other,
    }
}

impl Report {
    /// The checks that were skipped.
    pub fn skipped(&self) -> Vec<&'static str> {
        let skipped = |r: &&(_, anyhow::Result<Outcome>)| {
            r.1.as_ref().is_ok_and(|outcome| *outcome != Outcome::Passed)
        };
        self.results.iter().filter(skipped).map(|r| r.0).collect()
    }

    /// How many checks passed.
    pub fn passed(&self) -> usize {
        self.results.iter().filter(|r| matches!(r.1, Ok(Outcome::Passed))).count()
    }

    /// Fails if a check failed, with the whole report.
    ///
    /// # Errors
    /// A check failed.
    pub fn into_result(self) -> anyhow::Result<()> {
        anyhow::ensure!(self.results.iter().all(|r| r.1.is_ok()), "{self}");
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conformance of {}", self.backend)?;
        for (name, result) in &self.results {
            match result {
                Ok(Outcome::Passed) => write!(f, "\n  passed   {name}")?,
                Ok(Outcome::LacksCapability(what)) => write!(f, "\n  skipped  {name}: no {what}")?,
                Ok(Outcome::NoDevice(why)) => write!(f, "\n  skipped  {name}: {why}")?,
                Err(error) => write!(f, "\n  FAILED   {name}: {error:#}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_fails_only_where_devices_are_required() {
        let absent = || Ok(Outcome::NoDevice("none".to_owned()));
        assert!(strict(absent(), false).is_ok());
        assert!(strict(absent(), true).is_err());
        assert!(strict(Ok(Outcome::LacksCapability("waits")), true).is_ok());
    }
}
