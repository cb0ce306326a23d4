//! Pinned host memory, as the device `pinned:0`, which has memory and no streams.
//!
//! An accelerator's driver pins memory, so the accelerator's backend provides its own backend of
//! this kind. The backend in this module is for devices simulated on the host, which access all
//! memory alike: it accounts for the memory separately, with a limit of its own, and pins nothing.

use std::any::Any;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::account::Account;
use crate::device::{Backend, Capabilities, Device, Event, Memory, Notify, Stream};
use crate::host_memory::HostMemory;

/// The capabilities of all pinned memory.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    asynchronous: false,
    device_waits: false,
    notifies: false,
    host_memory: true,
    timestamps: false,
    graphs: false,
};

/// The backend of kind `pinned`, for simulated devices.
#[derive(Clone, Debug)]
pub struct PinnedBackend {
    account: Arc<Account>,
}

/// Where pinned memory comes from.
pub(crate) trait PinnedMemory: Send + Sync + 'static {
    /// Returns the most bytes that are pinned by default.
    fn limit(&self) -> u64;

    /// Allocates memory for the device of this id.
    ///
    /// # Errors
    /// Memory is exhausted, or the driver fails.
    fn allocate(&self, id: &DeviceId, bytes: usize) -> Result<Box<dyn Memory>>;
}

/// The device `pinned:0`.
struct Pinned<M> {
    id: DeviceId,
    memory: M,
}

/// Opens the device of this number with the memory that `memory` returns.
///
/// # Errors
/// There is no such device, or as for `memory`.
pub(crate) fn open<M: PinnedMemory>(
    index: u32,
    memory: impl FnOnce() -> Result<M>,
) -> Result<Arc<dyn Device>> {
    let id = DeviceId::pinned(index);
    if index != 0 {
        let message = "the only pinned memory is pinned:0".to_owned();
        return Err(Error::Device { device: id, message });
    }
    Ok(Arc::new(Pinned { id, memory: memory()? }))
}

impl PinnedBackend {
    /// Creates a backend with a limit of `bytes` bytes.
    pub fn new(bytes: u64) -> PinnedBackend {
        PinnedBackend { account: Account::new(bytes) }
    }
}

impl Backend for PinnedBackend {
    fn kind(&self) -> &str {
        "pinned"
    }

    fn count(&self) -> Result<u32> {
        Ok(1)
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        open(index, || Ok(self.account.clone()))
    }
}

impl PinnedMemory for Arc<Account> {
    fn limit(&self) -> u64 {
        (**self).limit()
    }

    fn allocate(&self, id: &DeviceId, bytes: usize) -> Result<Box<dyn Memory>> {
        Ok(Box::new(HostMemory::new(bytes, self, id)?))
    }
}

impl<M> Pinned<M> {
    fn refuse<T>(&self, what: &'static str) -> Result<T> {
        let message = format!("{} has only memory; use a stream of cpu:0 on it", self.id);
        Err(Error::Invalid { what, message })
    }
}

impl<M: PinnedMemory> Device for Pinned<M> {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn kernel_kind(&self) -> &str {
        "cpu"
    }

    fn default_memory_limit(&self) -> u64 {
        self.memory.limit()
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>> {
        self.memory.allocate(&self.id, bytes)
    }

    fn create_stream(&self, _notify: Notify) -> Result<Box<dyn Stream>> {
        self.refuse("stream")
    }

    fn create_event(&self) -> Result<Arc<dyn Event>> {
        self.refuse("event")
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_device_has_memory_and_no_streams() {
        let backend = PinnedBackend::new(1024);
        let device = backend.open(0).unwrap();
        assert_eq!((device.id(), device.default_memory_limit()), (&DeviceId::pinned(0), 1024));
        let memory = device.allocate(1000).unwrap();
        assert_eq!(memory.bytes(), 1000);
        assert!(device.allocate(1000).is_err(), "over the limit");
        assert!(device.create_stream(Arc::new(|| ())).is_err());
        assert!(device.create_event().is_err());
        assert!(backend.open(1).is_err());
    }
}
