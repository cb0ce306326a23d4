//! Pinned host memory, allocated by the driver: the device `pinned:0`, which is memory alone.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::cuda::memory::CudaPinned;
use crate::cuda::{CudaDevice, Shared};
use crate::device::{Backend, Capabilities, Device, Event, Memory, Notify, Stream};

const CAPABILITIES: Capabilities = Capabilities {
    asynchronous: false,
    device_waits: false,
    notifies: false,
    host_memory: true,
    timestamps: false,
};

/// The part of the host's memory that may be pinned by default. What is pinned is never swapped
/// out, so all others have less.
const SHARE: u64 = 4;

/// The backend of kind `pinned` for CUDA devices. Any of them copies from and to its memory at full
/// speed.
#[derive(Clone)]
pub struct CudaPinnedBackend {
    shared: Arc<Shared>,
}

struct Pinned {
    id: DeviceId,
    /// The device in whose context the memory is allocated; all may use it.
    device: Arc<CudaDevice>,
}

impl CudaPinnedBackend {
    pub(super) fn new(shared: Arc<Shared>) -> CudaPinnedBackend {
        CudaPinnedBackend { shared }
    }
}

impl Backend for CudaPinnedBackend {
    fn kind(&self) -> &str {
        "pinned"
    }

    fn count(&self) -> Result<u32> {
        Ok(self.shared.count()?.min(1))
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        let id = DeviceId::pinned(index);
        if index != 0 {
            let message = "there is one pinned memory, pinned:0".to_owned();
            return Err(Error::Device { device: id, message });
        }
        Ok(Arc::new(Pinned { id, device: self.shared.open(0)? }))
    }
}

impl fmt::Debug for CudaPinnedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaPinnedBackend").finish_non_exhaustive()
    }
}

impl Pinned {
    fn refuse<T>(&self, what: &'static str) -> Result<T> {
        let message = format!("{} is memory; streams of cpu:0 work on it", self.id);
        Err(Error::Invalid { what, message })
    }
}

impl Device for Pinned {
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
        crate::cpu::total_memory() / SHARE
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>> {
        match CudaPinned::new(self.device.context(), bytes) {
            Ok(memory) => Ok(Box::new(memory)),
            Err(error) if error.is_out_of_memory() => Err(Error::OutOfMemory {
                device: self.id.clone(),
                purpose: "pinned memory".to_owned(),
                wanted: bytes as u64,
                in_use: 0,
                limit: self.default_memory_limit(),
                holders: Vec::new(),
            }),
            Err(error) => Err(super::device_error(&self.id, &error)),
        }
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
