//! The arguments of `millstream run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use millstream_files::{OutputError, Outputs};
use millstream_instructions::SyncPolicy;
use millstream_instructions::passes::{Effort, Pass};
use millstream_runner::{CollectiveChecks, Loading, RunOptions};
use millstream_trace::{EtOptions, LoadOptions, Number, Tolerance};
use millstream_types::{ByteCount, DeviceId};
use millstream_vm::{DriverKind, MachineConfig};

use crate::assign::Assignments;
use crate::profile::Forms;

/// The arguments of `millstream run`.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  millstream run examples/traces\n  millstream run examples/pytorch/transformer_encoder_train --compute-streams 4"
)]
pub(crate) struct Arguments {
    /// Traces (`-` is standard input), lists of instructions, or directories with traces; a
    /// directory with rank0, rank1, … is one program
    #[arg(required = true, value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    /// Run each program on N ranks, all of which read the same file. Started by mpirun, a program
    /// has as many ranks as there are processes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) ranks: Option<u32>,
    /// Device of tensors and streams that name none: cpu or sim
    #[arg(long, default_value = "cpu")]
    pub(super) device: String,
    /// Threads that run the instructions: workers, or the caller in program order [default: inline
    /// if all calls run on one compute stream of the host, else threaded]
    #[arg(long, value_enum)]
    driver: Option<Driver>,
    /// Earlier uses of a tensor that an instruction waits for
    #[arg(long, value_enum, default_value_t = Sync::Frontier)]
    sync: Sync,
    /// Spread the ops of a program that names no streams over N compute streams
    #[arg(long, alias = "streams", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    compute_streams: u32,
    #[command(flatten)]
    pub(super) assign: Assignments,
    /// Write the streams of all ops to FILE, as an assignment to edit; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) emit_assign: Option<PathBuf>,
    /// Number of worker threads, and of threads that kernels share [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Run each program N times and compare every result with the first, byte by byte
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Compile each program of statements to an executable once, and launch it for each run
    #[arg(long)]
    replay: bool,
    /// Passes that a replayed program's list goes through, in order, as in dead,memory
    #[arg(long, value_name = "LIST", requires = "replay", value_parser = passes)]
    passes: Option<Passes>,
    /// How long the pass `memory` may search for offsets: fast, usual or exact
    #[arg(long, value_name = "EFFORT", requires = "replay", default_value_t = Effort::Usual)]
    plan_effort: Effort,
    /// Most private memory of each executable, as in 512MiB: tensors are computed again where they
    /// do not fit. Given with a device, as in cuda:0=4GiB, its memory there; may be repeated
    #[arg(long, value_name = "[DEVICE=]SIZE", value_parser = budget)]
    remat: Vec<Budget>,
    /// With --replay and --emit: write the executable's list as it is after PASS
    #[arg(long, value_name = "PASS", requires_all = ["replay", "emit"])]
    emit_after: Option<Pass>,
    /// Most memory of each device, as in 512MiB [default: the device's own]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<u64>,
    /// Show tables of outputs, instructions, waits and streams, and what `read` statements read
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Show the memory of each device and stream, and how requests for it were satisfied
    #[arg(long)]
    pub(super) memory: bool,
    /// Fill unused memory with a pattern in which every float is NaN
    #[arg(long)]
    check_memory: bool,
    /// End a run in which an instruction takes longer than TIME, as in 10s or 500ms, with a report
    /// of all waits
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) watchdog: Option<Duration>,
    /// Run collectives of tensors on CUDA devices there, by NCCL, whose reductions have an order of
    /// their own. Without, they run on the host, on copies
    #[arg(long)]
    nccl: bool,
    /// Do not compare the collectives of several ranks before their data moves. Ranks that call
    /// different things may then give wrong results, or wait for ever
    #[arg(long)]
    unchecked_collectives: bool,
    /// Let CUDA devices compute matrix products of f32 in TF32
    #[arg(long)]
    tf32: bool,
    /// Use VALUE for every number that an execution trace lost and consts.json lacks
    #[arg(long, value_name = "VALUE", value_parser = number, allow_hyphen_values = true)]
    missing_scalar: Option<Number>,
    /// Compute random ops of an execution trace whose results were not recorded with own numbers;
    /// outputs that depend on them are not compared
    #[arg(long, value_name = "SEED")]
    random: Option<u64>,
    /// Run execution traces for their structure: leave out nodes that cannot be executed, and make
    /// up missing elements
    #[arg(long)]
    structural: bool,
    /// Make up random elements, from this seed, for tensors of execution traces and lists that no
    /// file holds. No output is compared then
    #[arg(long, value_name = "SEED")]
    random_inputs: Option<u64>,
    /// The allowed error of each floating-point output as a fraction of the expected value;
    /// default: that of the recording, or of the dtype
    #[arg(long, value_name = "NUMBER", value_parser = bound, allow_hyphen_values = true)]
    rtol: Option<f64>,
    /// The allowed error besides, independent of the expected value
    #[arg(long, value_name = "NUMBER", value_parser = bound, allow_hyphen_values = true)]
    atol: Option<f64>,
    /// Elements of the tensors that a list of instructions needs: a safetensors file, or the trace
    /// that the list was emitted from
    #[arg(long, value_name = "FILE")]
    pub(super) inputs: Option<PathBuf>,
    /// Write the list of instructions to FILE; `-` is standard output. Those of several ranks go to
    /// rank0.txt, rank1.txt and so on in the folder FILE
    #[arg(long, value_name = "FILE")]
    pub(super) emit: Option<PathBuf>,
    /// Write the outputs to FILE, in the format of safetensors; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) save_outputs: Option<PathBuf>,
    /// Print the hash of each program's list of instructions, which does not depend on the driver
    #[arg(long)]
    pub(super) certificate: bool,
    /// Write a report as JSON to FILE, one line for each program; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Outputs of at most N elements are written to the report with them
    #[arg(long, value_name = "N", default_value_t = 16, requires = "report")]
    pub(super) report_elements: usize,
    #[command(flatten)]
    pub(super) outputs: Forms,
}

