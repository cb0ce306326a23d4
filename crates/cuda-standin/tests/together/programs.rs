//! Every recorded program on `cuda:0`: PyTorch's numbers, and the same bytes however it is run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream::DriverKind;
use millstream::run::{RunOptions, RunReport, prepare};
use millstream::trace::{Entry, LoadOptions, Program, expand, load};
use millstream_cuda_standin::StandIn;

use crate::common::{SIM, kernels, must_be_there};

/// The repository's programs of one rank. The operations of several have no kernels for this device.
fn programs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = ["tests/traces", "examples/pytorch"].map(|folder| root.join(folder));
    let alone = |entry| match entry {
        Entry::Trace(path) => Some(path),
        _ => None,
    };
    let found: Vec<PathBuf> = expand(folders).unwrap().into_iter().filter_map(alone).collect();
    assert!(found.len() >= 10, "{found:?}");
    found
}

fn run(program: &Arc<Program>, options: &RunOptions) -> RunReport {
    let report = prepare(program.clone(), options).and_then(|p| p.run());
    report.unwrap_or_else(|e| panic!("{} with {options:?}: {e}", program.source.name()))
}

#[test]
fn every_recorded_program() {
    must_be_there();
    let kernels = Arc::new(kernels());
    let mut wrong = Vec::new();
    for path in programs() {
        let program = Arc::new(load(&path, &LoadOptions::default()).unwrap());
        let mut first: Option<RunReport> = None;
        for (driver, compute_streams) in
            [(DriverKind::Inline, 1), (DriverKind::Threaded, 1), (DriverKind::Threaded, 4)]
        {
            let options = RunOptions {
                device: SIM,
                driver,
                compute_streams,
                kernels: kernels.clone(),
                repeat: 2,
                ..RunOptions::default()
            };
            let report = run(&program, &options);
            let what = format!("{} on {compute_streams} streams, {driver:?}", path.display());
            wrong.extend(report.failures.iter().map(|failure| format!("{what}: {failure}")));
            let same = first.as_ref().unwrap_or(&report).outputs.iter();
            for (output, same) in report.outputs.iter().zip(same) {
                if !output.ok() || output.bytes != same.bytes {
                    let (name, comparison) = (&output.name, &output.comparison);
                    wrong.push(format!("{what}: {name}: {comparison:?}"));
                }
            }
            first.get_or_insert(report);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let violations = StandIn::load().unwrap().violations();
    assert!(violations.is_empty(), "{violations:#?}");
}

/// What completes when it will cannot be simulated.
#[test]
fn no_seed_can_choose() {
    must_be_there();
    let program = Arc::new(load(&programs()[0], &LoadOptions::default()).unwrap());
    let driver = DriverKind::Simulated;
    let options = RunOptions { device: SIM, driver, ..RunOptions::default() };
    let error = prepare(program, &options).and_then(|p| p.run()).err().map(|e| e.to_string());
    assert!(error.as_deref().is_some_and(|e| e.contains("no seed can choose")), "{error:?}");
}
