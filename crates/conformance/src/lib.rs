//! The conformance suite: the checks that every backend must pass.
//!
//! A backend's test calls [`run`] with a [`Harness`] and asserts on the [`ConformanceReport`]:
//!
//! ```
//! use std::sync::Arc;
//! use millstream_conformance::{self as conformance, HostHarness};
//! use millstream_ep::cpu::CpuBackend;
//!
//! let report = conformance::run(Arc::new(CpuBackend::new()), &HostHarness);
//! println!("{report}");
//! report.into_result().unwrap();
//! ```
//!
//! A check that does not apply is a visible skip, for one of two reasons. The *device is absent*:
//! this is a failure if the environment sets [`REQUIRE_DEVICES`]. The device lacks a *capability*:
//! this is never a failure, and [`ConformanceReport::skipped`] lets a test assert which skips it
//! expects.
//!
//! # Map
//! | module | checks |
//! |---|---|
//! | `device` | ids, counts, allocation |
//! | `stream` | order, tickets, errors of work, threads |
//! | `event` | queries, waits on the device, repeated records, refusals |
//! | `graph` | captures and launches of graphs |
//!
//! `fixture` opens the device under test and drives it.

#![deny(missing_docs)]

mod device;
mod event;
mod fixture;
mod graph;
mod stream;

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_ep::device::{Backend, Work, WorkResult};
use millstream_types::catch_panic;

pub use fixture::Fixture;

/// The environment variable that turns a skip for an absent device into a failure.
pub const REQUIRE_DEVICES: &str = "MILLSTREAM_REQUIRE_DEVICES";

/// A host function that a stream calls in its order.
pub type Call = Box<dyn FnOnce() + Send>;

/// The means to drive a backend's devices that the backend's traits lack.
pub trait Harness: Sync {
    /// Lets the device progress, if it does not do so by itself. A waiting check calls this
    /// repeatedly.
    fn progress(&self) {}

    /// Returns whether commands run only inside [`Harness::progress`]. The checks are then
    /// stricter.
    fn is_stepped(&self) -> bool {
        false
    }

    /// Returns how long a check waits for the device before it fails.
    fn patience(&self) -> Duration {
        Duration::from_secs(20)
    }

    /// Returns work that makes the device call `call` in the stream's order. Default: work of the
    /// host.
    fn call(&self, call: Call) -> Box<dyn Work> {
        Box::new(HostCall(Some(call)))
    }
}

/// The harness of a device that runs work of the host and progresses by itself or when polled.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostHarness;

impl Harness for HostHarness {}

/// Work that calls a host function.
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

/// The outcome of a check that did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every assertion of the check holds.
    Passed,
    /// The device lacks this capability.
    LacksCapability(&'static str),
    /// There is no device, for this reason.
    NoDevice(String),
}

/// One check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// The check's name: the property that it checks.
    pub name: &'static str,
    /// Runs the check on a fresh fixture. An error describes the violated property.
    pub run: fn(&Fixture<'_>) -> anyhow::Result<Outcome>,
}

/// Returns all checks.
pub fn all() -> Vec<Check> {
    [device::CHECKS, stream::CHECKS, event::CHECKS, graph::CHECKS].concat()
}

/// The results of all checks, in the order of [`all`].
#[derive(Debug)]
pub struct ConformanceReport {
    backend: String,
    results: Vec<(&'static str, anyhow::Result<Outcome>)>,
}

/// Runs every check on device 0 of `backend`. A panic in a check fails that check.
pub fn run(backend: Arc<dyn Backend>, harness: &dyn Harness) -> ConformanceReport {
    let required = std::env::var_os(REQUIRE_DEVICES).is_some_and(|v| !v.is_empty() && v != "0");
    let kind = backend.kind().to_owned();
    let result =
        |check: Check| (check.name, require_device(run_one(&check, &backend, harness), required));
    ConformanceReport { backend: kind, results: all().into_iter().map(result).collect() }
}

/// Runs a check on device 0 of `backend`. A panic fails it.
///
/// # Errors
/// The violated property.
pub fn run_one(
    check: &Check,
    backend: &Arc<dyn Backend>,
    harness: &dyn Harness,
) -> anyhow::Result<Outcome> {
    catch_panic(|| match Fixture::open(backend, harness) {
        Ok(fixture) => (check.run)(&fixture),
        Err(absent) => Ok(Outcome::NoDevice(format!("{absent:#}"))),
    })
}

/// Turns the skip for an absent device into a failure, if devices are required.
fn require_device(result: anyhow::Result<Outcome>, required: bool) -> anyhow::Result<Outcome> {
    match result {
        Ok(Outcome::NoDevice(why)) if required => {
            Err(anyhow::anyhow!("no device, and {REQUIRE_DEVICES} is set: {why}"))
        }
        other => other,
    }
}

impl ConformanceReport {
    /// Returns the names of the skipped checks.
    pub fn skipped(&self) -> Vec<&'static str> {
        let skipped = |r: &&(_, anyhow::Result<Outcome>)| {
            r.1.as_ref().is_ok_and(|outcome| *outcome != Outcome::Passed)
        };
        self.results.iter().filter(skipped).map(|r| r.0).collect()
    }

    /// Returns the number of checks that passed.
    pub fn passed(&self) -> usize {
        self.results.iter().filter(|r| matches!(r.1, Ok(Outcome::Passed))).count()
    }

    /// Returns the whole report as an error if a check failed.
    ///
    /// # Errors
    /// A check failed.
    pub fn into_result(self) -> anyhow::Result<()> {
        anyhow::ensure!(self.results.iter().all(|r| r.1.is_ok()), "{self}");
        Ok(())
    }
}

impl fmt::Display for ConformanceReport {
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
        assert!(require_device(absent(), false).is_ok());
        assert!(require_device(absent(), true).is_err());
        assert!(require_device(Ok(Outcome::LacksCapability("waits")), true).is_ok());
    }
}
