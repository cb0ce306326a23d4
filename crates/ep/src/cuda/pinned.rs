//! Pinned host memory, allocated by the driver: the device `pinned:0`, which has no streams.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::cuda::memory::CudaPinnedMemory;
use crate::cuda::{BackendState, CudaDevice};
use crate::device::{Backend, Capabilities, Device, Event, Memory, Notify, Stream};

const CAPABILITIES: Capabilities = Capabilities {
    asynchronous: false,
    device_waits: false,
    notifies: false,
    host_memory: true,
    timestamps: false,
    graphs: false,
};

/// By default, this fraction of the host's memory may be pinned: one part of four. The system never
/// swaps pinned memory out, so other programs have less.
const LIMIT_DIVISOR: u64 = 4;

/// The backend of kind `pinned` for CUDA devices. All of them copy from and to its memory at full
/// speed.
#[derive(Clone)]
pub struct CudaPinnedBackend {
    state: Arc<BackendState>,
}

struct Pinned {
    id: DeviceId,
    /// The device in whose context the memory is allocated. All devices may access it.
    device: Arc<CudaDevice>,
}

impl CudaPinnedBackend {
    pub(super) fn new(state: Arc<BackendState>) -> CudaPinnedBackend {
        CudaPinnedBackend { state }
    }
}

impl Backend for CudaPinnedBackend {
    fn kind(&self) -> &str {
        "pinned"
    }

    fn count(&self) -> Result<u32> {
        Ok(self.state.count()?.min(1))
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        let id = DeviceId::pinned(index);
        if index != 0 {
            let message = "the only pinned memory is pinned:0".to_owned();
            return Err(Error::Device { device: id, message });
        }
        Ok(Arc::new(Pinned { id, device: self.state.open(0)? }))
    }
}

impl fmt::Debug for CudaPinnedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaPinnedBackend").finish_non_exhaustive()
    }
}

impl Pinned {
    fn refuse<T>(&self, what: &'static str) -> Result<T> {
        let message = format!("{} has only memory; use a stream of cpu:0 on it", self.id);
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
        crate::cpu::total_memory() / LIMIT_DIVISOR
    }

    fn allocate(&self, bytes: usize) -> Result<Box<dyn Memory>> {
        match CudaPinnedMemory::new(self.device.context(), bytes) {
            Ok(memory) => Ok(Box::new(memory)),
            Err(error) if error.is_out_of_memory() => Err(Error::OutOfMemory {
                device: self.id.clone(),
                purpose: "pinned memory".to_owned(),
                wanted: bytes as u64,
                in_use: 0,
                limit: self.default_memory_limit(),
                holders: Vec::new(),
            }),
            Err(error) => Err(super::driver_error(&self.id, &error)),
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
