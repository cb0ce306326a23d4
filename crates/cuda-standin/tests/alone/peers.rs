//! Tests of copies between devices: direct with peer access, through the host without.

use std::sync::Arc;
use std::time::Duration;

use millstream::ep::cuda::CudaConfig;
use millstream::{DType, DeviceId, DriverKind, Layout, Machine, Stream, StreamKey, StreamType};
use millstream::{Result, Tensor, TensorSpec};
use millstream_cuda_standin::code;
use millstream_cuda_standin::control::{Failure, Turn};

use crate::calls::shown;
use crate::{machine, machine_with, no_violations, nothing_is_open, read, stand_in, upload};

const DRIVERS: [DriverKind; 2] = [DriverKind::Inline, DriverKind::Threaded];

/// Creates a machine, and a stream on each of two devices.
fn machine_with_streams(driver: DriverKind) -> (Machine, [Stream; 2]) {
    let m = machine(driver, CudaConfig::default());
    let streams = [0, 1].map(|k| m.compute(&DeviceId::cuda(k), 0).unwrap());
    (m, streams)
}

/// Runs `program` on each driver. Checks that there are no violations and no open objects.
#[track_caller]
fn each(program: impl Fn(&Turn<'_>, &Machine, &[Stream; 2])) {
    for driver in DRIVERS {
        let turn = stand_in().turn();
        let (m, streams) = machine_with_streams(driver);
        program(&turn, &m, &streams);
        drop((m, streams));
        no_violations();
        nothing_is_open();
    }
}

#[test]
fn the_calls_of_a_direct_copy() {
    let turn = stand_in().turn();
    let (m, [zero, one]) = machine_with_streams(DriverKind::Inline);
    let x = upload(&m, &zero, &[1.0, -2.0]);
    m.synchronize().unwrap();
    let before = turn.calls().len();
    let hold = turn.hold();
    let copies = [x.copy_to(&one).unwrap(), x.copy_to(&one).unwrap()];
    let back = copies[0].copy_to(&zero).unwrap();
    let calls = turn.calls().split_off(before);
    drop(hold);
    for y in copies.iter().chain([&back]) {
        assert_eq!(read(y).unwrap(), [1.0, -2.0]);
    }
    drop((m, zero, one, x, copies, back));
    no_violations();
    nothing_is_open();
    // The copy back is launched at once: it waits on the device.
    insta::assert_snapshot!(shown(&calls), @r"
    cuMemAlloc_v2(512) = m1
    cuStreamCreateWithPriority(-5) = s2
    cuCtxEnablePeerAccess(0 by 1)
    cuMemcpyPeerAsync(m1 of 1 <- m0 of 0, 8, s2)
    cuMemAlloc_v2(512) = m2
    cuMemcpyPeerAsync(m2 of 1 <- m0 of 0, 8, s2)
    cuMemAlloc_v2(512) = m3
    cuEventRecord(e0#1, s2)
    cuStreamWaitEvent(s1, e0#1)
    cuCtxEnablePeerAccess(1 by 0)
    cuMemcpyPeerAsync(m3 of 0 <- m1 of 1, 8, s1)
    ");
}

/// Access is enabled once for each pair and direction, for any number of copies.
#[test]
fn access_is_enabled_once() {
    each(|turn, m, [zero, one]| {
        let x = upload(m, zero, &[1.0, -2.0]);
        for round in 1..4 {
            let y = x.copy_to(one).unwrap();
            let z = y.copy_to(zero).unwrap();
            assert_eq!(read(&z).unwrap(), [1.0, -2.0]);
            assert_eq!(turn.count("cuMemcpyPeerAsync"), 2 * round);
        }
        assert_eq!(turn.count("cuCtxEnablePeerAccess"), 2);
    });
}

/// Copies tensors with gaps, as source and as target, and large ones.
#[test]
fn every_layout_is_copied() {
    each(|turn, m, [zero, one]| {
        let values: Vec<f32> = (0..60_000).map(|k| k as f32).collect();
        let x = upload(m, zero, &values);
        let part = |x: &Tensor, shape: &[usize], strides: &[usize]| {
            let layout = Layout::strided(shape, strides, 0).unwrap();
            x.view_storage(TensorSpec::new(DType::F32, layout).unwrap()).unwrap()
        };
        let transposed = part(&x, &[300, 200], &[1, 300]);
        let y = transposed.copy_to(one).unwrap();
        let expected: Vec<f32> =
            (0..300).flat_map(|r| (0..200).map(move |c| (c * 300 + r) as f32)).collect();
        assert_eq!(read(&y).unwrap(), expected);
        let wide = upload(m, one, &[0.0; 12]);
        part(&x, &[3, 2], &[2, 1]).copy_into(&part(&wide, &[3, 2], &[4, 2])).unwrap();
        assert_eq!(read(&wide).unwrap(), [0., 0., 1., 0., 2., 0., 3., 0., 4., 0., 5., 0.]);
        assert_eq!(turn.count("cuMemcpyPeerAsync"), 2);
    });
}

/// One device cannot access the other's memory; the opposite direction is direct.
#[test]
fn without_peer_access_copies_go_through_the_host() {
    each(|turn, m, [zero, one]| {
        turn.deny_peer_access(1, 0);
        let x = upload(m, zero, &[1.0, -2.0]);
        let y = x.copy_to(one).unwrap();
        assert_eq!(read(&y).unwrap(), [1.0, -2.0]);
        assert_eq!(turn.count("cuMemcpyPeerAsync"), 0);
        assert_eq!(read(&y.copy_to(zero).unwrap()).unwrap(), [1.0, -2.0]);
        assert_eq!(turn.count("cuMemcpyPeerAsync"), 1);
    });
}

/// The source is released while the other device reads it, and its memory is allocated again.
#[test]
fn the_source_is_released_right_after() {
    each(|turn, m, [zero, one]| {
        const BYTES: usize = 600 << 10;
        let values = |k: usize| vec![k as f32; BYTES / 4];
        let mut copies = Vec::new();
        for k in 0..8 {
            // The memory holds only one of them, so each waits until the one before has been read.
            let x = upload(m, zero, &values(k));
            let y = x.copy_to(one).unwrap();
            drop(x);
            copies.push((k, m.call("sum", &[&y]).on(one).unwrap().remove(0)));
        }
        for (k, sum) in copies {
            assert_eq!(read(&sum).unwrap(), [(k * BYTES / 4) as f32]);
        }
        assert_eq!(turn.count("cuMemcpyPeerAsync"), 8);
    });
    // While the copy is held, another tensor of the device gets other memory.
    let turn = stand_in().turn();
    let (m, [zero, one]) = machine_with_streams(DriverKind::Inline);
    let x = upload(&m, &zero, &[1.0, -2.0]);
    m.synchronize().unwrap();
    let hold = turn.hold();
    let y = x.copy_to(&one).unwrap();
    drop(x);
    let z = upload(&m, &zero, &[5.0, 6.0]);
    drop(hold);
    assert_eq!((read(&y).unwrap(), read(&z).unwrap()), (vec![1.0, -2.0], vec![5.0, 6.0]));
    drop((m, zero, one, y, z));
    no_violations();
    nothing_is_open();
}

fn copied(x: &Tensor, to: &Stream) -> Result<Vec<f32>> {
    read(&x.copy_to(to)?)
}

#[test]
fn a_copy_that_is_refused_is_the_instructions_failure() {
    for call in ["cuMemcpyPeerAsync", "cuCtxEnablePeerAccess", "cuPointerGetAttributes"] {
        each(|turn, m, [zero, one]| {
            let x = upload(m, zero, &[1.0, -2.0]);
            m.synchronize().unwrap();
            turn.fail(Failure::once(call, 0, code::INVALID_VALUE));
            let error = copied(&x, one).unwrap_err().to_string();
            assert!(error.contains(&format!("{call}: CUDA_ERROR_INVALID_VALUE")), "{error}");
            m.clear_failures();
            assert_eq!(copied(&x, one).unwrap(), [1.0, -2.0]);
            assert_eq!(read(&x).unwrap(), [1.0, -2.0]);
        });
    }
}

#[test]
fn a_device_is_lost_at_a_copy() {
    for driver in DRIVERS {
        let turn = stand_in().turn();
        let quiet = CudaConfig { report_drop_error: Arc::new(|_| ()), ..CudaConfig::default() };
        let m = machine(driver, quiet);
        let [zero, one] = [0, 1].map(|k| m.compute(&DeviceId::cuda(k), 0).unwrap());
        let x = upload(&m, &zero, &[1.0, -2.0]);
        m.synchronize().unwrap();
        turn.fail(Failure::lost("cuMemcpyPeerAsync", 0, code::LAUNCH_FAILED));
        let error = copied(&x, &one).unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
        drop(x);
        let report = m.shutdown(Duration::from_secs(60));
        assert!(!report.leaked && report.hanging.is_empty(), "{report:?}");
        no_violations();
    }
}

/// Other code has enabled access; or the driver supports no more peers and copies through the host.
#[test]
fn codes_that_are_not_errors() {
    for code in [code::PEER_ACCESS_ALREADY_ENABLED, code::TOO_MANY_PEERS] {
        each(|turn, m, [zero, one]| {
            let x = upload(m, zero, &[1.0, -2.0]);
            turn.fail(Failure::once("cuCtxEnablePeerAccess", 0, code));
            assert_eq!(copied(&x, one).unwrap(), [1.0, -2.0]);
            assert_eq!(turn.count("cuMemcpyPeerAsync"), 1);
        });
    }
}

/// If the query of peer access fails, copies go through the host.
#[test]
fn a_failed_query_of_peer_access() {
    each(|turn, m, [zero, one]| {
        let all =
            Failure { times: u64::MAX, ..Failure::once("cuDeviceCanAccessPeer", 0, code::UNKNOWN) };
        turn.fail(all);
        let x = upload(m, zero, &[1.0, -2.0]);
        assert_eq!(copied(&x, one).unwrap(), [1.0, -2.0]);
        assert_eq!(turn.count("cuMemcpyPeerAsync"), 0);
    });
}

/// Only copies access another device's memory; no kernel is launched on it.
#[test]
fn kernels_use_only_memory_of_their_device() {
    let turn = stand_in().turn();
    // Not the stand-in's kernels, which fall back to the host's.
    let kernels = millstream::kernels::standard();
    let m = machine_with(DriverKind::Inline, CudaConfig::default(), kernels);
    let zero = m.compute(&DeviceId::cuda(0), 0).unwrap();
    let to = m.stream(&StreamKey::new(DeviceId::cuda(1), StreamType::HOST2DEVICE, 0)).unwrap();
    let x = upload(&m, &zero, &[1.0, -2.0, 3.0, -4.0]);
    let error = m.call("relu", &[&x]).on(&to).unwrap_err().to_string();
    assert!(error.contains("lies on cuda:0, and cuda:1 host2device 0"), "{error}");
    let layout = Layout::strided(&[2], &[2], 0).unwrap();
    let gaps = x.view_storage(TensorSpec::new(DType::F32, layout).unwrap()).unwrap();
    let y = m.call("copy", &[&gaps]).on(&to).unwrap().remove(0);
    let error = read(&y).unwrap_err().to_string();
    assert!(error.contains("a tensor that is not dense, in memory"), "{error}");
    assert_eq!(turn.count("cuLaunchKernel"), 0);
    drop((m, zero, to, x, gaps, y));
    no_violations();
    nothing_is_open();
}
