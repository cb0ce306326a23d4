//! Shutdown: the machine drains, or the report names the streams that hang.

use std::sync::mpsc;
use std::time::Duration;

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn dropping_drains() {
    let (sender, calls) = mpsc::channel();
    {
        let m = threaded();
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        let gate = Gate::on(&x);
        for _ in 0..100 {
            m.call("add_", &[&x, &x]).on(&s).unwrap();
        }
        x.access(Access::Read, move |_| Ok(sender.send(())?)).unwrap();
        gate.open();
    }
    calls.try_recv().unwrap();
}

#[test]
fn shutting_down_drains_and_refuses_later_calls() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        let y = call(&m, "relu", &[&x], &s);
        let done = s.record_event().unwrap();
        let report = m.clone().shutdown(LONG);
        assert_eq!(report, ShutdownReport::default());
        // Handles outlive the machine.
        assert!(done.query());
        done.synchronize().unwrap();
        assert_eq!(y.spec().shape(), [1]);
        let refused = |e: Error| assert!(matches!(e.without_place(), Error::Closed), "{e}");
        refused(m.call("relu", &[&x]).on(&s).unwrap_err());
        refused(y.read().unwrap_err());
        refused(s.record_event().unwrap_err());
        assert_eq!(
            m.clone().shutdown(LONG),
            ShutdownReport::default(),
            "a second shutdown does nothing"
        );
        drop((x, y, done, s, m));
    }
}

#[test]
fn hanging_work_is_named_and_left_behind() {
    let (m, control) = by_hand();
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    m.call("fill", &[&x]).attr("value", 2.0).on(&s).unwrap();
    control.wait_for_commands(2, LONG).unwrap();
    assert!(control.step(on_sim(0)).unwrap());
    let first = m.clone();
    let report = first.shutdown(Duration::from_millis(50));
    assert!(report.leaked);
    assert_eq!(report.hanging.len(), 1);
    assert!(report.hanging[0].starts_with("sim:0 compute 0: "), "{report:?}");
    assert!(report.hanging[0].ends_with(" of 2 instructions completed"), "{report:?}");
    // Dropping the remaining handles does not wait for the hanging work.
    drop((x, s, m));
    // The remaining threads end once the device completes its commands.
    drop(control);
}

/// A callback drops the last handle of its own machine. The drop cannot wait for the callback.
#[test]
fn the_last_handle_dropped_in_a_callback() {
    let (sender, calls) = mpsc::channel();
    let (handles, received) = mpsc::channel::<(Machine, Tensor)>();
    {
        let m = threaded();
        let x = upload(&cpu(&m, 0), &m, &[1.0]);
        x.access(Access::Read, move |_| {
            let last = received.recv()?;
            drop(last);
            Ok(sender.send(())?)
        })
        .unwrap();
        handles.send((m.clone(), x.clone())).unwrap();
        drop((x, m));
    }
    calls.recv_timeout(LONG).unwrap();
}

#[test]
fn a_submitter_that_waits_for_room_gets_closed() {
    let (config, control) = by_hand_config();
    let m = Machine::new(config.watermark(2)).unwrap();
    let control = control; // Dropped before the machine.
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            loop {
                if let Err(e) = m.call("fill", &[&x]).attr("value", 1.0).on(&s) {
                    return e;
                }
            }
        });
        control.wait_for_commands(2, LONG).unwrap();
        assert!(m.clone().shutdown(Duration::from_millis(10)).leaked);
        assert!(matches!(waiting.join().unwrap().without_place(), Error::Closed));
    });
}