/// The threads that run the instructions.
#[derive(Clone, Copy, ValueEnum)]
enum Driver {
    /// Worker threads
    Threaded,
    /// The calling thread, in program order
    Inline,
}

/// The earlier uses of a tensor that an instruction waits for.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Sync {
    /// The conflicting uses
    Frontier,
    /// The last use, of any kind
    LastUsed,
}

impl Sync {
    pub(crate) const fn policy(self) -> SyncPolicy {
        match self {
            Sync::Frontier => SyncPolicy::Frontier,
            Sync::LastUsed => SyncPolicy::LastUsedStream,
        }
    }
}

impl Arguments {
    /// Returns the files to be written for a program of so many ranks, or for several programs.
    pub(super) fn files(&self, ranks: usize) -> Result<Outputs, OutputError> {
        let files = [
            ("--report", self.report.as_deref()),
            ("--save-outputs", self.save_outputs.as_deref()),
            ("--emit-assign", self.emit_assign.as_deref()),
            ("--emit", self.emit.as_deref().filter(|_| ranks == 1)),
        ];
        let files = Outputs::new(files.into_iter().chain(self.outputs.files()))?;
        match &self.emit {
            Some(folder) if ranks > 1 => {
                files.folder("--emit", folder, (0..ranks).map(super::list_name))
            }
            _ => Ok(files),
        }
    }

    /// Returns the options for loading traces.
    pub(super) fn loading(&self) -> Loading {
        let et = EtOptions {
            missing_scalar: self.missing_scalar,
            random: self.random,
            structural: self.structural,
            random_inputs: self.random_inputs,
            ..EtOptions::default()
        };
        Loading {
            trace: LoadOptions { et, ..LoadOptions::default() },
            inputs: self.inputs.clone(),
            assign: self.assign.files().cloned().collect(),
            rank: None,
            tolerance: Tolerance { rtol: self.rtol, atol: self.atol },
        }
    }

