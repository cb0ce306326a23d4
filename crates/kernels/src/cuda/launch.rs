//! Compiles our own kernels at their first use and launches them. The device keeps the compiled
//! ones.

use std::ffi::{CStr, CString};
use std::slice::from_raw_parts_mut;
use std::sync::OnceLock;

use anyhow::{Result, anyhow};

use millstream_ep::cuda::{Compiler, NativeStream};

use super::args::{ElementwiseArgs, KernelArgs};
use super::cache::{self, Key};

/// The threads of a block: on every device, a few such blocks fill a multiprocessor.
pub(super) const THREADS: u64 = 256;

/// The maximal number of blocks per multiprocessor. With more work, each thread processes several
/// items.
pub(super) const BLOCKS_PER_MULTIPROCESSOR: u64 = 32;

/// Returns the compiler of this process. The first kernel searches for it.
fn compiler(driver: i32) -> Result<&'static Compiler> {
    static COMPILER: OnceLock<Result<Compiler, String>> = OnceLock::new();
    let found = COMPILER.get_or_init(|| Compiler::find(driver).map_err(|e| format!("{e:#}")));
    found.as_ref().map_err(|e| anyhow!("{e}"))
}

/// Returns a kernel's PTX, from the cache on disk if it was compiled before.
fn compiled(source: &CStr, driver: i32, capability: (i32, i32)) -> Result<CString> {
    let compiler = compiler(driver)?;
    let compile = || compiler.compile(source, capability);
    match (cache::folder(), compiler.version()) {
        (Some(folder), Some(version)) => {
            let key = Key { source, capability, compiler: version, options: Compiler::OPTIONS };
            cache::get(&folder, &key, compile)
        }
        // Without a version, the output could not be distinguished from another compiler's.
        _ => compile(),
    }
}

/// Returns the number of blocks that keep the device busy: threads of them process several items.
pub(super) fn most_blocks(native: &NativeStream) -> u64 {
    BLOCKS_PER_MULTIPROCESSOR * native.properties().multiprocessors.max(1) as u64
}

/// Returns whether kernels take arguments of 32,764 bytes: since CUDA 12.1, on Volta and later.
/// All take 4,096.
pub(super) fn passes_long_arguments(native: &NativeStream) -> bool {
    let (driver, (major, _)) = (native.properties().driver, native.properties().capability);
    let compiles = || compiler(driver).is_ok_and(|c| c.version() >= Some((12, 1)));
    driver >= 12010 && major >= 7 && compiles()
}

/// Launches the elementwise kernel `name` of `source`. Each thread processes some elements.
///
/// # Errors
/// An error of the driver, or of the compiler, which may be missing.
///
/// # Safety
/// As for [`launch_blocks`].
pub(super) unsafe fn launch_elementwise(
    native: &NativeStream,
    name: &str,
    source: impl FnOnce() -> Result<CString>,
    args: ElementwiseArgs,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { launch_items(native, name, source, args.count, args) }
}

/// Launches the kernel `name` of `source` on `count` work items. Each thread processes some of
/// them.
///
/// # Errors
/// An error of the driver, or of the compiler, which may be missing.
///
/// # Safety
/// As for [`launch_blocks`].
pub(super) unsafe fn launch_items<A: KernelArgs>(
    native: &NativeStream,
    name: &str,
    source: impl FnOnce() -> Result<CString>,
    count: u64,
    args: A,
) -> Result<()> {
    let blocks = count.div_ceil(THREADS).min(most_blocks(native)) as u32;
    // SAFETY: the caller's promise.
    unsafe { launch_blocks(native, name, source, blocks, args) }
}

/// Launches the kernel `name` of `source` in `blocks` blocks of [`THREADS`] threads. Does nothing
/// for 0 blocks.
///
/// # Errors
/// An error of the driver, or of the compiler, which may be missing.
///
/// # Safety
/// The kernel takes this argument block. It accesses the operands named there and nothing else.
/// They are valid until the kernel has run, and it is ordered against all other uses of them.
pub(super) unsafe fn launch_blocks<A: KernelArgs>(
    native: &NativeStream,
    name: &str,
    source: impl FnOnce() -> Result<CString>,
    blocks: u32,
    args: A,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { launch_entry(native, (name, name), source, blocks, args) }
}

/// Launches as [`launch_blocks`] does, from a source with several kernels. Takes the names of the
/// source and of the kernel.
///
/// # Errors
/// As for [`launch_blocks`].
///
/// # Safety
/// As for [`launch_blocks`].
pub(super) unsafe fn launch_entry<A: KernelArgs>(
    native: &NativeStream,
    (module, name): (&str, &str),
    source: impl FnOnce() -> Result<CString>,
    blocks: u32,
    mut args: A,
) -> Result<()> {
    const { assert!(size_of::<A>().is_multiple_of(8) && align_of::<A>() == 8, "a block of words") }
    if blocks == 0 {
        return Ok(());
    }
    debug_assert_eq!(args.header().size as usize, size_of::<A>(), "{name}");
    let properties = native.properties();
    let compile = || compiled(&source()?, properties.driver, properties.capability);
    let kernel = native.kernel(module, &CString::new(name)?, compile)?;
    // SAFETY: a block of this size without padding, by the contract of `KernelArgs`.
    let words = unsafe { from_raw_parts_mut((&raw mut args).cast(), size_of::<A>() / 8) };
    // SAFETY: the caller's promise, of the argument block and the operands.
    unsafe { native.launch_block(&kernel, [blocks, 1, 1], [THREADS as u32, 1, 1], 0, words) }
}
