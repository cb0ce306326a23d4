//! Runs the programs of several schedulers in interleaved rounds, and prints their table.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use millstream_files::{eprintln, println};

use super::{ALL, EngineArgs, Peer, Row, quantile};

/// A program that runs the workloads.
struct Program {
    label: String,
    path: PathBuf,
    workers: u32,
    env: Vec<(&'static str, String)>,
    /// The tests that it cannot run, or not in a reasonable time.
    not: &'static [&'static str],
}

/// Another scheduler's program: its name, the numbers of workers, its settings, and the tests that
/// it leaves out. MXNet reads the number of its workers while it is loaded.
type Other = (
    &'static str,
    &'static [u32],
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);
const OTHERS: [Other; 8] = [
    ("ref_inline", &[1], &[], &["mem"]),
    ("ref_spsc", &[1], &[], &[]),
    ("ref_mutexq", &[1], &[], &["stencil"]),
    ("mx", &[1, 2], &[("MXMODE", "async")], &[]),
    ("tbb", &[2], &[], &["mem"]),
    ("omp_gcc", &[2], &[], &["random", "fan", "stencil", "mem"]),
    ("omp_clang", &[2], &[], &["mem"]),
    ("starpu", &[2], &[("STARPU_SILENT", "1")], &["indep"]),
];

/// The program that all ratios are taken against.
const REFERENCE: &str = "ref_spsc";

/// Runs the other programs and this one in interleaved rounds, and prints the table.
pub(super) fn run(args: &EngineArgs, folder: &Path) -> Result<Vec<Row>> {
    let others = others(folder);
    ensure!(
        others.iter().any(|p| p.label == REFERENCE),
        "{}: expected the other schedulers' programs there, {REFERENCE} among them",
        folder.display()
    );
    let tests: Vec<&str> = match args.test.as_str() {
        "all" => ALL.into_iter().filter(|t| !["stencil", "verify"].contains(t)).collect(),
        one => vec![one],
    };
    let mut rows: Vec<(String, Row)> = Vec::new();
    for round in 0..args.rounds {
        for &test in &tests {
            for peer in args.peer.each() {
                rows.extend(own(args, *peer, test)?.into_iter().map(|r| (label(&r.peer, r.w), r)));
            }
            for program in others.iter().filter(|p| !p.not.contains(&test)) {
                rows.extend(other(args, program, test)?.map(|row| (program.label.clone(), row)));
            }
        }
        eprintln!("round {} of {}", round + 1, args.rounds);
    }
    println!("{}", table(&rows));
    Ok(rows.into_iter().map(|(label, row)| Row { peer: label, ..row }).collect())
}

fn label(peer: &str, workers: u32) -> String {
    if workers == 1 { peer.to_owned() } else { format!("{peer} w{workers}") }
}

fn others(folder: &Path) -> Vec<Program> {
    let mut found = Vec::new();
    for (name, workers, env, not) in OTHERS {
        let path = folder.join(name);
        for &workers in workers.iter().filter(|_| path.is_file()) {
            let mut env: Vec<_> = env.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
            env.push(("MXNET_CPU_WORKER_NTHREADS", workers.to_string()));
            found.push(Program {
                label: label(name, workers),
                path: path.clone(),
                workers,
                env,
                not,
            });
        }
    }
    found
}

/// Returns the number of instructions of a test, as in the other programs' rounds.
fn count(args: &EngineArgs, test: &str) -> u32 {
    if test == "mem" { args.count.min(15_000) } else { args.count }
}

/// Runs one round of this program, in a process of its own as the others'.
fn own(args: &EngineArgs, peer: Peer, test: &str) -> Result<Vec<Row>> {
    let mut command =
        Command::new(std::env::current_exe().context("cannot find the path of this program")?);
    let peer = peer.name().trim_start_matches("millstream_");
    command.args(["bench", "engine", "--rounds", "3", "--test", test, "--peer", peer]);
    for (name, value) in [
        ("--count", count(args, test)),
        ("--workers", args.workers),
        ("--streams", args.streams),
        ("--width", args.width),
    ] {
        command.args([name, &value.to_string()]);
    }
    command.args(["--grain", &args.grain.to_string()]);
    rows(command)
}

