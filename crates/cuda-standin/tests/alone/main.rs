//! The CUDA backend on the stand-in, in tests with exclusive use of it.

mod calls;
mod conformance;
mod empty;
mod failures;
mod faults;
mod functions;
mod graph_failures;
mod graphs;
mod multi_tensor;
mod nccl;
mod peer_waits;
mod peers;
mod plans;
mod pools;
mod products;
mod refusals;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::kernels::KernelRegistry;
use millstream::{DType, DeviceId, DriverKind, Machine, MachineConfig, Stream, Tensor, TensorSpec};
use millstream_cuda_standin::StandIn;

/// Returns the stand-in. Panics if the loader finds another library.
pub(crate) fn stand_in() -> &'static StandIn {
    static STAND_IN: LazyLock<StandIn> =
        LazyLock::new(|| StandIn::load().unwrap_or_else(|error| panic!("{error:#}")));
    &STAND_IN
}

/// Fails if there are violations: calls whose behaviour a real driver leaves undefined.
#[track_caller]
pub(crate) fn no_violations() {
    let violations = stand_in().violations();
    assert!(violations.is_empty(), "{violations:#?}");
}

/// Fails unless every object of the driver was destroyed.
#[track_caller]
pub(crate) fn nothing_is_open() {
    const KINDS: [&str; 10] = [
        "streams",
        "events",
        "modules",
        "memory pools",
        "graphs",
        "executable graphs",
        "cublas handles",
        "device bytes",
        "pinned bytes",
        "contexts",
    ];
    for what in KINDS {
        assert_eq!(stand_in().open(what), 0, "{what}");
    }
}

/// Returns the stand-in's kernels.
pub(crate) fn kernels() -> KernelRegistry {
    let mut kernels = millstream::kernels::standard();
    millstream_cuda_standin::register(&mut kernels);
    kernels
}

/// Creates a machine with little memory on two devices, with the stand-in's kernels.
pub(crate) fn machine(driver: DriverKind, cuda: CudaConfig) -> Machine {
    machine_with(driver, cuda, kernels())
}

/// Does as [`machine`], with these kernels.
pub(crate) fn machine_with(
    driver: DriverKind,
    cuda: CudaConfig,
    kernels: KernelRegistry,
) -> Machine {
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    CudaBackend::new(cuda).register(&devices);
    let limits = [DeviceId::cuda(0), DeviceId::cuda(1), DeviceId::pinned(0)];
    let config = MachineConfig::of(millstream::ops::standard(), kernels, Arc::new(devices))
        .driver(driver)
        .threads(1)
        .host_workers(2)
        .memory_limits(HashMap::from(limits.map(|device| (device, 1 << 20))));
    Machine::new(config).unwrap()
}

#[track_caller]
pub(crate) fn upload(machine: &Machine, on: &Stream, values: &[f32]) -> Tensor {
    let spec = TensorSpec::contiguous(DType::F32, &[values.len()]).unwrap();
    let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
    machine.upload(on, spec, bytes).unwrap()
}

#[track_caller]
pub(crate) fn call(machine: &Machine, op: &str, inputs: &[&Tensor], on: &Stream) -> Tensor {
    machine.call(op, inputs).on(on).unwrap().remove(0)
}

/// Reads the elements of a tensor.
pub(crate) fn read(tensor: &Tensor) -> millstream::Result<Vec<f32>> {
    let bytes = tensor.read()?;
    Ok(bytes.chunks_exact(4).map(|c| f32::from_ne_bytes([c[0], c[1], c[2], c[3]])).collect())
}
