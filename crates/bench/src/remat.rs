//! `bench remat`: the time that a memory budget costs, by the cost model and measured.
//!
//! A program is compiled with the passes that `millstream run --replay` applies. A budget is a part
//! of the private memory that it then needs.
//!
//! | column | holds |
//! |---|---|
//! | budget | the part, and the bytes |
//! | floor | the bytes that no plan goes below |
//! | peak | the bytes of the plan |
//! | again | the calls made again |
//! | modelled | the time of all calls by the cost model, by that without a budget |
//! | measured | the time of a launch, by that without a budget: least medians; with `--repeat` |
//! | planning | the time of the pass, by that of all other passes |
//!
//! All columns but the last two are functions of the program.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use millstream::DeviceId;
use millstream::instructions::passes::{
    CoreCosts, Effort, Outputs, Pass, PassOptions, Remat, arena_bytes, rematerialize,
};
use millstream::instructions::{Body, External, InstructionList};
use millstream::types::TensorId;
use millstream_runner::{RunOptions, run};
use millstream_trace::{Entry, LoadOptions, Program, expand, input_files, load};
use serde::Serialize;

use super::what_if::name as program_name;
use super::{report_file, write_report};

/// The arguments of `millstream bench remat`.
#[derive(Args, Clone, Debug)]
pub struct RematArgs {
    /// Recorded programs, or folders with them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The budget, as a part of the memory without one; given more than once, each
    #[arg(long = "budget", value_name = "PART", default_values_t = [0.9, 0.7, 0.5, 0.4, 0.3])]
    budgets: Vec<f64>,
    /// Bind tensors that the program fills and later changes in place, as the moments that the
    /// first step of an optimiser makes: they are no private memory then
    #[arg(long)]
    bind_state: bool,
    /// Launch each program so many times with and without each budget
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "bind_state")]
    repeat: u32,
    /// Also write the rows to FILE, as one JSON array; `-` is standard output
    #[arg(long = "report", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A row of the result: a program in a budget.
#[derive(Clone, Debug, Serialize)]
struct Row {
    case: String,
    part: f64,
    budget: u64,
    floor: u64,
    peak: Option<u64>,
    again: usize,
    modelled: Option<f64>,
    measured: Option<f64>,
    planning: f64,
    /// Why there is no plan.
    refused: Option<String>,
}

/// Runs the command.
pub(crate) fn bench_remat(args: &RematArgs) -> Result<()> {
    let report = report_file(args.json.as_deref(), args.paths.iter().flat_map(input_files))?;
    let mut rows = Vec::new();
    for entry in expand(&args.paths)? {
        let Entry::Trace(file) = entry else { continue };
        let program = Arc::new(load(&file, &LoadOptions::default())?);
        let name = program_name(&file);
        match measured(&name, &program, args) {
            Ok(of_program) => rows.extend(of_program),
            Err(error) => eprintln!("skipped: {name}: {error:#}"),
        }
    }
    ensure!(!rows.is_empty(), "no program was compiled");
    if args.json.as_deref() != Some(Path::new("-")) {
        println!("{}", table(&rows));
    }
    write_report(&report, &rows)
}

/// Returns the rows of a program.
fn measured(name: &str, program: &Arc<Program>, args: &RematArgs) -> Result<Vec<Row>> {
    let options = RunOptions::default().replay(true).emit(true).plan_effort(Effort::Fast);
    let options = options.passes(&[Pass::Dead]).emit_after(Some(Pass::Dead));
    let list = run(program.clone(), &options)?.list.context("a run without its list")?;
    let list = if args.bind_state { with_state_bound(list) } else { list };
    let (ops, costs, outputs) = (millstream::ops::standard(), CoreCosts::default(), Outputs::All);
    let none = BTreeMap::new();
    let options = PassOptions {
        ops: &ops,
        standard_kernels: &|_| true,
        costs: &costs,
        streams: 1,
        threads: 1,
        outputs: &outputs,
        effort: Effort::Usual,
        budgets: &none,
    };
    let start = Instant::now();
    let mut before = list;
    for pass in [Pass::Dead, Pass::Fuse, Pass::Waits] {
        before = pass.apply(&before, &options)?;
    }
    let full = Pass::Memory.apply(&before, &options)?;
    let others = start.elapsed();
    let device = full.arenas.first().cloned().unwrap_or_else(|| DeviceId::cpu(0));
    let needed = arena_bytes(&full).first().copied().unwrap_or(0);
    ensure!(needed > 0, "it has no private memory");
    let mut rows = Vec::new();
    for &part in &args.budgets {
        let budget = (part * needed as f64) as u64;
        let budgets = BTreeMap::from([(device.clone(), budget)]);
        let start = Instant::now();
        let made = rematerialize(&before, &PassOptions { budgets: &budgets, ..options });
        let planning = start.elapsed().as_secs_f64() / others.as_secs_f64().max(1e-9);
        let case = name.to_owned();
        rows.push(match made {
            Ok((_, plans)) => {
                let Remat { floor, peak, again, time, extra, .. } =
                    plans.into_iter().next().context("a budget without a plan")?;
                let measured = match args.repeat {
                    0 => None,
                    repeat => Some(ratio(program, repeat, &[(device.clone(), budget)])?),
                };
                let modelled = Some((time + extra) as f64 / time.max(1) as f64);
                let (peak, refused) = (Some(peak), None);
                Row {
                    case,
                    part,
                    budget,
                    floor,
                    peak,
                    again,
                    modelled,
                    measured,
                    planning,
                    refused,
                }
            }
            Err(error) => Row {
                case,
                part,
                budget,
                floor: 0,
                peak: None,
                again: 0,
                modelled: None,
                measured: None,
                planning,
                refused: Some(error.to_string()),
            },
        });
    }
    Ok(rows)
}

