//! `bench plan`: the memory that plans need, beside the least that any could need.
//!
//! An instance is a file of comma-separated values, `id,lower,upper,size`: buffers, each with the
//! time at which it begins, the time at which it is over, and its bytes. Those of MiniMalloc and
//! idealloc have this form. A program is compiled with the passes that `millstream run --replay`
//! applies, and the list is planned anew.
//!
//! | column | holds |
//! |---|---|
//! | bound | the bytes of buffers that all live at one time, or what a search has proven |
//! | ratio | planned bytes by the bound |
//! | solver | the order or the search that found the plan |
//! | nodes | the nodes of the search |
//!
//! All columns but the times are functions of the instance and the effort.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use millstream::instructions::InstructionList;
use millstream::instructions::passes::offsets::{Interval, Offsets, plan};
use millstream::instructions::passes::{ArenaPlan, Effort, Pass, arena_plans};
use millstream_runner::{RunOptions, run};
use millstream_trace::{Entry, LoadOptions, expand, input_files, load};
use serde::Serialize;

use super::what_if::name as program_name;
use super::{report_file, write_report};

/// The arguments of `millstream bench plan`.
#[derive(Args, Clone, Debug)]
pub struct PlanArgs {
    /// Instances, traces, or folders with them [default: instances beside the repository, and the
    /// repository's recorded programs]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// How long to search: fast, usual or exact; given more than once, each
    #[arg(long = "plan-effort", value_name = "EFFORT", default_values_t = Effort::ALL)]
    efforts: Vec<Effort>,
    /// Also write the rows to FILE, as one JSON array; `-` is standard output
    #[arg(long = "report", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The folders that are read if none is named: instances of others, and recorded programs.
const DEFAULT: [&str; 3] = ["../shared/instances", "examples/pytorch", "tests/traces"];

/// A row of the result.
#[derive(Clone, Debug, Serialize)]
struct Row {
    case: String,
    effort: &'static str,
    buffers: usize,
    bound: u64,
    planned: u64,
    solver: String,
    nodes: u64,
    seconds: f64,
}

/// Something to be planned.
enum Case {
    Instance(Vec<Interval>),
    List(Box<InstructionList>),
}

/// Runs the command.
pub(crate) fn bench_plan(args: &PlanArgs) -> Result<()> {
    let report = report_file(args.json.as_deref(), args.paths.iter().flat_map(input_files))?;
    let mut cases: Vec<(String, Case)> = Vec::new();
    if args.paths.is_empty() {
        for path in DEFAULT.map(Path::new) {
            match path.exists() {
                true => read(path, &mut cases)?,
                false => eprintln!("skipped: {} is not there", path.display()),
            }
        }
    }
    for path in &args.paths {
        read(path, &mut cases)?;
    }
    ensure!(!cases.is_empty(), "no instance and no program: name a file, or a folder with some");
    let mut rows = Vec::new();
    for (name, case) in &cases {
        for &effort in &args.efforts {
            rows.extend(planned(name, case, effort)?);
        }
    }
    if args.json.as_deref() != Some(Path::new("-")) {
        println!("{}", table(&rows));
    }
    write_report(&report, &rows)
}

/// Plans a case.
fn planned(name: &str, case: &Case, effort: Effort) -> Result<Vec<Row>> {
    let start = Instant::now();
    let plans = match case {
        Case::Instance(buffers) => {
            plan(buffers, effort).map(|plan| vec![(name.to_owned(), buffers.len(), plan)])
        }
        Case::List(list) => arena_plans(list, effort)?.map(|plans| {
            let several = plans.len() > 1;
            let named = |ArenaPlan { device, buffers, offsets }: ArenaPlan| {
                let of = if several { format!(" on {device}") } else { String::new() };
                (format!("{name}{of}"), buffers, offsets)
            };
            plans.into_iter().map(named).collect()
        }),
    };
    let seconds = start.elapsed().as_secs_f64();
    let plans = plans.with_context(|| format!("{name}: too many buffers live at one time"))?;
    let row = |(case, buffers, offsets): (String, usize, Offsets)| Row {
        case,
        effort: effort.name(),
        buffers,
        bound: offsets.bound,
        planned: offsets.bytes,
        solver: offsets.solver.to_string(),
        nodes: offsets.nodes,
        seconds,
    };
    Ok(plans.into_iter().map(row).collect())
}

/// Reads an instance or a program; of a folder its instances, or else its programs.
fn read(path: &Path, cases: &mut Vec<(String, Case)>) -> Result<()> {
    let instances = instances(path).with_context(|| path.display().to_string())?;
    if instances.is_empty() {
        return read_programs(path, cases);
    }
    for path in instances {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let buffers = instance(&text).with_context(|| path.display().to_string())?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        cases.push((name, Case::Instance(buffers)));
    }
    Ok(())
}

/// Returns the files of a path that are instances, in the order of their names.
fn instances(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        let is_instance = path.extension().is_some_and(|extension| extension == "csv");
        return Ok(if is_instance { vec![path.to_owned()] } else { Vec::new() });
    }
    let entries = std::fs::read_dir(path)?.map(|entry| Ok(entry?.path()));
    let mut inner: Vec<PathBuf> = entries.collect::<std::io::Result<_>>()?;
    inner.sort();
    let found = inner.iter().map(|path| instances(path));
    Ok(found.collect::<std::io::Result<Vec<_>>>()?.concat())
}

