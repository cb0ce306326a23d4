//! NVRTC, the compiler of kernels. It compiles for the host: its output is [`COMPILED`] and the
//! name of a library, which the stand-in's driver loads. It has no version (`nvrtcVersion` is
//! missing), so that no cache on disk keeps its output.

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

/// A program: its source, and the output of its compilation.
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
    // SAFETY: guaranteed by the caller, see the module above.
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
        // SAFETY: the caller guarantees `count` options.
        let Ok(option) = (unsafe { text(*options.add(k)) }) else { return INVALID_INPUT };
        architecture |= option.starts_with("--gpu-architecture=compute_");
    }
    let Some(source) = programs().get(&program).map(|p| p.source.clone()) else {
        return INVALID_PROGRAM;
    };
    if !architecture {
        return INVALID_OPTION;
    }
    let source_mutation = driver().lock().source_mutation.clone();
    let source = source_mutation.map_or(source.clone(), |(from, to)| source.replace(&from, &to));
    // Not under the lock: other threads compile meanwhile.
    let compiled = compiler::compile(&source);
    let mut programs = programs();
    let Some(program) = programs.get_mut(&program) else { return INVALID_PROGRAM };
    match compiled {
        Ok(file) => {
            // The names of the kernels follow the name of the file: see `launch::library`.
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

/// Returns the code of a program.
fn code(program: usize) -> Option<String> {
    programs().get(&program)?.code.clone()
}

/// Returns the log of a program.
fn log(program: usize) -> Option<String> {
    programs().get(&program).map(|program| program.log.clone())
}

/// Writes the size of a text with its final zero.
///
/// # Safety
/// `size` is null or valid for a write.
unsafe fn write_size(text: Option<String>, size: *mut usize) -> c_int {
    let (Some(text), false) = (text, size.is_null()) else { return INVALID_PROGRAM };
    // SAFETY: guaranteed by the caller.
    unsafe { size.write(text.len() + 1) };
    SUCCESS
}

/// Writes a text with its final zero.
///
/// # Safety
/// `to` is null or valid for writes of the text and its final zero.
unsafe fn write_text(text: Option<String>, to: *mut c_char) -> c_int {
    let (Some(text), false) = (text, to.is_null()) else { return INVALID_PROGRAM };
    // SAFETY: guaranteed by the caller.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        to.add(text.len()).write(0);
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetPTXSize(program: usize, size: *mut usize) -> c_int {
    // SAFETY: guaranteed by the caller, see the module above.
    unsafe { write_size(code(program), size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetPTX(program: usize, to: *mut c_char) -> c_int {
    // SAFETY: as above.
    unsafe { write_text(code(program), to) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLogSize(program: usize, size: *mut usize) -> c_int {
    // SAFETY: as above.
    unsafe { write_size(log(program), size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetProgramLog(program: usize, to: *mut c_char) -> c_int {
    // SAFETY: as above.
    unsafe { write_text(log(program), to) }
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
    let text = match code {
        SUCCESS => c"NVRTC_SUCCESS",
        INVALID_INPUT => c"NVRTC_ERROR_INVALID_INPUT",
        INVALID_PROGRAM => c"NVRTC_ERROR_INVALID_PROGRAM",
        INVALID_OPTION => c"NVRTC_ERROR_INVALID_OPTION",
        COMPILATION => c"NVRTC_ERROR_COMPILATION",
        _ => c"NVRTC_ERROR unknown",
    };
    text.as_ptr()
}