    /// Returns the options of each run.
    pub(super) fn options(&self) -> Result<RunOptions, String> {
        let device: DeviceId =
            self.device.parse().map_err(|e| format!("--device {}: {e}", self.device))?;
        let driver = match self.driver {
            Some(Driver::Inline) => DriverKind::Inline,
            Some(Driver::Threaded) | None => DriverKind::Threaded,
        };
        if driver == DriverKind::Inline && self.watchdog.is_some() {
            let message = "--watchdog needs worker threads, which --driver inline does not have; \
                           leave out one of them";
            return Err(message.to_owned());
        }
        let machine = |config: MachineConfig| {
            let config = config.driver(driver).sync(self.sync.policy());
            let config = config.check_memory(self.check_memory);
            config.watchdog(self.watchdog)
        };
        let of = |b: &Budget| (b.device.clone().unwrap_or_else(|| device.clone()), b.bytes);
        let remat: Vec<(DeviceId, u64)> = self.remat.iter().map(of).collect();
        let options = RunOptions::default()
            .machine(machine)
            // The watchdog observes workers.
            .inline_if_serial(self.driver.is_none() && self.watchdog.is_none())
            .device(device)
            .compute_streams(self.compute_streams)
            .assigner(self.assign.assigner().unwrap_or_default())
            .repeat(self.repeat)
            .replay(self.replay)
            .plan_effort(self.plan_effort)
            .remat(remat)
            .emit_after(self.emit_after)
            .emit(self.emit.is_some() || self.certificate)
            .profile(self.outputs.any())
            .memory_limit(self.memory_limit)
            .tf32(self.tf32)
            .nccl(self.nccl);
        let options = match crate::cancellation() {
            Some(cancellation) => options.cancellation(cancellation),
            None => options,
        };
        let options = match self.unchecked_collectives {
            true => options.collective_checks(CollectiveChecks::None),
            false => options,
        };
        let options = match &self.passes {
            Some(Passes(passes)) => options.passes(passes),
            None => options,
        };
        if let Some(pass) = self.emit_after
            && !options.passes_of_executables().contains(&pass)
        {
            return Err(format!(
                "--emit-after {pass}: it is none of the passes, which --passes names"
            ));
        }
        Ok(match self.threads {
            Some(threads) => options.threads(threads as usize),
            None => options,
        })
    }
}

/// Passes in the order of the command line.
#[derive(Clone, Debug)]
struct Passes(Vec<Pass>);

/// Parses names of passes, separated by commas.
fn passes(text: &str) -> Result<Passes, String> {
    let known = || Pass::ALL.map(Pass::name).join(", ");
    let parsed = Pass::parse_list(text);
    let passes = parsed.map_err(|error| format!("{error}; the passes are {}", known()))?;
    if passes.contains(&Pass::Fold) {
        let message = "fold makes calls of constants once, and a trace names none: any of its \
                       tensors may be changed between runs; a program names them by \
                       `Recorder::constant`";
        return Err(message.to_owned());
    }
    Ok(Passes(passes))
}

/// Parses a number as in a trace: an integer, a floating-point number, `true` or `false`.
pub(crate) fn number(text: &str) -> Result<Number, String> {
    let wrong = || format!("expected a number, true or false, got '{text}'");
    match text {
        "true" => Ok(Number::Bool(true)),
        "false" => Ok(Number::Bool(false)),
        _ => match text.parse::<i64>() {
            Ok(whole) => Ok(Number::Int(whole.into())),
            Err(_) => text.parse().map(Number::Float).map_err(|_| wrong()),
        },
    }
}

/// Reads a bound of a tolerance.
fn bound(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|v: &f64| *v >= 0.0);
    value.ok_or_else(|| format!("expected a number of at least 0, as in 1e-3, got '{text}'"))
}

/// Parses a time with its unit: `10s`, `500ms`, `2m`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a time of at least 1ms, as in 10s or 500ms, got '{text}'");
    let units = [("ms", 1), ("s", 1000), ("m", 60_000)];
    let of = |(unit, by): (&str, u64)| Some((text.strip_suffix(unit)?, by));
    let (digits, by) = units.into_iter().find_map(of).ok_or_else(wrong)?;
    let count: u64 = digits.trim_end().parse().map_err(|_| wrong())?;
    let ms = count.checked_mul(by).filter(|&ms| ms > 0).ok_or_else(wrong)?;
    Ok(Duration::from_millis(ms))
}

/// Parses a number of bytes with an optional unit: `512MiB`, `2GB`, `1.5G`, `4096`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    text.parse::<ByteCount>().map(|bytes| bytes.0).map_err(|e| e.to_string())
}

/// A memory budget: of a device, or of the run's device.
#[derive(Clone, Debug)]
struct Budget {
    device: Option<DeviceId>,
    bytes: u64,
}

/// Parses a budget: `512MiB`, `cuda:0=4GiB`.
fn budget(text: &str) -> Result<Budget, String> {
    let (device, bytes) = match text.split_once('=') {
        Some((device, bytes)) => (Some(device.parse().map_err(|e| format!("{e}"))?), bytes),
        None => (None, text),
    };
    Ok(Budget { device, bytes: size(bytes)? })
}
