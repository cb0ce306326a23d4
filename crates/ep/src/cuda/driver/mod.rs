//! The CUDA driver's interface: the only files that call it. They are independent of tickets and of
//! the contract of the device traits.
//!
//! | module | holds |
//! |---|---|
//! | `context` | contexts, and the current context of a thread |
//! | `stream`, `event` | streams, events |
//! | `graph` | captures and graphs |
//! | `host_functions` | the host functions that streams call |
//! | `peer_access` | access to another device's memory |
//! | `memory` | device memory, pinned memory |
//! | `memory_pool` | memory pools |
//! | `module` | modules, kernels |
//!
//! Each type owns one resource of the driver and destroys it when it is dropped. An error of the
//! destruction goes to [`ReportDropError`], because a drop cannot return it.

mod context;
mod event;
mod graph;
mod host_functions;
mod memory;
mod memory_pool;
mod module;
mod peer_access;
mod stream;

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{self, CUresult};

use super::library;

pub use context::ResourceCounts;
pub(super) use context::{Context, Teardown};
pub(super) use event::{RawEvent, compares_times};
pub(super) use graph::RawGraphExec;
pub(super) use memory::{DeviceBlock, MemoryOwner, PinnedBlock, memory_owner};
pub(super) use memory_pool::MemoryPool;
pub(super) use module::{Function, Module};
pub(super) use peer_access::can_access_peer;
pub(super) use stream::RawStream;

/// A function that receives the errors of dropped resources.
pub type ReportDropError = Arc<dyn Fn(&DriverError) + Send + Sync>;

/// The oldest supported version of the driver's interface: CUDA 12.0.
const OLDEST_VERSION: c_int = 12_000;

/// An error that the driver, or a library on top of it, returns from a call. Never "not ready".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// The function that was called.
    pub call: &'static str,
    /// The error's name in `cuda.h`, or in the library's header.
    pub name: String,
    /// The driver's or the library's description of the error.
    pub meaning: String,
    code: CUresult,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.call, self.name, self.meaning)
    }
}

impl std::error::Error for DriverError {}

impl DriverError {
    /// Returns the error of an allocation that returned null and no error.
    fn out_of_memory(call: &'static str) -> DriverError {
        let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let name = "CUDA_ERROR_OUT_OF_MEMORY".to_owned();
        DriverError { call, name, meaning: "out of memory".to_owned(), code }
    }

    /// Returns the error of a library on top of the driver.
    pub(super) fn of_library(call: &'static str, name: String, meaning: String) -> DriverError {
        DriverError { call, name, meaning, code: CUresult::CUDA_ERROR_UNKNOWN }
    }

    /// Returns whether the device is out of memory.
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.code == CUresult::CUDA_ERROR_OUT_OF_MEMORY
    }

    /// Returns whether the driver is shut down because the process ends.
    fn is_shutdown(&self) -> bool {
        self.code == CUresult::CUDA_ERROR_DEINITIALIZED
    }
}

/// The result of a call of the driver.
pub(super) type DriverResult<T> = Result<T, DriverError>;

/// Converts the result code of `call`.
fn check(call: &'static str, code: CUresult) -> DriverResult<()> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = |query: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the driver is loaded, since it has returned `code`. It writes the address of a
        // static text, or leaves null.
        let found = unsafe { query(code, &raw mut text) };
        if found != CUresult::CUDA_SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: as above; the text ends with a zero.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    let name = text(sys::cuGetErrorName).unwrap_or_else(|| format!("error {}", code as u32));
    let meaning = text(sys::cuGetErrorString).unwrap_or_else(|| "no description".to_owned());
    Err(DriverError { call, name, meaning, code })
}

/// Converts the result code of a query: "not ready" is `Ok(false)`, not an error.
fn ready(call: &'static str, code: CUresult) -> DriverResult<bool> {
    match code {
        CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        code => check(call, code).map(|()| true),
    }
}

/// Returns the number of devices. The first call loads and initialises the driver.
///
/// # Errors
/// The driver is missing or too old, or its initialisation fails.
pub(super) fn devices() -> Result<u32, String> {
    static LOADED: OnceLock<Result<u32, String>> = OnceLock::new();
    LOADED.get_or_init(|| library::find().and_then(|()| start().map_err(|e| e.to_string()))).clone()
}

/// Returns the version of the driver's interface: 13000 for CUDA 13.0.
pub(super) fn version() -> DriverResult<i32> {
    let mut version = 0;
    // SAFETY: the library is loaded; the call needs no initialised driver.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    Ok(version)
}

fn start() -> Result<u32, String> {
    let to_text = |e: DriverError| e.to_string();
    let (version, mut count) = (version().map_err(to_text)?, 0);
    if version < OLDEST_VERSION {
        return Err(format!(
            "the driver supports CUDA {}.{}; install a driver for CUDA 12.0 or later",
            version / 1000,
            version % 1000 / 10
        ));
    }
    // SAFETY: as above; `cuInit` may be called at any time.
    match check("cuInit", unsafe { sys::cuInit(0) }) {
        Ok(()) => {}
        // A driver without devices works.
        Err(error) if error.code == CUresult::CUDA_ERROR_NO_DEVICE => return Ok(0),
        Err(error) => return Err(to_text(error)),
    }
    // SAFETY: the driver is initialised.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) }).map_err(to_text)?;
    Ok(u32::try_from(count).unwrap_or(0))
}
