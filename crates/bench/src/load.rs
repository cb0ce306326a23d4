//! `bench load`: recorded programs beside programs that compute without a pause.
//!
//! A row is a number of competitors, a program, and a way to run it: call by call or as a compiled
//! executable, on one stream or on several, in turn or as the assigner chooses, on two workers.
//! All ways of a program take turns, a step at a time, so that all meet the same moments of the
//! machine.
//!
//! | column | holds |
//! |---|---|
//! | `us`, `p90_us` | the median of a step's times, and the ninth of ten |
//! | `ratio` | the median by that of the same way on one stream |
//! | `voluntary`, `involuntary` | context switches of all threads in a step, on average |

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use millstream_runner::{RunOptions, Timed};
use millstream_trace::{Entry, LoadOptions, expand, input_files, load};
use serde::Serialize;

use super::what_if::name;
use super::{quantile, report_file, write_report};

/// The arguments of `millstream bench load`.
#[derive(Args, Clone, Debug)]
pub struct LoadArgs {
    /// Traces, or folders with traces [default: a recorded training step of the repository]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Numbers of competitors: programs that compute without a pause
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [0, 1, 2, 4])]
    busy: Vec<u32>,
    /// Number of streams beside one
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    compute_streams: u32,
    /// Number of worker threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Number of threads that kernels share
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Number of steps of each row
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Also write the rows to FILE, as one JSON array; `-` is standard output
    #[arg(long = "report", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The program that is measured if none is named.
const PROGRAM: &str = "tests/traces/pytorch/mlp_train_sgd";

/// Steps of each row before the clock counts.
const WARM_UP: u32 = 5;

/// A row of the result. Times are in microseconds.
#[derive(Clone, Debug, Serialize)]
struct Row {
    busy: u32,
    case: String,
    way: &'static str,
    streams: u32,
    assigner: &'static str,
    us: f64,
    p90_us: f64,
    ratio: f64,
    voluntary: f64,
    involuntary: f64,
}

/// A machine on so many streams.
struct Spread {
    streams: u32,
    assigner: &'static str,
    machine: Timed,
}

/// A way to run a program, and its measurements so far.
struct Way {
    name: &'static str,
    /// The place of its machine.
    on: usize,
    times: Vec<f64>,
    switches: [u64; 2],
}

/// Programs that compute, until the value is dropped or this process ends.
struct Competitors(Vec<Child>);

impl Competitors {
    fn start(count: u32) -> Result<Competitors> {
        // It looks for its parent now and then.
        const LOOP: &str = "while kill -0 $PPID 2>/dev/null; do \
                            i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done";
        let mut all = Competitors(Vec::new());
        for _ in 0..count {
            let mut shell = Command::new("sh");
            shell.args(["-c", LOOP]).stdin(Stdio::null());
            all.0.push(shell.spawn().context("a competitor needs the program sh")?);
        }
        Ok(all)
    }
}

impl Drop for Competitors {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the voluntary and the involuntary context switches of all threads of the process.
fn switches() -> Result<[u64; 2]> {
    let mut total = [0; 2];
    for task in std::fs::read_dir("/proc/self/task").context("no list of threads")? {
        let text = std::fs::read_to_string(task?.path().join("status"))?;
        for (name, sum) in
            ["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"].iter().zip(&mut total)
        {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let count = line.context("no count of context switches")?;
            *sum += count.trim().parse::<u64>().context("a count of context switches")?;
        }
    }
    Ok(total)
}

/// Runs the command.
pub(crate) fn bench_load(args: &LoadArgs) -> Result<()> {
    let paths = match args.paths.is_empty() {
        false => args.paths.clone(),
        true => vec![PROGRAM.into()],
    };
    let report = report_file(args.json.as_deref(), paths.iter().flat_map(input_files))?;
    let mut rows = Vec::new();
    for entry in expand(paths)? {
        let Entry::Trace(path) = entry else { continue };
        let program = load(&path, &LoadOptions::default()).map_err(|e| anyhow::anyhow!("{e}"))?;
        let mut machines = Vec::new();
        let several = args.compute_streams;
        for (streams, assigner) in [(1, "in turn"), (several, "in turn"), (several, "auto")] {
            let workers = args.workers as usize;
            let options = RunOptions::default().threads(args.threads as usize);
            let options = match assigner {
                "auto" => options.compute_streams(streams),
                _ => options.in_turn(streams),
            };
            let options = options.machine(move |config| config.host_workers(workers));
            let mut machine = Timed::new(&program, &options)?;
            machine.compile()?;
            machines.push(Spread { streams, assigner, machine });
        }
        for &busy in &args.busy {
            let _competitors = Competitors::start(busy)?;
            for row in measure(args, &mut machines)? {
                rows.push(Row { busy, case: name(&path), ..row });
                print(rows.last());
            }
        }
    }
    ensure!(!rows.is_empty(), "nothing was measured");
    write_report(&report, &rows)
}

/// Measures all ways of a program in turns.
fn measure(args: &LoadArgs, machines: &mut [Spread]) -> Result<Vec<Row>> {
    let mut ways: Vec<Way> = Vec::new();
    for name in ["eager", "replayed"] {
        for on in 0..machines.len() {
            ways.push(Way { name, on, times: Vec::new(), switches: [0; 2] });
        }
    }
    for step in 0..WARM_UP + args.steps {
        for way in &mut ways {
            let machine = &mut machines[way.on].machine;
            let before = switches()?;
            let taken = match way.name {
                "eager" => machine.run()?,
                _ => machine.launch()?,
            };
            let after = switches()?;
            if step >= WARM_UP {
                way.times.push(taken.wall.as_secs_f64() * 1e6);
                for ((sum, after), before) in way.switches.iter_mut().zip(after).zip(before) {
                    *sum += after - before;
                }
            }
        }
    }
    let mut one = 0.0;
    let row = |way: &mut Way| {
        let us = quantile(&mut way.times, 0.5);
        if way.on == 0 {
            one = us;
        }
        let [voluntary, involuntary] = way.switches.map(|n| n as f64 / f64::from(args.steps));
        Row {
            busy: 0,
            case: String::new(),
            way: way.name,
            streams: machines[way.on].streams,
            assigner: machines[way.on].assigner,
            us,
            p90_us: quantile(&mut way.times, 0.9),
            ratio: us / one,
            voluntary,
            involuntary,
        }
    };
    Ok(ways.iter_mut().map(row).collect())
}

fn print(row: Option<&Row>) {
    let Some(row) = row else { return };
    let Row { busy, case, way, streams, assigner, us, p90_us, ratio, .. } = row;
    let Row { voluntary, involuntary, .. } = row;
    println!(
        "{case}: {busy} busy, {way:8} {streams} streams {assigner:7}: {us:9.0} us, \
         p90 {p90_us:9.0} us, {ratio:6.2} of one stream, switches {voluntary:6.1} + \
         {involuntary:6.1}"
    );
}
