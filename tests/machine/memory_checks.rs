//! Checked memory: memory without an owner holds NaN, and the report of a shutdown names unreleased
//! tensors.

use std::mem::ManuallyDrop;

use millstream::*;
use millstream_testing::machine::*;

fn checking(driver: DriverKind) -> Machine {
    let config = config(driver, SyncPolicy::Frontier);
    Machine::new(config.check_memory(true)).unwrap()
}

#[test]
fn new_memory_holds_nan() {
    for driver in DRIVERS {
        for device in [CPU, SIM] {
            let m = checking(driver);
            let s = m.compute(&device, 0).unwrap();
            for _ in 0..3 {
                let x = m.empty(&s, f32_spec(&[200])).unwrap();
                assert!(read(&x).iter().all(|v| v.is_nan()));
                m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
                assert_eq!(read(&x), [1.0; 200]);
            }
        }
    }
}

/// Released memory is filled at once if its stream's frontier covers the last uses, and otherwise
/// at its next placement.
#[test]
fn released_memory_is_filled() {
    let mut lists = Vec::new();
    for driver in DRIVERS {
        let m = checking(driver);
        let (s, t) = (cpu(&m, 0), cpu(&m, 1));
        m.start_recording(&[]).unwrap();
        let x = m.empty(&s, f32_spec(&[1])).unwrap();
        drop(x);
        let y = m.empty(&s, f32_spec(&[1])).unwrap();
        t.touch(&[&y]).unwrap();
        drop(y);
        let list = m.finish_recording().unwrap();
        checked(&list);
        lists.push(listing(&list));
    }
    assert_eq!(lists[0], lists[1]);
    insta::assert_snapshot!(lists[0], @r"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 cpu:0 compute 1 in-order
    arena a0 cpu:0
    OpCall s0:1 scrub () {bytes=512} workspace 512 bytes at a0+0 generation 2
    AllocateTensor s0 %0 f32[1] as 4 bytes at a0+0 generation 3
    ReleaseTensor %0
    OpCall s0:2 scrub () {bytes=512} workspace 512 bytes at a0+0 generation 4
    OpCall s0:3 scrub () {bytes=512} workspace 512 bytes at a0+0 generation 6
    AllocateTensor s0 %1 f32[1] as 4 bytes at a0+0 generation 7
    SoftSyncStream s1 needs s0:3 for (%1) by-host
    StreamWaitEvent s1:1 until s0:3 by-host
    TouchTensors s1:2 (%1 read)
    ReleaseTensor %1
    ");
}

/// The program lacks a wait on purpose. With checked memory the read returns NaN, not a value that
/// could be right.
#[test]
fn a_use_after_release_reads_nan() {
    let (config, control) = by_hand_config();
    // SAFETY: the commands of the simulated device run on one thread, the test's.
    let none = unsafe { Protection::default().without_waits().without_memory() };
    let m = Machine::new(config.protection(none).check_memory(true)).unwrap();
    let (s, t) = (sim(&m, 0), sim(&m, 1));
    let x = m.empty(&s, f32_spec(&[4])).unwrap();
    m.call("fill", &[&x]).attr("value", 1.0).on(&s).unwrap();
    let y = call(&m, "add", &[&x, &x], &t);
    drop(x);
    // On the first stream a scrub, the fill and another scrub; then the two commands of the other.
    for (stream, commands) in [(on_sim(0), 3), (on_sim(1), 2)] {
        control.wait_for_commands_on(stream, commands, LONG).unwrap();
        while control.step(stream).unwrap() {}
    }
    control.switch(ep::sim::Completion::IssueOrder);
    assert!(read(&y).iter().all(|v| v.is_nan()), "{:?}", read(&y));
}

#[test]
fn unreleased_tensors_are_named() {
    for driver in DRIVERS {
        let m = checking(driver);
        let s = cpu(&m, 0);
        let x = upload(&s, &m, &[1.0; 3]);
        let forgotten = ManuallyDrop::new(upload(&s, &m, &[2.0; 100]));
        let view = ManuallyDrop::new(slice(&m, &x, 1, 2, &s));
        drop(x);
        let report = m.shutdown(LONG);
        assert!(report.hanging.is_empty() && !report.leaked);
        let at = |line: &str| line.split(", made at").next().unwrap().to_owned();
        let named: Vec<String> = report.unreleased.iter().map(|l| at(l)).collect();
        assert_eq!(named, ["%1 f32[100], 400 bytes", "%2 f32[1], 12 bytes"]);
        assert!(report.unreleased[0].contains("memory_checks.rs:"), "{report:?}");
        drop(ManuallyDrop::into_inner(forgotten));
        drop(ManuallyDrop::into_inner(view));
    }
}
