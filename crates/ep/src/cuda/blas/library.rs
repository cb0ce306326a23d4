//! The functions of cuBLAS, and the names of its errors.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use cudarc::driver::sys::CUstream;

use crate::cuda::driver::{DriverError, DriverResult};
use crate::cuda::toolkit::ToolkitLibrary;

const LIBRARY: ToolkitLibrary = ToolkitLibrary {
    purpose: "the library of matrix products",
    name: "libcublas.so",
    version: None,
    variable: "MILLSTREAM_CUBLAS",
    package: "nvidia-cublas-cu12",
};

/// The library's handle.
pub(super) type RawHandle = *mut c_void;

/// The type of `cublasGemmEx_64`. Like all types below, it is the same in CUDA 12 and 13.
type Gemm = unsafe extern "C" fn(
    RawHandle,
    c_int,
    c_int,
    i64,
    i64,
    i64,
    *const c_void,
    *const c_void,
    c_int,
    i64,
    *const c_void,
    c_int,
    i64,
    *const c_void,
    *mut c_void,
    c_int,
    i64,
    c_int,
    c_int,
) -> c_int;

/// The type of `cublasGemmStridedBatchedEx_64`: as [`Gemm`], with a stride after each leading
/// dimension, and a batch size.
type GemmBatch = unsafe extern "C" fn(
    RawHandle,
    c_int,
    c_int,
    i64,
    i64,
    i64,
    *const c_void,
    *const c_void,
    c_int,
    i64,
    i64,
    *const c_void,
    c_int,
    i64,
    i64,
    *const c_void,
    *mut c_void,
    c_int,
    i64,
    i64,
    i64,
    c_int,
    c_int,
) -> c_int;

/// The functions of the library that this crate calls. The library is never unloaded.
pub(super) struct CublasLibrary {
    pub(super) create: unsafe extern "C" fn(*mut RawHandle) -> c_int,
    pub(super) destroy: unsafe extern "C" fn(RawHandle) -> c_int,
    pub(super) set_stream: unsafe extern "C" fn(RawHandle, CUstream) -> c_int,
    pub(super) set_workspace: unsafe extern "C" fn(RawHandle, *mut c_void, usize) -> c_int,
    pub(super) set_math: unsafe extern "C" fn(RawHandle, c_int) -> c_int,
    pub(super) gemm: Gemm,
    pub(super) gemm_batch: GemmBatch,
    name: unsafe extern "C" fn(c_int) -> *const c_char,
    meaning: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl CublasLibrary {
    /// Returns the library of this process. The first call searches for it and loads it.
    ///
    /// # Errors
    /// The library was not found, and the error lists the places searched; or it lacks a function.
    pub(super) fn get(driver: i32) -> Result<&'static CublasLibrary> {
        static LIBRARY: OnceLock<Result<CublasLibrary, String>> = OnceLock::new();
        let found =
            LIBRARY.get_or_init(|| CublasLibrary::find(driver).map_err(|e| format!("{e:#}")));
        found.as_ref().map_err(|e| anyhow!("{e}"))
    }

    fn find(driver: i32) -> Result<CublasLibrary> {
        let (library, path) = LIBRARY.open(driver)?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field has the function's type in `cublas_api.h`.
                *unsafe { library.get($name.as_bytes()) }
                    .with_context(|| format!("{}: no {}", path.display(), $name))?
            };
        }
        Ok(CublasLibrary {
            create: function!("cublasCreate_v2"),
            destroy: function!("cublasDestroy_v2"),
            set_stream: function!("cublasSetStream_v2"),
            set_workspace: function!("cublasSetWorkspace_v2"),
            set_math: function!("cublasSetMathMode"),
            gemm: function!("cublasGemmEx_64"),
            gemm_batch: function!("cublasGemmStridedBatchedEx_64"),
            name: function!("cublasGetStatusName"),
            meaning: function!("cublasGetStatusString"),
        })
    }

    /// Converts the result code of `call`.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> DriverResult<()> {
        if code == 0 {
            return Ok(());
        }
        let text = |query: unsafe extern "C" fn(c_int) -> *const c_char| {
            // SAFETY: the library returns a static text or null for any number.
            let text = unsafe { query(code) };
            if text.is_null() {
                return format!("status {code}");
            }
            // SAFETY: as above; the text ends with a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(DriverError::of_library(call, text(self.name), text(self.meaning)))
    }
}
