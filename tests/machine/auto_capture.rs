//! Automatic capture: sequences that repeat are replayed, and nothing but the speed differs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use millstream::*;
use millstream_testing::machine::*;

fn config(driver: DriverKind) -> MachineConfig {
    millstream_testing::machine::config(driver, SyncPolicy::Frontier)
}

fn machine(driver: DriverKind) -> Machine {
    Machine::new(config(driver)).unwrap()
}

fn automatic(driver: DriverKind) -> Machine {
    Machine::new(config(driver).auto_capture(true)).unwrap()
}

fn one(m: &Machine, op: &str, inputs: &[&Tensor]) -> Tensor {
    m.call(op, inputs).run().unwrap().remove(0)
}

fn report(m: &Machine) -> AutoCaptureReport {
    m.auto_capture_report().unwrap()
}

/// One round of a program: `length` calls, with fresh outputs, in place and through views. Returns
/// the state for the next round.
fn round(m: &Machine, state: Tensor, weight: &Tensor, length: usize) -> Tensor {
    let mut x = state.view(state.spec().clone()).unwrap();
    drop(state);
    for k in 0..length {
        x = match k % 5 {
            0 => one(m, "add", &[&x, weight]),
            1 => {
                let factor = 0.5 + k as f64 / 64.0;
                m.call("mul", &[&x]).attr("other", factor).run().unwrap().remove(0)
            }
            2 => one(m, "relu_", &[&x]),
            3 => x.view(x.spec().clone()).unwrap(),
            _ => one(m, "sub", &[&x, weight]),
        };
    }
    x
}

/// Runs `rounds` rounds of `length` calls on `elements` elements, each behind an upload and before
/// a read. Returns what was read.
fn rounds(m: &Machine, rounds: usize, length: usize, elements: usize) -> Vec<Vec<f32>> {
    let s = cpu(m, 0);
    let values = |by: f32| (0..elements).map(|k| by * (k as f32 - 1.0)).collect::<Vec<f32>>();
    let weight = upload(&s, m, &values(0.25));
    let step = |k| {
        let x = upload(&s, m, &values(k as f32));
        read(&round(m, x, &weight, length))
    };
    (0..rounds).map(step).collect()
}

/// The third round is captured, the fourth is a launch, with all drivers.
#[test]
fn a_repeated_round_is_replayed() {
    for driver in ALL_DRIVERS {
        let m = automatic(driver);
        let got = rounds(&m, 10, 40, 3);
        assert_eq!(got, rounds(&machine(driver), 10, 40, 3), "{driver:?}");
        let report = report(&m);
        assert_eq!((report.found, report.replays), (1, 7), "{driver:?}: {report}");
        assert_eq!(report.sequences, 1, "{driver:?}: {report}");
        assert!(report.replayed_calls >= 7 * 40, "{driver:?}: {report}");
        m.synchronize().unwrap();
        assert_eq!(m.stats().unwrap().of(instructions::Kind::LazyJobLauncher), 7, "{driver:?}");
    }
}

/// A loop without reads, whose rounds pass their results on, is found as well; the calls that are
/// held at its end are made for the read.
#[test]
fn a_loop_without_reads_is_replayed() {
    for driver in ALL_DRIVERS {
        let run = |m: &Machine| {
            let s = cpu(m, 0);
            let weight = upload(&s, m, &[0.25, -0.5, 3.0]);
            let mut x = upload(&s, m, &[1.0, 2.0, 3.0]);
            for _ in 0..20 {
                x = round(m, x, &weight, 33);
            }
            read(&x)
        };
        let m = automatic(driver);
        assert_eq!(run(&m), run(&machine(driver)), "{driver:?}");
        let report = report(&m);
        assert!(report.replays >= 10, "{driver:?}: {report}");
    }
}

