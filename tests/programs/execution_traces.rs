//! Programs that PyTorch recorded: every output is PyTorch's, and every way to run gives the same
//! bits.

use std::path::PathBuf;
use std::sync::Arc;

use millstream::{DriverKind, SyncPolicy};
use millstream_runner::{RunOptions, RunReport, prepare, run_ranks};
use millstream_testing::cases;
use millstream_trace::{Action, Body, Entry, EtOptions, LoadOptions, Program, expand, load};

use super::files;

/// Returns the programs of the repository.
fn programs() -> Vec<Entry> {
    let folders = ["tests/traces", "examples/pytorch"].map(|f| files::root().join(f));
    let found: Vec<Entry> = expand(folders).unwrap();
    assert!(found.len() >= 15, "{found:?}");
    found
}

fn name(entry: &Entry) -> String {
    match entry {
        Entry::Trace(path) => path.display().to_string(),
        Entry::Ranks { folder, .. } => folder.display().to_string(),
        Entry::Skipped { path, reason } => panic!("{}: {reason}", path.display()),
    }
}

fn read(entry: &Entry) -> Vec<Arc<Program>> {
    let paths: Vec<&PathBuf> = match entry {
        Entry::Ranks { ranks, .. } => ranks.iter().collect(),
        Entry::Trace(path) | Entry::Skipped { path, .. } => vec![path],
    };
    paths.iter().map(|path| files::read(path)).collect()
}

fn run(programs: &[Arc<Program>], options: &RunOptions) -> Result<Vec<RunReport>, String> {
    let ran = run_ranks(programs.to_vec(), options);
    let reports = ran.map_err(|e| e.to_string())?;
    for report in &reports {
        if let Some(failure) = report.failures.first() {
            return Err(failure.to_string());
        }
        for output in &report.outputs {
            if !output.ok() || !output.expected {
                let (name, comparison) = (&output.name, &output.comparison);
                return Err(format!("{name}: {comparison:?}, unstable {:?}", output.unstable));
            }
        }
        assert!(!report.outputs.is_empty());
    }
    Ok(reports)
}

fn ways() -> Vec<RunOptions> {
    let mut ways = Vec::new();
    for driver in [DriverKind::Inline, DriverKind::Threaded] {
        for sync in [SyncPolicy::Frontier, SyncPolicy::LastUsedStream] {
            let in_turn = [1, 2, 4, 7].map(|streams| RunOptions::default().in_turn(streams));
            let assigned = RunOptions::default().compute_streams(4);
            for options in in_turn.into_iter().chain([assigned]) {
                ways.push(options.machine(|config| config.driver(driver).sync(sync)));
            }
        }
    }
    ways
}

fn bytes(reports: &[RunReport]) -> Vec<Vec<u8>> {
    reports.iter().flat_map(|r| r.outputs.iter().map(|o| o.bytes.clone())).collect()
}

#[track_caller]
fn none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Long because every recorded program runs in a third of 20 ways, or in all.
#[test]
fn every_way_to_run_gives_pytorchs_outputs() {
    let mut wrong = Vec::new();
    for entry in programs() {
        let programs = read(&entry);
        let mut first: Option<Vec<Vec<u8>>> = None;
        for way in ways().into_iter().step_by(cases(3, 1)) {
            let place = format!("{} with {way:?}", name(&entry));
            match run(&programs, &way) {
                Err(why) => wrong.push(format!("{place}: {why}")),
                Ok(reports) => {
                    let got = bytes(&reports);
                    if *first.get_or_insert_with(|| got.clone()) != got {
                        wrong.push(format!("{place}: other bytes than the first way"));
                    }
                }
            }
        }
    }
    none(wrong);
}

/// Long because every recorded program runs several times, or 20 times.
#[test]
fn repeats_give_the_same_bytes() {
    let repeats = cases(5, 20);
    let mut wrong = Vec::new();
    for entry in programs() {
        let programs = read(&entry);
        let options = RunOptions::default().in_turn(4).threads(3).repeat(repeats);
        if let Err(why) = run(&programs, &options) {
            wrong.push(format!("{}: {why}", name(&entry)));
        }
    }
    none(wrong);
}

