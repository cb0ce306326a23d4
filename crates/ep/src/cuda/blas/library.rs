//! The library's functions, and its answers by their names.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use cudarc::driver::sys::CUstream;

use crate::cuda::driver::{Answer, DriverError};
use crate::cuda::toolkit::Wanted;

const WANTED: Wanted = Wanted {
    what: "the library of matrix products",
    name: "libcublas.so",
    variable: "MILLSTREAM_CUBLAS",
    package: "nvidia-cublas-cu12",
};

/// A handle, as the library knows it.
pub(super) type Raw = *mut c_void;

/// `cublasGemmEx_64`. As all below the same in CUDA 12 and 13.
type Gemm = unsafe extern "C" fn(
    Raw,
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

/// `cublasGemmStridedBatchedEx_64`: the same with a step after each leading dimension, and a count.
type GemmBatch = unsafe extern "C" fn(
    Raw,
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

/// The functions that are called here, of a library that stays.
pub(super) struct Library {
    pub(super) create: unsafe extern "C" fn(*mut Raw) -> c_int,
    pub(super) destroy: unsafe extern "C" fn(Raw) -> c_int,
    pub(super) set_stream: unsafe extern "C" fn(Raw, CUstream) -> c_int,
    pub(super) set_workspace: unsafe extern "C" fn(Raw, *mut c_void, usize) -> c_int,
    pub(super) set_math: unsafe extern "C" fn(Raw, c_int) -> c_int,
    pub(super) gemm: Gemm,
    pub(super) gemm_batch: GemmBatch,
    name: unsafe extern "C" fn(c_int) -> *const c_char,
    meaning: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Library {
    /// The library of this process, looked for once.
    ///
    /// # Errors
    /// There is none, with where it was looked for; or it lacks a function.
    pub(super) fn get(driver: i32) -> Result<&'static Library> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let found = LIBRARY.get_or_init(|| Library::find(driver).map_err(|e| format!("{e:#}")));
        found.as_ref().map_err(|e| anyhow!("{e}"))
    }

    fn find(driver: i32) -> Result<Library> {
        let (library, place) = WANTED.open(driver)?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field's type is the function's in `cublas_api.h`.
                *unsafe { library.get($name.as_bytes()) }
                    .with_context(|| format!("{}: no {}", place.display(), $name))?
            };
        }
        Ok(Library {
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

    /// The error behind an answer, if it is one.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Answer<()> {
        if code == 0 {
            return Ok(());
        }
        let words = |ask: unsafe extern "C" fn(c_int) -> *const c_char| {
            // SAFETY: the library answers any number with a text that stays, or with null.
            let text = unsafe { ask(code) };
            if text.is_null() {
                return format!("status {code}");
            }
            // SAFETY: as above; the text ends with a zero.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        Err(DriverError::of_library(call, words(self.name), words(self.meaning)))
    }
}
