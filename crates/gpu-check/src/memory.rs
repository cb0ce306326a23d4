//! Runs the memory cases T1 to T11 of the tests, on the first device and the host.

use std::sync::Arc;

use anyhow::Result;

use super::Setting;
use super::fixture::{caught, quietly};
use super::section::Section;
use millstream::ep::Registry;
use millstream::ep::cpu::CpuBackend;
use millstream::ep::cuda::{CudaBackend, CudaConfig};
use millstream::{DeviceId, DriverKind, MachineConfig, SyncPolicy};
use millstream_testing::memory_cases::{CASES, Fixture};

/// Returns a configuration with two workers for the host, and the first device.
fn config(driver: DriverKind, sync: SyncPolicy) -> MachineConfig {
    let devices = Registry::new();
    devices.register(Arc::new(CpuBackend::new()));
    CudaBackend::new(CudaConfig::default()).register(&devices);
    let config = MachineConfig::default().devices(Arc::new(devices)).driver(driver).sync(sync);
    config.host_workers(2).threads(2)
}

pub(super) fn check(setting: &Setting, section: &mut Section) -> Result<()> {
    if setting.device != 0 {
        section.notes.push("the cases are of the first device".to_owned());
    }
    let fixture = Fixture { device: DeviceId::cuda(0), config };
    quietly(|| {
        for (done, (name, case)) in CASES.iter().enumerate() {
            let left = || format!("{} of {} cases", CASES.len() - done, CASES.len());
            if section.is_over(left) {
                break;
            }
            if setting.quick && done > 2 {
                section.cut = Some(left());
                break;
            }
            section.check(name, caught(|| case(&fixture)).err());
        }
    });
    Ok(())
}
