//! The functions of NCCL, and the texts of its errors.
//!
//! They are looked up without the CUDA binding, which does not know the name `libnccl.so.2`, the
//! only one of NVIDIA's packages. Result codes are plain numbers: a later version may have more.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail, ensure};
use cudarc::driver::sys::CUstream;

use crate::cuda::toolkit::ToolkitLibrary;

const LIBRARY: ToolkitLibrary = ToolkitLibrary {
    purpose: "NVIDIA's library of collectives",
    name: "libnccl.so",
    version: Some(2),
    variable: "MILLSTREAM_NCCL",
    package: "nvidia-nccl-cu12",
};

/// The oldest supported version: the first in which a communicator can be split.
const OLDEST_VERSION: c_int = 21_800;

/// `ncclInProgress`: a call of a communicator that does not block is under way.
pub(super) const IN_PROGRESS: c_int = 7;

/// The library's communicator.
pub(super) type RawComm = *mut c_void;

/// `ncclUniqueId`: what the ranks of a new communicator have in common.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawId(pub(super) [u8; 128]);

/// `ncclConfig_t` of version 2.17, with which later ones begin. The library reads as many bytes as
/// `size` says.
#[repr(C)]
pub(super) struct RawConfig {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
    cluster_size: c_int,
    min_blocks: c_int,
    max_blocks: c_int,
    network: *const c_char,
    split_share: c_int,
}

impl RawConfig {
    /// Returns the configuration of a communicator whose calls do not block.
    pub(super) const fn without_blocking() -> RawConfig {
        // `NCCL_CONFIG_UNDEF_INT`: the library's default.
        const UNDEFINED: c_int = c_int::MIN;
        RawConfig {
            size: size_of::<RawConfig>(),
            magic: 0xcafe_beef,
            version: 21_700,
            blocking: 0,
            cluster_size: UNDEFINED,
            min_blocks: UNDEFINED,
            max_blocks: UNDEFINED,
            network: std::ptr::null(),
            split_share: UNDEFINED,
        }
    }
}

type Reduce = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    c_int,
    c_int,
    RawComm,
    CUstream,
) -> c_int;

type ReduceTo = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    c_int,
    c_int,
    c_int,
    RawComm,
    CUstream,
) -> c_int;

/// The functions of the library that this crate calls. The library is never unloaded.
pub(super) struct NcclLibrary {
    pub(super) version: c_int,
    pub(super) unique_id: unsafe extern "C" fn(*mut RawId) -> c_int,
    pub(super) init:
        unsafe extern "C" fn(*mut RawComm, c_int, RawId, c_int, *mut RawConfig) -> c_int,
    pub(super) split:
        unsafe extern "C" fn(RawComm, c_int, c_int, *mut RawComm, *mut RawConfig) -> c_int,
    pub(super) async_error: unsafe extern "C" fn(RawComm, *mut c_int) -> c_int,
    pub(super) abort: unsafe extern "C" fn(RawComm) -> c_int,
    pub(super) destroy: unsafe extern "C" fn(RawComm) -> c_int,
    pub(super) group_start: unsafe extern "C" fn() -> c_int,
    pub(super) group_end: unsafe extern "C" fn() -> c_int,
    pub(super) all_reduce: Reduce,
    pub(super) reduce: ReduceTo,
    pub(super) broadcast: Reduce,
    pub(super) all_gather:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, RawComm, CUstream) -> c_int,
    pub(super) reduce_scatter: Reduce,
    pub(super) send:
        unsafe extern "C" fn(*const c_void, usize, c_int, c_int, RawComm, CUstream) -> c_int,
    pub(super) receive:
        unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, RawComm, CUstream) -> c_int,
    meaning: unsafe extern "C" fn(c_int) -> *const c_char,
    last_error: unsafe extern "C" fn(RawComm) -> *const c_char,
}

/// Returns a text of the library.
///
/// # Safety
/// `text` is null or ends with a zero.
unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    (!text.is_empty()).then_some(text)
}

impl NcclLibrary {
    /// Returns the library of this process. The first call searches for it and loads it.
    ///
    /// # Errors
    /// The library was not found, and the error lists the places searched; it lacks a function; or
    /// it is too old.
    pub(super) fn get() -> Result<&'static NcclLibrary> {
        static LIBRARY: OnceLock<Result<NcclLibrary, String>> = OnceLock::new();
        let found = LIBRARY.get_or_init(|| NcclLibrary::find().map_err(|e| format!("{e:#}")));
        found.as_ref().map_err(|e| anyhow!("{e}"))
    }

    fn find() -> Result<NcclLibrary> {
        let (library, path) = LIBRARY.open(0)?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the result has the function's type in `nccl.h`.
                *unsafe { library.get($name.as_bytes()) }
                    .with_context(|| format!("{}: no {}", path.display(), $name))?
            };
        }
        let version_of: unsafe extern "C" fn(*mut c_int) -> c_int = function!("ncclGetVersion");
        let mut version = 0;
        // SAFETY: the library writes a number.
        let code = unsafe { version_of(&raw mut version) };
        ensure!(code == 0, "{}: ncclGetVersion returned {code}", path.display());
        if version < OLDEST_VERSION {
            bail!(
                "{}: expected NCCL 2.18 or later, got {}.{}; install the package {}",
                path.display(),
                version / 10_000,
                version / 100 % 100,
                LIBRARY.package
            );
        }
        Ok(NcclLibrary {
            version,
            unique_id: function!("ncclGetUniqueId"),
            init: function!("ncclCommInitRankConfig"),
            split: function!("ncclCommSplit"),
            async_error: function!("ncclCommGetAsyncError"),
            abort: function!("ncclCommAbort"),
            destroy: function!("ncclCommDestroy"),
            group_start: function!("ncclGroupStart"),
            group_end: function!("ncclGroupEnd"),
            all_reduce: function!("ncclAllReduce"),
            reduce: function!("ncclReduce"),
            broadcast: function!("ncclBroadcast"),
            all_gather: function!("ncclAllGather"),
            reduce_scatter: function!("ncclReduceScatter"),
            send: function!("ncclSend"),
            receive: function!("ncclRecv"),
            meaning: function!("ncclGetErrorString"),
            last_error: function!("ncclGetLastError"),
        })
    }

    /// Converts the result code of `call`. A call that is under way has not failed.
    pub(super) fn check(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 || code == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: the library returns a static text for any number.
        let meaning = unsafe { text((self.meaning)(code)) };
        let meaning = meaning.unwrap_or_else(|| format!("error {code}"));
        // SAFETY: without a communicator, the library returns the last error of the process.
        match unsafe { text((self.last_error)(std::ptr::null_mut())) } {
            Some(more) => bail!("{call}: {meaning}: {more}"),
            None => bail!("{call}: {meaning}"),
        }
    }
}
