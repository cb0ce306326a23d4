//! Waits of one device for another on the device.

use std::sync::Arc;
use std::time::Duration;

use millstream::ep::cuda::CudaConfig;
use millstream::{DType, DeviceId, DriverKind, Machine, Stream, TensorSpec};
use millstream_cuda_standin::code;

use crate::calls::shown;
use crate::{call, machine, no_violations, nothing_is_left, read, stand_in, upload};

const DRIVERS: [DriverKind; 2] = [DriverKind::Inline, DriverKind::Threaded];

/// A machine, and a stream on each of two devices.
fn rig(driver: DriverKind) -> (Machine, [Stream; 2]) {
    // What cannot be destroyed on a device that is lost has a test of its own.
    let quiet = CudaConfig { report_drop_error: Arc::new(|_| ()), ..CudaConfig::default() };
    let m = machine(driver, quiet);
    let homes = [0, 1].map(|k| m.compute(&DeviceId::cuda(k), 0).unwrap());
    (m, homes)
}

/// A copy to the other device and back waits on the device throughout: all of it is handed over while
/// nothing runs.
#[test]
fn the_calls_of_a_copy_there_and_back() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    let turn = stand_in().turn();
    let (m, [zero, one]) = rig(DriverKind::Inline);
    let x = upload(&m, &zero, &[1.0, -2.0]);
    m.synchronize().unwrap();
    let before = turn.calls().len();
    let hold = turn.hold();
    let y = call(&m, "add", &[&x, &x], &zero);
    let there = y.copy_to(&one).unwrap();
    let z = call(&m, "relu", &[&there], &one);
    let back = z.copy_to(&zero).unwrap();
    let made = turn.calls().split_off(before);
    drop(hold);
    assert_eq!(read(&back).unwrap(), [2.0, 0.0]);
    drop((m, zero, one, x, y, there, z, back));
    no_violations();
    nothing_is_left();
    insta::assert_snapshot!(shown(&made), @r"
    cuMemAlloc_v2(512) = m1
    cuStreamCreateWithPriority(0) = s2
    cuModuleLoadData() = k0
    cuModuleGetFunction(k0, ms_add__f32)
    cuLaunchKernel(ms_add__f32, s2)
    cuMemAlloc_v2(512) = m2
    cuEventRecord(e0#1, s2)
    cuStreamCreateWithPriority(-5) = s3
    cuStreamWaitEvent(s3, e0#1)
    cuCtxEnablePeerAccess(0 by 1)
    cuMemcpyPeerAsync(m2 of 1 <- m1 of 0, 8, s3)
    cuMemAlloc_v2(512) = m3
    cuEventRecord(e1#1, s3)
    cuStreamCreateWithPriority(0) = s4
    cuStreamWaitEvent(s4, e1#1)
    cuModuleLoadData() = k1
    cuModuleGetFunction(k1, ms_relu__f32)
    cuLaunchKernel(ms_relu__f32, s4)
    cuMemAlloc_v2(512) = m4
    cuEventRecord(e2#1, s4)
    cuStreamWaitEvent(s1, e2#1)
    cuCtxEnablePeerAccess(1 by 0)
    cuMemcpyPeerAsync(m4 of 0 <- m3 of 1, 8, s1)
    ");
}

/// Copies there and back again and again, in both directions at once: the values are right, the driver
/// sees no wait before its record, and in the steady state makes no event.
#[test]
fn to_and_fro() {
    for driver in DRIVERS {
        let turn = stand_in().turn();
        let (m, homes) = rig(driver);
        let round = |k: usize| {
            let value = k as f32;
            for (from, to) in [(0, 1), (1, 0)] {
                let x = upload(&m, &homes[from], &[value, -value]);
                let there = call(&m, "add", &[&x, &x], &homes[from]).copy_to(&homes[to]).unwrap();
                let back = call(&m, "add", &[&there, &there], &homes[to]).copy_to(&homes[from]);
                let sum = call(&m, "add", &[&back.unwrap(), &x], &homes[from]);
                assert_eq!(read(&sum).unwrap(), [5.0 * value, -5.0 * value]);
            }
        };
        (0..20).for_each(round);
        let made = turn.count("cuEventCreate");
        (20..100).for_each(round);
        assert!(
            turn.count("cuEventCreate") <= made + 2,
            "{} after {made}",
            turn.count("cuEventCreate")
        );
        drop((m, homes));
        no_violations();
        nothing_is_left();
    }
}

/// What a kernel finds in its data is known when its device has completed it, when the other device
/// has everything already.
#[test]
fn a_verdict_reaches_the_other_device() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    for driver in DRIVERS {
        let turn = stand_in().turn();
        let (m, [zero, one]) = rig(driver);
        let x = upload(&m, &zero, &[1.0, 2.0, 3.0]);
        let spec = TensorSpec::contiguous(DType::I64, &[1]).unwrap();
        let index = m.upload(&zero, spec, 3i64.to_ne_bytes().to_vec()).unwrap();
        m.synchronize().unwrap();
        let hold = turn.hold();
        let bad = m.call("index_select", &[&x, &index]).attr("dim", 0).on(&zero).unwrap().remove(0);
        let there = bad.copy_to(&one).unwrap();
        let reader = call(&m, "relu", &[&there], &one);
        // The last of it is launched before the first has run.
        let launches = || turn.calls().iter().filter(|c| c.contains("ms_relu__f32, ")).count();
        while launches() == 0 {
            std::thread::yield_now();
        }
        drop(hold);
        for tensor in [&bad, &there, &reader] {
            let error = read(tensor).unwrap_err().to_string();
            assert!(error.contains("expected 0 to 2"), "{error}");
        }
        assert_eq!(m.failures().1, 1);
        drop((m, zero, one, x, index, bad, there, reader));
        no_violations();
        nothing_is_left();
    }
}

/// A device is lost while another waits for it. A real driver may let the other go on, or not: what came
/// from the lost device has failed either way, and what does not wait for it goes on.
#[test]
fn what_is_waited_for_is_lost() {
    for (driver, lets_go) in DRIVERS.into_iter().flat_map(|d| [(d, false), (d, true)]) {
        let turn = stand_in().turn();
        let (m, [zero, one]) = rig(driver);
        let x = upload(&m, &one, &[1.0, -2.0]);
        let own = upload(&m, &zero, &[3.0]);
        m.synchronize().unwrap();
        let hold = turn.hold();
        let y = call(&m, "add", &[&x, &x], &one);
        let here = y.copy_to(&zero).unwrap();
        let z = call(&m, "add", &[&here, &here], &zero);
        // Behind the stream that waits, and beside it.
        let streams = [1, 2].map(|k| m.compute(&DeviceId::cuda(0), k).unwrap());
        let behind = call(&m, "add", &[&z, &z], &streams[0]);
        let beside = call(&m, "add", &[&own, &own], &streams[1]);
        while turn.count("cuLaunchKernel") < 4 {
            std::thread::yield_now();
        }
        turn.lose(1, code::LAUNCH_FAILED, lets_go);
        drop(hold);
        assert_eq!(read(&beside).unwrap(), [6.0]);
        for tensor in [&y, &here, &z, &behind] {
            let error = read(tensor).unwrap_err().to_string();
            assert!(error.contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
        }
        // Where it goes on, what comes later is as good as ever.
        let later = call(&m, "add", &[&own, &own], &zero);
        let read = read(&later);
        assert_eq!(read.is_ok(), lets_go, "{read:?}");
        drop((zero, one, streams, x, own, y, here, z, behind, beside, later));
        let report = m.shutdown(Duration::from_secs(60));
        assert!(!report.leaked && report.hanging.is_empty(), "{report:?}");
        no_violations();
    }
}
