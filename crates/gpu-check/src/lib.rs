//! `gpu-check`: runs every check that needs a real GPU. Once built, it needs no toolchain.
//!
//! It refuses the tests' stand-in, except with `--on-stand-in`, which tries the command itself out.
//! The report then says so, and nothing is measured.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | `section`, `report` | the results of a part, and of the whole |
//! | `fixture` | a machine on the device |
//! | `ops`, `programs`, `memory`, `soak`, `sanitizer` | the checks besides the conformance suite |
//! | `launches`, `pipeline`, `bandwidth`, `graphs`, `pytorch` | the measurements |

#![deny(missing_docs)]

mod bandwidth;
mod fixture;
mod graphs;
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
use millstream_files::Outputs;
use millstream_trace::input_files;

use millstream::ep::cuda::{CudaBackend, CudaConfig, CudaDevice, Properties};
use millstream::ep::{Backend, Device};
use millstream_conformance::{self as conformance, HostHarness};

use report::Report;
use section::{Section, Time};

/// The exit status for bad input and absent devices.
const BAD_INPUT: u8 = 2;

/// The name that the stand-in's device reports.
const STAND_IN: &str = "Millstream stand-in (no GPU)";

/// A part of the check. It adds its results to the section; an error ends the part.
type Part = fn(&Setting, &Time, &mut Section) -> Result<()>;

/// The parts with the most seconds of each. A part cannot use the time that another leaves;
/// together they take at most eight minutes.
const PARTS: &[(&str, u64, Part)] = &[
    ("conformance", 30, conformance),
    ("ops", 85, ops),
    ("programs", 45, programs::check),
    ("ranks", 30, programs::check_ranks),
    ("memory", 35, memory::check),
    ("soak", 35, soak::check),
    ("launches", 30, launches::measure),
    ("pipeline", 20, pipeline::measure),
    ("bandwidth", 20, bandwidth::measure),
    ("graphs", 30, graphs::check),
    ("pytorch", 60, pytorch::measure),
    ("sanitizer", 60, sanitizer::check),
];

/// The arguments of `millstream gpu-check`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  millstream gpu-check --only conformance,ops")]
pub struct Arguments {
    /// Number of the device
    #[arg(long, default_value_t = 0)]
    device: u32,
    /// Folder for report.json and report.txt
    #[arg(long, default_value = "gpu-check")]
    out: PathBuf,
    /// Seed of the ops' inputs [default: the current time]
    #[arg(long)]
    seed: Option<u64>,
    /// Most seconds for all parts together; the report lists everything that was cut
    #[arg(long, default_value_t = 470)]
    seconds: u64,
    /// Run only these parts: conformance, ops, programs, ranks, memory, soak, launches,
    /// pipeline, bandwidth, graphs, pytorch, sanitizer
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Python whose PyTorch the machine is compared with
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Run a small part of each check, as under a sanitizer
    #[arg(long)]
    quick: bool,
    /// Recorded programs, and folders of recorded programs
    #[arg(default_values = ["examples/pytorch", "tests/traces"])]
    programs: Vec<PathBuf>,
    /// Try this command out on the tests' stand-in; the report is no evidence
    #[arg(long)]
    on_stand_in: bool,
}

/// The settings of all parts.
struct Setting {
    device: u32,
    seed: u64,
    programs: Vec<PathBuf>,
    python: PathBuf,
    /// Whether the device is a GPU, and not the stand-in.
    real: bool,
    quick: bool,
    out: PathBuf,
}

/// Runs the checks and writes the reports. Returns the exit status: 0 if all passed, 1 if a check
/// failed, 2 if the arguments or the device cannot be used.
pub fn run(arguments: &Arguments) -> ExitCode {
    let ready = known(&arguments.only).and_then(|()| Ok((outputs(arguments)?, device(arguments)?)));
    match ready {
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(BAD_INPUT)
        }
        Ok((outputs, properties)) => match check(arguments, &outputs, properties) {
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

/// Returns the files of the report, checked against the programs.
fn outputs(arguments: &Arguments) -> Result<Outputs> {
    let outputs = Outputs::default().folder("--out", &arguments.out, Report::FILES)?;
    outputs.refuse(arguments.programs.iter().flat_map(input_files))?;
    outputs.prepare()?;
    Ok(outputs)
}

/// Opens the device and returns its properties.
fn device(arguments: &Arguments) -> Result<Properties> {
    let device = CudaBackend::new(CudaConfig::default()).open(arguments.device)?;
    let device = device.as_any().downcast_ref::<CudaDevice>().context("another device")?;
    let properties = device.properties().clone();
    if properties.name == STAND_IN && !arguments.on_stand_in {
        bail!("{} is the tests' stand-in and no GPU: it proves nothing", device.id());
    }
    Ok(properties)
}

fn check(arguments: &Arguments, outputs: &Outputs, properties: Properties) -> Result<bool> {
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
    report.write(outputs)?;
    Ok(report.ok())
}

/// A few ops of each family, one for each kernel source and each path to cuBLAS, for runs in which
/// all ops take too long.
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

/// Checks every op that has a kernel, or a few of them. The part is never cut short: if it is late,
/// the parts after it have less time.
fn ops(setting: &Setting, _: &Time, section: &mut Section) -> Result<()> {
    let only = if setting.quick { FEW_OPS } else { &[] };
    let which = ops::Which { thorough: !setting.quick, only };
    let found = ops::check(setting.device, setting.seed, &which)?;
    *section = Section { name: section.name, ..found };
    Ok(())
}

/// Runs the conformance suite, which checks the first device.
fn conformance(_: &Setting, _: &Time, section: &mut Section) -> Result<()> {
    let report = conformance::run(Arc::new(CudaBackend::new(CudaConfig::default())), &HostHarness);
    section.skipped = report.skipped().into_iter().map(str::to_owned).collect();
    section.passed = report.passed();
    section.failed.extend(report.into_result().err().map(|error| format!("{error:#}")));
    Ok(())
}
