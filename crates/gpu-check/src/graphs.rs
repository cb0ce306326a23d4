//! Runs recorded programs as executables, once as CUDA graphs and once call by call, and compares
//! their outputs and times. Measures a long line of small kernels in both ways.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};

use millstream::ep::cuda::{CompletionMode, CudaConfig};
use millstream::{DType, DeviceId, Executable, GraphStatus, StreamKey, TensorSpec};
use millstream_runner::{RunOptions, RunReport, run_ranks};
use millstream_trace::Program;

use super::Setting;
use super::fixture::Fixture;
use super::programs::{self, not_run};
use super::section::{Section, median};

/// The launches of a program, on a GPU and on the stand-in. The first makes its calls, the second
/// captures them.
const LAUNCHES: [u32; 2] = [30, 3];

/// The calls of the line, its launches in a round, and the rounds.
const CALLS: usize = 200;
const LINE_LAUNCHES: [usize; 2] = [500, 5];
const ROUNDS: usize = 5;

pub(super) fn check(setting: &Setting, section: &mut Section) -> Result<()> {
    line(setting, section)?;
    let all = programs::find(setting, section)?;
    for (done, (name, ranks)) in all.iter().enumerate() {
        if section.is_over(|| not_run(done, all.len())) {
            break;
        }
        let [path] = &ranks[..] else {
            section.skipped.push(format!("{name}: collectives cannot stand in an executable"));
            continue;
        };
        match programs::read(path) {
            Ok(program) => program_in_both_ways(setting, name, &Arc::new(program), section),
            Err(error) => section.failed.push(format!("{name}: {error:#}")),
        }
    }
    Ok(())
}

/// Runs a program as graphs and call by call.
fn program_in_both_ways(
    setting: &Setting,
    name: &str,
    program: &Arc<Program>,
    section: &mut Section,
) {
    let launches = LAUNCHES[usize::from(!setting.real || setting.quick)];
    for compute_streams in [1, 4] {
        let what = format!("{name} on {compute_streams} streams");
        let run = |graphs: bool| {
            let device = DeviceId::cuda(setting.device);
            let options = RunOptions::default().device(device).in_turn(compute_streams);
            let options = options.replay(true).repeat(launches).graphs(graphs);
            run_ranks(vec![program.clone()], &options).map(|mut reports| reports.remove(0))
        };
        let (by_calls, as_graph) = match (run(false), run(true)) {
            (Ok(by_calls), Ok(as_graph)) => (by_calls, as_graph),
            (Err(error), _) | (_, Err(error)) => {
                let why = error.to_string();
                match why.contains("cannot stand in an executable") {
                    true => section.skipped.push(format!("{what}: {why}")),
                    false => section.check(&what, Some(why)),
                }
                continue;
            }
        };
        section.check(&what, difference(&by_calls, &as_graph));
        for GraphStatus { device, reason, .. } in &as_graph.graphs {
            if let Some(reason) = reason {
                section.notes.push(format!("{what}: {device}: calls one by one: {reason}"));
            }
        }
        // A graph copies the outputs to the host itself.
        let fastest = |report: &RunReport| {
            let times = report.walls.iter().zip(&report.readings);
            times.map(|(wall, reading)| *wall + *reading).min().unwrap_or_default().as_secs_f64()
        };
        let share = fastest(&by_calls) / fastest(&as_graph).max(1e-9);
        let how = "fastest launch as a graph and reads of its outputs, against call by call";
        section.measure(setting.real, what, (share, ""), Some(1.5), how);
    }
}

/// Says how two runs of a program differ.
fn difference(by_calls: &RunReport, as_graph: &RunReport) -> Option<String> {
    let failures = by_calls.failures.iter().chain(&as_graph.failures);
    if let Some(failure) = failures.into_iter().next() {
        return Some(failure.to_string());
    }
    let outputs = by_calls.outputs.iter().zip(&as_graph.outputs);
    let mut different = outputs.filter(|(one, other)| {
        one.bytes != other.bytes || one.unstable.is_some() || other.unstable.is_some()
    });
    let name = &different.next()?.0.name;
    Some(format!("{name} has other bytes as a graph, or in another launch"))
}

/// Measures a line of small kernels: the time of a launch as a graph, and call by call.
fn line(setting: &Setting, section: &mut Section) -> Result<()> {
    let launches = LINE_LAUNCHES[usize::from(!setting.real || setting.quick)];
    let what = format!("a line of {CALLS} small kernels");
    let mut times = Vec::new();
    for graphs in [true, false] {
        let cuda = CudaConfig { graphs, completion: CompletionMode::Polled, ..Default::default() };
        let fixture = Fixture::with(setting.device, cuda, |_| ())?;
        let x = fixture.tensor(&[1.0; 256])?;
        let executable = compile_line(&fixture)?;
        let mut rounds = Vec::new();
        // The first round warms up.
        for round in 0..=ROUNDS {
            if section.is_over(|| format!("{what}, and the programs")) {
                return Ok(());
            }
            fixture.machine.synchronize()?;
            let start = Instant::now();
            for _ in 0..launches {
                executable.launch().input("x", &x).run()?;
            }
            fixture.machine.synchronize()?;
            if round > 0 {
                rounds.push(start.elapsed().as_secs_f64() / launches as f64 * 1e6);
            }
        }
        let ran = executable.graphs().first().map_or(0, |status| status.launches);
        let expected = if graphs { (launches * (ROUNDS + 1)) as u64 - 1 } else { 0 };
        let failure = (ran != expected).then(|| format!("{ran} of {expected} launches: a graph"));
        section.check(&format!("a line of {CALLS} calls, graphs: {graphs}"), failure);
        times.push(median(&mut rounds));
    }
    let [as_graph, by_calls] = times[..] else { return Ok(()) };
    let how = format!("a launch; medians of {ROUNDS} rounds of {launches}");
    section.measure(setting.real, format!("{what}, as a graph"), (as_graph, "us"), None, &how);
    section.measure(setting.real, format!("{what}, call by call"), (by_calls, "us"), None, &how);
    let share = by_calls / as_graph;
    section.measure(setting.real, what, (share, ""), Some(1.0), "call by call, against a graph");
    Ok(())
}

/// Compiles a line of calls that change their input in place.
fn compile_line(fixture: &Fixture) -> Result<Executable> {
    let device = fixture.device.id().clone();
    let spec = TensorSpec::contiguous(DType::F32, &[256])?;
    let recorded = fixture.machine.record(|r| {
        let x = r.input_on("x", spec, &device)?;
        let stream = r.stream(&StreamKey::compute(device.clone(), 0))?;
        for _ in 0..CALLS {
            r.call("relu_", &[x]).on(stream)?;
        }
        Ok(())
    });
    recorded.and_then(|recorded| recorded.compile_as_is()).context("a line of calls")
}
