//! `bench traces`: recorded programs, beside eager PyTorch.
//!
//! A step is one run of a program: everything that its trace holds. Inside the clock is what a user
//! of the Rust API pays: building calls, hazards, memory, routing, kernels, and the wait for the
//! end. Outside are reading files, giving the inputs their first elements, reading the outputs, and
//! the walk of the trace's statements: a program is turned into straight calls first. The rest of
//! the walk, finding the operands of each call, is timed by itself and printed beside.
//!
//! | row | runs the program |
//! |---|---|
//! | `eager` | call by call, with a worker thread |
//! | `eager inline` | call by call, on the caller's thread |
//! | `replayed`, `replayed inline` | as a compiled executable, launched once for each step |
//! | `PyTorch calls` | the same calls in eager PyTorch, by `tools/replay.py`, without autograd |
//! | `PyTorch modules` | the modules from which the trace was recorded, by `tools/modules.py` |
//!
//! All rows of a case run in alternating rounds. Before the clock runs, each way's outputs are
//! compared with the trace's: a wrong one fails the command.

mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use millstream::DriverKind;
use millstream_files::eprintln;
use millstream_runner::{OutputReport, RunOptions, Timed};
use millstream_trace::{Entry, LoadOptions, Program, expand, input_files, load};
use serde::Serialize;

use super::pytorch::{Helper, Script};
use super::{quantile, report_file, write_report};

/// The arguments of `millstream bench traces`.
#[derive(Args, Clone, Debug)]
pub struct TracesArgs {
    /// Traces, or directories with traces [default: the repository's recorded programs, and
    /// ../shared/traces/perf]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Number of threads that kernels share, in PyTorch as well
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Threads that run the instructions: a worker, the caller, or first the one and then the other
    #[arg(long, value_enum, default_value_t = Driver::Both)]
    driver: Driver,
    /// Compare with eager PyTorch, run by this Python
    #[arg(long, value_name = "PYTHON")]
    pytorch: Option<PathBuf>,
    /// Folder with the modules of recorded programs [default: ../shared/peers/torch]
    #[arg(long, value_name = "FOLDER", requires = "pytorch")]
    modules: Option<PathBuf>,
    /// Number of alternating rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Least number of steps of each row, over all rounds
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Also write the rows to FILE, as one JSON array; `-` is standard output
    #[arg(long = "report", visible_alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The threads that run the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Driver {
    /// A worker thread
    Threaded,
    /// The calling thread
    Inline,
    /// One after the other
    Both,
}

impl Driver {
    const fn each(self) -> &'static [DriverKind] {
        match self {
            Driver::Threaded => &[DriverKind::Threaded],
            Driver::Inline => &[DriverKind::Inline],
            Driver::Both => &[DriverKind::Threaded, DriverKind::Inline],
        }
    }
}

/// The programs that are measured if none is named.
const REPOSITORY: [&str; 2] = ["examples/pytorch", "tests/traces/pytorch"];
/// More of them, in a folder beside a clone.
const BESIDE: &str = "../shared/traces/perf";
const MODULES: &str = "../shared/peers/torch";

/// The longest time that PyTorch may take for an answer.
const LIMIT: Duration = Duration::from_secs(600);

/// The seconds of a step from which on fewer steps are measured.
const LONG_STEP: f64 = 1.0;

/// The seconds that a row's share of a round takes at least, for short steps.
const ROUND: f64 = 0.05;

/// How the machine runs a program: call by call, or compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Eager,
    Replayed,
}

/// A row of the result.
#[derive(Clone, Debug, Serialize)]
struct Row {
    case: String,
    row: String,
    threads: u32,
    /// The number of calls in a step.
    calls: usize,
    /// The median over all steps, in milliseconds.
    ms: f64,
    /// The median of each round, in milliseconds.
    rounds: Vec<f64>,
    /// The number of steps.
    steps: usize,
    /// The part of a step's time that finding the operands takes, in milliseconds.
    walk_ms: Option<f64>,
}

/// A runner of steps: it runs so many and returns their seconds.
struct Runner<'a> {
    row: String,
    walk: Option<f64>,
    run: Box<dyn FnMut(usize) -> Result<Vec<f64>> + 'a>,
}

