//! NVIDIA devices, through the CUDA driver's library. The backend searches for the library when a
//! program first names a device of kind `cuda` (`library` has the search). Everything builds and
//! runs without it: a device of kind `cuda` is then an error that lists the places searched.
//!
//! # How commands complete
//! `submit` launches kernels and copies on the native stream. Completions are found by *markers*:
//! a poll records an event of the stream after all commands submitted so far, with at most two
//! outstanding. One query thus covers all commands up to the marker, and a stream with many pending
//! commands needs no more events than one with few. A program's own events play no part in this.
//!
//! [`CompletionMode`] says when a worker polls: from time to time (the default), or when the driver
//! calls back. A callback is in the stream's order: the stream does not continue until the host has
//! run it, which costs the device time for each batch. A query costs the host a little and the
//! device nothing. No measurement yet shows which mode is better.
//!
//! # Work of the host
//! The driver calls work of the host ([`Work::runs_on_host`](crate::Work::runs_on_host)) when the
//! stream reaches it. It also calls copies from and to memory that it has not allocated: the host
//! copies through pinned memory. No call of this backend waits for the device.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `library` | the search for the driver's library |
//! | `driver` | the driver's interface: the only files that call it |
//! | `device`, `stream`, `event`, `memory` | the device traits |
//! | `graph`, `graph_words` | captured work, launched as one command; the integers of a launch |
//! | `markers` | the progress of a stream |
//! | `command_times` | when commands begin and end, by the device's clock |
//! | `peer_waits` | the waits of a stream for other devices |
//! | `precompile` | work that is called ahead, for the kernels that it compiles |
//! | `native_stream`, `scratch` | a kernel's launches, and its scratch memory |
//! | `host_work` | work of a kernel that the host does, on copies of device memory |
//! | `toolkit` | the search for libraries that are not part of the driver |
//! | [`compiler`] | NVRTC |
//! | [`blas`] | matrix products by cuBLAS |
//! | [`nccl`] | collectives of several devices by NCCL |
//! | `device_error` | errors that kernels report from the device |
//! | `pinned` | pinned host memory, as the device `pinned:0` |

pub mod blas;
mod command_times;
pub mod compiler;
mod device;
mod device_error;
mod driver;
mod event;
mod graph;
mod graph_words;
mod host_work;
mod library;
mod markers;
mod memory;
mod native_stream;
pub mod nccl;
mod peer_waits;
mod pinned;
mod plan;
mod precompile;
mod scratch;
mod stream;
mod toolkit;

use std::collections::HashMap;
use std::fmt;
use std::num::NonZero;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use millstream_types::{DeviceId, Error, Result};

use crate::device::{Backend, Capabilities, Device};
use crate::registry::Registry;

use driver::Teardown;

pub use blas::{Gemm, Matrices};
pub use compiler::{Compiler, Output};
pub use device::{CudaDevice, Properties};
pub use driver::{DriverError, ReportDropError, ResourceCounts};
pub use host_work::HostOperand;
pub use native_stream::{Kernel, NativeStream};
pub use pinned::CudaPinnedBackend;
pub use plan::{KernelLaunch, PlannedLaunch, WorkPlan};
pub use scratch::{Scratch, ScratchMark};

/// The kind of these devices.
pub const KIND: &str = "cuda";

/// The way in which a worker observes completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompletionMode {
    /// The worker polls: repeatedly while it spins, then from time to time.
    #[default]
    Polled,
    /// The driver calls the host from the stream, after each marker.
    Callback,
}

/// The configuration of CUDA devices.
#[derive(Clone)]
pub struct CudaConfig {
    /// The way in which workers observe completions.
    pub completion: CompletionMode,
    /// Whether matrix products of f32 may use TF32, which is faster and keeps ten bits of each
    /// factor's fraction. Default: false.
    pub tf32: bool,
    /// Whether arenas are allocated from a memory pool of the device, in a stream's order. Freeing
    /// memory then waits for nothing, and the pool keeps it for the next allocation.
    ///
    /// Default: false, which means plain allocations, as on devices without memory pools. Arenas
    /// are few, large and long-lived, and no other program can use memory that a pool keeps.
    pub stream_ordered: bool,
    /// Whether executables become CUDA graphs. Default: true.
    pub graphs: bool,
    /// The number of threads that compile kernels ahead of the calls that launch them. Default: as
    /// many as the computer runs at once, and at most 16.
    pub compilers: usize,
    /// Receives the errors of dropped resources, which no caller could handle. Default: writes a
    /// line to the standard error.
    pub report_drop_error: ReportDropError,
}

