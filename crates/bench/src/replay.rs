//! `bench replay`: the cost of an instruction of an executable, and of a launch.
//!
//! Each test prints a row of JSON: `ns_per_op` is the median over the rounds, `least` and `most`
//! the spread. A round is as many launches as take about a millisecond, and the rounds of all tests
//! are interleaved. The kernels are empty; inside the clock is everything that a launch costs: its
//! operands, hazards, tasks, steps, points and completion.
//!
//! | test | an operation is |
//! |---|---|
//! | `bare` | a call of an empty prepared kernel in a loop over resolved operands: the floor |
//! | `handoff` | a number that one thread writes and another one sees, both waiting: the floor |
//! | `inline` | an instruction of one stream, run by the caller's thread |
//! | `one_worker` | an instruction of one stream |
//! | `four_streams` | an instruction of four streams of one worker that wait for one another |
//! | `chain_of_two` | an instruction on one of two workers in turns, each waiting for the other |
//! | `stencil` | an instruction of a stencil on two workers |
//! | `launch_1`, `launch_1000` | a launch of so many instructions, one after another |
//! | `latency_1` | a launch of one instruction, until the caller knows that it has completed |

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use millstream::kernels::PreparedKernel;
use millstream::{DriverKind, Executable};
use millstream_files::println;
use serde::Serialize;

use super::fixture::{Empty, Fixture, READS};
use super::workload::{Workload, workload};
use super::{EngineArgs, Peer, quantile, report_file, write_report};

/// The arguments of `millstream bench replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// Run only this test
    #[arg(long)]
    test: Option<String>,
    /// Number of rounds, after one more that warms up
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Also write the rows to FILE, as one JSON array; `-` is standard output
    #[arg(long = "report", visible_alias = "json", value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The instructions of a list.
const COUNT: usize = 10_000;

/// A row of the result.
#[derive(Clone, Debug, Serialize)]
struct Row {
    test: String,
    ns_per_op: f64,
    least: f64,
    most: f64,
}

impl Row {
    /// Returns the row of a test that took these times.
    fn of(test: String, times: &mut [f64]) -> Row {
        let [ns_per_op, least, most] = [0.5, 0.0, 1.0].map(|share| quantile(times, share));
        Row { test, ns_per_op, least, most }
    }
}

/// A test: its name, the launches and instructions of a round, and the round.
struct Test {
    name: &'static str,
    /// How many operations a round has.
    operations: f64,
    run: Box<dyn FnMut() -> Result<()>>,
}

/// Returns the arguments of a machine with so many workers.
fn machine(workers: u32) -> EngineArgs {
    EngineArgs {
        test: String::new(),
        peer: Peer::Inorder,
        workers,
        rounds: 1,
        count: 1,
        streams: 1,
        width: 8,
        grain: 0.0,
        json: None,
        peers: None,
    }
}

/// Launches an executable `times` times, and waits for the last launch.
fn launches(fixture: &Fixture, executable: &Executable, times: u32) -> Result<()> {
    for _ in 0..times {
        executable.launch().run()?;
    }
    Ok(fixture.machine.synchronize()?)
}

/// Returns a test that launches a workload, with an instruction as operation.
fn instructions(
    name: &'static str,
    load: &Workload,
    workers: u32,
    streams: u32,
    driver: DriverKind,
) -> Result<Test> {
    let fixture = Fixture::with_driver(&machine(workers), &READS, driver)?;
    let executable = fixture.compile(load, &READS, streams)?;
    let operations = load.nodes.len() as f64;
    let times = (100_000.0 / operations).ceil() as u32;
    let run = Box::new(move || launches(&fixture, &executable, times));
    Ok(Test { name, operations: operations * f64::from(times), run })
}

/// Returns a test that launches so many instructions, with a launch as operation.
fn launch(name: &'static str, count: usize, times: u32, waits: bool) -> Result<Test> {
    let fixture = Fixture::new(&machine(1), &READS)?;
    let load = workload("chain", count, 1)?;
    let executable = fixture.compile(&load, &READS, 1)?;
    let run = move || {
        if waits {
            for _ in 0..times {
                executable.launch().run()?.wait()?;
            }
            return Ok(());
        }
        launches(&fixture, &executable, times)
    };
    Ok(Test { name, operations: f64::from(times), run: Box::new(run) })
}

