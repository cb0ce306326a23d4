//! The arguments of `simulate`.

use std::path::PathBuf;

use millstream::DeviceId;
use millstream::run::RunOptions;

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A trace.
    #[arg(required_unless_present = "random", value_name = "PATH")]
    pub(super) path: Option<PathBuf>,
    /// Small random programs instead of a trace, another one for each seed.
    #[arg(long, conflicts_with_all = ["path", "device"])]
    pub(super) random: bool,
    /// Run the schedule of this seed.
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub(super) seed: Option<u64>,
    /// Run the schedules of so many seeds, 0, 1, 2, …
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seeds: u64,
    /// The device of tensors and streams that name none: sim or cpu.
    #[arg(long, default_value = "sim")]
    pub(super) device: String,
    /// Spread the ops of a program that names no streams over N compute streams.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) compute_streams: u32,
    /// How many seeds run side by side; as many as there are cores unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) threads: Option<u32>,
    /// Write the log of the one seed here; - is standard output.
    #[arg(long, value_name = "FILE", requires = "seed")]
    pub(super) log: Option<PathBuf>,
    /// Where the smallest program that fails is written.
    #[arg(long, value_name = "FILE", default_value = "failing.json")]
    pub(super) save: PathBuf,
}

impl Arguments {
    /// The seeds asked for.
    pub(super) fn range(&self) -> std::ops::Range<u64> {
        match self.seed {
            Some(seed) => seed..seed.saturating_add(1),
            None => 0..self.seeds,
        }
    }

    /// How many trials run side by side.
    pub(super) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(cores, |n| n as usize)
    }

    /// The options of each run.
    pub(super) fn options(&self) -> Result<RunOptions, String> {
        let wrong = |e: millstream::Error| format!("--device {}: {e}", self.device);
        let device: DeviceId = self.device.parse().map_err(wrong)?;
        let options =
            RunOptions { device, compute_streams: self.compute_streams, ..RunOptions::default() };
        options.probe().map_err(wrong)?;
        Ok(options)
    }
}
