//! Tests of arenas in a memory pool of the device.

use std::sync::Arc;

use millstream::ep::Backend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::{DType, DeviceId, DriverKind, Machine, TensorSpec};
use millstream_conformance::{self as conformance, HostHarness};
use millstream_cuda_standin::code;
use millstream_cuda_standin::control::Failure;

use crate::calls::shown;
use crate::{machine, no_violations, nothing_is_open, read, stand_in, upload};

fn pooled() -> CudaConfig {
    CudaConfig { stream_ordered: true, ..CudaConfig::default() }
}

#[test]
fn the_calls_of_an_arena() {
    let turn = stand_in().turn();
    turn.deny_peer_access(3, 0);
    let device = CudaBackend::new(pooled()).open(0).unwrap();
    let block = device.allocate(1024).unwrap();
    assert_eq!(block.bytes(), 1024);
    drop((block, device));
    no_violations();
    nothing_is_open();
    insta::assert_snapshot!(shown(&turn.calls()), @r"
    cuStreamCreateWithPriority(0) = s0
    cuMemPoolCreate(device 0)
    cuMemPoolSetAttribute(device 0, release threshold 18446744073709551615)
    cuMemPoolSetAccess(device 0, for 1, 2)
    cuMemAllocFromPoolAsync(1024, s0) = m0
    cuMemFreeAsync(m0, s0)
    cuMemPoolDestroy(device 0)
    ");
    // The memory is available before the allocation returns.
    assert_eq!(turn.count("cuStreamSynchronize"), 1);
}

/// A program that fills the memory, frees small tensors for a large one, and copies to another
/// device, whose arenas are in a memory pool, too.
#[test]
fn a_program_in_memory_pools() {
    for driver in [DriverKind::Inline, DriverKind::Threaded] {
        let turn = stand_in().turn();
        let m = machine(driver, pooled());
        let [zero, one] = [0, 1].map(|k| m.compute(&DeviceId::cuda(k), 0).unwrap());
        let small: Vec<_> = (0..4).map(|k| upload(&m, &zero, &vec![k as f32; 50_000])).collect();
        for (k, x) in small.iter().enumerate() {
            assert_eq!(read(&x.copy_to(&one).unwrap()).unwrap(), vec![k as f32; 50_000]);
        }
        drop(small);
        let large = upload(&m, &zero, &vec![7.0; 200_000]);
        assert_eq!(read(&large).unwrap(), vec![7.0; 200_000]);
        assert!(turn.count("cuMemFreeAsync") > 0 && turn.count("cuMemcpyPeerAsync") > 0);
        drop((large, zero, one, m));
        assert_eq!(turn.count("cuMemAllocFromPoolAsync"), turn.count("cuMemFreeAsync"));
        no_violations();
        nothing_is_open();
    }
}

#[test]
fn the_conformance_suite() {
    let _turn = stand_in().turn();
    let report = conformance::run(Arc::new(CudaBackend::new(pooled())), &HostHarness);
    println!("{report}");
    report.into_result().unwrap();
    no_violations();
    nothing_is_open();
}

/// Copies a value to the device and back.
fn round_trip(m: &Machine) -> millstream::Result<Vec<f32>> {
    let zero = m.compute(&DeviceId::cuda(0), 0)?;
    let spec = TensorSpec::contiguous(DType::F32, &[1])?;
    read(&m.upload(&zero, spec, 5f32.to_ne_bytes().to_vec())?)
}

#[test]
fn every_call_of_a_memory_pool_fails_once() {
    const CALLS: [(&str, u32, &str); 5] = [
        ("cuMemPoolCreate", code::OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"),
        ("cuMemPoolSetAttribute", code::INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"),
        ("cuMemPoolSetAccess", code::INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"),
        ("cuMemAllocFromPoolAsync", code::OUT_OF_MEMORY, "out of memory on cuda:0"),
        ("cuStreamSynchronize", code::LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"),
    ];
    for (call, code, text) in CALLS {
        let turn = stand_in().turn();
        let m = machine(DriverKind::Inline, pooled());
        turn.fail(Failure { times: 3, ..Failure::once(call, 0, code) });
        let error = round_trip(&m).unwrap_err().to_string();
        assert!(error.contains(text), "{call}: {error}");
        turn.cancel_failures();
        m.clear_failures();
        assert_eq!(round_trip(&m).unwrap(), [5.0], "{call}");
        drop(m);
        no_violations();
        nothing_is_open();
    }
}
