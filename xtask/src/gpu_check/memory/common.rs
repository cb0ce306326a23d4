//! What the cases share, with a CUDA device in place of the simulated one.

use std::sync::Arc;

use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::*;

pub(super) use super::base::*;

/// The device: hides that of the cases' helpers.
pub(super) const SIM: DeviceId = DeviceId::cuda(0);

/// Two workers for the host, and the device.
pub(super) fn config(driver: DriverKind, sync: SyncPolicy) -> MachineConfig {
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    CudaBackend::new(CudaConfig::default()).register(&devices);
    let devices = Arc::new(devices);
    MachineConfig::default().driver(driver).sync(sync).devices(devices).host_workers(2).threads(2)
}

/// A machine of any driver with ops that fail.
pub(super) fn failing(driver: DriverKind) -> Machine {
    let mut config = config(driver, SyncPolicy::Frontier);
    add_failing_ops(&mut config);
    for op in ["fail", "panic"] {
        let kernel = config.kernels.get("cpu", op).cloned().expect("it was added");
        config.kernels.register("cuda", op, kernel);
    }
    Machine::new(config).expect("a machine opens nothing")
}