/// Cases with ops whose results have other strides here than in PyTorch: factors of matrices,
/// results of attention on GPUs, and of ops that few programs use. A copy restores PyTorch's.
const OTHER_STRIDES: &[&str] = &[
    "own/matrices/",
    "own/op_samples/",
    "own/complex_samples/",
    "own/spectrograms/",
    "own/gpu_ops/",
    "own/inner_results/",
    "pytorch-cuda/",
];

/// The recorded results equal our ops' results, down to the strides but in [`OTHER_STRIDES`]: no
/// tensor is copied into another layout, no number is lost, and no tensor except DDP's buckets
/// lacks a source.
#[test]
fn imports_invent_no_data() {
    let mut wrong = Vec::new();
    for entry in programs() {
        for program in read(&entry) {
            let report = program.imported.as_ref().expect("an execution trace");
            let ddp = program.source.name().contains("ddp");
            let is_copied = OTHER_STRIDES.iter().any(|case| program.source.name().contains(case));
            let relaid = if is_copied { 0 } else { report.relaid };
            if relaid + report.missing_scalars > 0 || (report.made_up > 0 && !ddp) {
                wrong.push(format!("{}: {report:?}", program.source.name()));
            }
            assert!(report.skipped.is_empty() && report.ops > 0);
        }
    }
    none(wrong);
}

/// In the case of copies and fills every one of them counts: without any one, some output differs.
#[test]
fn every_copy_and_fill_has_an_effect() {
    let file = files::root().join("tests/traces/own/copies_and_fills/et.json.gz");
    let program = Program::clone(&files::read(&file));
    let Body::Statements(block) = &program.body else { panic!("statements") };
    let fills = ["copy_", "fill", "masked_fill_"];
    let mut tried = 0;
    let mut without_effect = Vec::new();
    for (at, statement) in block.statements.iter().enumerate() {
        let Action::Call(call) = &statement.action else { continue };
        if !fills.contains(&call.op.as_str()) {
            continue;
        }
        let mut without = program.clone();
        let Body::Statements(block) = &mut without.body else { panic!("statements") };
        block.statements.remove(at);
        let place = without.error(statement.span, call.op.clone());
        if run(&[Arc::new(without)], &RunOptions::default()).is_ok() {
            without_effect.push(place.to_string());
        }
        tried += 1;
    }
    assert!(tried > 30, "{tried}");
    none(without_effect);
}

/// Covers the public traces, if they are present: only custom kernels are skipped.
#[test]
fn public_traces_are_covered() {
    let shared = files::root().join("../shared/traces/public/pytorch-et");
    if !shared.is_dir() {
        eprintln!("skipped: {} does not exist", shared.display());
        return;
    }
    let et = EtOptions { structural: true, ..EtOptions::default() };
    let loading = LoadOptions { et, ..LoadOptions::default() };
    let mut seen = 0;
    for entry in expand([shared]).unwrap() {
        let Entry::Trace(path) = entry else { continue };
        let program = load(&path, &loading).unwrap_or_else(|e| panic!("{e}"));
        let report = program.imported.as_deref().expect("an execution trace").clone();
        let shown = path.display();
        assert!(report.executed() * 100 >= report.ops * 95, "{shown}: {report:?}");
        for skipped in &report.skipped {
            assert!(skipped.reason.contains("custom kernel"), "{shown}: {skipped:?}");
        }
        prepare(Arc::new(program), &RunOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        seen += 1;
    }
    assert!(seen >= 11, "{seen} traces");
}

/// Every node of the steps that a GPU ran is executed, also attention with dropout, whose gradient
/// reads the mask that it drew.
#[test]
fn steps_of_a_gpu_are_covered() {
    let folder = files::root().join("crates/timelines/tests/cuda-recorded");
    let mut seen = 0;
    for case in std::fs::read_dir(folder).unwrap() {
        let path = case.unwrap().path().join("et.json.gz");
        if !path.is_file() {
            continue;
        }
        let et = EtOptions { structural: true, ..EtOptions::default() };
        let program = load(&path, &LoadOptions { et, ..LoadOptions::default() }).unwrap();
        let report = program.imported.as_deref().expect("an execution trace");
        assert!(report.skipped.is_empty(), "{}: {:?}", path.display(), report.skipped);
        prepare(Arc::new(program.clone()), &RunOptions::default()).unwrap();
        seen += 1;
    }
    assert!(seen >= 10, "{seen} traces");
}
