//! The fixture of the shared cases, with the stand-in's device instead of the simulated one.

use std::sync::{Arc, Once};

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::kernels::KernelRegistry;
use millstream::*;
use millstream_cuda_standin::StandIn;

pub(crate) use millstream_testing::machine::{call, failure, read, upload};

/// The device. Shadows the constant of the cases' own helpers.
pub(crate) const SIM: DeviceId = DeviceId::cuda(0);

/// Fails unless the loader finds the stand-in.
#[track_caller]
pub(crate) fn must_be_there() {
    static LOOK: Once = Once::new();
    LOOK.call_once(|| drop(StandIn::load().unwrap_or_else(|error| panic!("{error:#}"))));
}

/// Returns the standard kernels, with the stand-in's kernels for devices of kind `cuda`.
pub(crate) fn kernels() -> KernelRegistry {
    let mut kernels = millstream::kernels::standard();
    millstream_cuda_standin::register(&mut kernels);
    kernels
}

/// Returns the configuration of a machine with two host workers and `cuda:0`.
pub(crate) fn config(driver: DriverKind, sync: SyncPolicy) -> MachineConfig {
    must_be_there();
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    CudaBackend::new(CudaConfig::default()).register(&devices);
    let of = MachineConfig::of(millstream::ops::standard(), kernels(), Arc::new(devices));
    of.driver(driver).sync(sync).host_workers(2).threads(2)
}