/// The number of times that launches with and without budgets are measured, in turn.
const ROUNDS: usize = 7;

/// Returns the time of a launch within budgets, by that without: the least medians of all rounds.
fn ratio(program: &Arc<Program>, repeat: u32, remat: &[(DeviceId, u64)]) -> Result<f64> {
    let (mut whole, mut within) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        whole = whole.min(launches(program, repeat, &[])?);
        within = within.min(launches(program, repeat, remat)?);
    }
    Ok(within.as_secs_f64() / whole.as_secs_f64().max(1e-9))
}

/// Returns the median time of a launch within budgets.
fn launches(program: &Arc<Program>, repeat: u32, remat: &[(DeviceId, u64)]) -> Result<Duration> {
    let options = RunOptions::default().replay(true).repeat(repeat.max(3)).remat(remat.to_vec());
    let mut walls = run(program.clone(), &options)?.walls;
    walls.sort_unstable();
    Ok(walls[walls.len() / 2])
}

/// Returns the list with an external for each private tensor that a call of `full` fills and a
/// later call changes.
fn with_state_bound(mut list: InstructionList) -> InstructionList {
    let mut filled: HashMap<TensorId, usize> = HashMap::new();
    let mut changed: HashSet<TensorId> = HashSet::new();
    for (index, instruction) in list.instructions.iter().enumerate() {
        if let Body::OpCall { op, operands, .. } = &instruction.body {
            for operand in operands.iter().filter(|o| o.access.writes()) {
                if list.ops.name(*op) == "full" {
                    filled.insert(operand.tensor, index);
                } else if operand.access.reads() && filled.contains_key(&operand.tensor) {
                    changed.insert(operand.tensor);
                }
            }
        }
    }
    let fills: HashSet<usize> = changed.iter().map(|tensor| filled[tensor]).collect();
    let mut index = 0;
    let mut externals = Vec::new();
    list.instructions.retain(|instruction| {
        index += 1;
        match &instruction.body {
            Body::AllocateTensor { tensor, spec, placement, .. } if changed.contains(tensor) => {
                externals.push(External {
                    tensor: *tensor,
                    name: format!("state {tensor}"),
                    spec: (**spec).clone(),
                    bytes: placement.size,
                    arena: placement.arena,
                });
                false
            }
            Body::ReleaseTensor { tensor } => !changed.contains(tensor),
            _ => !fills.contains(&(index - 1)),
        }
    });
    list.externals.extend(externals);
    list
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let header = ["", "budget", "bytes", "floor", "peak", "again", "modelled", "measured"];
    table.set_header([&header[..], &["planning"]].concat());
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |v| format!("{v:.3}"));
    for row in rows {
        let peak = row.peak.map_or_else(|| "none".to_owned(), |peak| peak.to_string());
        table.add_row([
            row.case.clone(),
            row.part.to_string(),
            row.budget.to_string(),
            row.floor.to_string(),
            peak,
            row.again.to_string(),
            number(row.modelled),
            number(row.measured),
            format!("{:.2}", row.planning),
        ]);
        if let Some(refused) = &row.refused {
            eprintln!("{} in {}: {refused}", row.case, row.part);
        }
    }
    for column in 1..=8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
