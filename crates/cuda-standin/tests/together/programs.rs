//! Every recorded program: PyTorch's values, and the same bytes with every driver and number of
//! streams. A program of several ranks has one device per rank.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use millstream::DriverKind;
use millstream_cuda_standin::StandIn;
use millstream_runner::{RunOptions, RunReport, prepare, run_ranks};
use millstream_testing::cases;
use millstream_trace::{Entry, LoadOptions, Program, expand, load};

use crate::common::{SIM, kernels, must_be_there};

/// A program's name, and the program of each rank.
type Recorded = (String, Vec<Arc<Program>>);

/// The largest programs, which take as long as the others together.
const LARGE: [&str; 2] = ["gpt2_12layer_train", "resnet50_train"];

/// The repository's programs: all of them, or those that are not large.
static PROGRAMS: LazyLock<Vec<Recorded>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["tests/traces", "examples/pytorch"].map(|folder| root.join(folder));
    let read = |path: &PathBuf| Arc::new(load(path, &LoadOptions::default()).unwrap());
    let all = |entry| match entry {
        Entry::Trace(path) => Some((path.display().to_string(), vec![read(&path)])),
        Entry::Ranks { folder, ranks } => {
            Some((folder.display().to_string(), ranks.iter().map(read).collect()))
        }
        Entry::Skipped { .. } => None,
    };
    let is_tried = |entry: &Entry| match entry {
        Entry::Trace(path) => !LARGE.iter().any(|name| path.iter().any(|part| part == *name)),
        Entry::Ranks { .. } | Entry::Skipped { .. } => true,
    };
    let found = expand(folders).unwrap().into_iter().filter(|e| is_tried(e) || cases(false, true));
    let found: Vec<Recorded> = found.filter_map(all).collect();
    let several = found.iter().filter(|(_, ranks)| ranks.len() > 1).count();
    assert!(found.len() >= 10 && several >= 3, "{found:?}");
    found
});

fn run(name: &str, ranks: &[Arc<Program>], options: &RunOptions) -> Vec<RunReport> {
    let reports = run_ranks(ranks.to_vec(), options);
    reports.unwrap_or_else(|e| panic!("{name} with {options:?}: {e}"))
}

