//! Copies from one device to another: where it lies if they reach one another, else by way of the host.

use std::sync::Arc;
use std::time::Duration;

use millstream::ep::cuda::CudaConfig;
use millstream::{DType, DeviceId, DriverKind, Layout, Machine, Stream, StreamKey, StreamType};
use millstream::{Result, Tensor, TensorSpec};
use millstream_cuda_standin::code;
use millstream_cuda_standin::control::{Failure, Turn};

use crate::calls::shown;
use crate::{machine, machine_with, no_violations, nothing_is_left, read, stand_in, upload};

const DRIVERS: [DriverKind; 2] = [DriverKind::Inline, DriverKind::Threaded];

/// A machine, and a stream on each of two devices.
fn rig(driver: DriverKind) -> (Machine, [Stream; 2]) {
    let m = machine(driver, CudaConfig::default());
    let homes = [0, 1].map(|k| m.compute(&DeviceId::cuda(k), 0).unwrap());
    (m, homes)
}

/// Runs `program` on each driver. Nothing undefined is done, and nothing stays.
#[track_caller]
fn each(program: impl Fn(&Turn<'_>, &Machine, &[Stream; 2])) {
    for driver in DRIVERS {
        let turn = stand_in().turn();
        let (m, homes) = rig(driver);
        program(&turn, &m, &homes);
        drop((m, homes));
        no_violations();
        nothing_is_left();
    }
}

#[test]
fn the_calls_of_a_direct_copy() {
    let turn = stand_in().turn();
    let (m, [zero, one]) = rig(DriverKind::Inline);
    let x = upload(&m, &zero, &[1.0, -2.0]);
    m.synchronize().unwrap();
    let before = turn.calls().len();
    let hold = turn.hold();
    let copies = [x.copy_to(&one).unwrap(), x.copy_to(&one).unwrap()];
    let back = copies[0].copy_to(&zero).unwrap();
    let made = turn.calls().split_off(before);
    drop(hold);
    for y in copies.iter().chain([&back]) {
        assert_eq!(read(y).unwrap(), [1.0, -2.0]);
    }
    drop((m, zero, one, x, copies, back));
    no_violations();
    nothing_is_left();
    // The copy back is launched at once: it waits on the device.
    insta::assert_snapshot!(shown(&made), @r"
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

/// Access is enabled once for each pair and direction, however many copies there are.
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

/// Tensors with gaps, on either side, and large ones.
#[test]
fn every_layout_gets_there() {
    each(|turn, m, [zero, one]| {
        let values: Vec<f32> = (0..60_000).map(|k| k as f32).collect();
        let x = upload(m, zero, &values);
        let part = |x: &Tensor, shape: &[usize], strides: &[usize]| {
            let layout = Layout::strided(shape, strides, 0).unwrap();
            x.view(TensorSpec::new(DType::F32, layout).unwrap()).unwrap()
        };
        let turned = part(&x, &[300, 200], &[1, 300]);
        let y = turned.copy_to(one).unwrap();
        let expected: Vec<f32> =
            (0..300).flat_map(|r| (0..200).map(move |c| (c * 300 + r) as f32)).collect();
        assert_eq!(read(&y).unwrap(), expected);
        let wide = upload(m, one, &[0.0; 12]);
        part(&x, &[3, 2], &[2, 1]).copy_into(&part(&wide, &[3, 2], &[4, 2])).unwrap();
        assert_eq!(read(&wide).unwrap(), [0., 0., 1., 0., 2., 0., 3., 0., 4., 0., 5., 0.]);
        assert_eq!(turn.count("cuMemcpyPeerAsync"), 2);
    });
}

/// A pair that cannot see each other, or can one way only.
#[test]
fn by_way_of_the_host_where_there_is_no_other() {
    each(|turn, m, [zero, one]| {
        turn.blind(1, 0);
        let x = upload(m, zero, &[1.0, -2.0]);
        let y = x.copy_to(one).unwrap();
        assert_eq!(read(&y).unwrap(), [1.0, -2.0]);
        assert_eq!(turn.count("cuMemcpyPeerAsync"), 0);
        assert_eq!(read(&y.copy_to(zero).unwrap()).unwrap(), [1.0, -2.0]);
        assert_eq!(turn.count("cuMemcpyPeerAsync"), 1);
    });
}

/// The source is let go of while the other device reads it, and its memory wanted again.
#[test]
fn the_source_is_released_right_after() {
    each(|turn, m, [zero, one]| {
        const BYTES: usize = 600 << 10;
        let values = |k: usize| vec![k as f32; BYTES / 4];
        let mut copies = Vec::new();
        for k in 0..8 {
            // Two of them do not fit: each waits until the one before has been read.
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
    // While the copy stands still, another tensor of the device lies elsewhere.
    let turn = stand_in().turn();
    let (m, [zero, one]) = rig(DriverKind::Inline);
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
    nothing_is_left();
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
        let quiet = CudaConfig { report: Arc::new(|_| ()), ..CudaConfig::default() };
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

/// Somebody else has enabled access, or no more peers are served and the driver copies by the host.
#[test]
fn answers_that_are_no_errors() {
    for code in [code::PEER_ACCESS_ALREADY_ENABLED, code::TOO_MANY_PEERS] {
        each(|turn, m, [zero, one]| {
            let x = upload(m, zero, &[1.0, -2.0]);
            turn.fail(Failure::once("cuCtxEnablePeerAccess", 0, code));
            assert_eq!(copied(&x, one).unwrap(), [1.0, -2.0]);
            assert_eq!(turn.count("cuMemcpyPeerAsync"), 1);
        });
    }
}

/// Where the driver does not say whether a device reaches the other, it is taken not to.
#[test]
fn a_question_without_an_answer() {
    each(|turn, m, [zero, one]| {
        let all =
            Failure { times: u64::MAX, ..Failure::once("cuDeviceCanAccessPeer", 0, code::UNKNOWN) };
        turn.fail(all);
        let x = upload(m, zero, &[1.0, -2.0]);
        assert_eq!(copied(&x, one).unwrap(), [1.0, -2.0]);
        assert_eq!(turn.count("cuMemcpyPeerAsync"), 0);
    });
}

/// Only copies reach another device; no kernel is launched on its memory.
#[test]
fn kernels_stay_with_their_device() {
    let turn = stand_in().turn();
    // Not the stand-in's, which launch the host's kernels where the device's do not serve.
    let kernels = millstream::kernels::standard();
    let m = machine_with(DriverKind::Inline, CudaConfig::default(), kernels);
    let zero = m.compute(&DeviceId::cuda(0), 0).unwrap();
    let to = m.stream(&StreamKey::new(DeviceId::cuda(1), StreamType::HOST2DEVICE, 0)).unwrap();
    let x = upload(&m, &zero, &[1.0, -2.0, 3.0, -4.0]);
    let error = m.call("relu", &[&x]).on(&to).unwrap_err().to_string();
    assert!(error.contains("lies on cuda:0, and cuda:1 host2device 0"), "{error}");
    let layout = Layout::strided(&[2], &[2], 0).unwrap();
    let gaps = x.view(TensorSpec::new(DType::F32, layout).unwrap()).unwrap();
    let y = m.call("copy", &[&gaps]).on(&to).unwrap().remove(0);
    let error = read(&y).unwrap_err().to_string();
    assert!(error.contains("a tensor with gaps in memory"), "{error}");
    assert_eq!(turn.count("cuLaunchKernel"), 0);
    drop((m, zero, to, x, gaps, y));
    no_violations();
    nothing_is_left();
}
