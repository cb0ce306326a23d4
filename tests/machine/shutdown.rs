//! The end of a machine: it drains, or says what hangs.

use std::sync::mpsc;
use std::time::Duration;

use millstream::*;
use millstream_testing::machine::*;

#[test]
fn dropping_drains() {
    let (tell, told) = mpsc::channel();
    {
        let m = threaded();
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        let gate = Gate::on(&x);
        for _ in 0..100 {
            m.call("add_", &[&x, &x]).on(&s).unwrap();
        }
        x.access(Access::Read, move |_| Ok(tell.send(())?)).unwrap();
        gate.open();
    }
    told.try_recv().unwrap();
}

#[test]
fn shutting_down_drains_and_refuses_what_comes() {
    for driver in ALL_DRIVERS {
        let m = Machine::new(config(driver, SyncPolicy::Frontier)).unwrap();
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0]);
        let y = call(&m, "relu", &[&x], &s);
        let done = m.record(&s).unwrap();
        let report = m.clone().shutdown(LONG);
        assert_eq!(report, ShutdownReport::default());
        // Handles outlive it.
        assert!(done.query());
        done.synchronize().unwrap();
        assert_eq!(y.spec().shape(), [1]);
        let refused = |e: Error| assert!(matches!(e.without_place(), Error::Closed), "{e}");
        refused(m.call("relu", &[&x]).on(&s).unwrap_err());
        refused(y.read().unwrap_err());
        refused(m.record(&s).unwrap_err());
        assert_eq!(m.clone().shutdown(LONG), ShutdownReport::default(), "a second time is nothing");
        drop((x, y, done, s, m));
    }
}

#[test]
fn what_hangs_is_named_and_left_behind() {
    let (m, hand) = by_hand();
    let s = sim(&m, 0);
    let x = m.empty(&s, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    m.call("fill", &[&x]).attr("value", 2.0).on(&s).unwrap();
    hand.wait_for_commands(2, LONG).unwrap();
    assert!(hand.step(on_sim(0)).unwrap());
    let first = m.clone();
    let report = first.shutdown(Duration::from_millis(50));
    assert!(report.leaked);
    assert_eq!(report.hanging.len(), 1);
    assert!(report.hanging[0].starts_with("sim:0 compute 0: "), "{report:?}");
    assert!(report.hanging[0].ends_with(" of 2 instructions completed"), "{report:?}");
    // Dropping what is left does not wait for it.
    drop((x, s, m));
    // The threads that were left behind end once they can.
    drop(hand);
}

/// The last handle goes within a callback of the machine's own: it cannot wait for itself.
#[test]
fn the_last_handle_dropped_in_a_callback() {
    let (tell, told) = mpsc::channel();
    let (hand_over, handed) = mpsc::channel::<(Machine, Tensor)>();
    {
        let m = threaded();
        let x = upload(&cpu(&m, 0), &m, &[1.0]);
        x.access(Access::Read, move |_| {
            let last = handed.recv()?;
            drop(last);
            Ok(tell.send(())?)
        })
        .unwrap();
        hand_over.send((m.clone(), x.clone())).unwrap();
        drop((x, m));
    }
    told.recv_timeout(LONG).unwrap();
}

#[test]
fn a_submitter_that_waits_for_room_is_let_go() {
    let (config, hand) = by_hand_config();
    let m = Machine::new(config.watermark(2)).unwrap();
    let hand = hand;
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
        hand.wait_for_commands(2, LONG).unwrap();
        assert!(m.clone().shutdown(Duration::from_millis(10)).leaked);
        assert!(matches!(waiting.join().unwrap().without_place(), Error::Closed));
    });
}
