//! Launches of our own kernels: compiled at first use, kept with the device.

use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;

use anyhow::{Result, anyhow};

use millstream_ep::cuda::{Compiler, Native};

use super::cache::{self, Key};
use super::call::{Argument, Call};

/// Threads of a block: enough to fill a multiprocessor with few blocks, on every device.
pub(super) const THREADS: u64 = 256;

/// The most blocks per multiprocessor that are launched; each thread then takes several elements.
pub(super) const BLOCKS: u64 = 32;

/// The compiler of this process, looked for at the first kernel.
fn compiler(driver: i32) -> Result<&'static Compiler> {
    static COMPILER: OnceLock<Result<Compiler, String>> = OnceLock::new();
    let found = COMPILER.get_or_init(|| Compiler::find(driver).map_err(|e| format!("{e:#}")));
    found.as_ref().map_err(|e| anyhow!("{e}"))
}

/// A kernel's code, from disk if it was compiled before.
fn compiled(source: &CStr, driver: i32, capability: (i32, i32)) -> Result<CString> {
    let compiler = compiler(driver)?;
    let compile = || compiler.compile(source, capability);
    match (cache::folder(), compiler.version()) {
        (Some(folder), Some(version)) => {
            let key = Key { source, capability, compiler: version, options: Compiler::OPTIONS };
            cache::get(&folder, &key, compile)
        }
        // What a compiler gives that does not say which it is cannot be told from another's.
        _ => compile(),
    }
}

/// Launches the kernel `name` of `source` on a call's elements, some to each thread.
///
/// # Errors
/// The compiler's, which may not be there, or the driver's.
///
/// # Safety
/// As for [`blocks`].
pub(super) unsafe fn launch(
    native: &Native,
    name: &str,
    source: impl FnOnce() -> Result<CString>,
    call: Call,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { each(native, name, source, call.count, call) }
}

/// Launches threads for `count` pieces of work, some for each.
///
/// # Errors
/// The compiler's, which may not be there, or the driver's.
///
/// # Safety
/// As for [`blocks`].
pub(super) unsafe fn each<A: Argument>(
    native: &Native,
    name: &str,
    source: impl FnOnce() -> Result<CString>,
    count: u64,
    argument: A,
) -> Result<()> {
    let most = BLOCKS * native.properties().multiprocessors.max(1) as u64;
    let number = count.div_ceil(THREADS).min(most) as u32;
    // SAFETY: the caller's promise.
    unsafe { blocks(native, name, source, number, argument) }
}

/// Launches so many blocks of [`THREADS`] threads of the kernel of a source of its name; with none, nothing.
///
/// # Errors
/// The compiler's, which may not be there, or the driver's.
///
/// # Safety
/// The kernel has this one argument. It reads and writes the argument's operands and nothing else. Those
/// are valid until it has run, and it is ordered against all other uses of them.
pub(super) unsafe fn blocks<A: Argument>(
    native: &Native,
    name: &str,
    source: impl FnOnce() -> Result<CString>,
    blocks: u32,
    argument: A,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { blocks_of(native, (name, name), source, blocks, argument) }
}

/// As [`blocks`], of a source that has several kernels: its name, and the kernel's.
///
/// # Errors
/// As for [`blocks`].
///
/// # Safety
/// As for [`blocks`].
pub(super) unsafe fn blocks_of<A: Argument>(
    native: &Native,
    (module, name): (&str, &str),
    source: impl FnOnce() -> Result<CString>,
    blocks: u32,
    mut argument: A,
) -> Result<()> {
    if blocks == 0 {
        return Ok(());
    }
    debug_assert_eq!(argument.head().size as usize, size_of::<A>(), "{name}");
    let properties = native.properties();
    let compile = || compiled(&source()?, properties.driver, properties.capability);
    let kernel = native.kernel(module, &CString::new(name)?, compile)?;
    let mut arguments: [*mut c_void; 1] = [(&raw mut argument).cast()];
    // SAFETY: the caller answers for the argument and the operands.
    unsafe { native.launch(&kernel, [blocks, 1, 1], [THREADS as u32, 1, 1], 0, &mut arguments) }
}
