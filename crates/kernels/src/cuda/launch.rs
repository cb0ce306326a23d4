//! Compiles our own kernels at their first use and launches them. The device keeps the compiled
//! ones.

use std::ffi::{CStr, CString};
use std::slice::from_raw_parts_mut;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

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

/// What the process has compiled so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compiled {
    /// The number of kernels, without those from the cache on disk.
    pub kernels: u64,
    /// The seconds that they took, added over all threads.
    pub seconds: f64,
    /// The seconds that calls have waited for them.
    pub waited: f64,
}

/// The time that a call needs to find a loaded kernel, and far more. Longer ones have waited.
const LOADED: Duration = Duration::from_millis(1);

static COMPILED: Mutex<Compiled> = Mutex::new(Compiled { kernels: 0, seconds: 0.0, waited: 0.0 });

/// Returns what this process has compiled so far.
pub fn compiled() -> Compiled {
    *COMPILED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(change: impl FnOnce(&mut Compiled)) {
    change(&mut COMPILED.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Returns a kernel's code, from the cache on disk if it was compiled before.
fn code(source: &CStr, driver: i32, capability: (i32, i32)) -> Result<Vec<u8>> {
    let compiler = compiler(driver)?;
    let output = compiler.output_for(capability);
    let options = compiler.options(capability, output);
    let compile = || {
        let begun = Instant::now();
        let code = compiler.compile(source, &options, output);
        count(|all| {
            all.kernels += 1;
            all.seconds += begun.elapsed().as_secs_f64();
        });
        code
    };
    match (cache::folder(), compiler.version()) {
        (Some(folder), Some(version)) => {
            cache::get(&folder, &Key { source, compiler: version, options: &options }, compile)
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
    let begun = Instant::now();
    let compile = || code(&source()?, properties.driver, properties.capability);
    let kernel = native.kernel(module, &CString::new(name)?, compile)?;
    // The precompilation of a call only compiles.
    let Some(kernel) = kernel else { return Ok(()) };
    let waited = begun.elapsed();
    if waited > LOADED {
        count(|all| all.waited += waited.as_secs_f64());
    }
    // SAFETY: a block of this size without padding, by the contract of `KernelArgs`.
    let words = unsafe { from_raw_parts_mut((&raw mut args).cast(), size_of::<A>() / 8) };
    // SAFETY: the caller's promise, of the argument block and the operands.
    unsafe { native.launch_block(&kernel, [blocks, 1, 1], [THREADS as u32, 1, 1], 0, words) }
}
