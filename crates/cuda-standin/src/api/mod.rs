//! The driver's functions, under their names in `libcuda`, those of the compiler, in `libnvrtc`, and
//! those of `libcublas`.
//!
//! Only those that Millstream calls. Each answers with a number of [`crate::code`].
//!
//! # Safety
//! All of them ask the same of their callers as the real ones: pointers for results are valid for
//! writes, texts end with a zero, and memory named by address stays what it is until the command has
//! run.
#![allow(non_snake_case, clippy::missing_safety_doc, missing_docs)]

mod cublas;
mod device;
mod events;
mod launch;
mod memory;
mod nvrtc;
mod pools;
mod streams;

use std::ffi::{CStr, c_char};

use crate::code;
use crate::state::Answer;

/// Writes a result.
///
/// # Safety
/// `to` is null or valid for a write.
unsafe fn put<T>(to: *mut T, value: T) -> Answer<()> {
    if to.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Reads a text.
///
/// # Safety
/// `text` is null or ends with a zero.
unsafe fn text(text: *const c_char) -> Answer<String> {
    if text.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}
