//! Streams that never complete, and threads that panic.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use millstream::ep::faults::Fault;
use millstream::*;

use crate::fixture::{DEVICE, Kind, LONG, Machines};
use millstream_testing::faults::Fixture;
use millstream_testing::faults::case::{self, Case, Held};
use millstream_testing::faults::check::{check_outputs, healthy, positions, reference};

const KIND: Kind = Kind::Once(Fault::NeverCompletes);

/// On one thread every possible step is known. So each output is right, or its read returns
/// `Stuck`.
#[test]
fn a_stream_never_completes_simulated() {
    let (mut stuck, mut waiting, mut hanging) = (0, 0, 0);
    for case in case::all(&DEVICE, true) {
        let expected = reference(&case, &vec![true; case.steps.len()]);
        for seed in 0..4 {
            let driver = (DriverKind::Simulated, seed);
            for at in 1..=positions::<Machines>(&case, driver, KIND, "sim") {
                let label = format!("{}, {driver:?}, at {at}", case.name);
                let fixture = Machines::new(&case, driver, KIND, "sim", at);
                let held = fixture.submit(&case);
                for (&output, expected) in case.outputs.iter().zip(&expected) {
                    match case.read(&held, output) {
                        Some(Ok(values)) => assert_eq!(Some(values), *expected, "{label}"),
                        Some(Err(error)) => match error.without_place() {
                            Error::Stuck { state, .. } => {
                                stuck += 1;
                                let steps = state.lines().filter(|l| l.contains(" of the launch"));
                                for step in steps {
                                    assert!(step.contains(", step "), "{label}: {step}");
                                    hanging += usize::from(step.contains("is on the device: "));
                                    waiting += usize::from(
                                        step.contains(" waits for RecordEvent, step 2 of tape 1"),
                                    );
                                }
                            }
                            other => panic!("{label}: {other}"),
                        },
                        None => {
                            let mut errors = held.emitted.iter().filter_map(|e| e.as_ref().err());
                            let first = errors.next().and_then(Option::as_ref);
                            let first = first.map(Error::without_place);
                            assert!(
                                matches!(first, Some(Error::Stuck { .. })),
                                "{label}: {first:?}"
                            );
                        }
                    }
                }
                let report = fixture.machine().clone().shutdown(Duration::ZERO);
                assert!(report.leaked && !report.hanging.is_empty(), "{label}: {report:?}");
                drop(held);
            }
        }
    }
    // Tapes that stand still are named with their steps, and those that they wait for.
    assert!(stuck > 0 && waiting > 0 && hanging > 0, "{stuck} {waiting} {hanging}");
}

/// With worker threads, a wait with a limit ends at the limit. A wait without one, and a call that
/// waits for memory, end when the machine is shut down. The shutdown names the streams that hang.
#[test]
fn a_stream_never_completes_threaded() {
    let driver = (DriverKind::Threaded, 0);
    for case in case::all(&DEVICE, true) {
        let expected = reference(&case, &vec![true; case.steps.len()]);
        for device in ["sim", "cpu"] {
            for at in 1..=positions::<Machines>(&case, driver, KIND, device) {
                let label = format!("{}, {device}, at {at}", case.name);
                let fixture = Machines::new(&case, driver, KIND, device, at);
                std::thread::scope(|scope| {
                    let waiting = scope.spawn(|| {
                        let held = fixture.submit(&case);
                        // This limit passes at once; the result depends on the moment.
                        let _ = fixture.machine().synchronize_for(Duration::from_millis(1));
                        let read = |&o: &usize| case.read(&held, o);
                        let read: Vec<_> = case.outputs.iter().map(read).collect();
                        (read, fixture.machine().synchronize(), held)
                    });
                    // Nothing hangs before the fault triggers. A run may have fewer commands than
                    // the counted run: the machine omits a wait whose point has passed.
                    while fixture.plan.triggered() == 0 && !waiting.is_finished() {
                        std::thread::yield_now();
                    }
                    if fixture.plan.triggered() == 0 {
                        // The release of the tensors must not trigger the fault either.
                        fixture.plan.disarm();
                        return;
                    }
                    let report = fixture.machine().clone().shutdown(Duration::from_millis(1));
                    assert!(report.leaked && !report.hanging.is_empty(), "{label}: {report:?}");
                    let (read, synchronized, _held) = waiting.join().unwrap();
                    let closed = synchronized.unwrap_err();
                    assert!(matches!(closed.without_place(), Error::Closed), "{label}: {closed}");
                    for (read, expected) in read.into_iter().zip(&expected) {
                        match read {
                            Some(Ok(values)) => assert_eq!(Some(values), *expected, "{label}"),
                            Some(Err(e)) => {
                                assert!(matches!(e.without_place(), Error::Closed), "{label}: {e}");
                            }
                            None => {}
                        }
                    }
                });
                fixture.plan.release_stuck();
            }
        }
    }
}

/// A thread that panics before any step affects no result of other threads and leaves nothing
/// behind.
#[test]
fn a_submitting_thread_panics() {
    for case in case::all(&DEVICE, true) {
        for driver in [DriverKind::Threaded, DriverKind::Inline] {
            for at in 0..case.steps.len() {
                let label = format!("{}, {driver:?}, a thread panics before step {at}", case.name);
                let unlimited = Case { memory: None, ..case.clone() };
                let fixture = Machines::new(&unlimited, (driver, 0), Kind::None, "sim", 0);
                let mut held = Held::default();
                std::thread::scope(|scope| {
                    let panicking = scope.spawn(|| {
                        let submits = AssertUnwindSafe(|| {
                            let mut held = Held::default();
                            let panic_at = |k| {
                                if k >= at {
                                    resume_unwind(Box::new("as planned"))
                                }
                            };
                            unlimited.submit(fixture.machine(), &mut held, |_| true, panic_at);
                        });
                        // Unwinding drops the thread's tensors.
                        catch_unwind(submits).is_err()
                    });
                    unlimited.submit(fixture.machine(), &mut held, |_| true, |_| ());
                    assert!(panicking.join().unwrap(), "{label}");
                });
                check_outputs(&unlimited, &fixture, &held, Kind::None, &label);
                drop(held);
                healthy(fixture.machine(), Some(&DEVICE), &label);
                fixture.machine().synchronize_for(LONG).unwrap();
                fixture.end(&label);
            }
        }
    }
}
