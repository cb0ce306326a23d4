//! `bench replay --metg`: the stencil of width 8 on two workers, replayed, call by call, and as a
//! graph that another scheduler has built before.
//!
//! A launch is 100 steps. The measured lengths of a task are those of `bench engine --test metg`,
//! and the rounds of all ways are interleaved. Each prints a row for each length, with the medians
//! of the wall time per task, and one with METG(50 %).

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use millstream::DriverKind;

use super::compare;
use super::fixture::{Fixture, GRAIN};
use super::granularity::{GRAINS, Granularity};
use super::replay::{Row, machine};
use super::workload::workload;
use super::{EngineArgs, quantile};

/// The steps of a launch, and of a round.
const STEPS: usize = 100;
const ROUND: usize = 1_000;
const WIDTH: u32 = 8;
const WORKERS: u32 = 2;

/// Returns the wall time of a round per task, in ns.
type Way = (&'static str, Box<dyn FnMut() -> Result<Option<f64>>>);

fn args(grain: f64) -> EngineArgs {
    let count = ROUND as u32;
    EngineArgs { grain, streams: WORKERS, width: WIDTH, count, ..machine(WORKERS) }
}

fn ways(grain: f64, peers: Option<&Path>) -> Result<Vec<Way>> {
    let args = args(grain);
    let fixture = Fixture::with_driver(&args, &GRAIN, DriverKind::Threaded)?;
    let load = workload("stencil", STEPS, WIDTH)?;
    let executable = fixture.compile(&load, &GRAIN, WORKERS)?;
    let replayed = move || {
        let start = Instant::now();
        for _ in 0..ROUND / STEPS {
            executable.launch().run()?;
        }
        fixture.machine.synchronize()?;
        Ok(Some(start.elapsed().as_nanos() as f64 / (ROUND * WIDTH as usize) as f64))
    };
    let fixture = Fixture::with_driver(&args, &GRAIN, DriverKind::Threaded)?;
    let load = workload("stencil", ROUND, WIDTH)?;
    let handles = fixture.look_up(&load, &GRAIN)?;
    let eager = move || Ok(Some(fixture.round(&load, &handles)?.0));
    let mut ways: Vec<Way> =
        vec![("stencil_replayed", Box::new(replayed)), ("stencil_eager", Box::new(eager))];
    if let Some(folder) = peers {
        let folder = folder.to_owned();
        let tbb = move || Ok(compare::stencil("tbb", &args, &folder)?.map(|row| row.ns_per_op));
        ways.push(("stencil_tbb", Box::new(tbb)));
    }
    Ok(ways)
}

/// Measures in so many interleaved rounds, after one more that warms up.
pub(super) fn metg(rounds: u32, peers: Option<&Path>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut found: Vec<Granularity> = Vec::new();
    for grain in GRAINS {
        let mut ways = ways(grain, peers)?;
        found.resize_with(ways.len(), || Granularity::new(WORKERS));
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); ways.len()];
        for round in 0..=rounds {
            for ((_, run), times) in ways.iter_mut().zip(&mut times) {
                let time = run()?;
                times.extend(time.filter(|_| round > 0));
            }
        }
        let mut all_found = true;
        for (((name, _), times), found) in ways.iter().zip(&mut times).zip(&mut found) {
            rows.push(Row::of(format!("{name}_g{grain}"), times));
            if found.found.is_nan() {
                found.add(grain, quantile(times, 0.5));
            }
            all_found &= !found.found.is_nan();
        }
        if all_found {
            let names = ways.iter().map(|(name, _)| *name);
            let metg = |(name, found): (&str, &Granularity)| {
                Row::of(format!("{name}_metg_ns"), &mut [found.found * 1e3])
            };
            rows.extend(names.zip(&found).map(metg));
            break;
        }
    }
    Ok(rows)
}
