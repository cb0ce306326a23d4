//! Every fault at every position of small programs: nothing hangs, nothing wrong passes as right,
//! nothing leaks, and the machine then runs a healthy program.

mod case;
mod oracle;
mod rig;
mod stuck;

use std::collections::BTreeSet;

use millstream::ep::faults::Fault;
use millstream::types::Failure;
use millstream::*;

use case::{Case, HOST, HOST1, Held, SIM, SIM1, Step, step_of};
use rig::{Kind, Rig};

const DRIVERS: [(DriverKind, u64); 4] = [
    (DriverKind::Threaded, 0),
    (DriverKind::Inline, 0),
    (DriverKind::Simulated, 1),
    (DriverKind::Simulated, 2),
];

/// The outputs of a healthy inline run of the steps of `emitted`.
fn reference(case: &Case, emitted: &[bool]) -> Vec<Option<Vec<f32>>> {
    let rig = Rig::new(case, (DriverKind::Inline, 0), Kind::None, "sim", 0);
    let mut held = Held::default();
    case.submit(rig.machine(), &mut held, |k| emitted[k], |_| ());
    let outputs = case.outputs.iter().map(|&o| case.read(&held, o).map(Result::unwrap)).collect();
    drop(held);
    rig.end("the reference");
    outputs
}

/// Whether a failed instruction loses data. Records and waits only order.
fn loses_data(failure: &Failure) -> bool {
    failure.operands.iter().any(|operand| operand.access.writes())
}

/// Checks all outputs against the oracle and the reference.
fn check_outputs(case: &Case, rig: &Rig, held: &Held, what: &str) {
    let emitted: Vec<bool> = held.emitted.iter().map(Result::is_ok).collect();
    let expected = reference(case, &emitted);
    let read: Vec<_> = case.outputs.iter().map(|&o| case.read(held, o)).collect();
    let synchronized = rig.machine().synchronize();
    let (failures, count) = rig.machine().failures();
    assert_eq!(failures.len() as u64, count, "{what}: the cases are small");
    assert_eq!(synchronized.is_err(), count > 0, "{what}: {synchronized:?}");
    let failed: BTreeSet<usize> =
        failures.iter().filter(|f| loses_data(f)).map(|f| step_of(&f.origin)).collect();
    let tainted = oracle::tainted(case, &emitted, &failed);
    for ((&output, read), expected) in case.outputs.iter().zip(&read).zip(&expected) {
        let what = format!("{what}: output {output}\n{failures:#?}");
        let own = case.steps.len() + output;
        match read {
            None => assert_eq!(*expected, None, "{what}"),
            Some(Ok(values)) => {
                assert!(tainted[output].is_empty(), "{what}: {values:?} passes as right");
                // Bit by bit: memory that nobody wrote holds no numbers.
                let bits = |v: &Vec<f32>| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(Some(bits(values)), expected.as_ref().map(bits), "{what}");
            }
            Some(Err(error)) => {
                let failure = error.failure().unwrap_or_else(|| panic!("{what}: {error}"));
                let from = step_of(&failure.origin);
                assert!(tainted[output].contains(&from) || from == own, "{what}: {failure}");
                assert!(failures.contains(failure), "{what}: {failure}");
                let cancelled = failure.cause == types::Cause::Cancelled;
                assert_eq!(matches!(error, Error::Cancelled(_)), cancelled, "{what}: {error}");
            }
        }
    }
}

/// A program that meets nothing wrong gives what it should.
fn healthy(machine: &Machine, device: bool, what: &str) {
    // What was let go of on a device that is lost may have failed to be filled.
    let _ = machine.synchronize();
    machine.clear_failures();
    let sim = [
        Step::Upload(0, SIM, [1.0, -1.0, 2.0, -2.0]),
        Step::Call("relu", 0, None, 1, SIM1),
        Step::AddTo(1, 0, SIM),
    ];
    let host = [
        Step::Upload(2, HOST, [1.0, -1.0, 2.0, -2.0]),
        Step::Call("relu", 2, None, 3, HOST1),
        Step::AddTo(3, 2, HOST),
    ];
    let case = Case {
        name: "healthy",
        steps: if device { [sim, host].concat() } else { host.to_vec() },
        outputs: if device { vec![1, 3] } else { vec![3] },
        memory: None,
    };
    let mut held = Held::default();
    case.submit(machine, &mut held, |_| true, |_| ());
    for (k, emitted) in held.emitted.iter().enumerate() {
        assert!(emitted.is_ok(), "{what}: the healthy program's step {k}: {emitted:?}");
    }
    for &output in &case.outputs {
        let read = case.read(&held, output).unwrap();
        assert_eq!(read.unwrap(), [2.0, -1.0, 4.0, -2.0], "{what}: the healthy program");
    }
    machine.synchronize().unwrap();
}

