//! Copies between host, pinned and device memory, and between devices, of tensors with and without
//! gaps; small reads that are staged in pinned memory.

use std::sync::Arc;

use millstream::ep::pinned::PinnedBackend;
use millstream::ep::sim::{SimBackend, SimConfig};
use millstream::ep::{Registry, cpu::CpuBackend};
use millstream::*;
use millstream_testing::machine::*;

const PINNED: DeviceId = DeviceId::pinned(0);

/// Returns a machine with two simulated devices, and with pinned memory if `pinned`.
fn machine(driver: DriverKind, pinned: bool) -> Machine {
    machine_of(driver, pinned, false)
}

/// As [`machine`], with devices that copy directly from each other if `direct_copies`.
fn machine_of(driver: DriverKind, pinned: bool, direct_copies: bool) -> Machine {
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    let sim = SimConfig { devices: 2, direct_copies, ..Default::default() };
    devices.register(Arc::new(SimBackend::new(sim)));
    if pinned {
        devices.register(Arc::new(PinnedBackend::new(1 << 20)));
    }
    let base = config(driver, SyncPolicy::Frontier);
    Machine::new(base.devices(Arc::new(devices))).unwrap()
}

/// Returns a stream for each memory: the host's, the first device's, the second's, and pinned
/// memory.
fn streams(m: &Machine) -> Vec<Stream> {
    let pinned = StreamKey::new(SIM, StreamType::PINNED_COMPUTE, 0);
    let keys = [CPU, SIM, DeviceId::sim(1)].map(|d| StreamKey::compute(d, 0));
    keys.into_iter().chain([pinned]).map(|key| m.stream(&key).unwrap()).collect()
}

#[test]
fn from_every_memory_to_every_other() {
    for driver in DRIVERS {
        for (pinned, direct) in [(false, false), (true, false), (true, true)] {
            let m = machine_of(driver, pinned, direct);
            let streams = streams(&m);
            m.start_recording(&[]).unwrap();
            for from in &streams {
                // A transposed view: elements with gaps between them.
                let x = m.upload(from, f32_spec(&[2, 3]), bytes(&[1., 2., 3., 4., 5., 6.]));
                let on = m.compute(&CPU, 0).unwrap();
                let x = x.unwrap();
                let turned = m.call("transpose", &[&x]).attr("dim0", 0).attr("dim1", 1).on(&on);
                let turned = turned.unwrap().remove(0);
                for to in &streams {
                    let y = turned.copy_to(to).unwrap();
                    assert_eq!(
                        (y.spec().shape(), y.spec().layout.is_contiguous()),
                        (&[3, 2][..], true)
                    );
                    assert_eq!(read(&y), [1., 4., 2., 5., 3., 6.]);
                    // A copy into every second column of a wider tensor.
                    let wide = m.upload(to, f32_spec(&[3, 4]), bytes(&[0.0; 12])).unwrap();
                    let spec =
                        TensorSpec::new(DType::F32, Layout::strided(&[3, 2], &[4, 2], 1).unwrap());
                    turned.copy_into(&wide.view_storage(spec.unwrap()).unwrap()).unwrap();
                    assert_eq!(read(&wide), [0., 1., 0., 4., 0., 2., 0., 5., 0., 3., 0., 6.]);
                }
            }
            checked(&m.finish_recording().unwrap());
            let used = |device: &DeviceId| m.memory().unwrap().iter().any(|u| u.device == *device);
            assert_eq!(used(&PINNED), pinned);
        }
    }
}

