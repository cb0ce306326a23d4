//! Runs the memory cases T1 to T11 of the tests, on the first device and the host.

use std::any::Any;
use std::panic::catch_unwind;
use std::sync::Arc;

use anyhow::Result;

use super::Setting;
use super::section::{Section, Time};
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

pub(super) fn check(setting: &Setting, time: &Time, section: &mut Section) -> Result<()> {
    if setting.device != 0 {
        section.notes.push("the cases are of the first device".to_owned());
    }
    // A case that fails panics. The report has the message, so the panic prints nothing.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let fixture = Fixture { device: DeviceId::cuda(0), config };
    for (done, (name, case)) in CASES.iter().enumerate() {
        if time.is_up() || (setting.quick && done > 2) {
            section.cut = Some(format!("{} of {} cases", CASES.len() - done, CASES.len()));
            break;
        }
        section.check(
            name,
            catch_unwind(|| case(&fixture)).err().map(|payload| panic_message(&*payload)),
        );
    }
    std::panic::set_hook(hook);
    Ok(())
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
