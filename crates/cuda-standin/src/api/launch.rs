//! Modules and kernels.

use std::ffi::{c_char, c_uint, c_void};
use std::path::Path;
use std::sync::Arc;

use millstream_kernels::cuda::args::MemoryRange;

use super::memory::range;
use super::stream::stream_name;
use super::{text, write_result};
use crate::compiled::{Argument, Grid, Library};
use crate::host_kernels::Launch;
use crate::state::{DriverResult, Module, State, driver_call_in_context};
use crate::stream::{Command, enqueue};
use crate::{COMPILED, HOST_KERNELS, call, code, host_kernels};

/// The maximum size of a host kernel's encoded call: enough for any call.
const MAX_ARGUMENT_BYTES: u64 = 1 << 20;

/// Returns whether an image is [`HOST_KERNELS`].
///
/// # Safety
/// `image` is null or points to an image: a text that ends with a zero, or is longer than
/// [`HOST_KERNELS`].
unsafe fn is_host_kernels(image: *const u8) -> bool {
    let mut expected = HOST_KERNELS.to_bytes_with_nul().iter().enumerate();
    // SAFETY: guaranteed by the caller; bytes after the first difference are not read.
    !image.is_null() && expected.all(|(k, byte)| unsafe { *image.add(k) } == *byte)
}

/// Loads a compiled library from the text of its image: the file, then one kernel per line.
fn library(compiled: &str) -> Option<Arc<Library>> {
    let (file, names) = compiled.split_once('\n')?;
    Library::load(Path::new(file), names.lines()).ok()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleLoadData(module: *mut u64, image: *const c_void) -> u32 {
    driver_call_in_context("cuModuleLoadData", |state, _| {
        // SAFETY: guaranteed by the caller, see the module above.
        let compiled = match unsafe { is_host_kernels(image.cast()) } {
            true => None,
            // SAFETY: as above: every other image is a text.
            false => match unsafe { text(image.cast())? }.strip_prefix(COMPILED) {
                Some(compiled) => Some(library(compiled).ok_or(code::INVALID_IMAGE)?),
                None => return Err(code::INVALID_IMAGE),
            },
        };
        let (handle, name) = (state.handle(), state.name('k'));
        let text = format!("() = {name}");
        state.modules.insert(handle, Module { name, compiled });
        // SAFETY: as above.
        unsafe { write_result(module, handle)? };
        Ok(text)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleUnload(module: u64) -> u32 {
    driver_call_in_context("cuModuleUnload", |state, _| match state.modules.remove(&module) {
        Some(unloaded) => {
            state.functions.retain(|_, function| function.0 != module);
            Ok(format!("({})", unloaded.name))
        }
        None => state.violation("there is no such module", code::INVALID_HANDLE),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuModuleGetFunction(
    function: *mut u64,
    module: u64,
    name: *const c_char,
) -> u32 {
    driver_call_in_context("cuModuleGetFunction", |state, _| {
        // SAFETY: as above.
        let name = unsafe { text(name)? };
        let found = state.entry(|s| &mut s.modules, module, "module", code::INVALID_HANDLE)?;
        let module_name = found.name.clone();
        let exists = match &found.compiled {
            Some(library) => library.kernel(&name).is_some(),
            None => host_kernels::exists(&name),
        };
        if !exists {
            return Err(code::NOT_FOUND);
        }
        let handle = state.handle();
        let text = format!("({module_name}, {name})");
        state.functions.insert(handle, (module, name));
        // SAFETY: as above.
        unsafe { write_result(function, handle)? };
        Ok(text)
    })
}

/// Copies the encoded call from a host kernel's arguments: the number of bytes, and the bytes.
///
/// # Safety
/// `arguments` holds the addresses of both arguments.
unsafe fn bytes_of(arguments: *const *const c_void) -> Option<Vec<u8>> {
    if arguments.is_null() {
        return None;
    }
    // SAFETY: guaranteed by the caller.
    let (length, bytes) = unsafe { (**arguments.cast::<*const u64>(), *arguments.add(1)) };
    if length > MAX_ARGUMENT_BYTES || bytes.is_null() {
        return None;
    }
    // SAFETY: as above: `length` bytes are valid there.
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
    driver_call_in_context("cuLaunchKernel", |state: &mut State, _| {
        let stream_name = stream_name(state, stream)?;
        let known = state.entry(|s| &mut s.functions, function, "kernel", code::INVALID_HANDLE)?;
        let (module, name) = known.clone();
        let threads = u64::from(block_x) * u64::from(block_y) * u64::from(block_z);
        if grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 || threads > 1024 {
            return state.violation("a grid with no threads, or with too many", 1);
        }
        let library = state.modules.get(&module).and_then(|module| module.compiled.clone());
        let launch = if let Some(library) = library {
            let grid =
                Grid { blocks: [grid_x, grid_y, grid_z], threads: [block_x, block_y, block_z] };
            // SAFETY: as above.
            unsafe { compiled(state, &library, &name, arguments, grid)? }
        } else {
            // SAFETY: as above; the host kernels have these arguments.
            let bytes = unsafe { bytes_of(arguments) }.ok_or(code::INVALID_VALUE)?;
            let call = call::decode(&bytes).map_err(|_| code::INVALID_VALUE)?;
            host_kernels::launch(state, &name, call, range)?
        };
        let command = Command::Kernel { name: name.clone(), run: launch.run };
        enqueue(state, stream, command, launch.ranges);
        Ok(format!("({name}, {stream_name})"))
    })
}

/// Prepares the launch of a kernel that was compiled for the host.
///
/// # Safety
/// `arguments` holds the address of the kernel's argument, if it has one.
unsafe fn compiled(
    state: &mut State,
    library: &Arc<Library>,
    name: &str,
    arguments: *const *const c_void,
    grid: Grid,
) -> DriverResult<Launch> {
    let kernel = library.kernel(name).ok_or(code::NOT_FOUND)?;
    let from = match kernel.size {
        0 => std::ptr::null(),
        _ if arguments.is_null() => return Err(code::INVALID_VALUE),
        // SAFETY: guaranteed by the caller.
        _ => unsafe { *arguments },
    };
    let found = |place: MemoryRange| range(state, place.data, place.bytes);
    // SAFETY: the compiled kernel declares the size of its argument.
    let (argument, ranges) = match unsafe { Argument::read(from, kernel.size, found)? } {
        Ok(read) => read,
        Err(what) => return state.violation(what, code::INVALID_VALUE),
    };
    let library = library.clone();
    let run = move || {
        // SAFETY: the launch checked that every operand is within one allocation; allocations with
        // users are not freed; and the caller of the launch guarantees that it is ordered against
        // all other uses of the operands.
        unsafe { library.run(kernel, &argument, grid) }
    };
    Ok(Launch { run: Arc::new(run), ranges })
}
