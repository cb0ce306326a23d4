//! A recorded step of training on several ranks, with its collectives and without.
//!
//! Both run the same trace of this rank. The results of the first are those that were recorded; the
//! second, whose collectives complete at once, computes others in the same time.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use millstream::comm::mpi::BareCollective;
use millstream::comm::{Communicator, MpiCommunicator};
use millstream_runner::{RunOptions, Timed};
use millstream_trace::{Entry, LoadOptions, expand, load};

use super::alone::Alone;
use super::{RanksArgs, Row, floats, row};

/// The program that is measured unless another one is named: its gradients travel in buckets.
pub(super) const CASE: &str = "tests/traces/pytorch/ddp_mlp_2rank";

/// The number of steps of a round.
const STEPS: usize = 20;

/// Measures the step, if the program is one of as many ranks.
pub(super) fn run(args: &RanksArgs, mpi: &Arc<MpiCommunicator>) -> Result<Option<Row>> {
    let Some(path) = own(args, mpi)? else { return Ok(None) };
    let program = load(&path, &LoadOptions::default()).map_err(|e| anyhow::anyhow!("{e}"))?;
    let options = |communicator: Arc<dyn Communicator>| {
        RunOptions::default()
            .threads(args.threads as usize)
            .machine(|config| config.communicator(communicator).submitters(Some(1)).host_workers(2))
    };
    let together = Timed::new(&program, &options(mpi.clone()))?;
    let alone = Alone { rank: mpi.rank(), ranks: mpi.ranks() };
    let alone = Timed::new(&program, &options(Arc::new(alone)))?;
    let outputs = together.check()?;
    if let Some(wrong) = outputs.iter().find(|output| !output.ok()) {
        bail!("{} is wrong: {:?}", wrong.name, wrong.comparison);
    }
    alone.run()?;
    let seconds = |timed: &Timed| -> Result<f64> {
        mpi.bare(BareCollective::Barrier, floats(0)?, floats(0)?, 1)?;
        let mut total = 0.0;
        for _ in 0..STEPS {
            total += timed.run()?.wall.as_secs_f64();
        }
        let mut given = floats(1)?;
        given.bytes_mut().copy_from_slice(&((total / STEPS as f64) as f32).to_ne_bytes());
        let gather = BareCollective::AllGather;
        let (_, all) = mpi.bare(gather, given, floats(mpi.ranks())?, 1)?;
        let each = all.bytes().chunks_exact(4).map(|bytes| bytes.try_into().unwrap_or_default());
        Ok(each.map(f32::from_ne_bytes).map(f64::from).fold(0.0, f64::max))
    };
    let mut times = Vec::new();
    for round in 0..=args.rounds {
        let both = (seconds(&together)?, seconds(&alone)?);
        // The first round warms up.
        if round > 0 {
            times.push(both);
        }
    }
    let name = args.case.file_name().map(|name| name.to_string_lossy().into_owned());
    let what = format!("step of {}", name.unwrap_or_default());
    Ok(Some(row(("step", what, 0), mpi.ranks(), &times, None)))
}

/// Returns the trace of this rank; none, with a message, if the program is one of other ranks.
fn own(args: &RanksArgs, mpi: &MpiCommunicator) -> Result<Option<PathBuf>> {
    let entries = expand([args.case.clone()])?;
    let ranks = entries.into_iter().find_map(|entry| match entry {
        Entry::Ranks { ranks, .. } => Some(ranks),
        _ => None,
    });
    let ranks = ranks.context("expected a folder with a program of several ranks")?;
    ensure!(!ranks.is_empty(), "the program has no ranks");
    if ranks.len() != mpi.ranks() {
        if mpi.rank() == 0 {
            eprintln!("skipped: {} has {} ranks", args.case.display(), ranks.len());
        }
        return Ok(None);
    }
    Ok(ranks.get(mpi.rank()).cloned())
}
