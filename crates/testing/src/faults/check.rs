//! Runs a case with one fault at one position, and checks everything that must hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::sim::{SimBackend, SimConfig};
use millstream::types::Failure;
use millstream::*;

use super::case::{Case, DEVICE, DEVICE1, HOST, HOST1, Held, Step, step_of};
use super::oracle;
use super::{FaultKind, Fixture};

/// Returns the outputs of an inline run of the steps of `emitted` on healthy devices.
pub fn reference(case: &Case, emitted: &[bool]) -> Vec<Option<Vec<f32>>> {
    // Its devices copy directly from one another, as the faulty devices do.
    let sim = SimBackend::new(SimConfig { devices: 2, direct_copies: true, ..Default::default() });
    let case = Case { device: DeviceId::sim(0), ..case.clone() };
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    devices.register(Arc::new(sim));
    let config = MachineConfig::of(ops::standard(), kernels::standard(), Arc::new(devices));
    // Unwritten memory is filled with a pattern, so it has the same content on every machine.
    let config = config.check_memory(true).threads(1);
    let config = config.driver(DriverKind::Inline);
    let machine = Machine::new(config).unwrap();
    let mut held = Held::default();
    case.submit(&machine, &mut held, |k| emitted[k], |_| ());
    case.outputs.iter().map(|&o| case.read(&held, o).map(Result::unwrap)).collect()
}

/// Returns whether a failed instruction loses data. Records and waits only order.
fn loses_data(failure: &Failure) -> bool {
    failure.operands.iter().any(|operand| operand.access.writes())
}

/// Returns whether a call may be refused with this error after a fault of `kind`.
fn may_refuse(kind: impl FaultKind, error: &Error) -> bool {
    match error.without_place() {
        Error::OutOfMemory { .. } => true,
        Error::Device { .. } => kind.refuses(),
        // A lost driver no longer reports that devices can copy from one another.
        other => kind.loses_device() && other.to_string().contains(" lies on "),
    }
}

/// Checks all outputs against the oracle and the reference.
pub fn check_outputs<F: Fixture>(case: &Case, fixture: &F, held: &Held, kind: F::Kind, what: &str) {
    let emitted: Vec<bool> = held.emitted.iter().map(Result::is_ok).collect();
    let expected = reference(case, &emitted);
    let read: Vec<_> = case.outputs.iter().map(|&o| case.read(held, o)).collect();
    let synchronized = fixture.machine().synchronize();
    let (failures, count) = fixture.machine().failures();
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
                // By bits: unwritten memory is filled with NaN, which equals nothing.
                let bits = |v: &Vec<f32>| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(Some(bits(values)), expected.as_ref().map(bits), "{what}");
            }
            // The read of a device that the host cannot access needs memory and a copy, which may
            // be refused.
            Some(Err(error)) if error.failure().is_none() => {
                assert!(may_refuse(kind, error), "{what}: {error}");
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

/// Checks that a program without a fault gives the right results: on the host, and on `device` if
/// given.
pub fn healthy(machine: &Machine, device: Option<&DeviceId>, what: &str) {
    // Releases on a lost device may have failed: tensors that were being filled.
    let _ = machine.synchronize();
    machine.clear_failures();
    let on_device = [
        Step::Upload(0, DEVICE, [1.0, -1.0, 2.0, -2.0]),
        Step::Call("relu", 0, None, 1, DEVICE1),
        Step::AddTo(1, 0, DEVICE),
    ];
    let host = [
        Step::Upload(2, HOST, [1.0, -1.0, 2.0, -2.0]),
        Step::Call("relu", 2, None, 3, HOST1),
        Step::AddTo(3, 2, HOST),
    ];
    let case = Case {
        name: "healthy",
        steps: if device.is_some() { [on_device, host].concat() } else { host.to_vec() },
        outputs: if device.is_some() { vec![1, 3] } else { vec![3] },
        device: device.cloned().unwrap_or(DeviceId::cpu(0)),
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
pub fn try_one<F: Fixture>(
    case: &Case,
    driver: (DriverKind, u64),
    kind: F::Kind,
    device: &str,
    at: u64,
) {
    let what = format!("{}, {driver:?}, {kind:?} of {device} at {at}", case.name);
    let fixture = F::new(case, driver, kind, device, at);
    let held = fixture.submit(case);
    for emitted in &held.emitted {
        if let Err(Some(error)) = emitted {
            assert!(may_refuse(kind, error), "{what}: {error}");
        }
    }
    check_outputs(case, &fixture, &held, kind, &what);
    if kind.is_reported_late() && fixture.has_struck() {
        // The fault loses no data, but is reported. It may have struck a release of the outputs'
        // tensors, for which nothing has waited yet.
        let _ = fixture.machine().synchronize();
        assert!(fixture.machine().failures().1 > 0, "{what}");
    }
    fixture.disarm();
    drop(held);
    // Without the host no program can run.
    let lost = kind.loses_device().then_some(device);
    if lost != Some("cpu") {
        healthy(fixture.machine(), lost.is_none().then_some(&case.device), &what);
    }
    fixture.end(&what);
}

/// Returns the number of positions in a healthy run of `case`.
pub fn positions<F: Fixture>(
    case: &Case,
    driver: (DriverKind, u64),
    kind: F::Kind,
    device: &str,
) -> u64 {
    let fixture = F::new(case, driver, kind.quiet(), device, u64::MAX);
    let held = fixture.submit(case);
    check_outputs(case, &fixture, &held, F::Kind::NONE, case.name);
    let count = fixture.positions(kind);
    drop(held);
    healthy(fixture.machine(), Some(&case.device), case.name);
    fixture.end(case.name);
    count
}
