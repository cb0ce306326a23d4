//! The watchdog: the report of an overdue instruction leads back to the first cause.

use std::time::Duration;

use crate::futures::block_on;
use millstream::*;
use millstream_testing::machine::*;

#[test]
fn an_overdue_instruction_is_reported_with_its_first_cause() {
    // The inline driver waits on the caller's thread.
    for driver in [DriverKind::Threaded, DriverKind::Inline] {
        overdue_under(driver);
    }
}

fn overdue_under(driver: DriverKind) {
    let (config, control) = by_hand_config();
    let limit = Duration::from_millis(20);
    let m = Machine::new(config.driver(driver).watchdog(Some(limit))).unwrap();
    let control = control; // Dropped before the machine.
    let (s, t) = (sim(&m, 0), cpu(&m, 0));
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let cause = line!() + 1;
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    t.wait_stream(&s).unwrap();
    let y = m.empty(&t, f32_spec(&[1])).unwrap();
    m.call("fill", &[&y]).attr("value", 2.0).on(&t).unwrap();
    let error = t.synchronize().unwrap_err();
    let Error::Overdue(report) = error.without_place() else { panic!("{error}") };
    assert!(error.is_runtime());
    let [waits, first] = report.chain.as_slice() else { panic!("{error}") };
    assert_eq!(waits.state, "waits for number 1 of sim:0 compute 0", "{error}");
    assert_eq!((first.instruction.as_str(), first.seq), ("fill", 1));
    assert_eq!(first.state, "is with its device");
    assert!(first.origin.to_string().ends_with(&format!("watchdog.rs:{cause}")), "{error}");
    assert_eq!(report.streams.len(), 2, "{error}");
    // A shutdown with a limit returns.
    assert!(m.clone().shutdown(Duration::from_millis(1)).leaked);
    drop((x, y, s, t, m, control));
}

/// A slow instruction that completes is no longer overdue, and an idle machine never reports any.
#[test]
fn a_late_instruction_is_no_longer_overdue() {
    let (config, control) = by_hand_config();
    let limit = Duration::from_millis(5);
    let m = Machine::new(config.watchdog(Some(limit))).unwrap();
    let control = control; // Dropped before the machine.
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let error = s.synchronize().unwrap_err();
    assert!(matches!(error.without_place(), Error::Overdue(_)), "{error}");
    control.switch(ep::sim::Completion::IssueOrder);
    let until = std::time::Instant::now() + LONG;
    while s.synchronize().is_err() {
        assert!(std::time::Instant::now() < until);
    }
    assert_eq!(m.shutdown(LONG), ShutdownReport::default());
}

/// Futures and submitters that wait for room get the report, as blocking waits do.
#[test]
fn futures_and_submitters_get_the_report() {
    let (config, control) = by_hand_config();
    let watchdog = Some(Duration::from_millis(5));
    let m = Machine::new(config.watchdog(watchdog).watermark(4)).unwrap();
    let control = control; // Dropped before the machine.
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    let fill = || m.call("fill", &[&x]).attr("value", 1.0).on(&s);
    fill().unwrap();
    let error = block_on(m.completion().unwrap()).unwrap_err();
    assert!(matches!(error.without_place(), Error::Overdue(_)), "{error}");
    let error = (0..8).find_map(|_| fill().err()).expect("no more than the watermark fits");
    let Error::Overdue(report) = error.without_place() else { panic!("{error}") };
    assert_eq!(report.chain[0].instruction, "fill", "{error}");
    control.switch(ep::sim::Completion::IssueOrder);
    control.run_until(|| fill().is_ok());
    control.run_until(|| x.read().is_ok_and(|read| floats(&read) == [1.0]));
}

/// Records `y = relu(x)` on `sim:0` and `z = w + w` on the host, which waits for `y`, or the host
/// waits for a function.
fn two_tapes(m: &Machine, blocked: Option<std::sync::mpsc::Receiver<()>>) -> (Executable, u32) {
    let device = if blocked.is_some() { DeviceId::cpu(0) } else { DeviceId::sim(0) };
    let mut slow = 0;
    let recorded = m.record(|r| {
        let w = r.input_on("w", f32_spec(&[2]), &DeviceId::cpu(0))?;
        let x = r.input_on("x", f32_spec(&[2]), &device)?;
        let host = r.stream(&StreamKey::compute(DeviceId::cpu(0), 0))?;
        let other = r.stream(&StreamKey::compute(device.clone(), 1))?;
        let first = r.call("neg", &[w]).on(host)?[0];
        match blocked {
            Some(blocked) => {
                let blocked = std::sync::Mutex::new(blocked);
                slow = line!() + 1;
                r.access(&x, Access::ReadWrite, other, move |_| {
                    blocked.lock().unwrap().recv().ok();
                    Ok(())
                })?;
            }
            None => {
                slow = line!() + 1;
                r.call("relu_", &[x]).on(other)?;
            }
        }
        r.wait_stream(host, other)?;
        let z = r.call("add", &[w, first]).on(host)?[0];
        r.output("z", &z)
    });
    (recorded.unwrap().compile_as_is().unwrap(), slow)
}

/// The report of a launch that has stopped names the tape that waits, its step with the place in
/// the recorded program and the place of the launch, the step of the other tape that it waits for,
/// and where that stands.
#[test]
fn a_stuck_launch_names_tapes_and_steps() {
    for on_device in [true, false] {
        let (config, control) = by_hand_config();
        let m = Machine::new(config.watchdog(Some(Duration::from_millis(20)))).unwrap();
        let control = control; // Dropped before the machine.
        let (go, blocked) = std::sync::mpsc::channel();
        let (step, slow) = two_tapes(&m, (!on_device).then_some(blocked));
        let w = m.empty(&cpu(&m, 0), f32_spec(&[2])).unwrap();
        let on = if on_device { sim(&m, 0) } else { cpu(&m, 0) };
        let x = m.empty(&on, f32_spec(&[2])).unwrap();
        let launched_at = line!() + 1;
        let launched = step.launch().input("w", &w).input("x", &x).run().unwrap();
        let error = launched.wait().unwrap_err();
        let Error::Overdue(report) = error.without_place() else { panic!("{error}") };
        let [launch, tape, first] = report.chain.as_slice() else { panic!("{error}") };
        assert_eq!(launch.instruction, "LazyJobLauncher", "{error}");
        let here = |line: u32| format!("tests/machine/watchdog.rs:{line}");
        let of = format!("of the launch at {}", here(launched_at));
        assert_eq!(tape.instruction, format!("a wait before add, step 2 of tape 0 {of}"));
        assert!(tape.origin.to_string().starts_with("tests/machine/watchdog.rs:"), "{error}");
        let (name, state) = match on_device {
            true => ("relu_", "is with its device"),
            false => ("AccessBlobByCallback", "has begun, or its worker is busy"),
        };
        let awaited = format!("waits for {name}, step 1 of tape 1 at {}", here(slow));
        assert_eq!(tape.state, awaited, "{error}");
        assert_eq!(first.instruction, format!("{name}, step 1 of tape 1 {of}"), "{error}");
        assert_eq!((first.state.as_str(), first.origin.to_string()), (state, here(slow)));
        control.switch(ep::sim::Completion::IssueOrder);
        go.send(()).ok();
        let until = std::time::Instant::now() + LONG;
        while launched.wait().is_err() {
            assert!(std::time::Instant::now() < until);
        }
        drop((launched, step, w, x));
        assert_eq!(m.shutdown(LONG), ShutdownReport::default());
    }
}