/// Returns a test that calls empty prepared kernels on resolved operands, in a loop.
fn bare(load: &Workload) -> Test {
    let kernel: Arc<dyn PreparedKernel> = Arc::new(Empty);
    let mut memory = vec![0u64; load.variables];
    let calls: Vec<(Arc<dyn PreparedKernel>, Vec<usize>)> = load
        .nodes
        .iter()
        .map(|node| (kernel.clone(), node.operands().map(|v| v as usize).collect()))
        .collect();
    let operations = (calls.len() * 10) as f64;
    let run = Box::new(move || {
        let base: *mut u8 = memory.as_mut_ptr().cast();
        let mut operands = [base; 4];
        for (kernel, of) in (0..10).flat_map(|_| &calls) {
            for (operand, k) in operands.iter_mut().zip(of) {
                *operand = base.wrapping_add(k * 8);
            }
            // SAFETY: the kernel uses no operand.
            unsafe { kernel.run(&operands[..of.len()], None) }?;
        }
        Ok(())
    });
    Test { name: "bare", operations, run }
}

/// Returns a test in which two threads give each other a number in turns.
fn handoff() -> Test {
    const TURNS: u64 = 10_000;
    let run = Box::new(|| {
        let numbers = [Apart::default(), Apart::default()];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for k in 1..=TURNS {
                    numbers[0].wait_for(k);
                    numbers[1].0.store(k, Ordering::Release);
                }
            });
            for k in 1..=TURNS {
                numbers[0].0.store(k, Ordering::Release);
                numbers[1].wait_for(k);
            }
        });
        Ok(())
    });
    Test { name: "handoff", operations: (2 * TURNS) as f64, run }
}

/// A number on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

impl Apart {
    fn wait_for(&self, number: u64) {
        while self.0.load(Ordering::Acquire) < number {
            std::hint::spin_loop();
        }
    }
}

fn tests() -> Result<Vec<Test>> {
    let random = workload("random", COUNT, 1)?;
    let chain = workload("chain", COUNT, 1)?;
    let stencil = workload("stencil", COUNT / 8, 8)?;
    let threaded = DriverKind::Threaded;
    Ok(vec![
        bare(&random),
        handoff(),
        instructions("inline", &random, 1, 1, DriverKind::Inline)?,
        instructions("one_worker", &random, 1, 1, threaded)?,
        instructions("four_streams", &random, 1, 4, threaded)?,
        instructions("chain_of_two", &chain, 2, 2, threaded)?,
        instructions("stencil", &stencil, 2, 2, threaded)?,
        launch("launch_1", 1, 2_000, false)?,
        launch("launch_1000", 1_000, 200, false)?,
        launch("latency_1", 1, 1_000, true)?,
    ])
}

/// Measures the tests in interleaved rounds.
fn rows(args: &ReplayArgs) -> Result<Vec<Row>> {
    let mut tests = tests()?;
    if let Some(test) = &args.test {
        tests.retain(|t| t.name == test);
    }
    anyhow::ensure!(!tests.is_empty(), "no test has this name");
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); tests.len()];
    for round in 0..=args.rounds {
        for (test, times) in tests.iter_mut().zip(&mut times) {
            let start = Instant::now();
            (test.run)().with_context(|| test.name)?;
            if round > 0 {
                times.push(start.elapsed().as_nanos() as f64 / test.operations);
            }
        }
    }
    let row = |(test, times): (&Test, &mut Vec<f64>)| Row::of(test.name.to_owned(), times);
    Ok(tests.iter().zip(&mut times).map(row).collect())
}

/// Runs the command.
pub(crate) fn replay(args: &ReplayArgs) -> Result<()> {
    let report = report_file::<&Path>(args.json.as_deref(), [])?;
    let rows = rows(args)?;
    for row in &rows {
        println!("{}", serde_json::to_string(row)?);
    }
    write_report(&report, &rows)
}
