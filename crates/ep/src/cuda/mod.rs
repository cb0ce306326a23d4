//! NVIDIA devices, by way of the CUDA driver's library, which is looked for when the first device is
//! asked for (see `library` for where). Everything builds and runs without it; a device of kind
//! `cuda` is then an error that says what was looked for.
//!
//! # How commands complete
//! Kernels and copies are launched on the stream as they are handed over. What has completed is
//! learned from *markers*: events of the stream's own, recorded by a poll behind all that was handed
//! over so far, two at most at a time. One query so covers all commands up to the marker, and a
//! stream that is far ahead costs no more events than one that is not. Events of the program's are
//! not asked for this.
//!
//! When to poll is [`Completion`]: a worker that asks now and then, or the driver that calls. Asking
//! is the default. A call from the driver stands in the stream's order: the stream does not go on
//! until the host has got round to it, so it costs the device time with each batch. A question costs
//! the host a little and the device nothing. Which is better has not been measured yet.
//!
//! # What is the host's to do
//! Work that the host does ([`Work::runs_on_host`](crate::Work::runs_on_host)) is called by the
//! driver when the stream gets there. So are copies from and to memory that the driver does not
//! know: the host copies by way of pinned memory. Nothing here waits for the device.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `library` | where the driver's library is looked for |
//! | `driver` | its interface: the only files that call it |
//! | `device`, `stream`, `event`, `memory` | the device traits |
//! | `markers` | how far a stream has come |
//! | `abroad` | what a stream waits for on other devices |
//! | `native`, `scratch` | what kernels launch with, and their scratch memory |
//! | `toolkit` | where the libraries are looked for that the driver does not bring |
//! | [`compiler`] | NVRTC |
//! | [`blas`] | matrix products by cuBLAS |
//! | `verdict` | how a kernel says that its call has failed |
//! | `pinned` | pinned host memory, as a device of memory alone |

mod abroad;
pub mod blas;
pub mod compiler;
mod device;
mod driver;
mod event;
mod library;
mod markers;
mod memory;
mod native;
mod pinned;
mod scratch;
mod stream;
mod toolkit;
mod verdict;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::{DeviceId, Error, Result};

use crate::device::{Backend, Capabilities, Device};
use crate::registry::Registry;

use driver::Ends;

pub use blas::{Gemm, Matrices};
pub use compiler::Compiler;
pub use device::{CudaDevice, Properties};
pub use driver::{Counts, DriverError, Report};
pub use native::{Kernel, Native};
pub use pinned::CudaPinnedBackend;
pub use scratch::Scratch;

/// The kind of these devices.
pub const KIND: &str = "cuda";

/// How a worker learns that commands have completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// It asks: at once and again for as long as it would spin anyway, then now and then.
    #[default]
    Asked,
    /// The driver calls from within the stream, behind each marker.
    Called,
}

/// How devices are used.
#[derive(Clone)]
pub struct CudaConfig {
    /// How workers learn of completions.
    pub completion: Completion,
    /// Whether matrix products of f32 may be computed in TF32: faster, with ten bits of each factor's
    /// fraction. No unless asked for.
    pub tf32: bool,
    /// Whether arenas lie in a memory pool of the device's, from which memory is taken and given back in
    /// a stream's order: to give some back then makes nothing wait, and it is kept for the next that is
    /// wanted. Plain allocations unless asked for, and on devices without pools: arenas are few, large
    /// and live long, and what a pool keeps no other program can have.
    pub stream_ordered: bool,
    /// Told of errors when something is destroyed, which nobody else could be told of. Unless given
    /// it writes a line to the standard error.
    pub report: Report,
}

impl Default for CudaConfig {
    fn default() -> CudaConfig {
        let report = |error: &DriverError| eprintln!("millstream: cuda, at an end: {error}");
        let (completion, report) = (Completion::default(), Arc::new(report));
        CudaConfig { completion, tf32: false, stream_ordered: false, report }
    }
}

impl fmt::Debug for CudaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaConfig")
            .field("completion", &self.completion)
            .field("tf32", &self.tf32)
            .field("stream_ordered", &self.stream_ordered)
            .finish_non_exhaustive()
    }
}

/// The devices that have been opened. A device opened twice is the same device.
struct Shared {
    config: CudaConfig,
    ends: Arc<Ends>,
    open: Mutex<HashMap<u32, Arc<CudaDevice>>>,
}

/// The backend of kind `cuda`.
#[derive(Clone)]
pub struct CudaBackend {
    shared: Arc<Shared>,
}

impl CudaBackend {
    /// The devices of this computer. Looks for nothing yet.
    pub fn new(config: CudaConfig) -> CudaBackend {
        let ends = Ends::new(config.report.clone());
        CudaBackend { shared: Arc::new(Shared { config, ends, open: Mutex::default() }) }
    }

    /// Pinned host memory for these devices: the backend of kind `pinned`.
    pub fn pinned(&self) -> CudaPinnedBackend {
        CudaPinnedBackend::new(self.shared.clone())
    }

    /// Registers these devices and their pinned memory.
    pub fn register(self, devices: &Registry) {
        devices.register(Arc::new(self.pinned()));
        devices.register(Arc::new(self));
    }
}

impl Shared {
    fn count(&self) -> Result<u32> {
        driver::devices().map_err(|message| Error::Device { device: id(0), message })
    }

    fn open(&self, index: u32) -> Result<Arc<CudaDevice>> {
        let count = self.count()?;
        if index >= count {
            let message = format!("the driver has {count} devices");
            return Err(Error::Device { device: id(index), message });
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&index) {
            return Ok(device.clone());
        }
        let device = Arc::new(CudaDevice::open(id(index), &self.config, &self.ends)?);
        open.insert(index, device.clone());
        Ok(device)
    }
}

impl Backend for CudaBackend {
    fn kind(&self) -> &str {
        KIND
    }

    fn count(&self) -> Result<u32> {
        self.shared.count()
    }

    fn capabilities(&self) -> Capabilities {
        capabilities(&self.shared.config)
    }

    fn copies_directly(&self, to: u32, from: u32) -> bool {
        // A driver that does not answer says so at the next call that needs an answer.
        driver::devices().is_ok() && driver::can_reach(to, from).unwrap_or(false)
    }

    fn waits_directly(&self, _: u32, _: u32) -> bool {
        // Whatever the two are: the driver takes events of any context of the process.
        true
    }

    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        Ok(self.shared.open(index)?)
    }
}

impl fmt::Debug for CudaBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaBackend").field("config", &self.shared.config).finish()
    }
}

fn capabilities(config: &CudaConfig) -> Capabilities {
    Capabilities {
        asynchronous: true,
        device_waits: true,
        notifies: config.completion == Completion::Called,
        host_memory: false,
        timestamps: true,
    }
}

/// The id of device `index`.
fn id(index: u32) -> DeviceId {
    DeviceId::cuda(index)
}

/// A driver's error as one of a device.
fn device_error(device: &DeviceId, error: &DriverError) -> Error {
    Error::Device { device: device.clone(), message: error.to_string() }
}
