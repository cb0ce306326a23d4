//! Remote waits: if two devices support them, a device executes each wait between the two.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::sim::{Completion, SimBackend, SimConfig};
use millstream::*;
use millstream_testing::machine::*;

/// Returns a configuration with two simulated devices that support direct copies and remote waits.
fn config_of(driver: DriverKind, completion: Completion) -> (MachineConfig, ep::sim::SimControl) {
    let (direct_copies, direct_waits) = (true, true);
    let sim =
        SimConfig { devices: 2, completion, direct_copies, direct_waits, ..Default::default() };
    let sim = SimBackend::new(sim);
    let (control, devices) = (sim.control(), Registry::new());
    devices.register(Arc::new(CpuBackend::new()));
    devices.register(Arc::new(sim));
    let base = config(driver, SyncPolicy::Frontier);
    (base.devices(Arc::new(devices)), control)
}

fn streams(m: &Machine) -> [Stream; 2] {
    [0, 1].map(|k| m.compute(&DeviceId::sim(k), 0).unwrap())
}

#[test]
fn a_copy_to_the_other_device_and_back() {
    let lists = DRIVERS.map(|driver| {
        let m = Machine::new(config_of(driver, Completion::IssueOrder).0).unwrap();
        let [zero, one] = streams(&m);
        let x = upload(&zero, &m, &[1.0, -2.0]);
        m.synchronize().unwrap();
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(&m, "add", &[&x, &x], &zero);
        let there = y.copy_to(&one).unwrap();
        let z = call(&m, "relu", &[&there], &one);
        let back = z.copy_to(&zero).unwrap();
        let last = call(&m, "add", &[&back, &x], &zero);
        one.wait_stream(&zero).unwrap();
        let list = m.finish_recording().unwrap();
        checked(&list);
        assert_eq!((read(&back), read(&last)), (vec![2.0, 0.0], vec![3.0, -2.0]));
        listing(&list)
    });
    assert_eq!(lists[0], lists[1]);
    insta::assert_snapshot!(lists[0], @r#"
    millstream-list 1
    stream s0 sim:0 compute 0 in-order
    stream s1 sim:1 compute 0 in-order
    stream s2 cpu:0 compute 0 in-order
    stream s3 sim:0 host2device 0 in-order
    stream s4 sim:1 host2device 0 in-order
    arena a0 sim:0
    arena a1 sim:1
    arena a2 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    SoftSyncStream s0 needs s3:2 for (%0) elided-fenced
    OpCall s0:1 add (%0 read, %0 read, %1 write)
    AllocateTensor s1 %2 f32[2] as 8 bytes at a1+0 generation 1
    SoftSyncStream s4 needs s0:1 for (%1) by-device
    RecordEvent s0:2 e0
    StreamWaitEvent s4:1 until s0:2 by-device e0
    OpCall s4:2 copy (%1 read, %2 write)
    AllocateTensor s1 %3 f32[2] as 8 bytes at a1+512 generation 2
    SoftSyncStream s1 needs s4:2 for (%2) by-device
    RecordEvent s4:3 e1
    StreamWaitEvent s1:1 until s4:3 by-device e1
    OpCall s1:2 relu (%2 read, %3 write)
    AllocateTensor s0 %4 f32[2] as 8 bytes at a0+1024 generation 3
    SoftSyncStream s3 needs s0:2 for (%4) elided-implied s1:2
    SoftSyncStream s3 needs s1:2 for (%3) by-device
    RecordEvent s1:3 e2
    StreamWaitEvent s3:3 until s1:3 by-device e2
    OpCall s3:4 copy (%3 read, %4 write)
    AllocateTensor s0 %5 f32[2] as 8 bytes at a0+1536 generation 4
    SoftSyncStream s0 needs s3:4 for (%4, %0) by-device
    RecordEvent s3:5 e3
    StreamWaitEvent s0:3 until s3:5 by-device e3
    OpCall s0:4 add (%4 read, %0 read, %5 write)
    SoftSyncStream s1 needs s0:4 for () by-device
    StreamWait s1:4 until s0:5 by-device e4
    "#);
}

/// Checks that the second device gets no wait before the first device has the record.
///
/// A `Gate` blocks the first stream before its record, so the second stream's worker reaches the
/// wait first. `order` submits the wait and returns the tensor that the second stream reads.
fn check(order: impl Fn(&Machine, &[Stream; 2], &Tensor) -> Tensor) {
    let (config, control) = config_of(DriverKind::Threaded, Completion::ByHand);
    let (m, control) = (Machine::new(config).unwrap(), StepControl::of(control));
    let [first, second] = streams(&m);
    let x = m.empty(&first, f32_spec(&[1])).unwrap();
    let gate = Gate::on(&x);
    gate.entered();
    m.call("fill", &[&x]).attr("value", 3.0).on(&first).unwrap();
    let y = order(&m, &[first, second.clone()], &x);
    let z = call(&m, "relu", &[&y], &second);
    let done = second.record_event().unwrap();
    // The second device's worker is at the wait and still serves another stream.
    let third = m.compute(&DeviceId::sim(1), 1).unwrap();
    let there = m.empty(&third, f32_spec(&[1])).unwrap();
    m.call("fill", &[&there]).attr("value", 1.0).on(&third).unwrap();
    let served = third.record_event().unwrap();
    control.run_until(|| served.query());
    let stats = control.stats(1).unwrap();
    assert_eq!((stats.waits, stats.works), (0, 1), "something was launched before the record");
    gate.open();
    // The workers submit everything while the device runs nothing: the fill and its record, the
    // waits, the copy and relu.
    let start = std::time::Instant::now();
    while control.stats(1).unwrap().works < 3 {
        assert!(start.elapsed() < LONG, "a worker waits for the device: {:?}", *control);
        std::thread::yield_now();
    }
    assert!(control.stats(1).unwrap().waits > 0);
    control.run_until(|| done.query());
    control.switch(Completion::IssueOrder);
    assert_eq!((read(&y), read(&z)), (vec![3.0], vec![3.0]));
}

#[test]
fn no_wait_is_launched_before_its_record() {
    check(|_, [_, second], x| x.copy_to(second).unwrap());
    check(|_, [first, second], x| {
        second.wait_event(&first.record_event().unwrap()).unwrap();
        x.copy_to(second).unwrap()
    });
    check(|_, [first, second], x| {
        second.wait_stream(first).unwrap();
        x.copy_to(second).unwrap()
    });
}

/// Rule 9: an instruction that the other device got before the failure was known runs. Its result
/// is poisoned when it completes.
#[test]
fn a_failure_poisons_results_on_the_other_device() {
    let (mut config, control) = config_of(DriverKind::Threaded, Completion::ByHand);
    add_failing_ops(&mut config);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    add_op(&mut config, "count", move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let (m, control) = (Machine::new(config).unwrap(), StepControl::of(control));
    let [zero, one] = streams(&m);
    let x = m.empty(&zero, f32_spec(&[1])).unwrap();
    let y = call(&m, "fail", &[&x], &zero);
    let there = y.copy_to(&one).unwrap();
    let z = call(&m, "count", &[&there], &one);
    let late = one.record_event().unwrap();
    // fail and its record; a wait, the copy and its record; a wait, count and the record.
    control.wait_for_commands(8, LONG).unwrap();
    control.run_until(|| late.query());
    assert_eq!(ran.load(Ordering::SeqCst), 1, "the device had the call already");
    control.switch(Completion::IssueOrder);
    for tensor in [&y, &there, &z] {
        assert_eq!(failure(tensor.read().unwrap_err()).op.as_deref(), Some("fail"));
    }
    assert_eq!(m.failures().1, 1);
}

/// A device is lost while another device waits for it. Data from the lost device fail; all other
/// work continues.
#[test]
fn the_awaited_device_is_lost() {
    let (config, control) = config_of(DriverKind::Threaded, Completion::ByHand);
    let (m, control) = (Machine::new(config).unwrap(), StepControl::of(control));
    let [zero, one] = streams(&m);
    let x = m.empty(&zero, f32_spec(&[1])).unwrap();
    m.call("fill", &[&x]).attr("value", 3.0).on(&zero).unwrap();
    let there = x.copy_to(&one).unwrap();
    let z = call(&m, "relu", &[&there], &one);
    let own = m.empty(&one, f32_spec(&[1])).unwrap();
    m.call("fill", &[&own]).attr("value", 5.0).on(&one).unwrap();
    // fill and its record; a wait, the copy and its record; a wait, relu, fill.
    control.wait_for_commands(8, LONG).unwrap();
    control.lose(0).unwrap();
    control.switch(Completion::IssueOrder);
    for tensor in [&x, &there, &z] {
        let failed = failure(tensor.read().unwrap_err());
        assert_eq!((failed.cause, failed.op.as_deref()), (types::Cause::Device, Some("fill")));
    }
    assert_eq!(read(&own), [5.0]);
}
