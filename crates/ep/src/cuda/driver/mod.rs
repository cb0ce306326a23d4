//! The driver's interface: the only files that call it. Nothing here knows of tickets or contracts.
//!
//! | module | holds |
//! |---|---|
//! | `context` | contexts, and which one a thread has |
//! | `objects` | streams and events |
//! | `functions` | what streams call on the host |
//! | `peers` | whether devices reach one another's memory |
//! | `memory` | device memory, pinned memory |
//! | `pool` | memory in a stream's order |
//! | `modules` | modules, kernels |
//!
//! Each type owns one thing of the driver's and destroys it when dropped. What goes wrong then is
//! told to the context's [`Report`], since a drop has nobody to answer.

mod context;
mod functions;
mod memory;
mod modules;
mod objects;
mod peers;
mod pool;

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{self, CUresult};

use super::library;

pub use context::Counts;
pub(super) use context::{Context, Ends};
pub(super) use memory::{DeviceBlock, Owner, PinnedBlock, owner};
pub(super) use modules::{Function, Module};
pub(super) use objects::{RawEvent, RawStream};
pub(super) use peers::can_reach;
pub(super) use pool::MemoryPool;

/// Told of errors that nobody else could be told of.
pub type Report = Arc<dyn Fn(&DriverError) + Send + Sync>;

/// The oldest driver that is served, as its interface counts: CUDA 12.0.
const OLDEST: c_int = 12_000;

/// The driver's answer to a call, or that of a library that works on it, if it was not success. "Not
/// ready" is never one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverError {
    /// The function.
    pub call: &'static str,
    /// The error's name in `cuda.h`, or in the library's header.
    pub name: String,
    /// What it is said to mean.
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
    /// The error of an allocation that gave nothing and said nothing.
    fn out_of_memory(call: &'static str) -> DriverError {
        let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let name = "CUDA_ERROR_OUT_OF_MEMORY".to_owned();
        DriverError { call, name, meaning: "out of memory".to_owned(), code }
    }

    /// An error of a library's that works on the driver, by the library's own words.
    pub(super) fn of_library(call: &'static str, name: String, meaning: String) -> DriverError {
        DriverError { call, name, meaning, code: CUresult::CUDA_ERROR_UNKNOWN }
    }

    /// Whether the device has no memory left.
    pub(super) fn is_out_of_memory(&self) -> bool {
        self.code == CUresult::CUDA_ERROR_OUT_OF_MEMORY
    }

    /// Whether the process ends, and the driver with it.
    fn is_end(&self) -> bool {
        self.code == CUresult::CUDA_ERROR_DEINITIALIZED
    }
}

/// What a call came to.
pub(super) type Answer<T> = Result<T, DriverError>;

/// The error behind a result, if it is one.
fn check(call: &'static str, code: CUresult) -> Answer<()> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let words = |ask: unsafe fn(CUresult, *mut *const c_char) -> CUresult| {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the driver is loaded, as it has just answered; it writes the address of a text
        // that stays, or leaves null.
        let asked = unsafe { ask(code, &raw mut text) };
        if asked != CUresult::CUDA_SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: as above; the text ends with a zero.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    let name = words(sys::cuGetErrorName).unwrap_or_else(|| format!("error {}", code as u32));
    let meaning = words(sys::cuGetErrorString).unwrap_or_else(|| "no description".to_owned());
    Err(DriverError { call, name, meaning, code })
}

/// Whether something is ready: "not ready" is an answer, and no error.
fn ready(call: &'static str, code: CUresult) -> Answer<bool> {
    match code {
        CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        code => check(call, code).map(|()| true),
    }
}

/// Loads and initialises the driver, once, and counts its devices.
///
/// # Errors
/// There is no driver, it is too old, or it does not start.
pub(super) fn devices() -> Result<u32, String> {
    static LOADED: OnceLock<Result<u32, String>> = OnceLock::new();
    LOADED.get_or_init(|| library::find().and_then(|()| start().map_err(|e| e.to_string()))).clone()
}

/// The version of the driver's interface: 13000 for CUDA 13.0.
pub(super) fn version() -> Answer<i32> {
    let mut version = 0;
    // SAFETY: the library is loaded; this asks for no state of the driver's.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&raw mut version) })?;
    Ok(version)
}

fn start() -> Result<u32, String> {
    let named = |e: DriverError| e.to_string();
    let (version, mut count) = (version().map_err(named)?, 0);
    if version < OLDEST {
        return Err(format!(
            "the driver is for CUDA {}.{}; 12.0 or later is needed",
            version / 1000,
            version % 1000 / 10
        ));
    }
    // SAFETY: as above; it may be called at any time.
    match check("cuInit", unsafe { sys::cuInit(0) }) {
        Ok(()) => {}
        // A driver without a device is no broken one.
        Err(error) if error.code == CUresult::CUDA_ERROR_NO_DEVICE => return Ok(0),
        Err(error) => return Err(named(error)),
    }
    // SAFETY: the driver is initialised.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&raw mut count) }).map_err(named)?;
    Ok(u32::try_from(count).unwrap_or(0))
}
