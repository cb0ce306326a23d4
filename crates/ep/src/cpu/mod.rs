//! The host itself: one device, `cpu:0`, that runs work inside `submit`, on the calling thread.
//!
//! Every command is [`Progress::Done`](crate::Progress::Done) when the call returns. The device
//! therefore has no events, and its streams differ only in the threads that call them.

mod device;
mod stream;

use std::sync::{Arc, OnceLock};

use sysinfo::{MemoryRefreshKind, System};

use millstream_types::{DeviceId, Error, Result};

use crate::account::Account;
use crate::device::{Backend, Capabilities, Device};

pub use device::CpuDevice;

/// Commands complete at once, so the host needs neither waits nor notifications.
const CAPABILITIES: Capabilities = Capabilities {
    asynchronous: false,
    device_waits: false,
    notifies: false,
    host_memory: true,
    timestamps: true,
    graphs: false,
};

/// The assumed memory of the host if the system does not report it.
const ASSUMED_MEMORY: u64 = 4 << 30;

/// The backend of kind `cpu`.
#[derive(Clone, Debug)]
pub struct CpuBackend {
    account: Arc<Account>,
    default_limit: u64,
}

impl CpuBackend {
    /// Creates the host with half of its memory as a machine's default limit. A machine with a
    /// higher limit may allocate all of it. If the system does not report the size, 4 GiB are
    /// assumed.
    pub fn new() -> CpuBackend {
        let total = total_memory();
        CpuBackend { account: Account::new(total), default_limit: total / 2 }
    }

    /// Creates the host with `bytes` of memory: a machine's default limit, and the limit of all
    /// allocations together.
    pub fn with_memory_limit(bytes: u64) -> CpuBackend {
        CpuBackend { account: Account::new(bytes), default_limit: bytes }
    }
}

impl Default for CpuBackend {
    fn default() -> CpuBackend {
        CpuBackend::new()
    }
}

impl Backend for CpuBackend {
    fn kind(&self) -> &str {
        "cpu"
    }

    fn count(&self) -> Result<u32> {
        Ok(1)
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        if index != 0 {
            let message = "the only device of the host is cpu:0".to_owned();
            return Err(Error::Device { device: DeviceId::cpu(index), message });
        }
        // The backend owns the account, so that a device that is opened twice has one limit.
        Ok(Arc::new(CpuDevice::new(self.account.clone(), self.default_limit)))
    }
}

/// Returns the host's memory in bytes, or [`ASSUMED_MEMORY`].
pub(crate) fn total_memory() -> u64 {
    // Queried once: the query takes longer than a small program runs.
    static TOTAL: OnceLock<u64> = OnceLock::new();
    *TOTAL.get_or_init(|| host_memory().unwrap_or(ASSUMED_MEMORY))
}

/// Returns the host's memory in bytes, or the limit of its control group if that is lower.
fn host_memory() -> Option<u64> {
    let mut system = System::new();
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    let allowed = system.cgroup_limits().map(|group| group.total_memory).filter(|&b| b > 0);
    let installed = Some(system.total_memory()).filter(|&b| b > 0);
    [allowed, installed].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_limit_is_half_of_the_memory() {
        let device = CpuBackend::new().open(0).unwrap();
        let total = host_memory().unwrap_or(ASSUMED_MEMORY);
        assert_eq!(device.default_memory_limit(), total / 2);
        assert!(total > 1 << 20, "{total} bytes are too few for a host");
    }

    #[test]
    fn a_limit_holds_for_every_handle_of_the_device() {
        let backend = CpuBackend::with_memory_limit(1 << 20);
        let (one, two) = (backend.open(0).unwrap(), backend.open(0).unwrap());
        assert_eq!(one.default_memory_limit(), 1 << 20);
        let held = one.allocate(1 << 19).unwrap();
        let refused = two.allocate((1 << 19) + 1).err();
        assert!(matches!(refused, Some(Error::OutOfMemory { in_use: 524_288, .. })), "{refused:?}");
        drop(held);
        assert_eq!(two.allocate(1 << 20).unwrap().bytes(), 1 << 20);
    }

    #[test]
    fn a_second_host_device_is_refused() {
        assert!(matches!(CpuBackend::new().open(1).err(), Some(Error::Device { .. })));
    }
}
