//! The conformance suite on every backend of this crate.

use std::sync::Arc;

use millstream_conformance::{self as conformance, Harness, HostHarness};
use millstream_ep::cpu::CpuBackend;
use millstream_ep::faults::{Fault, FaultPlan, FaultyBackend, Site};
use millstream_ep::sim::{Completion, SimBackend, SimConfig, SimControl};

/// The check that is skipped if devices do not wait for one another.
const DEVICES_WAIT: &str = "a wait orders streams of two devices";
/// The check that asynchronous devices skip.
const SYNCHRONOUS: &str = "a synchronous device completes commands at once";
/// The checks that devices without graphs skip.
const GRAPHS: [&str; 2] =
    ["a graph is captured, launched and updated", "failed work fails its capture"];
/// The check that devices skip if their commands complete without `Harness::progress`.
const STEPPED: &str = "a stepped device runs nothing inside submit";

#[test]
fn cpu() {
    let report = conformance::run(Arc::new(CpuBackend::new()), &HostHarness);
    println!("{report}");
    // The checks that need events or asynchronous commands.
    let skipped = [
        STEPPED,
        "completions are notified",
        "an event without a record is complete",
        "an event is complete only once its record has completed",
        "a new record makes an event incomplete again",
        "a wait orders two streams on the device",
        "a wait waits for the newest record at its call",
        "many streams wait for one record",
        "a chain of waits crosses many streams",
        "a stream waits for its own record",
        "a wait for an event never recorded is refused",
        "an event may be dropped before it completes",
        DEVICES_WAIT,
        "another device's event cannot be recorded",
        "timed events keep the times of their records",
        GRAPHS[0],
        GRAPHS[1],
    ];
    assert_eq!(report.skipped(), skipped);
    report.into_result().unwrap();
}

#[test]
fn sim_in_issue_order() {
    for direct_waits in [false, true] {
        let config = SimConfig { devices: 2, direct_waits, ..SimConfig::default() };
        let report = conformance::run(Arc::new(SimBackend::new(config)), &HostHarness);
        println!("{report}");
        let mut skipped = vec![SYNCHRONOUS, STEPPED];
        skipped.extend((!direct_waits).then_some(DEVICES_WAIT));
        skipped.extend(GRAPHS);
        assert_eq!(report.skipped(), skipped);
        report.into_result().unwrap();
    }
}

/// Steps the newest stream first, so that only waits order an older stream before it.
struct NewestFirst(SimControl);

impl Harness for NewestFirst {
    fn progress(&self) {
        let streams = self.0.streams();
        let runnable = streams.iter().rev().find(|s| s.commands.iter().any(|c| c.runnable));
        if let Some(stream) = runnable {
            self.0.step(stream.id).expect("the device is not lost");
        }
    }

    fn is_stepped(&self) -> bool {
        true
    }
}

/// Returns the configuration of two stepped devices that wait for one another.
fn stepped() -> SimConfig {
    let completion = Completion::ByHand;
    SimConfig { devices: 2, direct_waits: true, completion, ..SimConfig::default() }
}

#[test]
fn sim_by_hand() {
    let backend = SimBackend::new(stepped());
    let harness = NewestFirst(backend.control());
    let report = conformance::run(Arc::new(backend), &harness);
    println!("{report}");
    assert_eq!(report.skipped(), [SYNCHRONOUS, GRAPHS[0], GRAPHS[1]]);
    report.into_result().unwrap();
}

/// A backend without devices, as on a computer that lacks the hardware.
#[test]
fn an_absent_device_is_a_visible_skip() {
    let backend = SimBackend::new(SimConfig { devices: 0, ..SimConfig::default() });
    let report = conformance::run(Arc::new(backend), &HostHarness);
    if std::env::var_os(conformance::REQUIRE_DEVICES).is_some() {
        assert!(report.into_result().is_err());
        return;
    }
    assert_eq!(report.skipped().len(), conformance::all().len());
    assert!(report.to_string().contains("the backend has no devices"), "{report}");
    report.into_result().unwrap();
}

/// A wrapper without a planned fault behaves as the wrapped backend.
#[test]
fn wrapped_for_faults() {
    let sim = SimBackend::new(stepped());
    let harness = NewestFirst(sim.control());
    let plan = FaultPlan::new();
    let report =
        conformance::run(Arc::new(FaultyBackend::new(Arc::new(sim), plan.clone())), &harness);
    println!("{report}");
    assert_eq!(report.skipped(), [SYNCHRONOUS, GRAPHS[0], GRAPHS[1]]);
    report.into_result().unwrap();
    assert!(plan.count(Site::Launch) > 0 && plan.count(Site::Wait) > 0 && plan.triggered() == 0);

    let cpu = Arc::new(CpuBackend::new());
    let plain = conformance::run(cpu.clone(), &HostHarness);
    let wrapped = conformance::run(Arc::new(FaultyBackend::new(cpu, plan)), &HostHarness);
    assert_eq!(wrapped.skipped(), plain.skipped());
    wrapped.into_result().unwrap();
}

/// The suite detects every fault: a backend with any of them fails.
#[test]
fn every_fault_is_detected() {
    for fault in Fault::ALL.into_iter().filter(|fault| *fault != Fault::NeverCompletes) {
        let sim = Arc::new(SimBackend::new(SimConfig { devices: 2, ..SimConfig::default() }));
        let plan = FaultPlan::starting_at(fault, 1);
        let report =
            conformance::run(Arc::new(FaultyBackend::new(sim, plan.clone())), &HostHarness);
        assert!(report.into_result().is_err(), "{fault:?}");
        assert!(plan.triggered() > 0, "{fault:?}");
    }
}
