//! Pinned host memory, allocated by the driver: the device `pinned:0`, which has no streams.

use std::fmt;
use std::sync::Arc;

use millstream_types::{DeviceId, Error, Result};

use crate::cuda::memory::CudaPinnedMemory;
use crate::cuda::{BackendState, CudaDevice};
use crate::device::{Backend, Capabilities, Device, Memory};
use crate::pinned::{self, CAPABILITIES, PinnedMemory};

/// By default, this fraction of the host's memory may be pinned: one part of four. The system never
/// swaps pinned memory out, so other programs have less.
const LIMIT_DIVISOR: u64 = 4;

/// The backend of kind `pinned` for CUDA devices. All of them copy from and to its memory at full
/// speed.
#[derive(Clone)]
pub struct CudaPinnedBackend {
    state: Arc<BackendState>,
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
        pinned::open(index, || self.state.open(0))
    }
}

impl fmt::Debug for CudaPinnedBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaPinnedBackend").finish_non_exhaustive()
    }
}

/// Memory that is allocated in the context of a device. All devices may access it.
impl PinnedMemory for Arc<CudaDevice> {
    fn limit(&self) -> u64 {
        crate::cpu::total_memory() / LIMIT_DIVISOR
    }

    fn allocate(&self, id: &DeviceId, bytes: usize) -> Result<Box<dyn Memory>> {
        match CudaPinnedMemory::new(self.context(), bytes) {
            Ok(memory) => Ok(Box::new(memory)),
            Err(error) if error.is_out_of_memory() => Err(Error::OutOfMemory {
                device: id.clone(),
                purpose: "pinned memory".to_owned(),
                wanted: bytes as u64,
                in_use: 0,
                limit: self.limit(),
                holders: Vec::new(),
            }),
            Err(error) => Err(super::driver_error(id, &error)),
        }
    }
}