/// Rounds of which some end early: their calls are made one by one.
#[test]
fn a_round_that_ends_early() {
    for driver in ALL_DRIVERS {
        let run = |m: &Machine| -> Vec<Vec<f32>> {
            let s = cpu(m, 0);
            let weight = upload(&s, m, &[0.25, -0.5, 3.0]);
            let lengths = (0..30).map(|k| if k > 8 && k % 3 == 0 { 7 + k } else { 40 });
            let step = |length| read(&round(m, upload(&s, m, &[1.0, 2.0, 3.0]), &weight, length));
            lengths.map(step).collect()
        };
        let m = automatic(driver);
        assert_eq!(run(&m), run(&machine(driver)), "{driver:?}");
        let report = report(&m);
        assert!(report.replays > 5 && report.made_singly > 0, "{driver:?}: {report}");
        let reason = "made one by one: something else than a call";
        assert!(report.reasons.contains_key(reason), "{driver:?}: {report}");
    }
}

/// A program that keeps a tensor which it dropped before gets it; the sequence is compiled again.
#[test]
fn a_tensor_that_was_dropped_before() {
    for driver in ALL_DRIVERS {
        let run = |m: &Machine| -> Vec<Vec<f32>> {
            let s = cpu(m, 0);
            let weight = upload(&s, m, &[0.25, -0.5, 3.0]);
            let mut kept = Vec::new();
            for k in 0..20 {
                let x = upload(&s, m, &[k as f32, 2.0, 3.0]);
                let half = round(m, x, &weight, 20);
                if k > 8 {
                    kept.push(half.clone());
                }
                kept.push(round(m, half, &weight, 20));
                m.synchronize().unwrap();
            }
            kept.iter().map(read).collect()
        };
        let m = automatic(driver);
        assert_eq!(run(&m), run(&machine(driver)), "{driver:?}");
        let report = report(&m);
        let reason = "made one by one: a tensor is kept that was dropped before";
        assert_eq!(report.reasons.get(reason), Some(&1), "{driver:?}: {report}");
        assert!(report.sequences == 1 && report.replays >= 14, "{driver:?}: {report}");
    }
}

/// Other shapes, arguments, streams and common memory are other sequences, or other inputs.
#[test]
fn what_a_sequence_depends_on() {
    for driver in ALL_DRIVERS {
        let run = |m: &Machine| -> Vec<Vec<f32>> {
            let (s, other) = (cpu(m, 0), cpu(m, 1));
            let long = upload(&s, m, &[1.0, 2.0, 3.0, 4.0]);
            let short = upload(&s, m, &[5.0]);
            let parts = |from| slice(m, &long, from, from + 2, &s);
            let pairs = [
                (long.clone(), long.clone()),
                (long.clone(), short.clone()),
                (parts(0), parts(2)),
                (parts(0), parts(1)),
                (parts(2), parts(2)),
            ];
            let chain = |a: &Tensor, b: &Tensor, factor: f64| {
                let mut x = one(m, "add", &[a, b]);
                for _ in 0..20 {
                    x = m.call("mul", &[&x]).attr("other", factor).run().unwrap().remove(0);
                }
                read(&x)
            };
            let mut all = Vec::new();
            for k in 0..60 {
                let (a, b) = &pairs[k / 3 % pairs.len()];
                let factor = if k % 2 == 0 { 0.5 } else { 1.5 };
                all.push(match k % 7 {
                    0 => with_stream(&other, || chain(a, b, factor)),
                    _ => chain(a, b, factor),
                });
            }
            all
        };
        let m = automatic(driver);
        assert_eq!(run(&m), run(&machine(driver)), "{driver:?}");
    }
}

