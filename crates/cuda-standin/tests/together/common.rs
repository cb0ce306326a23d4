//! What the cases share, with the stand-in's device in place of the simulated one.

use std::sync::{Arc, Once};

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::kernels::KernelRegistry;
use millstream::*;
use millstream_cuda_standin::StandIn;

pub(crate) use crate::base::*;

/// The device: hides that of the cases' helpers.
pub(crate) const SIM: DeviceId = DeviceId::cuda(0);

/// Fails unless the loader finds the stand-in.
#[track_caller]
pub(crate) fn must_be_there() {
    static LOOK: Once = Once::new();
    LOOK.call_once(|| drop(StandIn::load().unwrap_or_else(|error| panic!("{error:#}"))));
}

/// The standard kernels, and those of the host for the stand-in.
pub(crate) fn kernels() -> KernelRegistry {
    let mut kernels = millstream::kernels::standard();
    millstream_cuda_standin::register(&mut kernels);
    kernels
}

/// Two workers for the host, and `cuda:0`.
pub(crate) fn config(driver: DriverKind, sync: SyncPolicy) -> MachineConfig {
    must_be_there();
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    CudaBackend::new(CudaConfig::default()).register(&devices);
    let of = MachineConfig::of(millstream::ops::standard(), kernels(), Arc::new(devices));
    of.driver(driver).sync(sync).host_workers(2).threads(2)
}

/// A machine of any driver with ops that fail.
pub(crate) fn failing(driver: DriverKind) -> Machine {
    let mut config = config(driver, SyncPolicy::Frontier);
    add_failing_ops(&mut config);
    for op in ["fail", "panic"] {
        let kernel = config.kernels.get("cpu", op).cloned().expect("it was added");
        config.kernels.register("cuda", op, kernel);
    }
    Machine::new(config).unwrap()
}
