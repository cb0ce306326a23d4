//! The functions of the driver under their names in `libcuda`, of NVRTC in `libnvrtc`, of cuBLAS in
//! `libcublas`, and of NCCL in `libnccl`.
//!
//! Only the functions that Millstream calls. Each function of the driver returns a number of
//! [`crate::code`].
//!
//! # Safety
//! They require the same of their callers as the real functions: pointers for results are valid for
//! writes, texts end with a zero, and memory that a command uses stays valid until the command has
//! run.
#![allow(non_snake_case, clippy::missing_safety_doc, missing_docs)]

mod cublas;
mod device;
mod event;
mod graph;
#[cfg(test)]
mod graph_tests;
mod launch;
mod memory;
mod memory_pool;
mod nccl;
mod nvrtc;
mod stream;

use std::ffi::{CStr, c_char};

use crate::code;
use crate::state::DriverResult;

/// Writes a result.
///
/// # Safety
/// `to` is null or valid for a write.
unsafe fn write_result<T>(to: *mut T, value: T) -> DriverResult<()> {
    if to.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { to.write(value) };
    Ok(())
}

/// Reads a text.
///
/// # Safety
/// `text` is null or ends with a zero.
unsafe fn text(text: *const c_char) -> DriverResult<String> {
    if text.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: guaranteed by the caller.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
