//! The conformance suite on `ep::cuda`.

use std::sync::Arc;
use std::time::Duration;

use millstream_conformance::{self as conformance, Harness, HostHarness};
use millstream_cuda_standin::control::Turn;
use millstream_ep::cuda::{CompletionMode, CudaBackend, CudaConfig};
use millstream_ep::faults::{Fault, FaultPlan, FaultyBackend};

use crate::{no_violations, nothing_is_open, stand_in};

const COMPLETIONS: [CompletionMode; 2] = [CompletionMode::Polled, CompletionMode::Callback];

fn backend(completion: CompletionMode) -> Arc<CudaBackend> {
    Arc::new(CudaBackend::new(CudaConfig { completion, ..CudaConfig::default() }))
}

/// Returns the checks that the backend skips.
fn skips(completion: CompletionMode, is_stepped: bool) -> Vec<&'static str> {
    let mut skips =
        vec!["host memory keeps its content", "a synchronous device completes commands at once"];
    if !is_stepped {
        skips.push("a stepped device runs nothing inside submit");
    }
    if completion == CompletionMode::Polled {
        skips.push("completions are notified");
    }
    skips
}

#[test]
fn streams_run_by_themselves() {
    let _turn = stand_in().turn();
    for completion in COMPLETIONS {
        let report = conformance::run(backend(completion), &HostHarness);
        println!("{report}");
        assert_eq!(report.skipped(), skips(completion, false));
        report.into_result().unwrap();
    }
    no_violations();
    nothing_is_open();
}

/// Steps the newest stream first, so that only waits order an older stream before it.
struct NewestFirst<'a>(&'a Turn<'static>);

impl Harness for NewestFirst<'_> {
    fn progress(&self) {
        self.0.step();
    }

    fn is_stepped(&self) -> bool {
        true
    }
}

#[test]
fn streams_are_stepped_newest_first() {
    let turn = stand_in().turn();
    for completion in COMPLETIONS {
        let hold = turn.hold();
        let report = conformance::run(backend(completion), &NewestFirst(&turn));
        println!("{report}");
        assert_eq!(report.skipped(), skips(completion, true));
        report.into_result().unwrap();
        drop(hold);
    }
    no_violations();
    nothing_is_open();
}

/// A query that returns "not ready" is repeated, and is not an error.
#[test]
fn not_ready_is_not_an_error() {
    let turn = stand_in().turn();
    turn.not_ready(500);
    let report = conformance::run(backend(CompletionMode::Polled), &HostHarness);
    report.into_result().unwrap();
    no_violations();
}

/// A device that is expected to lose commands.
struct Impatient;

impl Harness for Impatient {
    fn patience(&self) -> Duration {
        Duration::from_secs(1)
    }
}

/// The suite detects every fault.
#[test]
fn every_fault_is_detected() {
    let _turn = stand_in().turn();
    for fault in Fault::ALL.into_iter().filter(|fault| *fault != Fault::NeverCompletes) {
        let plan = FaultPlan::starting_at(fault, 1);
        let faulty = FaultyBackend::new(backend(CompletionMode::Polled), plan.clone());
        let report = conformance::run(Arc::new(faulty), &Impatient);
        assert!(report.into_result().is_err(), "{fault:?}");
        assert!(plan.triggered() > 0, "{fault:?}");
    }
    no_violations();
}
