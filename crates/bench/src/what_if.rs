//! `bench what-if`: predictions from profiles, beside what is measured.
//!
//! Each round records two profiles of a program: of its run on one stream, and of that on several.
//! From the first, both runs are predicted: the one without a change, which the same profile
//! measures, and the one on more streams, which the second profile measures.
//!
//! | column | holds |
//! |---|---|
//! | unchanged | the largest difference of any round between the prediction and its own profile |
//! | next run | the median difference between a prediction and the next round's profile |
//! | predicted, measured | the medians on more streams, and their difference |
//!
//! A run takes what its range "the program" takes: from the first statement until everything has
//! completed. The machine has run the program before, so that threads and memory exist.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use millstream_explore::what_if::{Changes, what_if};
use millstream_profile::{Profile, measured};
use millstream_runner::{Assigner, RunOptions, run};
use millstream_trace::{Entry, LoadOptions, Program, expand, input_files, load};
use serde::Serialize;

use super::{quantile, report_file, write_report};

/// The arguments of `millstream bench what-if`.
#[derive(Args, Clone, Debug)]
pub struct WhatIfArgs {
    /// Traces, or directories with traces [default: the repository's recorded programs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Number of streams that are predicted
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    compute_streams: u32,
    /// Number of worker threads, and of threads that kernels share [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Number of rounds
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Number of runs on one machine, of which the last one is recorded
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Also write the rows to FILE, as one JSON array; `-` is standard output
    #[arg(long = "report", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A row of the result. Times are in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
struct Row {
    case: String,
    instructions: usize,
    /// The median measured time on one stream.
    one_us: f64,
    /// The largest relative difference between a prediction without a change and its profile.
    unchanged: f64,
    /// The median relative difference between a prediction without a change and the next profile.
    next_run: f64,
    /// The median prediction of more streams.
    predicted_us: f64,
    /// The median measured time on more streams, and its quartiles.
    measured_us: f64,
    quartiles_us: [f64; 2],
    /// The relative difference of the two.
    off: f64,
}

/// The programs that are measured if none is named.
const REPOSITORY: [&str; 2] = ["examples/pytorch", "tests/traces/pytorch"];

/// Runs the command.
pub(crate) fn bench_what_if(args: &WhatIfArgs) -> Result<()> {
    let paths = match args.paths.is_empty() {
        false => args.paths.clone(),
        true => REPOSITORY.map(PathBuf::from).to_vec(),
    };
    let report = report_file(args.json.as_deref(), paths.iter().flat_map(input_files))?;
    let mut rows = Vec::new();
    for entry in expand(paths)? {
        let Entry::Trace(path) = entry else { continue };
        rows.push(case(args, &path).with_context(|| path.display().to_string())?);
    }
    ensure!(!rows.is_empty(), "nothing was measured");
    write_report(&report, &rows)?;
    if args.json.as_deref() != Some(Path::new("-")) {
        print(args, &rows);
    }
    Ok(())
}

/// Returns the time of a profile's range "the program", in microseconds.
fn program_us(profile: &Profile) -> f64 {
    let range = profile.ranges.iter().find(|range| range.name == "the program");
    range.map_or(profile.total, |range| range.end - range.begin) as f64 / 1e3
}

fn case(args: &WhatIfArgs, path: &Path) -> Result<Row> {
    let program = Arc::new(load(path, &LoadOptions::default())?);
    let recorded = |streams: u32| {
        let options = RunOptions::default().in_turn(streams).repeat(args.repeat);
        let options = options.profile(true);
        let options = match args.threads {
            Some(threads) => options.threads(threads as usize),
            None => options,
        };
        profile(&program, &options)
    };
    let (mut one, mut same, mut more, mut predicted) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut row = Row::default();
    for _ in 0..args.rounds {
        let own = recorded(1)?;
        let unchanged = what_if(&own, &Changes::default()).map_err(anyhow::Error::msg)?;
        let changes = Changes {
            compute_streams: Some(args.compute_streams),
            assigner: Assigner::RoundRobin,
            ..Changes::default()
        };
        let changed = what_if(&own, &changes).map_err(anyhow::Error::msg)?;
        let off = program_us(&unchanged) / program_us(&own) - 1.0;
        if off.abs() > row.unchanged.abs() {
            row.unchanged = off;
        }
        row.instructions = own.shown().count();
        one.push(program_us(&own));
        same.push(program_us(&unchanged));
        predicted.push(program_us(&changed));
        more.push(program_us(&recorded(args.compute_streams)?));
    }
    let median = |values: &mut Vec<f64>| quantile(values, 0.5);
    let next = same.iter().zip(one.iter().skip(1)).map(|(made, next)| (made / next - 1.0).abs());
    row.next_run = median(&mut next.collect());
    row.case = name(path);
    row.one_us = median(&mut one);
    row.predicted_us = median(&mut predicted);
    row.measured_us = median(&mut more);
    row.quartiles_us = [quantile(&mut more, 0.25), quantile(&mut more, 0.75)];
    row.off = row.predicted_us / row.measured_us - 1.0;
    Ok(row)
}

fn profile(program: &Arc<Program>, options: &RunOptions) -> Result<Profile> {
    let report = run(program.clone(), options)?;
    ensure!(report.failures.is_empty(), "an instruction failed");
    let times = report.times.as_ref().context("the run has no times")?;
    Ok(measured("a run", times))
}

/// Returns the folder of a recording, or the name of a file.
pub(super) fn name(path: &Path) -> String {
    let of = if path.ends_with("et.json.gz") { path.parent() } else { Some(path) };
    let name = of.and_then(Path::file_name).unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn print(args: &WhatIfArgs, rows: &[Row]) {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let streams = format!("{} streams: predicted", args.compute_streams);
    table.set_header(["case", "1 stream", "unchanged", "next run", &streams, "measured", "off"]);
    let percent = |share: f64| format!("{:+.1} %", share * 100.0);
    for row in rows {
        let [low, high] = row.quartiles_us;
        table.add_row([
            row.case.clone(),
            format!("{:.0} us", row.one_us),
            percent(row.unchanged),
            percent(row.next_run),
            format!("{:.0} us", row.predicted_us),
            format!("{:.0} us [{low:.0}-{high:.0}]", row.measured_us),
            percent(row.off),
        ]);
    }
    for column in 1..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{table}");
}
