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
//! | `ops`, `programs`, `ranks`, `memory`, `soak`, `sanitizer` | checks |
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
mod ranks;
mod report;
mod sanitizer;
pub mod section;
mod soak;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use millstream_files::{Console, Outputs, eprintln, println};
use millstream_trace::input_files;

use millstream::ep::cuda::{CudaBackend, CudaConfig, CudaDevice, Properties};
use millstream::ep::{Backend, Device};
use millstream_conformance::{self as conformance, HostHarness, Outcome};

use report::Report;
use section::{Save, Section};

/// The exit status for bad input and absent devices.
const BAD_INPUT: u8 = 2;
const FAILURE: u8 = 1;
const SUCCESS: u8 = 0;

/// The name that the stand-in's device reports.
const STAND_IN: &str = "Millstream stand-in (no GPU)";

/// A part of the check. It adds its results to the section; an error ends the part.
type Part = fn(&Setting, &mut Section) -> Result<()>;

/// The parts with the most seconds of each, the cheapest and most telling first: what a part leaves
/// of its time, later parts have.
const PARTS: &[(&str, u64, Part)] = &[
    ("conformance", 30, conformance),
    ("memory", 35, memory::check),
    ("ranks", 30, ranks::check),
    ("bandwidth", 20, bandwidth::measure),
    ("pipeline", 20, pipeline::measure),
    ("soak", 35, soak::check),
    ("programs", 60, programs::check),
    ("graphs", 60, graphs::check),
    ("pytorch", 90, pytorch::measure),
    ("launches", 30, launches::measure),
    ("sanitizer", 60, sanitizer::check),
    ("ops", 300, ops::check),
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
    /// Seed of the inputs of large calls of ops [default: the current time]
    #[arg(long)]
    seed: Option<u64>,
    /// Most seconds for all parts together; the report lists everything that was cut
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Run only these parts: conformance, memory, ranks, bandwidth, pipeline, soak, programs,
    /// graphs, pytorch, launches, sanitizer, ops
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Folder of PyTorch's values of ops
    #[arg(long, default_value = "crates/kernels/tests/reference")]
    reference: PathBuf,
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
    reference: PathBuf,
    python: PathBuf,
    /// Whether the device is a GPU, and not the stand-in.
    real: bool,
    quick: bool,
    out: PathBuf,
}

/// Runs the checks and writes the reports. Returns the exit status: 0 if all passed, 1 if a check
/// failed, 2 if the arguments or the device cannot be used.
pub fn run(arguments: &Arguments) -> u8 {
    let ready = known(&arguments.only).and_then(|()| Ok((outputs(arguments)?, device(arguments)?)));
    match ready {
        Err(error) => {
            eprintln!("error: {error:#}");
            BAD_INPUT
        }
        Ok((outputs, properties)) => match check(arguments, outputs, properties) {
            Ok(true) => SUCCESS,
            Ok(false) => FAILURE,
            Err(error) => {
                eprintln!("error: {error:#}");
                FAILURE
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

fn check(arguments: &Arguments, outputs: Outputs, properties: Properties) -> Result<bool> {
    let start = Instant::now();
    let end = start + Duration::from_secs(arguments.seconds);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let setting = Setting {
        device: arguments.device,
        seed: arguments.seed.unwrap_or(time),
        programs: arguments.programs.clone(),
        reference: arguments.reference.clone(),
        python: arguments.python.clone(),
        real: properties.name != STAND_IN,
        quick: arguments.quick,
        out: arguments.out.clone(),
    };
    let wanted = |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|o| o == name);
    let others = PARTS.iter().map(|part| part.0).filter(|name| !wanted(name));
    let report = Arc::new(Mutex::new(Report {
        stand_in: !setting.real,
        time,
        version: env!("CARGO_PKG_VERSION"),
        seed: setting.seed,
        device: properties.name,
        capability: properties.capability,
        memory: properties.memory,
        driver: properties.driver,
        seconds: 0.0,
        not_asked_for: others.collect(),
        parts: Vec::new(),
    }));
    let locked = || report.lock().unwrap_or_else(PoisonError::into_inner);
    let save: Save = Arc::new({
        let report = report.clone();
        move |section: &Section| {
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.seconds = start.elapsed().as_secs_f64();
            report.parts.retain(|part| part.name != section.name);
            report.parts.push(section.clone());
            report.write(&outputs)
        }
    });
    for &(name, share, part) in PARTS.iter().filter(|part| wanted(part.0)) {
        eprintln!("{name} ...");
        let mut section = Section::new(name, Duration::from_secs(share), end, save.clone());
        if let Err(error) = part(&setting, &mut section) {
            section.check("the whole part", Some(format!("{error:#}")));
        }
        section.save()?;
    }
    println!("{}", locked().text(Console::Out.is_terminal()).trim_end());
    let ok = locked().ok();
    Ok(ok)
}

/// Runs the conformance suite, which checks the first device.
fn conformance(_: &Setting, section: &mut Section) -> Result<()> {
    let backend: Arc<dyn Backend> = Arc::new(CudaBackend::new(CudaConfig::default()));
    let all = conformance::all();
    for (done, check) in all.iter().enumerate() {
        if section.is_over(|| format!("{} of {} checks", all.len() - done, all.len())) {
            break;
        }
        match conformance::run_one(check, &backend, &HostHarness) {
            Ok(Outcome::Passed) => section.passed += 1,
            Ok(_) => section.skipped.push(check.name.to_owned()),
            Err(error) => section.failed.push(format!("{}: {error:#}", check.name)),
        }
    }
    Ok(())
}