/// Runs one round of another program. Reports a failure and returns none.
fn other(args: &EngineArgs, program: &Program, test: &str) -> Result<Option<Row>> {
    let mut command = Command::new(&program.path);
    command.envs(program.env.iter().map(|(k, v)| (*k, v)));
    let reps = if program.label.starts_with("starpu") { "1" } else { "3" };
    let count = if test == "stencil" { args.count.min(1_000) } else { count(args, test) };
    command.args([test, &program.workers.to_string(), reps, &count.to_string()]);
    if test == "stencil" {
        command.args([args.width.to_string(), args.grain.to_string()]);
    }
    match rows(command) {
        Ok(mut rows) => Ok(rows.pop()),
        Err(error) => {
            eprintln!("{} {test}: {error:#}", program.label);
            Ok(None)
        }
    }
}

fn rows(mut command: Command) -> Result<Vec<Row>> {
    let done = command.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    if !done.status.success() {
        let stderr = String::from_utf8_lossy(&done.stderr);
        bail!("{}: {}", done.status, stderr.lines().last().unwrap_or("no message"));
    }
    let text = String::from_utf8_lossy(&done.stdout);
    let lines = text.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// Returns the figure that a cell shows for a row; the time of submitting stands beside it.
fn figure(row: &Row) -> f64 {
    match row.test.as_str() {
        "mem" | "idle" => row.extra,
        "lat" | "latidle" => row.ns_per_op / 1e3,
        _ => row.ns_per_op,
    }
}

/// The figures of one program in one test, and its times of submitting.
type Figures = (Vec<f64>, Vec<f64>);

/// Returns a table of medians, with the least and the greatest, and the ratio to the reference.
fn table(rows: &[(String, Row)]) -> Table {
    let mut tests: Vec<&str> = Vec::new();
    let mut labels: Vec<&str> = Vec::new();
    let mut cells: BTreeMap<(&str, &str), Figures> = BTreeMap::new();
    for (label, row) in rows {
        if !tests.contains(&row.test.as_str()) {
            tests.push(&row.test);
        }
        if !labels.contains(&label.as_str()) {
            labels.push(label);
        }
        let (figures, pushes) = cells.entry((label, &row.test)).or_default();
        figures.push(figure(row));
        pushes.push(row.push_ns);
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_content_arrangement(ContentArrangement::Disabled);
    let unit = |test: &str| match test {
        "mem" => "mem, bytes".to_owned(),
        "lat" | "latidle" => format!("{test}, us"),
        "idle" => "idle, %".to_owned(),
        other => format!("{other}, ns"),
    };
    table.set_header(["".to_owned()].into_iter().chain(tests.iter().map(|t| unit(t))));
    for label in &labels {
        let cell = |test: &&str| {
            let Some((figures, pushes)) = cells.get(&(*label, *test)) else {
                return "-".to_owned();
            };
            let mut figures = figures.clone();
            let median = quantile(&mut figures, 0.5);
            let digits = usize::from(median < 20.0);
            let (low, high) = (figures[0], figures[figures.len() - 1]);
            let mut text = format!("{median:.digits$} [{low:.digits$}-{high:.digits$}]");
            let push = quantile(&mut pushes.clone(), 0.5);
            if push > 0.0 {
                text += &format!(" push {push:.0}");
            }
            if let Some((reference, _)) = cells.get(&(REFERENCE, *test)) {
                text += &format!(" x{:.2}", median / quantile(&mut reference.clone(), 0.5));
            }
            text
        };
        table.add_row([(*label).to_owned()].into_iter().chain(tests.iter().map(cell)));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
