//! `gpu-check`: what a real GPU is needed for, in one go. Needs no toolchain, once built.
//!
//! It refuses the tests' stand-in, unless asked to try itself out on it; the report then says so.

mod ops;
mod programs;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;

use millstream::ep::conformance::{self, HostHarness};
use millstream::ep::cuda::{CudaBackend, CudaConfig, CudaDevice, Properties};
use millstream::ep::{Backend, Device};

use crate::BAD_INPUT;

/// What the stand-in's device is called, as it says itself.
const STAND_IN: &str = "Millstream stand-in (no GPU)";

/// What is not checked yet, so that nobody takes its absence for success.
const NOT_YET: &[&str] = &[
    "memory cases",
    "soak of a million instructions",
    "compute-sanitizer",
    "benchmarks: launches, pipeline, bandwidths, PyTorch",
];

#[derive(Args)]
pub(crate) struct Arguments {
    /// The number of the device.
    #[arg(long, default_value_t = 0)]
    device: u32,
    /// The folder that report.json and report.txt are written to.
    #[arg(long, default_value = "gpu-check")]
    out: PathBuf,
    /// The seed of the ops' inputs; the time unless given.
    #[arg(long)]
    seed: Option<u64>,
    /// Recorded programs, and folders of them.
    #[arg(default_values = ["examples/pytorch", "tests/traces"])]
    programs: Vec<PathBuf>,
    /// Tries this command out on the tests' stand-in. Its report is no evidence of anything.
    #[arg(long)]
    on_stand_in: bool,
}

/// All that was found.
#[derive(Serialize)]
struct Report {
    /// Whether this is the tests' stand-in, of which nothing can be learned about GPUs.
    stand_in: bool,
    /// Seconds since 1970.
    time: u64,
    version: &'static str,
    seed: u64,
    device: String,
    capability: (i32, i32),
    memory: u64,
    driver: i32,
    seconds: f64,
    conformance: Section,
    ops: Section,
    programs: Section,
    not_checked_yet: &'static [&'static str],
}

/// One part of it.
#[derive(Default, Serialize)]
pub(crate) struct Section {
    /// How many checks passed.
    pub(crate) passed: usize,
    /// What was not checked, and why.
    pub(crate) skipped: Vec<String>,
    /// What failed, and how.
    pub(crate) failed: Vec<String>,
    /// What else there is to say.
    pub(crate) notes: Vec<String>,
}

/// Runs the checks and writes the reports.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match device(arguments) {
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(BAD_INPUT)
        }
        Ok(properties) => match check(arguments, properties) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

/// Opens the device, to see what it is.
fn device(arguments: &Arguments) -> Result<Properties> {
    let device = CudaBackend::new(CudaConfig::default()).open(arguments.device)?;
    let device = device.as_any().downcast_ref::<CudaDevice>().context("another device")?;
    let properties = device.properties().clone();
    if properties.name == STAND_IN && !arguments.on_stand_in {
        bail!("{} is the tests' stand-in and no GPU: it proves nothing", device.id());
    }
    Ok(properties)
}

fn check(arguments: &Arguments, properties: Properties) -> Result<bool> {
    let start = Instant::now();
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let seed = arguments.seed.unwrap_or(time);
    let mut report = Report {
        stand_in: properties.name == STAND_IN,
        time,
        version: env!("CARGO_PKG_VERSION"),
        seed,
        device: properties.name,
        capability: properties.capability,
        memory: properties.memory,
        driver: properties.driver,
        seconds: 0.0,
        conformance: conformance(),
        ops: ops::check(arguments.device, seed, true)?,
        programs: programs::check(arguments.device, &arguments.programs)?,
        not_checked_yet: NOT_YET,
    };
    report.seconds = start.elapsed().as_secs_f64();
    let text = report.text();
    print!("{text}");
    write(&arguments.out, &report, &text)?;
    let sections = [&report.conformance, &report.ops, &report.programs];
    Ok(sections.iter().all(|section| section.failed.is_empty()))
}

fn write(folder: &Path, report: &Report, text: &str) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let json = serde_json::to_string_pretty(report)? + "\n";
    for (name, content) in [("report.json", json.as_str()), ("report.txt", text)] {
        let file = folder.join(name);
        std::fs::write(&file, content).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// The conformance suite, whose checks are of the first device.
fn conformance() -> Section {
    let report = conformance::run(Arc::new(CudaBackend::new(CudaConfig::default())), &HostHarness);
    let skipped = report.skipped().into_iter().map(str::to_owned).collect();
    let passed = report.passed();
    let failed = report.into_result().err().map(|error| format!("{error:#}"));
    Section { passed, skipped, failed: failed.into_iter().collect(), notes: Vec::new() }
}

impl Report {
    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let mut line = |line: String| {
            let _ = writeln!(text, "{line}");
        };
        if self.stand_in {
            line(
                "NOT A GPU: this is the tests' stand-in, and nothing here is evidence.".to_owned(),
            );
        }
        let (major, minor) = self.capability;
        line(format!("{}, compute capability {major}.{minor}", self.device));
        line(format!("{} bytes of memory, driver for {}", self.memory, self.driver));
        line(format!("seed {}, {:.1} s, at {} s since 1970", self.seed, self.seconds, self.time));
        for (name, section) in
            [("conformance", &self.conformance), ("ops", &self.ops), ("programs", &self.programs)]
        {
            let (passed, skipped) = (section.passed, section.skipped.len());
            let failed = section.failed.len();
            line(format!("{name}: {passed} passed, {skipped} skipped, {failed} failed"));
            section.failed.iter().for_each(|what| line(format!("  FAILED {what}")));
            section.skipped.iter().for_each(|what| line(format!("  skipped {what}")));
            section.notes.iter().for_each(|what| line(format!("  {what}")));
        }
        line(format!("not checked yet: {}", self.not_checked_yet.join("; ")));
        text
    }
}
