//! Modules and kernels.

use std::ffi::{c_char, c_uint, c_void};
use std::path::Path;
use std::sync::Arc;

use millstream_kernels::cuda::args::MemoryRange;

use super::memory::range;
use super::streams::known;
use super::{put, text};
use crate::compiled::{Argument, Grid, Library};
use crate::kernels::Launch;
use crate::state::{Answer, Module, State, answer_in_context};
use crate::stream::{Command, hand_over};
use crate::{COMPILED, HOST_KERNELS, call, code, kernels};

/// The most bytes that a kernel's arguments may have; enough for any call.
const MOST: u64 = 1 << 20;

/// Whether memory begins with an image of the host's kernels.
///
/// # Safety
/// `image` is null or points to an image: text that ends with a zero, or longer than what is looked
/// for.
unsafe fn is_ours(image: *const u8) -> bool {
    let mut ours = HOST_KERNELS.to_bytes_with_nul().iter().enumerate();
    // SAFETY: the caller's promise; what follows the first byte that differs is not looked at.
    !image.is_null() && ours.all(|(k, byte)| unsafe { *image.add(k) } == *byte)
}

/// The library that the compiler made: its file and, each in a line, its kernels.
fn library(compiled: &str) -> Option<Arc<Library>> {
    let (file, names) = compiled.split_once('\n')?;
    Library::load(Path::new(file), names.lines()).ok()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut u64, image: *const c_void) -> u32 {
    answer_in_context("cuModuleLoadData", |state, _| {
        // SAFETY: the caller's promise, see the module above.
        let compiled = match unsafe { is_ours(image.cast()) } {
            true => None,
            // SAFETY: as above: what is no image of the host's kernels is text.
            false => match unsafe { text(image.cast())? }.strip_prefix(COMPILED) {
                Some(compiled) => Some(library(compiled).ok_or(code::INVALID_IMAGE)?),
                None => return Err(code::INVALID_IMAGE),
            },
        };
        let (handle, name) = (state.handle(), state.name('k'));
        let text = format!("() = {name}");
        state.modules.insert(handle, Module { name, compiled });
        // SAFETY: as above.
        unsafe { put(module, handle)? };
        Ok(text)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: u64) -> u32 {
    const CALL: &str = "cuModuleUnload";
    answer_in_context(CALL, |state, _| match state.modules.remove(&module) {
        Some(gone) => {
            state.functions.retain(|_, function| function.0 != module);
            Ok(format!("({})", gone.name))
        }
        None => Err(state.violation(CALL, "there is no such module", code::INVALID_HANDLE)),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut u64,
    module: u64,
    name: *const c_char,
) -> u32 {
    const CALL: &str = "cuModuleGetFunction";
    answer_in_context(CALL, |state, _| {
        // SAFETY: as above.
        let name = unsafe { text(name)? };
        let Some(found) = state.modules.get(&module) else {
            return Err(state.violation(CALL, "there is no such module", code::INVALID_HANDLE));
        };
        let module_name = found.name.clone();
        let there = match &found.compiled {
            Some(library) => library.kernel(&name).is_some(),
            None => kernels::is_there(&name),
        };
        if !there {
            return Err(code::NOT_FOUND);
        }
        let handle = state.handle();
        let text = format!("({module_name}, {name})");
        state.functions.insert(handle, (module, name));
        // SAFETY: as above.
        unsafe { put(function, handle)? };
        Ok(text)
    })
}

/// A kernel's arguments: a number of bytes, and the bytes.
///
/// # Safety
/// `arguments` holds the addresses of both.
unsafe fn bytes_of(arguments: *const *const c_void) -> Option<Vec<u8>> {
    if arguments.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let (length, bytes) = unsafe { (**arguments.cast::<*const u64>(), *arguments.add(1)) };
    if length > MOST || bytes.is_null() {
        return None;
    }
    // SAFETY: as above: so many bytes lie there.
    Some(unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) }.to_vec())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuLaunchKernel(
    function: u64,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    _shared: c_uint,
    stream: u64,
    arguments: *const *const c_void,
    _extra: *const *const c_void,
) -> u32 {
    const CALL: &str = "cuLaunchKernel";
    answer_in_context(CALL, |state: &mut State, _| {
        let stream_name = known(CALL, state, stream)?;
        let Some((module, name)) = state.functions.get(&function).cloned() else {
            return Err(state.violation(CALL, "there is no such kernel", code::INVALID_HANDLE));
        };
        let threads = u64::from(block_x) * u64::from(block_y) * u64::from(block_z);
        if grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 || threads > 1024 {
            return Err(state.violation(CALL, "a grid of no threads, or too many", 1));
        }
        let library = state.modules.get(&module).and_then(|module| module.compiled.clone());
        let launch = if let Some(library) = library {
            let grid =
                Grid { blocks: [grid_x, grid_y, grid_z], threads: [block_x, block_y, block_z] };
            // SAFETY: as above.
            unsafe { compiled(state, &library, &name, arguments, grid)? }
        } else {
            // SAFETY: as above; the kernels of the host have these arguments.
            let bytes = unsafe { bytes_of(arguments) }.ok_or(code::INVALID_VALUE)?;
            let call = call::read(&bytes).map_err(|_| code::INVALID_VALUE)?;
            kernels::launch(state, &name, call, |s, a, n| range(CALL, s, a, n))?
        };
        let command = Command::Kernel { name: name.clone(), run: launch.run };
        hand_over(state, stream, command, &launch.ranges);
        Ok(format!("({name}, {stream_name})"))
    })
}

/// A kernel that was compiled for the host, with its argument.
///
/// # Safety
/// `arguments` holds the address of the kernel's argument, if it has one.
unsafe fn compiled(
    state: &mut State,
    library: &Arc<Library>,
    name: &str,
    arguments: *const *const c_void,
    grid: Grid,
) -> Answer<Launch> {
    const CALL: &str = "cuLaunchKernel";
    let kernel = library.kernel(name).ok_or(code::NOT_FOUND)?;
    let from = match kernel.size {
        0 => std::ptr::null(),
        _ if arguments.is_null() => return Err(code::INVALID_VALUE),
        // SAFETY: the caller's promise.
        _ => unsafe { *arguments },
    };
    let found = |place: MemoryRange| range(CALL, state, place.data, place.bytes);
    // SAFETY: the kernel says how large its argument is.
    let (argument, ranges) = match unsafe { Argument::read(from, kernel.size, found)? } {
        Ok(read) => read,
        Err(what) => return Err(state.violation(CALL, &what, code::INVALID_VALUE)),
    };
    let library = library.clone();
    let run = move || {
        // SAFETY: every operand was found to lie within one allocation when the kernel was launched,
        // allocations with users are not freed, and who launched the kernel has ordered it against all
        // other uses of its operands.
        unsafe { library.run(kernel, &argument, grid) }
    };
    Ok(Launch { run: Box::new(run), ranges })
}