/// Long because the stand-in runs the threads of a kernel one after another.
#[test]
fn every_recorded_program() {
    must_be_there();
    let kernels = kernels();
    let mut wrong = Vec::new();
    for (name, ranks) in &*PROGRAMS {
        let mut first: Option<Vec<RunReport>> = None;
        let ways = [(DriverKind::Inline, 1), (DriverKind::Threaded, 4), (DriverKind::Threaded, 1)];
        for &(driver, compute_streams) in &ways[..cases(2, 3)] {
            let options = RunOptions::default()
                .machine(|config| config.driver(driver).kernels(kernels.clone()))
                .device(SIM)
                .in_turn(compute_streams)
                .repeat(2);
            let reports = run(name, ranks, &options);
            for (rank, report) in reports.iter().enumerate() {
                let what = format!("{name}, rank {rank}, {compute_streams} streams, {driver:?}");
                wrong.extend(report.failures.iter().map(|failure| format!("{what}: {failure}")));
                let same = first.as_ref().map_or(report, |first| &first[rank]).outputs.iter();
                for (output, same) in report.outputs.iter().zip(same) {
                    if !output.ok() || output.bytes != same.bytes {
                        let (name, comparison) = (&output.name, &output.comparison);
                        wrong.push(format!("{what}: {name}: {comparison:?}"));
                    }
                }
            }
            first.get_or_insert(reports);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let violations = StandIn::load().unwrap().violations();
    assert!(violations.is_empty(), "{violations:#?}");
}

/// The programs of several ranks with their collectives on the devices: PyTorch's values, and the
/// bytes of the collectives on the host, as the stand-in's NCCL reduces in the order of the ranks;
/// also as executables, which launch collectives between their graphs.
#[test]
fn every_recorded_program_of_several_ranks_by_nccl() {
    must_be_there();
    let kernels = kernels();
    let several = PROGRAMS.iter().filter(|(_, ranks)| ranks.len() > 1);
    for (name, ranks) in several {
        let options = RunOptions::default()
            .machine(|config| config.kernels(kernels.clone()))
            .device(SIM)
            .repeat(2);
        let on_host = run(name, ranks, &options);
        for (compute_streams, replay) in [(1, false), (4, false), (1, true), (4, true)] {
            let options = options.clone().in_turn(compute_streams).nccl(true);
            let reports = run(name, ranks, &options.replay(replay).repeat(3));
            for (rank, (report, on_host)) in reports.iter().zip(&on_host).enumerate() {
                let what = format!("{name}, rank {rank}, {compute_streams} streams, {replay}");
                assert!(report.failures.is_empty(), "{what}: {:?}", report.failures);
                for (output, on_host) in report.outputs.iter().zip(&on_host.outputs) {
                    assert!(output.ok(), "{what}: {}: {:?}", output.name, output.comparison);
                    assert!(output.bytes == on_host.bytes, "{what}: {}: other bytes", output.name);
                }
            }
        }
    }
    let stand_in = StandIn::load().unwrap();
    let violations = stand_in.violations();
    assert!(violations.is_empty(), "{violations:#?}");
}

/// Every recorded program as an executable, whose launches after the first run a graph: the bytes
/// of the plain run. Long as the test of single calls is.
#[test]
fn every_recorded_program_as_a_graph() {
    must_be_there();
    let kernels = kernels();
    let (mut wrong, mut graphs, mut calls) = (Vec::new(), 0, Vec::new());
    for (name, ranks) in &*PROGRAMS {
        let options = RunOptions::default()
            .machine(|config| config.kernels(kernels.clone()))
            .device(SIM)
            .replay(false);
        let plain = run(name, ranks, &options);
        for compute_streams in cases(3..=3, 1..=4) {
            let options = options.clone().in_turn(compute_streams).replay(true).repeat(3);
            let what = format!("{name}, {compute_streams} streams");
            let reports = match run_ranks(ranks.clone(), &options) {
                Ok(reports) => reports,
                Err(error) => {
                    // Collectives run on the host, and no executable holds an op whose result's
                    // size depends on data.
                    calls.push(format!("{what}: {error}"));
                    continue;
                }
            };
            for (report, plain) in reports.iter().zip(&plain) {
                wrong.extend(report.failures.iter().map(|failure| format!("{what}: {failure}")));
                for (output, plain) in report.outputs.iter().zip(&plain.outputs) {
                    if output.unstable.is_some() || output.bytes != plain.bytes {
                        wrong.push(format!("{what}: {}: {:?}", output.name, output.unstable));
                    }
                }
                for graph in &report.graphs {
                    match &graph.reason {
                        Some(reason) => calls.push(format!("{what}: {reason}")),
                        None => {
                            assert_eq!(graph.launches, 2, "{what}: {graph}");
                            graphs += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{graphs} graphs; call by call:\n{}", calls.join("\n"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(graphs > calls.len(), "{graphs} graphs; {}", calls.join("\n"));
    let violations = StandIn::load().unwrap().violations();
    assert!(violations.is_empty(), "{violations:#?}");
}

/// The launches of a replayed program repeat a few sets of addresses, so most capture nothing.
#[test]
fn launches_of_a_program_repeat_their_addresses() {
    must_be_there();
    let named = |(name, _): &&Recorded| name.contains("transformer_encoder_train");
    let (name, ranks) = PROGRAMS.iter().find(named).unwrap();
    let options = RunOptions::default().machine(|config| config.kernels(kernels())).device(SIM);
    let reports = run(name, ranks, &options.in_turn(4).replay(true).repeat(8));
    let [graph] = &reports[0].graphs[..] else { panic!("{:?}", reports[0].graphs) };
    assert_eq!(graph.launches, 7, "{graph}");
    assert!(graph.instantiated + graph.updated <= 3, "{graph}");
    assert!(reports[0].outputs.iter().all(|output| output.unstable.is_none()));
}

/// The simulated driver refuses a device whose completions no seed can choose.
#[test]
fn the_simulated_driver_refuses_the_device() {
    must_be_there();
    let program = PROGRAMS[0].1[0].clone();
    let driver = DriverKind::Simulated;
    let options = RunOptions::default().device(SIM).machine(|config| config.driver(driver));
    let error = prepare(program, &options).and_then(|p| p.run()).err().map(|e| e.to_string());
    assert!(error.as_deref().is_some_and(|e| e.contains("no seed can choose")), "{error:?}");
}
