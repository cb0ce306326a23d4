//! The compiler of kernels, which compiles for the host: what it gives is a mark and the name of a
//! library, which the driver here loads. It does not say its version (`nvrtcVersion` is not there), so
//! that nobody keeps what it gives on disk.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::text;
use crate::COMPILED;
use crate::compiled::compiler;
use crate::state::driver;

const SUCCESS: c_int = 0;
const INVALID_INPUT: c_int = 3;
const INVALID_PROGRAM: c_int = 4;
const INVALID_OPTION: c_int = 5;
const COMPILATION: c_int = 6;

/// A program: its source, and what came of it once it was compiled.
struct Program {
    source: String,
    code: Option<String>,
    log: String,
}

/// Programs by handle.
static PROGRAMS: Mutex<BTreeMap<usize, Program>> = Mutex::new(BTreeMap::new());

fn programs() -> MutexGuard<'static, BTreeMap<usize, Program>> {
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
    programs.insert(handle, Program { source, code: None, log: String::new() });
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
    let Some(source) = programs().get(&program).map(|p| p.source.clone()) else {
        return INVALID_PROGRAM;
    };
    if !architecture {
        return INVALID_OPTION;
    }
    let planted = driver().lock().planted.clone();
    let source = planted.map_or(source.clone(), |(from, to)| source.replace(&from, &to));
    // Without the lock: others compile meanwhile.
    let compiled = compiler::compile(&source);
    let mut programs = programs();
    let Some(program) = programs.get_mut(&program) else { return INVALID_PROGRAM };
    match compiled {
        Ok(file) => {
            // The driver takes the kernels' names from what follows the file's.
            let names: Vec<&str> = compiler::kernels(&source).collect();
            program.code = Some(format!("{COMPILED}{}\n{}", file.display(), names.join("\n")));
            SUCCESS
        }
        Err(error) => {
            program.log = format!("{error:#}");
            COMPILATION
        }
    }
}

/// What the compiler gives for a program.
fn code(program: usize) -> Option<String> {
    programs().get(&program)?.code.clone()
}

/// What it had to say.
fn log(program: usize) -> Option<String> {
    programs().get(&program).map(|program| program.log.clone())
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
unsafe extern "C" fn nvrtcGetProgramLogSize(program: usize, size: *mut usize) -> c_int {
    // SAFETY: as above.
    unsafe { tell_size(log(program), size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLog(program: usize, to: *mut c_char) -> c_int {
    // SAFETY: as above.
    unsafe { tell(log(program), to) }
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
        COMPILATION => c"NVRTC_ERROR_COMPILATION",
        _ => c"NVRTC_ERROR unknown",
    };
    words.as_ptr()
}