impl Default for CudaConfig {
    fn default() -> CudaConfig {
        let report = |error: &DriverError| {
            eprintln!("millstream: cuda: a resource could not be destroyed: {error}");
        };
        let (completion, report_drop_error) = (CompletionMode::default(), Arc::new(report));
        CudaConfig {
            completion,
            tf32: false,
            stream_ordered: false,
            graphs: true,
            compilers: available_parallelism().map_or(1, NonZero::get).min(16),
            report_drop_error,
        }
    }
}

impl fmt::Debug for CudaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaConfig")
            .field("completion", &self.completion)
            .field("tf32", &self.tf32)
            .field("stream_ordered", &self.stream_ordered)
            .field("graphs", &self.graphs)
            .field("compilers", &self.compilers)
            .finish_non_exhaustive()
    }
}

/// The devices that the backend has opened. Opening a device again returns the same device.
struct BackendState {
    config: CudaConfig,
    teardown: Arc<Teardown>,
    open: Mutex<HashMap<u32, Arc<CudaDevice>>>,
}

/// The backend of kind `cuda`.
#[derive(Clone)]
pub struct CudaBackend {
    state: Arc<BackendState>,
}

impl CudaBackend {
    /// Creates the backend. Searches for no library yet.
    pub fn new(config: CudaConfig) -> CudaBackend {
        let teardown = Teardown::new(config.report_drop_error.clone());
        CudaBackend { state: Arc::new(BackendState { config, teardown, open: Mutex::default() }) }
    }

    /// Returns the backend of kind `pinned` for these devices.
    pub fn pinned(&self) -> CudaPinnedBackend {
        CudaPinnedBackend::new(self.state.clone())
    }

    /// Registers this backend and the one of its pinned memory.
    pub fn register(self, devices: &Registry) {
        devices.register(Arc::new(self.pinned()));
        devices.register(Arc::new(self));
    }
}

impl BackendState {
    fn count(&self) -> Result<u32> {
        driver::devices().map_err(|message| Error::Device { device: DeviceId::cuda(0), message })
    }

    fn open(&self, index: u32) -> Result<Arc<CudaDevice>> {
        let count = self.count()?;
        if index >= count {
            let message = format!("the driver has {count} devices");
            return Err(Error::Device { device: DeviceId::cuda(index), message });
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = open.get(&index) {
            return Ok(device.clone());
        }
        let device = CudaDevice::open(DeviceId::cuda(index), &self.config, &self.teardown)?;
        let device = Arc::new(device);
        open.insert(index, device.clone());
        Ok(device)
    }
}

impl Backend for CudaBackend {
    fn kind(&self) -> &str {
        KIND
    }

    fn count(&self) -> Result<u32> {
        self.state.count()
    }

    fn capabilities(&self) -> Capabilities {
        capabilities(&self.state.config)
    }

    fn copies_directly(&self, to: u32, from: u32) -> bool {
        // If the driver fails, a later call that returns an error reports it.
        driver::devices().is_ok() && driver::can_access_peer(to, from).unwrap_or(false)
    }

    fn waits_directly(&self, _: u32, _: u32) -> bool {
        // For any two devices: the driver accepts events of any context of the process.
        true
    }

    fn open(&self, index: u32) -> Result<Arc<dyn Device>> {
        Ok(self.state.open(index)?)
    }
}

impl fmt::Debug for CudaBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaBackend").field("config", &self.state.config).finish()
    }
}

fn capabilities(config: &CudaConfig) -> Capabilities {
    Capabilities {
        asynchronous: true,
        device_waits: true,
        notifies: config.completion == CompletionMode::Callback,
        host_memory: false,
        timestamps: true,
        graphs: config.graphs,
    }
}

/// Converts an error of the driver to an error of the device.
fn driver_error(device: &DeviceId, error: &DriverError) -> Error {
    Error::Device { device: device.clone(), message: error.to_string() }
}
