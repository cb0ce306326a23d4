//! Events: a wait for an unrecorded event does nothing, a query is false while a record is in
//! flight, and every record starts a new generation.

use millstream::*;
use millstream_testing::machine::*;

/// Returns a machine of each driver, with a device that the test steps.
fn machines() -> Vec<(Machine, StepControl)> {
    let made = DRIVERS.map(|driver| {
        let (config, control) = by_hand_config();
        (Machine::new(config.driver(driver)).unwrap(), control)
    });
    made.into()
}

#[test]
fn an_event_that_was_never_recorded_does_nothing() {
    for (m, control) in machines() {
        for s in [cpu(&m, 0), sim(&m, 0)] {
            let before = m.stats().unwrap().total();
            for e in [m.event(), m.timed_event()] {
                assert!(e.query());
                e.synchronize().unwrap();
                e.synchronize_for(std::time::Duration::ZERO).unwrap();
                e.completion().wait().unwrap();
                s.wait_event(&e).unwrap();
                e.wait().unwrap();
                assert_eq!(format!("{e:?}"), "Event(not recorded)");
            }
            assert_eq!(m.stats().unwrap().total(), before, "something was emitted");
        }
        assert_eq!(m.stats().unwrap().events_created, 0);
        assert_eq!(control.stats(0).unwrap().events_created, 0);
    }
}

#[test]
fn a_native_event_exists_from_the_first_record_on() {
    for (m, control) in machines() {
        let s = sim(&m, 0);
        let e = m.event();
        let x = m.empty(&s, f32_spec(&[1])).unwrap();
        m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
        control.wait_for_commands_on(on_sim(0), 1, LONG).unwrap();
        assert_eq!(control.stats(0).unwrap().events_created, 0);
        e.record_on(&s).unwrap();
        control.wait_for_commands_on(on_sim(0), 2, LONG).unwrap();
        assert_eq!(control.stats(0).unwrap().events_created, 1);
        // The device runs the work first, and then the record.
        assert!(!e.query());
        assert!(control.step(on_sim(0)).unwrap());
        assert!(!e.query());
        assert!(control.step(on_sim(0)).unwrap());
        control.run_until(|| e.query());
    }
}

/// Also on a device without native events, and before the record reaches the device.
#[test]
fn a_query_is_false_while_the_record_is_in_flight() {
    let m = threaded();
    let s = cpu(&m, 0);
    let x = upload(&s, &m, &[1.0]);
    let gate = Gate::on(&x);
    let e = m.event();
    assert!(e.query());
    e.record_on(&s).unwrap();
    assert!(!e.query());
    assert!(!s.query().unwrap());
    gate.open();
    e.synchronize_for(LONG).unwrap();
    assert!(e.query());
}

#[test]
fn a_second_record_is_a_new_generation() {
    let m = threaded();
    let (s, t) = (cpu(&m, 0), cpu(&m, 1));
    let x = upload(&s, &m, &[1.0]);
    let e = m.event();
    e.record_on(&s).unwrap();
    e.synchronize().unwrap();
    let first = e.completion();
    let gate = Gate::on(&x);
    e.record_on(&s).unwrap();
    assert!(!e.query(), "the newest record has not completed");
    assert!(first.query(), "the earlier one has");
    // The other stream is not blocked: the event stands for the newest record.
    let again = e.clone();
    again.record_on(&t).unwrap();
    e.synchronize_for(LONG).unwrap();
    assert!(!s.query().unwrap());
    gate.open();
    s.synchronize_for(LONG).unwrap();
}