/// Reads the rows of an instance.
fn instance(text: &str) -> Result<Vec<Interval>> {
    let mut lines = text.lines().enumerate();
    let header = lines.next().map_or("", |(_, line)| line.trim());
    ensure!(header == "id,lower,upper,size", "line 1: expected id,lower,upper,size");
    let row = |(number, line): (usize, &str)| {
        let fields: Vec<u64> = (line.split(',').map(|field| field.trim().parse()))
            .collect::<Result<_, _>>()
            .with_context(|| format!("line {}: expected four numbers, got '{line}'", number + 1))?;
        let [_, begin, end, bytes] = fields[..] else {
            bail!("line {}: expected four numbers, got '{line}'", number + 1);
        };
        ensure!(begin <= end, "line {}: the buffer is over before it begins", number + 1);
        Ok(Interval { begin, end, bytes })
    };
    lines.filter(|(_, line)| !line.trim().is_empty()).map(row).collect()
}

/// Compiles programs that can be, up to the pass that places memory.
fn read_programs(path: &Path, cases: &mut Vec<(String, Case)>) -> Result<()> {
    for entry in expand(&[path.to_owned()])? {
        let Entry::Trace(file) = entry else { continue };
        let program = Arc::new(load(&file, &LoadOptions::default())?);
        let options = RunOptions::default().replay(true).emit(true);
        let options = options.plan_effort(Effort::Fast).emit_after(Some(Pass::Memory));
        let name = program_name(&file);
        match run(program, &options) {
            Ok(report) => {
                let list = report.list.context("a run without its list")?;
                cases.push((name, Case::List(Box::new(list))));
            }
            Err(error) => eprintln!("skipped: {name} is not compiled: {error}"),
        }
    }
    Ok(())
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let header = ["", "buffers", "bound", "effort", "planned", "ratio", "solver", "nodes", "s"];
    table.set_header(header);
    for row in rows {
        table.add_row([
            row.case.clone(),
            row.buffers.to_string(),
            row.bound.to_string(),
            row.effort.to_owned(),
            row.planned.to_string(),
            format!("{:.4}", row.planned as f64 / row.bound.max(1) as f64),
            row.solver.clone(),
            row.nodes.to_string(),
            format!("{:.3}", row.seconds),
        ]);
    }
    for column in [1, 2, 4, 5, 7, 8] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_are_read_line_by_line() {
        let buffers = instance("id,lower,upper,size\n0,0,5,100\n7,3,9,20\n\n").unwrap();
        let [first, second] = buffers[..] else { panic!("{buffers:?}") };
        assert_eq!(first, Interval { begin: 0, end: 5, bytes: 100 });
        assert_eq!(second, Interval { begin: 3, end: 9, bytes: 20 });
        for (wrong, place) in [
            ("id,size\n", "line 1: expected id,lower,upper,size"),
            ("id,lower,upper,size\n0,0,5,x\n", "line 2: expected four numbers, got '0,0,5,x'"),
            ("id,lower,upper,size\n\n0,0,5\n", "line 3: expected four numbers, got '0,0,5'"),
            ("id,lower,upper,size\n0,6,5,1\n", "line 2: the buffer is over before it begins"),
        ] {
            assert_eq!(instance(wrong).unwrap_err().to_string(), place);
        }
    }
}
