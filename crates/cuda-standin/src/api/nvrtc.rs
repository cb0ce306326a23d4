//! The compiler of kernels, which compiles nothing: what it gives is the source with a mark, and the
//! driver here finds the kernels' names in it. It does not say its version (`nvrtcVersion` is not
//! there), so that nobody keeps what it gives on disk.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::text;
use crate::COMPILED;

const SUCCESS: c_int = 0;
const INVALID_INPUT: c_int = 3;
const INVALID_PROGRAM: c_int = 4;
const INVALID_OPTION: c_int = 5;

/// Programs by handle: the source, and whether it was compiled.
static PROGRAMS: Mutex<BTreeMap<usize, (String, bool)>> = Mutex::new(BTreeMap::new());

fn programs() -> MutexGuard<'static, BTreeMap<usize, (String, bool)>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut usize,
    source: *const c_char,
    _name: *const c_char,
    headers: c_int,
    _: *const *const c_char,
    _: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's promise, see the module above.
    let Ok(source) = (unsafe { text(source) }) else { return INVALID_INPUT };
    if program.is_null() || headers != 0 {
        return INVALID_INPUT;
    }
    let mut programs = programs();
    let handle = programs.last_key_value().map_or(16, |(last, _)| last + 16);
    programs.insert(handle, (source, false));
    // SAFETY: as above; it is not null.
    unsafe { program.write(handle) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCompileProgram(
    program: usize,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    let mut architecture = false;
    for k in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's promise: there are so many options.
        let Ok(option) = (unsafe { text(*options.add(k)) }) else { return INVALID_INPUT };
        architecture |= option.starts_with("--gpu-architecture=compute_");
    }
    match programs().get_mut(&program) {
        None => INVALID_PROGRAM,
        Some(_) if !architecture => INVALID_OPTION,
        Some((_, compiled)) => {
            *compiled = true;
            SUCCESS
        }
    }
}

/// What the compiler gives for a program.
fn code(program: usize) -> Option<String> {
    let programs = programs();
    let (source, compiled) = programs.get(&program)?;
    compiled.then(|| format!("{COMPILED}{source}"))
}

/// # Safety
/// `size` is null or valid for a write.
unsafe fn tell_size(text: Option<String>, size: *mut usize) -> c_int {
    let (Some(text), false) = (text, size.is_null()) else { return INVALID_PROGRAM };
    // SAFETY: the caller's promise.
    unsafe { size.write(text.len() + 1) };
    SUCCESS
}

/// # Safety
/// `to` is null or has room for the text and the zero that ends it.
unsafe fn tell(text: Option<String>, to: *mut c_char) -> c_int {
    let (Some(text), false) = (text, to.is_null()) else { return INVALID_PROGRAM };
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        to.add(text.len()).write(0);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetPTXSize(program: usize, size: *mut usize) -> c_int {
    // SAFETY: the caller's promise, see the module above.
    unsafe { tell_size(code(program), size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetPTX(program: usize, to: *mut c_char) -> c_int {
    // SAFETY: as above.
    unsafe { tell(code(program), to) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLogSize(_program: usize, size: *mut usize) -> c_int {
    // SAFETY: as above.
    unsafe { tell_size(Some(String::new()), size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLog(_program: usize, to: *mut c_char) -> c_int {
    // SAFETY: as above.
    unsafe { tell(Some(String::new()), to) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcDestroyProgram(program: *mut usize) -> c_int {
    if program.is_null() {
        return INVALID_PROGRAM;
    }
    // SAFETY: as above; it is not null.
    match programs().remove(unsafe { &*program }) {
        Some(_) => SUCCESS,
        None => INVALID_PROGRAM,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetErrorString(code: c_int) -> *const c_char {
    let words = match code {
        SUCCESS => c"NVRTC_SUCCESS",
        INVALID_INPUT => c"NVRTC_ERROR_INVALID_INPUT",
        INVALID_PROGRAM => c"NVRTC_ERROR_INVALID_PROGRAM",
        INVALID_OPTION => c"NVRTC_ERROR_INVALID_OPTION",
        _ => c"NVRTC_ERROR unknown",
    };
    words.as_ptr()
}
