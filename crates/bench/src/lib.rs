//! Measures the machine: the commands of `millstream bench`.
//!
//! # `bench engine`
//! The cost of an instruction, on workloads that other schedulers run as well.
//!
//! Each test prints a row of JSON, with the same keys as the other schedulers' programs (the
//! peers): `ns_per_op` is the median over the rounds of the time from the first submission until
//! all has completed, `push_ns` the median of the time of submitting; `extra` holds one more figure
//! and `x` its name. With `--peers`, the peers' programs run in interleaved rounds with this one,
//! and a table shows them side by side.
//!
//! Inside the clock: building each instruction, hazards, routing, running an empty kernel,
//! completion, retirement. Outside: looking up the ops and the operands.
//!
//! # Map
//! | module | contents |
//! |---|---|
//! | `fixture` | the measured machine, its ops, the handles that are looked up |
//! | `functions` | the same instructions as functions of the program |
//! | `measure` | the tests |
//! | `workload` | the instructions of each test, from seeds that all programs share |
//! | `calls` | `bench calls` |
//! | `compare` | rounds of several programs, and their table |
//! | `replay` | `bench replay` |
//! | `traces` | `bench traces` |
//! | [`pytorch`] | the process with PyTorch that it compares with |

#![deny(missing_docs)]

mod calls;
mod compare;
mod fixture;
mod functions;
mod measure;
pub mod pytorch;
mod replay;
mod traces;
mod workload;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use millstream_files::{Outputs, println};
use serde::{Deserialize, Serialize};

use calls::CallsArgs;
use replay::ReplayArgs;
use traces::TracesArgs;

/// The commands of `millstream bench`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Measures one kind of call, repeated.
    #[command(after_help = "Example:\n  millstream bench calls --kind view")]
    Calls(CallsArgs),
    /// Measures the cost of an instruction.
    #[command(after_help = "Example:\n  millstream bench engine --test chain")]
    Engine(EngineArgs),
    /// Measures launches of executables.
    #[command(after_help = "Example:\n  millstream bench replay")]
    Replay(ReplayArgs),
    /// Measures recorded programs, beside eager PyTorch.
    #[command(after_help = "Example:\n  millstream bench traces examples/pytorch --rounds 5")]
    Traces(TracesArgs),
}

/// Runs a command. Writes its rows to standard output.
///
/// # Errors
/// Fails if no workload has the given name, if a program fails, or if a result is wrong.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Calls(arguments) => calls::calls(arguments),
        Command::Engine(arguments) => engine(arguments),
        Command::Replay(arguments) => replay::replay(arguments),
        Command::Traces(arguments) => traces::traces(arguments),
    }
}

/// The arguments of `millstream bench engine`.
#[derive(Args, Clone, Debug)]
pub struct EngineArgs {
    /// Workload: chain, indep, nodep, random, fan, stencil, lat, latidle, mem, flat, idle,
    /// endless, profile, verify, or all
    #[arg(long, default_value = "chain")]
    test: String,
    /// What runs the instructions: in-order streams, a pool, or first the one and then the other;
    /// or the dependency engine, as functions, operators, or functions in bulk scopes
    #[arg(long, value_enum, default_value_t = Peer::Inorder)]
    peer: Peer,
    /// Number of worker threads
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Number of rounds, after one more that warms up
    #[arg(long, visible_alias = "reps", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of instructions in each round; of a stencil, of steps
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Number of streams that share the instructions: a stencil's points by halves, others in turns
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    streams: u32,
    /// Number of points of the stencil
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    width: u32,
    /// Microseconds that each instruction of the stencil computes
    #[arg(long, default_value_t = 10.0)]
    grain: f64,
    /// Also write the rows to FILE, as one JSON array; `-` is standard output
    #[arg(long = "report", visible_alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder with the peers' built programs, to run in interleaved rounds with this one
    #[arg(long)]
    peers: Option<PathBuf>,
}

/// The order of the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// In-order streams
    Inorder,
    /// A pool
    Pool,
    /// In-order streams, then a pool
    All,
    /// Functions that are pushed to the dependency engine
    Functions,
    /// Operators that are pushed to the dependency engine
    Operators,
    /// Functions that are pushed to the dependency engine in bulk scopes of 15
    Bulk,
}

impl Peer {
    fn each(self) -> &'static [Peer] {
        match self {
            Peer::Inorder => &[Peer::Inorder],
            Peer::Pool => &[Peer::Pool],
            Peer::All => &[Peer::Inorder, Peer::Pool],
            Peer::Functions => &[Peer::Functions],
            Peer::Operators => &[Peer::Operators],
            Peer::Bulk => &[Peer::Bulk],
        }
    }

    /// Returns whether the dependency engine runs the instructions.
    const fn is_engine(self) -> bool {
        matches!(self, Peer::Functions | Peer::Operators | Peer::Bulk)
    }

    const fn name(self) -> &'static str {
        match self {
            Peer::Inorder => "millstream_inorder",
            Peer::Pool | Peer::All => "millstream_pool",
            Peer::Functions => "millstream_functions",
            Peer::Operators => "millstream_operators",
            Peer::Bulk => "millstream_bulk",
        }
    }
}

/// A row of the result, with the keys that all programs use.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Row {
    peer: String,
    test: String,
    /// The number of workers.
    w: u32,
    /// The number of instructions.
    #[serde(default)]
    n: u32,
    #[serde(default)]
    ns_per_op: f64,
    #[serde(default)]
    push_ns: f64,
    #[serde(default)]
    extra: f64,
    /// The name of the figure in `extra`.
    #[serde(default)]
    x: String,
}

/// The tests that `all` runs. `mem` is first, while no memory that an earlier test released is
/// resident.
const ALL: [&str; 10] =
    ["mem", "chain", "indep", "nodep", "random", "fan", "stencil", "lat", "latidle", "verify"];

/// Returns the file that `--report` names, checked against the files that are read.
fn report_file<P: AsRef<Path>>(
    path: Option<&Path>,
    read: impl IntoIterator<Item = P>,
) -> Result<Outputs> {
    let report = Outputs::new([("--report", path)])?;
    report.refuse(read)?;
    report.prepare()?;
    Ok(report)
}

/// Writes the rows to the file that `--report` names.
fn write_report(report: &Outputs, rows: &impl Serialize) -> Result<()> {
    report.write("--report", || {
        serde_json::to_string_pretty(rows).map(|text| text + "\n").map_err(|e| e.to_string())
    });
    Ok(report.finish()?)
}

fn engine(args: &EngineArgs) -> Result<()> {
    let report = report_file::<&Path>(args.json.as_deref(), [])?;
    let rows = match &args.peers {
        Some(folder) => compare::run(args, folder)?,
        None => alone(args)?,
    };
    write_report(&report, &rows)?;
    match rows.iter().find(|row| row.test == "verify" && row.extra > 0.0) {
        Some(row) => bail!("{}: {} variables are wrong", row.peer, row.extra),
        None => Ok(()),
    }
}

fn alone(args: &EngineArgs) -> Result<Vec<Row>> {
    let tests: &[&str] = if args.test == "all" { &ALL } else { &[&args.test] };
    let mut rows = Vec::new();
    for &peer in args.peer.each() {
        let args = EngineArgs { peer, ..args.clone() };
        for test in tests {
            for row in measure::run(&args, test)? {
                println!("{}", serde_json::to_string(&row)?);
                rows.push(row);
            }
        }
    }
    Ok(rows)
}

fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() as f64 * share) as usize;
    values.get(at.min(values.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