/// A call that fails poisons what an eager run would, with the same place, op and words. The
/// numbers of tensors and instructions are those of the sequence.
#[test]
fn failures_are_those_of_an_eager_run() {
    for driver in ALL_DRIVERS {
        let run = |m: &Machine, registered: &Arc<AtomicUsize>| -> Vec<String> {
            registered.store(0, Relaxed);
            let s = cpu(m, 0);
            let mut all = Vec::new();
            for k in 0..8 {
                let x = upload(&s, m, &[k as f32, 2.0]);
                let mut y = one(m, "relu", &[&x]);
                for at in 0..20 {
                    y = match at {
                        10 => one(m, "fails_once", &[&y]),
                        _ => one(m, "relu", &[&y]),
                    };
                }
                let other = one(m, "neg", &[&x]);
                all.push(match y.read() {
                    Ok(bytes) => format!("{bytes:?}"),
                    Err(error) => {
                        let text = error.to_string();
                        let (call, rest) = text.split_once('(').unwrap();
                        let message = rest.split_once(" failed: ").unwrap().1;
                        format!("{call} {}", message.split(" (launched at").next().unwrap())
                    }
                });
                all.push(format!("{:?}", read(&other)));
            }
            all
        };
        let calls = Arc::new(AtomicUsize::new(0));
        let config = || failing_once(config(driver), &calls);
        let expected = run(&Machine::new(config()).unwrap(), &calls);
        let m = Machine::new(config().auto_capture(true)).unwrap();
        assert_eq!(run(&m, &calls), expected, "{driver:?}");
        assert!(expected.iter().any(|text| text.contains("planned")), "{expected:?}");
        assert!(report(&m).replays >= 4, "{driver:?}: {}", report(&m));
    }
}

/// Adds an op that does what relu does, and whose sixth call fails.
fn failing_once(mut config: MachineConfig, calls: &Arc<AtomicUsize>) -> MachineConfig {
    let relu = config.kernels.get("cpu", "relu").cloned().unwrap();
    let calls = calls.clone();
    add_op(&mut config, "fails_once", move |ctx| match calls.fetch_add(1, Relaxed) {
        5 => anyhow::bail!("planned"),
        _ => relu.run(ctx),
    });
    config
}

/// Another thread sees what a call that is held makes, by waiting, and by using its tensor.
#[test]
fn another_thread_sees_what_was_called() {
    for driver in [DriverKind::Threaded, DriverKind::Inline] {
        let m = automatic(driver);
        rounds(&m, 5, 40, 3);
        let s = cpu(&m, 0);
        let weight = upload(&s, &m, &[0.25, -0.5, 3.0]);
        let x = upload(&s, &m, &[0.0, 1.0, 0.0]);
        let held = round(&m, x, &weight, 13);
        let expected = {
            let m = machine(driver);
            let s = cpu(&m, 0);
            let weight = upload(&s, &m, &[0.25, -0.5, 3.0]);
            read(&round(&m, upload(&s, &m, &[0.0, 1.0, 0.0]), &weight, 13))
        };
        let seen = std::thread::scope(|scope| scope.spawn(|| read(&held)).join().unwrap());
        assert_eq!(seen, expected, "{driver:?}");
    }
}

/// The tensors of calls that are held outlive the last handle of the machine, and end with it.
#[test]
fn held_calls_are_made_when_the_machine_is_dropped() {
    let m = automatic(DriverKind::Threaded);
    rounds(&m, 5, 40, 3);
    let s = cpu(&m, 0);
    let weight = upload(&s, &m, &[0.25, -0.5, 3.0]);
    let x = upload(&s, &m, &[0.0, 1.0, 0.0]);
    let held = round(&m, x, &weight, 13);
    drop((m, s));
    assert_eq!(read(&held).len(), 3);

    // Nothing that is held keeps the machine.
    let m = Machine::new(config(DriverKind::Threaded).auto_capture(true).check_memory(true));
    let m = m.unwrap();
    rounds(&m, 5, 40, 3);
    let report = m.shutdown(Duration::from_secs(60));
    assert_eq!(report, ShutdownReport::default());
}

