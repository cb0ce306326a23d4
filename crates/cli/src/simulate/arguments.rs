//! The arguments of `millstream simulate`.

use std::path::PathBuf;

use millstream_explore::simulate::{Simulator, Trial};
use millstream_runner::{RunError, RunOptions};
use millstream_types::DeviceId;

use super::planted::Planted;
use crate::assign::Assignments;
use crate::profile::Forms;
use crate::run::size;

/// The arguments of `millstream simulate`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  millstream simulate examples/traces/diamond.json --seeds 1000")]
pub(crate) struct Arguments {
    /// A trace (`-` is standard input), a list of instructions, or a directory with traces; a
    /// directory with rank0, rank1, … is one program
    #[arg(required_unless_present = "random", value_name = "PATH")]
    pub(super) path: Option<PathBuf>,
    /// Run the program on N ranks, all of which read the same file
    #[arg(long, value_name = "N", conflicts_with = "random", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) ranks: Option<u32>,
    /// Run small random programs instead of a trace, a new one for each seed
    #[arg(long, conflicts_with_all = ["path", "device", "assign"])]
    pub(super) random: bool,
    /// Run only the schedule of seed N
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub(super) seed: Option<u64>,
    /// Run the schedules of seeds 0 to N-1 [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seeds: Option<u64>,
    /// Device of tensors and streams that name none: sim or cpu
    #[arg(long, default_value = "sim")]
    pub(super) device: String,
    /// Spread the ops of a program that names no streams over N compute streams
    #[arg(long, alias = "streams", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) compute_streams: u32,
    #[command(flatten)]
    pub(super) assign: Assignments,
    /// Most memory of each device, as in 512MiB [default: 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "random")]
    pub(super) memory_limit: Option<u64>,
    /// Elements of the tensors that a list of instructions needs: a safetensors file, or the trace
    /// that the list was emitted from
    #[arg(long, value_name = "FILE", conflicts_with = "random")]
    pub(super) inputs: Option<PathBuf>,
    /// Number of seeds that run side by side [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) threads: Option<u32>,
    /// Write the log of the one seed to FILE; `-` is standard output
    #[arg(long, value_name = "FILE", requires = "seed")]
    pub(super) log: Option<PathBuf>,
    /// Predict the time of the program on the devices of this cost model; seeds run only if given
    #[arg(long, value_name = "FILE", conflicts_with = "random")]
    pub(super) model: Option<PathBuf>,
    #[command(flatten)]
    pub(super) outputs: Forms,
    /// Plant a mistake: leave out waits, or the order of memory
    #[arg(long, value_name = "MISTAKE", value_enum)]
    pub(super) without: Option<Planted>,
    /// Inject a fault into a device in each run, or cancel the program; the seed chooses kind and
    /// position
    #[arg(long, conflicts_with_all = ["without", "model"])]
    pub(super) faults: bool,
    /// File for the shrunk program that fails [default: failing.json, or if that exists
    /// failing-2.json and so on]
    #[arg(long, value_name = "FILE")]
    pub(super) save: Option<PathBuf>,
    /// Write the result as JSON to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
}

impl Arguments {
    /// Returns the seeds to run.
    pub(super) fn range(&self) -> std::ops::Range<u64> {
        match self.seed {
            Some(seed) => seed..seed.saturating_add(1),
            None => 0..self.seeds.unwrap_or(100),
        }
    }

    /// Returns an option that is for one program alone, if any is given.
    pub(super) fn of_one_program(&self) -> Option<&'static str> {
        let given = [
            ("--log", self.log.is_some()),
            ("--report", self.report.is_some()),
            ("--model", self.model.is_some()),
            ("--inputs", self.inputs.is_some()),
            ("--assign FILE", self.assign.files().next().is_some()),
            ("a profile", self.outputs.any()),
        ];
        given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }

    /// Returns the number of trials that run side by side.
    pub(super) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(cores, |n| n as usize)
    }

    /// Returns whether any schedule is to be run.
    pub(super) fn runs_seeds(&self) -> bool {
        self.model.is_none() || self.seed.is_some() || self.seeds.is_some()
    }

    /// Runs one seed, with a fault if the arguments say so.
    pub(super) fn trial(&self, simulator: &Simulator, seed: u64) -> Result<Trial, RunError> {
        let keep = self.log.is_some();
        match self.faults {
            true => simulator.seed_with_fault(seed, keep),
            false => simulator.seed(seed, keep),
        }
    }

    fn given(&self) -> RunOptions {
        let protection = self.without.map_or_else(Default::default, Planted::protection);
        RunOptions::default()
            .machine(|config| config.protection(protection))
            .compute_streams(self.compute_streams)
            .expected_cores(self.compute_streams)
            .assigner(self.assign.assigner().unwrap_or_default())
            .memory_limit(self.memory_limit)
    }

    /// Returns the options of each run.
    pub(super) fn options(&self) -> Result<RunOptions, String> {
        let wrong = |e: millstream_types::Error| format!("--device {}: {e}", self.device);
        let device: DeviceId = self.device.parse().map_err(wrong)?;
        let options = self.given().device(device);
        options.probe().map_err(wrong)?;
        Ok(options)
    }
}