/// A device that can copies from another device on its own copy stream. The source's memory is free
/// once the copy has run.
#[test]
fn from_device_to_device() {
    let list = |direct| {
        let lists = DRIVERS.map(|driver| {
            let m = machine_of(driver, true, direct);
            let streams = streams(&m);
            let x = upload(&streams[1], &m, &[1.0, -2.0]);
            m.synchronize().unwrap();
            m.start_recording(&[("x", &x)]).unwrap();
            let y = call(&m, "relu", &[&x], &streams[1]);
            let there = y.copy_to(&streams[2]).unwrap();
            drop(y);
            let z = call(&m, "add", &[&there, &there], &streams[2]);
            let list = m.finish_recording().unwrap();
            checked(&list);
            assert_eq!(read(&z), [2.0, 0.0]);
            listing(&list)
        });
        assert_eq!(lists[0], lists[1]);
        lists[0].clone()
    };
    assert!(list(false).contains("pinned:0"));
    insta::assert_snapshot!(list(true), @r#"
    millstream-list 1
    stream s0 cpu:0 compute 0 in-order
    stream s1 sim:0 compute 0 in-order
    stream s2 sim:1 compute 0 in-order
    stream s3 sim:0 pinned-compute 0 in-order
    stream s4 sim:0 host2device 0 in-order
    stream s5 sim:1 host2device 0 in-order
    arena a0 cpu:0
    arena a1 sim:0
    arena a2 sim:1
    arena a3 pinned:0
    external %0 "x" f32[2] in 8 bytes of a1
    AllocateTensor s1 %1 f32[2] as 8 bytes at a1+512 generation 2
    SoftSyncStream s1 needs s4:2 for (%0) elided-fenced
    OpCall s1:1 relu (%0 read, %1 write)
    AllocateTensor s2 %2 f32[2] as 8 bytes at a2+0 generation 1
    SoftSyncStream s5 needs s1:1 for (%1) by-host
    StreamWaitEvent s5:1 until s1:1 by-host
    OpCall s5:2 copy (%1 read, %2 write)
    ReleaseTensor %1
    AllocateTensor s2 %3 f32[2] as 8 bytes at a2+512 generation 2
    SoftSyncStream s2 needs s5:2 for (%2) by-device
    RecordEvent s5:3 e0
    StreamWaitEvent s2:1 until s5:3 by-device e0
    OpCall s2:2 add (%2 read, %2 read, %3 write)
    "#);
}

#[test]
fn a_copy_between_overlapping_views_reads_all_elements_first() {
    for driver in DRIVERS {
        let m = machine(driver, true);
        for stream in streams(&m) {
            let x = m.upload(&stream, f32_spec(&[5]), bytes(&[1., 2., 3., 4., 5.])).unwrap();
            let part = |from: usize| {
                let layout = Layout::strided(&[4], &[1], from).unwrap();
                x.view_storage(TensorSpec::new(DType::F32, layout).unwrap()).unwrap()
            };
            part(0).copy_into(&part(1)).unwrap();
            assert_eq!(read(&x), [1., 1., 2., 3., 4.]);
            part(1).copy_into(&part(0)).unwrap();
            assert_eq!(read(&x), [1., 2., 3., 4., 4.]);
        }
    }
}

#[test]
fn a_copy_between_different_shapes_is_refused() {
    let m = machine(DriverKind::Inline, true);
    let s = cpu(&m, 0);
    let (x, y) = (upload(&s, &m, &[1.0; 3]), upload(&s, &m, &[1.0; 4]));
    let error = x.copy_into(&y).unwrap_err();
    insta::assert_snapshot!(error.without_place(), @"invalid copy: f32[3] is to be copied into f32[4]");
}

/// A small read from a device is staged in pinned memory, in the order of the device's copies.
#[test]
fn small_reads_are_staged() {
    let mut lists = Vec::new();
    for driver in DRIVERS {
        let m = machine(driver, true);
        let s = sim(&m, 0);
        let x = m.upload(&s, f32_spec(&[2]), bytes(&[1.0, 2.0])).unwrap();
        m.start_recording(&[("x", &x)]).unwrap();
        let y = call(&m, "relu", &[&x], &s);
        assert_eq!((read(&y), read(&x)), (vec![1.0, 2.0], vec![1.0, 2.0]));
        let list = m.finish_recording().unwrap();
        checked(&list);
        lists.push(listing(&list));
        let large = m.empty(&s, f32_spec(&[1 << 15])).unwrap();
        m.call("fill", &[&large]).attr("value", 3.0).on(&s).unwrap();
        assert_eq!(read(&large), [3.0; 1 << 15]);
        let pinned = m.memory().unwrap().into_iter().find(|u| u.device == PINNED).unwrap();
        assert!(pinned.peak <= 2048, "{pinned}");
    }
    assert_eq!(lists[0], lists[1]);
    insta::assert_snapshot!(lists[0], @r#"
    millstream-list 1
    stream s0 sim:0 compute 0 in-order
    stream s1 sim:0 pinned-compute 0 in-order
    stream s2 sim:0 host2device 0 in-order
    stream s3 sim:0 device2host 0 in-order
    arena a0 sim:0
    arena a1 pinned:0
    arena a2 cpu:0
    external %0 "x" f32[2] in 8 bytes of a0
    AllocateTensor s0 %1 f32[2] as 8 bytes at a0+512 generation 2
    SoftSyncStream s0 needs s2:2 for (%0) elided-fenced
    OpCall s0:1 relu (%0 read, %1 write)
    AllocateTensor s1 %2 f32[2] as 8 bytes at a1+0 generation 2
    SoftSyncStream s3 needs s0:1 for (%1) by-device
    RecordEvent s0:2 e0
    StreamWaitEvent s3:1 until s0:2 by-device e0
    SoftSyncStream s3 needs s1:2 for (%2) elided-fenced
    OpCall s3:2 copy (%1 read, %2 write)
    SyncRead s3:3 %2 read into read0
    HostObserved (s3:3)
    ReleaseTensor %2
    AllocateTensor s1 %3 f32[2] as 8 bytes at a1+0 generation 3
    SoftSyncStream s3 needs s1:2 for (%3) elided-fenced
    SoftSyncStream s3 needs s2:2 for (%0) elided-fenced
    OpCall s3:4 copy (%0 read, %3 write)
    SyncRead s3:5 %3 read into read1
    HostObserved (s3:5)
    ReleaseTensor %3
    "#);
}

/// The staged read of a poisoned tensor returns the failure.
#[test]
fn a_staged_read_of_poison_fails() {
    let mut config = config(DriverKind::Threaded, SyncPolicy::Frontier);
    add_failing_ops(&mut config);
    config.devices.register(Arc::new(PinnedBackend::new(1 << 20)));
    let m = Machine::new(config).unwrap();
    let s = sim(&m, 0);
    let x = m.upload(&s, f32_spec(&[2]), bytes(&[1.0, 2.0])).unwrap();
    let y = call(&m, "fail", &[&x], &s);
    let cause = failure(y.read().unwrap_err());
    assert_eq!(cause.message, "broken on purpose");
}