/// Each of several waits for one event is for the newest record at the time of the wait.
#[test]
fn waits_keep_their_generation() {
    let list = emitted(SyncPolicy::Frontier, |m| {
        let s: Vec<Stream> = (0..4).map(|k| sim(m, k)).collect();
        let x = upload(&s[0], m, &[1.0, -2.0]);
        m.start_recording(&[("x", &x)]).unwrap();
        let e = m.event();
        let y = call(m, "relu", &[&x], &s[0]);
        e.record_on(&s[0]).unwrap();
        s[1].wait_event(&e).unwrap();
        s[2].wait_event(&e).unwrap();
        let z = call(m, "add", &[&y, &y], &s[0]);
        e.record_on(&s[0]).unwrap();
        s[3].wait_event(&e).unwrap();
        // Only the frontier of the last stream covers the second call.
        let seen: Vec<Tensor> = s[1..].iter().map(|s| call(m, "relu", &[&z], s)).collect();
        let list = m.finish_recording().unwrap();
        for z in seen {
            assert_eq!(read(&z), [2.0, 0.0]);
        }
        list
    });
    insta::assert_snapshot!(list, @r#"
    millstream-list 1
    stream s0 sim:0 compute 0 in-order
    stream s1 sim:0 compute 1 in-order
    stream s2 sim:0 compute 2 in-order
    stream s3 sim:0 compute 3 in-order
    stream s4 cpu:0 compute 0 in-order
    stream s5 sim:0 host2device 0 in-order
    arena a0 sim:0
    arena a1 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    SoftSyncStream s0 needs s5:2 for (%0) elided-fenced
    OpCall s0:1 relu (%0 read, %1 write)
    RecordEvent s0:2 e0
    SoftSyncStream s1 needs s0:2 for () by-device
    StreamWaitEvent s1:1 until s0:2 by-device e0
    SoftSyncStream s2 needs s0:2 for () by-device
    StreamWaitEvent s2:1 until s0:2 by-device e0
    AllocateTensor s0 %2 f32[2] as 8 bytes at a0+1024 generation 3
    OpCall s0:3 add (%1 read, %1 read, %2 write)
    RecordEvent s0:4 e1
    SoftSyncStream s3 needs s0:4 for () by-device
    StreamWaitEvent s3:1 until s0:4 by-device e1
    AllocateTensor s1 %3 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s1 needs s0:3 for (%2) by-device
    StreamWaitEvent s1:2 until s0:4 by-device e1
    OpCall s1:3 relu (%2 read, %3 write)
    AllocateTensor s2 %4 f32[2] as 8 bytes at a0+2048 generation 5
    SoftSyncStream s2 needs s0:3 for (%2) by-device
    StreamWaitEvent s2:2 until s0:4 by-device e1
    OpCall s2:3 relu (%2 read, %4 write)
    AllocateTensor s3 %5 f32[2] as 8 bytes at a0+2560 generation 6
    SoftSyncStream s3 needs s0:3 for (%2) elided-known
    OpCall s3:2 relu (%2 read, %5 write)
    "#);
}

#[test]
fn an_event_serves_one_machine() {
    let (m, other) = (inline(), inline());
    let e = m.event();
    let foreign =
        |error: Error| assert!(matches!(error.without_place(), Error::Foreign { .. }), "{error}");
    foreign(e.record_on(&cpu(&other, 0)).unwrap_err());
    foreign(cpu(&other, 0).wait_event(&e).unwrap_err());
    foreign(e.elapsed_time(&other.timed_event()).unwrap_err());
}

/// Threads record and await one event at once. Each wait is for some record; none is lost or lasts
/// for ever.
#[test]
fn threads_may_share_an_event() {
    let m = threaded();
    let e = m.event();
    std::thread::scope(|scope| {
        for k in 0..4 {
            let (m, e) = (&m, &e);
            scope.spawn(move || {
                let s = cpu(m, k);
                for _ in 0..200 {
                    e.record_on(&s).unwrap();
                    cpu(m, (k + 1) % 4).wait_event(e).unwrap();
                }
            });
        }
    });
    m.synchronize_for(LONG).unwrap();
    assert!(e.query());
    assert_eq!(m.stats().unwrap().of(instructions::Kind::RecordEvent), 800);
}