/// Captures stay within their limits, and make room for calls.
#[test]
fn captures_are_bounded() {
    let limits = CaptureLimits { entries: 2, ..CaptureLimits::default() };
    let m = Machine::new(config(DriverKind::Threaded).auto_capture(true).capture_limits(limits));
    let m = m.unwrap();
    for elements in 1..=5 {
        rounds(&m, 5, 20, elements);
    }
    let all = report(&m);
    assert_eq!((all.sequences, all.evictions, all.replays), (2, 3, 5 * 2), "{all}");

    // Most of the memory is a sequence's.
    let elements = 1 << 18;
    let limit = 21 * 4 * elements as u64;
    let mut config = config(DriverKind::Threaded).auto_capture(true);
    config.memory_limits.insert(CPU, limit);
    let m = Machine::new(config).unwrap();
    rounds(&m, 5, 20, elements);
    let replays = report(&m).replays;
    assert_eq!(replays, 2, "{}", report(&m));
    let s = cpu(&m, 0);
    let kept: Vec<Tensor> = (0..20).map(|_| m.empty(&s, f32_spec(&[elements])).unwrap()).collect();
    assert_eq!(report(&m).sequences, 0, "{}", report(&m));
    drop(kept);
}

/// Tensors that the program releases by hand, within a sequence, and before it.
#[test]
fn releases_by_hand() {
    for driver in ALL_DRIVERS {
        let run = |m: &Machine| -> Vec<Vec<f32>> {
            let s = cpu(m, 0);
            let mut all = Vec::new();
            for k in 0..10 {
                let x = upload(&s, m, &[k as f32, -1.0]);
                let mut values = vec![x.clone(), one(m, "relu", &[&x])];
                for _ in 0..20 {
                    let next = one(m, "add", &[&values[values.len() - 1], &x]);
                    values[values.len() - 1].release().unwrap();
                    values.push(next);
                }
                // A view of all of a tensor outlives it.
                let view = x.view(x.spec().clone()).unwrap();
                x.release().unwrap();
                let last = values.pop().unwrap();
                all.extend([read(&last), read(&view)]);
                for released in values {
                    assert!(matches!(
                        released.read().unwrap_err().without_place(),
                        Error::Released { .. }
                    ));
                }
            }
            all
        };
        let m = automatic(driver);
        assert_eq!(run(&m), run(&machine(driver)), "{driver:?}");
        assert!(report(&m).replays >= 5, "{driver:?}: {}", report(&m));
    }
}

/// A call that is held when a cancellation's scope begins does not belong to the scope, in which
/// it is made.
#[test]
fn held_calls_are_outside_of_later_scopes() {
    for driver in ALL_DRIVERS {
        let m = automatic(driver);
        rounds(&m, 5, 40, 3);
        let s = cpu(&m, 0);
        let weight = upload(&s, &m, &[0.25, -0.5, 3.0]);
        let x = upload(&s, &m, &[0.0, 1.0, 0.0]);
        let held = round(&m, x, &weight, 13);
        let cancellation = Cancellation::new();
        cancellation.cancel();
        let cancelled = cancellation.scope(|| one(&m, "neg", &[&held]));
        assert_eq!(read(&held).len(), 3, "{driver:?}");
        assert!(cancelled.read().is_err(), "{driver:?}");
    }
}

/// A call from within a critical section that looks like the first one of a captured sequence is
/// made at once: later, the section will have ended.
#[test]
fn calls_within_sections_are_not_held() {
    for driver in ALL_DRIVERS {
        let m = automatic(driver);
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0, -2.0, 0.5]);
        let one = upload(&s, &m, &[1.0, 1.0, 1.0]);
        let add = |section: Option<&Section>| {
            let call = m.call("add_", &[&x, &one]);
            let call = section.into_iter().fold(call, CallBuilder::within);
            call.run().unwrap();
        };
        for _ in 0..6 {
            (0..20).for_each(|_| add(None));
            read(&x);
        }
        assert!(report(&m).replays > 0, "{driver:?}: {:?}", report(&m));
        let section = m.critical_section(&[&x]).unwrap();
        add(Some(&section));
        section.end().unwrap();
        assert_eq!(read(&x), [122.0, 119.0, 121.5], "{driver:?}");
    }
}
