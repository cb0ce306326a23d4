//! `gpu-check`: what a real GPU is needed for, in one go. Needs no toolchain, once built.
//!
//! It refuses the tests' stand-in, unless asked to try itself out on it; the report then says so, and
//! nothing is measured.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `section`, `report` | what was found, and how it is written |
//! | `fixture` | a machine on the device |
//! | `ops`, `programs`, `memory`, `soak`, `sanitizer` | the checks beside the conformance suite |
//! | `launches`, `pipeline`, `bandwidth`, `pytorch` | the measurements |

#![deny(missing_docs)]

mod bandwidth;
mod fixture;
mod launches;
mod memory;
pub mod ops;
mod pipeline;
mod programs;
mod pytorch;
mod report;
mod sanitizer;
pub mod section;
mod soak;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;

use millstream::ep::conformance::{self, HostHarness};
use millstream::ep::cuda::{CudaBackend, CudaConfig, CudaDevice, Properties};
use millstream::ep::{Backend, Device};

use report::Report;
use section::{Section, Time};

/// The exit status for bad input and absent devices.
const BAD_INPUT: u8 = 2;

/// What the stand-in's device is called, as it says itself.
const STAND_IN: &str = "Millstream stand-in (no GPU)";

/// A part of the check: takes note of what it finds. What it cannot go on after is its error.
type Part = fn(&Setting, &Time, &mut Section) -> Result<()>;

/// The parts with the seconds that each may take. What a part leaves is no other's; together they keep
/// within eight minutes.
const PARTS: &[(&str, u64, Part)] = &[
    ("conformance", 30, conformance),
    ("ops", 100, ops),
    ("programs", 70, programs::check),
    ("memory", 35, memory::check),
    ("soak", 40, soak::check),
    ("launches", 30, launches::measure),
    ("pipeline", 20, pipeline::measure),
    ("bandwidth", 25, bandwidth::measure),
    ("pytorch", 60, pytorch::measure),
    ("sanitizer", 60, sanitizer::check),
];

/// The arguments of `millstream gpu-check`.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The number of the device.
    #[arg(long, default_value_t = 0)]
    device: u32,
    /// The folder that report.json and report.txt are written to.
    #[arg(long, default_value = "gpu-check")]
    out: PathBuf,
    /// The seed of the ops' inputs; the time unless given.
    #[arg(long)]
    seed: Option<u64>,
    /// The most seconds that all of it may take. What is cut is said in the report.
    #[arg(long, default_value_t = 470)]
    seconds: u64,
    /// Only these parts: conformance, ops, programs, memory, soak, launches, pipeline, bandwidth,
    /// pytorch, sanitizer.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The Python whose PyTorch the machine is compared with.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// A small part of each check, as under a sanitizer.
    #[arg(long)]
    quick: bool,
    /// Recorded programs, and folders of them.
    #[arg(default_values = ["examples/pytorch", "tests/traces"])]
    programs: Vec<PathBuf>,
    /// Tries this command out on the tests' stand-in. Its report is no evidence of anything.
    #[arg(long)]
    on_stand_in: bool,
}

/// What the parts are told.
struct Setting {
    device: u32,
    seed: u64,
    programs: Vec<PathBuf>,
    python: PathBuf,
    /// Whether this is a GPU.
    real: bool,
    quick: bool,
    out: PathBuf,
}

/// Runs the checks and writes the reports. Returns the exit status: 0 if all passed, 1 if a check
/// failed, 2 if the arguments or the device cannot be used.
pub fn run(arguments: &Arguments) -> ExitCode {
    let ready = known(&arguments.only).and_then(|()| device(arguments));
    match ready {
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

fn known(only: &[String]) -> Result<()> {
    let names: Vec<&str> = PARTS.iter().map(|part| part.0).collect();
    match only.iter().find(|name| !names.contains(&name.as_str())) {
        Some(name) => {
            bail!("--only: there is no part '{name}'; the parts are {}", names.join(", "))
        }
        None => Ok(()),
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
    let end = start + Duration::from_secs(arguments.seconds);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let setting = Setting {
        device: arguments.device,
        seed: arguments.seed.unwrap_or(time),
        programs: arguments.programs.clone(),
        python: arguments.python.clone(),
        real: properties.name != STAND_IN,
        quick: arguments.quick,
        out: arguments.out.clone(),
    };
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|o| o == name);
    let (mut parts, mut not_asked_for) = (Vec::new(), Vec::new());
    for &(name, share, part) in PARTS {
        if !wanted(name) {
            not_asked_for.push(name);
            continue;
        }
        eprintln!("{name} ...");
        let begun = Instant::now();
        let mut section = Section { name, ..Section::default() };
        let time = Time::new(Duration::from_secs(share), end);
        if let Err(error) = part(&setting, &time, &mut section) {
            section.check("the whole part", Some(format!("{error:#}")));
        }
        section.seconds = begun.elapsed().as_secs_f64();
        parts.push(section);
    }
    let report = Report {
        stand_in: !setting.real,
        time,
        version: env!("CARGO_PKG_VERSION"),
        seed: setting.seed,
        device: properties.name,
        capability: properties.capability,
        memory: properties.memory,
        driver: properties.driver,
        seconds: start.elapsed().as_secs_f64(),
        not_asked_for,
        parts,
    };
    print!("{}", report.text(std::io::stdout().is_terminal()));
    report.write(&arguments.out)?;
    Ok(report.ok())
}

/// A few ops of each family, one for each text of ours and each way to cuBLAS, for where all take too long.
const FEW_OPS: &[&str] = &[
    "add",
    "remainder",
    "copy_",
    "sum",
    "var",
    "_softmax",
    "native_layer_norm",
    "matmul",
    "convolution",
    "triu",
    "gather",
    "scatter_add",
    "index",
    "masked_select",
    "sort",
    "topk",
    "cumsum",
    "max_pool2d_with_indices",
    "avg_pool2d",
    "nll_loss_forward",
    "mse_loss",
];

/// Every op that has a kernel, or a few of them. It is not cut short: what is late goes off what comes
/// after it.
fn ops(setting: &Setting, _: &Time, section: &mut Section) -> Result<()> {
    let only = if setting.quick { FEW_OPS } else { &[] };
    let which = ops::Which { thorough: !setting.quick, only };
    let found = ops::check(setting.device, setting.seed, &which)?;
    *section = Section { name: section.name, ..found };
    Ok(())
}

/// The conformance suite, whose checks are of the first device.
fn conformance(_: &Setting, _: &Time, section: &mut Section) -> Result<()> {
    let report = conformance::run(Arc::new(CudaBackend::new(CudaConfig::default())), &HostHarness);
    section.skipped = report.skipped().into_iter().map(str::to_owned).collect();
    section.passed = report.passed();
    section.failed.extend(report.into_result().err().map(|error| format!("{error:#}")));
    Ok(())
}
