//! `bench ranks`: collectives through a stream of a machine, beside the library's own.
//!
//! A launcher of MPI starts the command, once for each rank; rank 0 prints.
//!
//! | part | measures |
//! |---|---|
//! | `collectives` | each collective by size, in alternating rounds with the bare call of MPI |
//! | `overlap` | an allreduce of 4 MiB beside matrix products |
//! | `step` | a recorded step of training with its collectives, and the same without them |
//!
//! A time is that of the slowest rank, from when all were there until it has the results.

mod alone;
mod collectives;
mod overlap;
mod step;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use millstream::comm::mpi::{self, BareCollective};
use millstream::comm::{Buffer, Communicator, Elements, MpiCommunicator};
use millstream::{DType, Machine};
use millstream_trace::input_files;
use serde::Serialize;

use super::{quantile, report_file, write_report};

/// The arguments of `millstream bench ranks`.
#[derive(Args, Clone, Debug)]
pub struct RanksArgs {
    /// What is measured
    #[arg(long, value_enum, default_value_t = Part::All)]
    test: Part,
    /// The smallest size of a tensor in bytes; the next ones are four times as large
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 10, value_parser = clap::value_parser!(u64).range(64..=1 << 28))]
    least: u64,
    /// The largest size of a tensor in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = clap::value_parser!(u64).range(64..=1 << 30))]
    most: u64,
    /// The recorded program of several ranks whose step is measured
    #[arg(long, value_name = "FOLDER", default_value = step::CASE)]
    case: PathBuf,
    /// Number of alternating rounds
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of threads that kernels share, in each rank
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Also write the rows to FILE, as one JSON array; `-` is standard output
    #[arg(long = "report", visible_alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Each collective by size, beside the bare call of MPI
    Collectives,
    /// An allreduce beside matrix products
    Overlap,
    /// A step of training beside the same without collectives
    Step,
    /// All of them
    All,
}

/// A row of the result. Times are medians over the rounds, in microseconds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    test: &'static str,
    /// What is measured: an op, or the name of a case.
    what: String,
    ranks: usize,
    /// The bytes of the tensor that all ranks have, or of all their parts together.
    bytes: u64,
    /// The time of one call through a stream; of the overlap, of both; of a step.
    us: f64,
    /// The time that it is compared with: the bare call; the ideal; the step alone.
    against_us: f64,
    /// The goal's figure: the time by the other for a collective, the other by the time else.
    ratio: f64,
    /// The same figure of each round.
    rounds: Vec<f64>,
    /// The messages of all ranks, to match one call.
    messages: Option<f64>,
}

/// The ranks that the launcher has started, as all parts use them.
struct Ranks {
    mpi: Arc<MpiCommunicator>,
    machine: Machine,
    rounds: u32,
}

impl Ranks {
    fn rank(&self) -> usize {
        self.mpi.rank()
    }

    fn ranks(&self) -> usize {
        self.mpi.ranks()
    }

    /// Waits until all ranks are there.
    fn meet(&self) -> Result<()> {
        self.mpi.bare(BareCollective::Barrier, floats(0)?, floats(0)?, 1)?;
        Ok(())
    }

    /// Returns the numbers of all ranks.
    fn of_all(&self, own: f64) -> Result<Vec<f64>> {
        let mut given = floats(1)?;
        given.bytes_mut().copy_from_slice(&(own as f32).to_ne_bytes());
        let gather = BareCollective::AllGather;
        let (_, all) = self.mpi.bare(gather, given, floats(self.ranks())?, 1)?;
        let each = all.bytes().chunks_exact(4).map(|bytes| bytes.try_into().unwrap_or_default());
        Ok(each.map(|bytes| f64::from(f32::from_ne_bytes(bytes))).collect())
    }

    /// Returns the greatest number of all ranks.
    fn greatest(&self, own: f64) -> Result<f64> {
        Ok(self.of_all(own)?.into_iter().fold(f64::MIN, f64::max))
    }

    /// Returns the seconds that the slowest rank takes.
    fn time(&self, run: impl FnOnce() -> Result<()>) -> Result<f64> {
        self.meet()?;
        let begun = Instant::now();
        run()?;
        self.greatest(begun.elapsed().as_secs_f64())
    }

    /// Returns the seconds that the slowest rank measured.
    fn slowest(&self, own: Duration) -> Result<f64> {
        self.greatest(own.as_secs_f64())
    }
}

/// Returns so many zeros of type f32.
fn floats(numel: usize) -> Result<Buffer> {
    Ok(Buffer::zeros(Elements { dtype: DType::F32, numel })?)
}

/// Runs the command.
pub(crate) fn ranks(args: &RanksArgs) -> Result<()> {
    ensure!(
        mpi::is_launched(),
        "expected to be started by a launcher of MPI: mpirun -n 2 millstream bench ranks"
    );
    let mpi = MpiCommunicator::connect()?;
    let read = input_files(&args.case);
    let first = args.json.as_deref().filter(|_| mpi.rank() == 0);
    let report = report_file(first, read)?;
    // After an error the others may wait within the library. The launcher ends them once this
    // process has failed, so it does not wait for them.
    let rows = measure(args, &mpi).with_context(|| format!("rank {}", mpi.rank()))?;
    if mpi.rank() == 0 {
        write_report(&report, &rows)?;
        if args.json.as_deref() != Some(Path::new("-")) {
            table::print(&rows, mpi.version());
        }
    }
    mpi.finish();
    Ok(())
}

fn measure(args: &RanksArgs, mpi: &Arc<MpiCommunicator>) -> Result<Vec<Row>> {
    ensure!(mpi.ranks() > 1, "expected at least 2 ranks, got 1: mpirun -n 2 …");
    let is_wanted = |part| args.test == part || args.test == Part::All;
    let mut rows = Vec::new();
    if is_wanted(Part::Collectives) || is_wanted(Part::Overlap) {
        let config = millstream::MachineConfig::default()
            .threads(args.threads as usize)
            .host_workers(2)
            .communicator(mpi.clone())
            .submitters(Some(1));
        let machine = Machine::new(config)?;
        let ranks = Ranks { mpi: mpi.clone(), machine, rounds: args.rounds };
        if is_wanted(Part::Collectives) {
            rows.extend(collectives::run(&ranks, args.least, args.most)?);
        }
        if is_wanted(Part::Overlap) {
            rows.push(overlap::run(&ranks)?);
        }
        // The next machine numbers its calls anew.
        drop(ranks);
        mpi.end_program();
    }
    if is_wanted(Part::Step) {
        rows.extend(step::run(args, mpi).with_context(|| args.case.display().to_string())?);
    }
    Ok(rows)
}

/// Returns the row of a figure, from the seconds of each round: its own, and those of what it is
/// compared with.
fn row(
    (test, what, bytes): (&'static str, String, u64),
    ranks: usize,
    times: &[(f64, f64)],
    messages: Option<f64>,
) -> Row {
    let figure = |&(own, other): &(f64, f64)| match test {
        "collective" => own / other,
        _ => other / own,
    };
    let median = |of: &dyn Fn(&(f64, f64)) -> f64| {
        quantile(&mut times.iter().map(of).collect::<Vec<_>>(), 0.5)
    };
    Row {
        test,
        what,
        ranks,
        bytes,
        us: median(&|times| times.0) * 1e6,
        against_us: median(&|times| times.1) * 1e6,
        ratio: median(&figure),
        rounds: times.iter().map(figure).collect(),
        messages,
    }
}