/// Runs the command.
pub(crate) fn traces(args: &TracesArgs) -> Result<()> {
    let paths = paths(args);
    let report = report_file(args.json.as_deref(), paths.iter().flat_map(input_files))?;
    let folder = std::env::temp_dir().join(format!("millstream-bench-{}", std::process::id()));
    let result = with_helpers(args, paths, &folder);
    // The scripts' folder is not there without PyTorch.
    let _ = std::fs::remove_dir_all(&folder);
    let (rows, wrong) = result?;
    write_report(&report, &rows)?;
    if args.json.as_deref() != Some(Path::new("-")) {
        table::print(&rows);
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    ensure!(!rows.is_empty(), "nothing was measured");
    Ok(())
}

fn with_helpers(
    args: &TracesArgs,
    paths: Vec<PathBuf>,
    folder: &Path,
) -> Result<(Vec<Row>, Vec<String>)> {
    let mut helpers = Vec::new();
    let threads = args.threads.to_string();
    if let Some(python) = &args.pytorch {
        let replay = ["--device", "cpu", "--threads", &threads];
        let started = Helper::start((python, Script::Replay), &replay, folder, LIMIT)?;
        helpers.push((Script::Replay, started.map_err(anyhow::Error::msg)?));
        let modules = args.modules.clone().unwrap_or_else(|| MODULES.into());
        let given = [&modules.to_string_lossy(), "--threads", &threads];
        match modules.is_dir() {
            false => eprintln!("skipped: the modules, since {MODULES} does not exist"),
            true => match Helper::start((python, Script::Modules), &given, folder, LIMIT)? {
                Ok(helper) => helpers.push((Script::Modules, helper)),
                Err(why) => eprintln!("skipped: the modules: {why}"),
            },
        }
    }
    for (_, helper) in &helpers {
        eprintln!("{}", helper.what);
    }
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for entry in expand(paths)? {
        match entry {
            Entry::Trace(path) => match case(args, &path, &mut helpers) {
                Ok(found) => rows.extend(found),
                Err(error) => {
                    eprintln!("failed: {error:#}");
                    wrong.push(format!("{error:#}"));
                }
            },
            Entry::Ranks { folder, .. } => {
                eprintln!("skipped: {}: it has several ranks", folder.display());
            }
            Entry::Skipped { path, reason } => eprintln!("skipped: {}: {reason}", path.display()),
        }
    }
    Ok((rows, wrong))
}

/// Returns the paths to be measured; says which of the usual ones do not exist.
fn paths(args: &TracesArgs) -> Vec<PathBuf> {
    if !args.paths.is_empty() {
        return args.paths.clone();
    }
    let all = REPOSITORY.iter().chain([&BESIDE]).map(PathBuf::from);
    all.filter(|path| {
        if !path.exists() {
            eprintln!("skipped: {} does not exist", path.display());
        }
        path.exists()
    })
    .collect()
}

/// Measures a program in all ways.
fn case(args: &TracesArgs, path: &Path, helpers: &mut [(Script, Helper)]) -> Result<Vec<Row>> {
    let program = load(path, &LoadOptions::default()).map_err(|e| anyhow::anyhow!("{e}"))?;
    let shown = || path.display().to_string();
    let named = path.parent().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
    let name = program.name.clone().or(named).unwrap_or_else(shown);
    eprintln!("{name}");
    let mut timed = Vec::new();
    for &driver in args.driver.each() {
        let options = RunOptions::default()
            .threads(args.threads as usize)
            .machine(|config| config.driver(driver).host_workers(1));
        let mut one = Timed::new(&program, &options).with_context(shown)?;
        let mut ways = vec![Way::Eager];
        match one.compile() {
            Ok(()) => ways.push(Way::Replayed),
            Err(why) => eprintln!("skipped: {}: {why}", row_name(Way::Replayed, driver)),
        }
        for way in &ways {
            let outputs = match way {
                Way::Eager => one.check(),
                Way::Replayed => one.check_launch(),
            };
            wrong(&outputs.with_context(shown)?)
                .map_or(Ok(()), |why| bail!("{}: {way:?}: {why}", shown()))?;
        }
        timed.push((driver, ways, one));
    }
    let calls = timed.iter().find_map(|(.., one)| one.calls()).unwrap_or_default();
    let mut runners: Vec<Runner<'_>> = Vec::new();
    let walk = timed.first().and_then(|(.., one)| walk(one));
    for (driver, ways, one) in timed {
        let one = std::rc::Rc::new(std::cell::RefCell::new(one));
        for way in ways {
            let one = one.clone();
            let step = move || match way {
                Way::Eager => one.borrow().run(),
                Way::Replayed => one.borrow_mut().launch(),
            };
            let run = move |times| (0..times).map(|_| Ok(step()?.wall.as_secs_f64())).collect();
            let walk = if way == Way::Eager { walk } else { None };
            runners.push(Runner { row: row_name(way, driver), walk, run: Box::new(run) });
        }
    }
    for (script, helper) in helpers {
        match theirs(*script, helper, path, &name, &program) {
            Ok(row) => {
                let run = move |times| Ok(helper.run(times, LIMIT)?.wall);
                runners.push(Runner { row: row.to_owned(), walk: None, run: Box::new(run) });
            }
            Err(why) => eprintln!("skipped: {name}: {why:#}"),
        }
    }
    let times = rounds(args, &mut runners)?;
    Ok(runners
        .iter()
        .zip(times)
        .map(|(runner, rounds)| {
            let median = |round: &Vec<f64>| quantile(&mut round.clone(), 0.5) * 1e3;
            let mut all: Vec<f64> = rounds.iter().flatten().copied().collect();
            Row {
                case: name.clone(),
                row: runner.row.clone(),
                threads: args.threads,
                calls,
                ms: quantile(&mut all, 0.5) * 1e3,
                rounds: rounds.iter().map(median).collect(),
                steps: all.len(),
                walk_ms: runner.walk,
            }
        })
        .collect())
}

fn row_name(way: Way, driver: DriverKind) -> String {
    let way = match way {
        Way::Eager => "eager",
        Way::Replayed => "replayed",
    };
    match driver {
        DriverKind::Inline => format!("{way} inline"),
        _ => way.to_owned(),
    }
}

/// Returns why outputs are not the expected ones.
fn wrong(outputs: &[OutputReport]) -> Option<String> {
    let wrong = outputs.iter().find(|output| !output.ok() || !output.expected)?;
    Some(match &wrong.comparison {
        Some(comparison) if wrong.expected => format!("{} is wrong: {comparison:?}", wrong.name),
        Some(_) => format!("nothing is known of {}", wrong.name),
        None => format!("{} could not be read", wrong.name),
    })
}

/// Returns the median time in milliseconds that finding the operands takes.
fn walk(one: &Timed) -> Option<f64> {
    let walks: Result<Vec<f64>, _> =
        (0..11).map(|_| one.walk().map(|walk| walk.as_secs_f64() * 1e3)).collect();
    Some(quantile(&mut walks.ok()?, 0.5))
}

/// Makes a helper load a case; returns the name of its row.
fn theirs(
    script: Script,
    helper: &mut Helper,
    path: &Path,
    name: &str,
    program: &Program,
) -> Result<&'static str> {
    match script {
        Script::Replay => {
            let imported = program.imported.as_deref().context("no trace of PyTorch's")?;
            let plan = helper.load(path, &imported.executed, LIMIT)?;
            let wrong = plan.outputs.iter().find_map(|(n, why)| Some((n, why.as_ref()?)));
            if let Some((output, why)) = wrong {
                bail!("replayed by PyTorch, {output} is not what was recorded: {why}");
            }
            Ok("PyTorch calls")
        }
        Script::Modules => helper.load_case(name, LIMIT).map(|_| "PyTorch modules"),
    }
}

/// Runs all rows in alternating rounds; returns the seconds of each row's steps by round.
fn rounds(args: &TracesArgs, runners: &mut [Runner<'_>]) -> Result<Vec<Vec<Vec<f64>>>> {
    let mut steps = Vec::new();
    for runner in &mut *runners {
        // The first steps warm up.
        let warm = (runner.run)(1)?[0];
        let warm = if warm < LONG_STEP { quantile(&mut (runner.run)(3)?, 0.0) } else { warm };
        let least = args.steps.div_ceil(args.rounds) as usize;
        steps.push(match warm >= LONG_STEP {
            true => 1,
            false => ((ROUND / warm) as usize).clamp(1, 200).min(4 * least).max(least),
        });
    }
    let mut times = vec![Vec::new(); runners.len()];
    for round in 0..args.rounds as usize {
        for k in 0..runners.len() {
            // Each round begins with another row.
            let k = (k + round) % runners.len();
            times[k].push((runners[k].run)(steps[k])?);
        }
    }
    Ok(times)
}