/// Runs `case` with a fault at one position.
fn try_one(case: &Case, driver: (DriverKind, u64), kind: Kind, device: &str, at: u64) {
    let what = format!("{}, {driver:?}, {kind:?} of {device} at {at}", case.name);
    let rig = Rig::new(case, driver, kind, device, at);
    let held = rig.submit(case);
    for emitted in &held.emitted {
        match emitted.as_ref().map_err(|e| e.as_ref().map(Error::without_place)) {
            Ok(()) | Err(None | Some(Error::OutOfMemory { .. })) => {}
            Err(Some(Error::Device { .. })) if kind == Kind::Once(Fault::DeviceLost) => {}
            Err(Some(other)) => panic!("{what}: {other}"),
        }
    }
    check_outputs(case, &rig, &held, &what);
    if let Kind::Once(Fault::RecordFailsLate | Fault::WaitFailsLate) = kind
        && rig.plan.struck() > 0
    {
        // Nothing is lost by it, but somebody is told. It may have struck what letting go of the reads'
        // tensors does, which nobody has waited for yet.
        let _ = rig.machine().synchronize();
        assert!(rig.machine().failures().1 > 0, "{what}");
    }
    rig.plan.disarm();
    drop(held);
    // A host that is lost leaves nothing to run on.
    let lost = (kind == Kind::Once(Fault::DeviceLost)).then_some(device);
    if lost != Some("cpu") {
        healthy(rig.machine(), lost.is_none(), &what);
    }
    rig.end(&what);
}

/// How many positions a healthy run of `case` has.
fn positions(case: &Case, driver: (DriverKind, u64), kind: Kind, device: &str) -> u64 {
    let quiet = match kind {
        Kind::Cancel | Kind::HalfCopy => kind,
        _ => Kind::None,
    };
    let rig = Rig::new(case, driver, quiet, device, u64::MAX);
    let held = rig.submit(case);
    check_outputs(case, &rig, &held, case.name);
    let count = rig.positions(kind);
    drop(held);
    healthy(rig.machine(), true, case.name);
    rig.end(case.name);
    count
}

/// Every position of every case, under every driver, on either device. Returns how many there were.
fn try_all(kind: Kind) -> u64 {
    let mut tried = 0;
    for case in case::all() {
        for driver in DRIVERS {
            // What is cancelled is no device's.
            let devices = if kind == Kind::Cancel { &["sim"][..] } else { &["sim", "cpu"] };
            for device in devices {
                for at in 1..=positions(&case, driver, kind, device) {
                    try_one(&case, driver, kind, device, at);
                    tried += 1;
                }
            }
        }
    }
    tried
}

macro_rules! exhaustive {
    ($($name:ident: $kind:expr;)*) => {$(
        #[test]
        fn $name() {
            let tried = try_all($kind);
            println!("{tried} positions");
            assert!(tried > 0);
        }
    )*};
}

exhaustive! {
    an_allocation_fails: Kind::Once(Fault::Allocation);
    allocations_fail_from_then_on: Kind::From(Fault::Allocation);
    an_event_is_not_made: Kind::Once(Fault::EventCreation);
    events_are_not_made_from_then_on: Kind::From(Fault::EventCreation);
    a_stream_is_not_opened: Kind::Once(Fault::StreamCreation);
    a_launch_is_refused: Kind::Once(Fault::LaunchRefused);
    a_kernel_fails: Kind::Once(Fault::WorkError);
    a_kernel_panics: Kind::Once(Fault::WorkPanic);
    a_kernel_fails_after_all: Kind::Once(Fault::WorkErrorAfterAll);
    a_record_is_refused: Kind::Once(Fault::RecordRefused);
    a_wait_is_refused: Kind::Once(Fault::WaitRefused);
    a_record_fails_late: Kind::Once(Fault::RecordFailsLate);
    a_wait_fails_late: Kind::Once(Fault::WaitFailsLate);
    a_copy_fails_half_way: Kind::HalfCopy;
    what_was_submitted_is_cancelled: Kind::Cancel;
    a_device_is_lost: Kind::Once(Fault::DeviceLost);
}
