//! Tests of waits of one device for another, on the device.

use std::sync::Arc;
use std::time::Duration;

use millstream::ep::cuda::CudaConfig;
use millstream::{DType, DeviceId, DriverKind, Machine, Stream, TensorSpec};
use millstream_backoff::wait_until;
use millstream_cuda_standin::code;

use crate::calls::shown;
use crate::{call, machine, no_violations, nothing_is_open, read, stand_in, upload};

const DRIVERS: [DriverKind; 2] = [DriverKind::Inline, DriverKind::Threaded];

/// Creates a machine, and a stream on each of two devices.
fn machine_with_streams(driver: DriverKind) -> (Machine, [Stream; 2]) {
    // `failures` tests the reports of resources that cannot be destroyed on a lost device.
    let quiet = CudaConfig { report_drop_error: Arc::new(|_| ()), ..CudaConfig::default() };
    let m = machine(driver, quiet);
    let streams = [0, 1].map(|k| m.compute(&DeviceId::cuda(k), 0).unwrap());
    (m, streams)
}

/// A copy to the other device and back waits only on the devices: all its commands are submitted
/// while none runs.
#[test]
fn the_calls_of_a_copy_there_and_back() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    let turn = stand_in().turn();
    let (m, [zero, one]) = machine_with_streams(DriverKind::Inline);
    let x = upload(&m, &zero, &[1.0, -2.0]);
    m.synchronize().unwrap();
    let before = turn.calls().len();
    let hold = turn.hold();
    let y = call(&m, "add", &[&x, &x], &zero);
    let there = y.copy_to(&one).unwrap();
    let z = call(&m, "relu", &[&there], &one);
    let back = z.copy_to(&zero).unwrap();
    let calls = turn.calls().split_off(before);
    drop(hold);
    assert_eq!(read(&back).unwrap(), [2.0, 0.0]);
    drop((m, zero, one, x, y, there, z, back));
    no_violations();
    nothing_is_open();
    insta::assert_snapshot!(shown(&calls), @r"
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

/// Repeated copies to the other device and back, in both directions at once: the values are right,
/// no wait precedes its record, and the steady state creates no event.
#[test]
fn repeated_copies_in_both_directions() {
    for driver in DRIVERS {
        let turn = stand_in().turn();
        let (m, streams) = machine_with_streams(driver);
        let round = |k: usize| {
            let value = k as f32;
            for (from, to) in [(0, 1), (1, 0)] {
                let x = upload(&m, &streams[from], &[value, -value]);
                let y = call(&m, "add", &[&x, &x], &streams[from]);
                let there = y.copy_to(&streams[to]).unwrap();
                let back = call(&m, "add", &[&there, &there], &streams[to]).copy_to(&streams[from]);
                let sum = call(&m, "add", &[&back.unwrap(), &x], &streams[from]);
                assert_eq!(read(&sum).unwrap(), [5.0 * value, -5.0 * value]);
            }
        };
        (0..20).for_each(round);
        let before = turn.count("cuEventCreate");
        (20..100).for_each(round);
        let after = turn.count("cuEventCreate");
        assert!(after <= before + 2, "{after} events after {before}");
        drop((m, streams));
        no_violations();
        nothing_is_open();
    }
}

/// A kernel reports an error of its data when it has completed. The other device then already has
/// all its commands, and their results must fail too.
#[test]
fn a_device_error_fails_the_work_of_the_other_device() {
    if !millstream_cuda_standin::compiles() {
        println!("skipped: no C++ compiler");
        return;
    }
    for driver in DRIVERS {
        let turn = stand_in().turn();
        let (m, [zero, one]) = machine_with_streams(driver);
        let x = upload(&m, &zero, &[1.0, 2.0, 3.0]);
        let spec = TensorSpec::contiguous(DType::I64, &[1]).unwrap();
        let index = m.upload(&zero, spec, 3i64.to_ne_bytes().to_vec()).unwrap();
        m.synchronize().unwrap();
        let hold = turn.hold();
        let bad = m.call("index_select", &[&x, &index]).attr("dim", 0).on(&zero).unwrap().remove(0);
        let there = bad.copy_to(&one).unwrap();
        let reader = call(&m, "relu", &[&there], &one);
        // The last command is launched before the first has run.
        let launches = || turn.calls().iter().filter(|c| c.contains("ms_relu__f32, ")).count();
        wait_until(|| launches() > 0);
        drop(hold);
        for tensor in [&bad, &there, &reader] {
            let error = read(tensor).unwrap_err().to_string();
            assert!(error.contains("expected 0 to 2"), "{error}");
        }
        assert_eq!(m.failures().1, 1);
        drop((m, zero, one, x, index, bad, there, reader));
        no_violations();
        nothing_is_open();
    }
}

/// A device is lost while another waits for it. A real driver may let the other device continue or
/// not. In both cases the results that depend on the lost device fail, and independent work
/// continues.
#[test]
fn the_awaited_device_is_lost() {
    for (driver, releases_waiters) in DRIVERS.into_iter().flat_map(|d| [(d, false), (d, true)]) {
        let turn = stand_in().turn();
        let (m, [zero, one]) = machine_with_streams(driver);
        let x = upload(&m, &one, &[1.0, -2.0]);
        let own = upload(&m, &zero, &[3.0]);
        m.synchronize().unwrap();
        let hold = turn.hold();
        let y = call(&m, "add", &[&x, &x], &one);
        let here = y.copy_to(&zero).unwrap();
        let z = call(&m, "add", &[&here, &here], &zero);
        // One stream depends on the waiting stream, the other is independent of it.
        let streams = [1, 2].map(|k| m.compute(&DeviceId::cuda(0), k).unwrap());
        let dependent = call(&m, "add", &[&z, &z], &streams[0]);
        let independent = call(&m, "add", &[&own, &own], &streams[1]);
        wait_until(|| turn.count("cuLaunchKernel") >= 4);
        turn.lose(1, code::LAUNCH_FAILED, releases_waiters);
        drop(hold);
        assert_eq!(read(&independent).unwrap(), [6.0]);
        for tensor in [&y, &here, &z, &dependent] {
            let error = read(tensor).unwrap_err().to_string();
            assert!(error.contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
        }
        // If the device continues, later work succeeds.
        let later = call(&m, "add", &[&own, &own], &zero);
        let read = read(&later);
        assert_eq!(read.is_ok(), releases_waiters, "{read:?}");
        drop((zero, one, streams, x, own, y, here, z, dependent, independent, later));
        let report = m.shutdown(Duration::from_secs(60));
        assert!(!report.leaked && report.hanging.is_empty(), "{report:?}");
        no_violations();
    }
}
