//! The native stream of a kernel's context: launches, copies and library calls on a CUDA stream.
//!
//! Long because all that a kernel can ask of its stream stands together.

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use anyhow::ensure;

use millstream_types::DeviceId;

use crate::cuda::blas::{Gemm, Handle};
use crate::cuda::device::{DeviceState, Properties};
use crate::cuda::device_error::{DeviceError, DeviceErrors};
use crate::cuda::driver::{
    DeviceBlock, DriverResult, Function, MemoryOwner, PinnedBlock, RawGraphExec, RawStream,
    memory_owner,
};
use crate::cuda::host_work::StagingBlock;
use crate::cuda::nccl::NcclStream;
use crate::cuda::plan::{KernelLaunch, PlannedLaunch};
use crate::cuda::scratch::{Access, NOWHERE, Scratch};

/// The action of a copy through the host's functions.
const HOST_COPY: &str = "copy from or to host memory that is not pinned";

/// The size in bytes of the buffer for copies of memory that the driver has not allocated.
const BOUNCE_BYTES: usize = 4 << 20;

/// The most error flags that one call of a kernel takes.
const FLAGS_PER_WORK: usize = 2;

/// A stream as kernels use it: the `native` of a kernel's context.
pub struct NativeStream {
    /// Created by the first matrix product. Declared before the stream, and so dropped before it.
    blas: Mutex<Option<Handle>>,
    raw: RawStream,
    device: Arc<DeviceState>,
    /// Created by the first copy that needs it. All its uses are on this stream, in its order.
    bounce: Mutex<Option<Arc<PinnedBlock>>>,
    /// Pinned memory for work of the host, kept until the stream is dropped.
    staging: Mutex<Vec<StagingBlock>>,
    /// Scratch memory, kept until the stream is dropped.
    scratch: Mutex<Vec<DeviceBlock>>,
    device_errors: Arc<Mutex<DeviceErrors>>,
    /// Whether the newest capture that the stream has taken part in is under way.
    capture: Mutex<Option<Arc<AtomicBool>>>,
    /// Whether the stream notes launches instead of making them, and those that it has noted.
    pub(super) is_planning: AtomicBool,
    pub(super) planned: Mutex<Vec<PlannedLaunch>>,
    /// Whether nothing runs on the stream: its work is called for the kernels that it compiles.
    only_compiles: bool,
    /// What kernels keep with the stream.
    kept: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// A loaded kernel.
#[derive(Clone)]
pub struct Kernel(Arc<Function>);

/// An address that a host function uses.
struct HostAddress(*mut u8);

// SAFETY: the caller of the copy guarantees that the address is valid until the function has run.
unsafe impl Send for HostAddress {}

impl HostAddress {
    /// Returns the address. A method, so that a closure captures the whole `Send` value.
    fn get(&self) -> *mut u8 {
        self.0
    }
}

impl NativeStream {
    pub(super) fn new(raw: RawStream, device: Arc<DeviceState>) -> NativeStream {
        let (blas, bounce, scratch) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (staging, device_errors) = (Mutex::default(), Arc::default());
        NativeStream {
            blas,
            raw,
            device,
            bounce,
            staging,
            scratch,
            device_errors,
            capture: Mutex::default(),
            is_planning: AtomicBool::new(false),
            planned: Mutex::default(),
            only_compiles: false,
            kept: OnceLock::new(),
        }
    }

    /// Returns a stream on which nothing runs.
    pub(super) fn only_compiling(device: Arc<DeviceState>) -> NativeStream {
        let raw = RawStream::unused(device.context.clone());
        NativeStream { only_compiles: true, ..NativeStream::new(raw, device) }
    }

    /// Returns whether nothing runs on the stream.
    pub(super) fn only_compiles(&self) -> bool {
        self.only_compiles
    }

    pub(super) fn raw(&self) -> &RawStream {
        &self.raw
    }

    pub(super) fn device_state(&self) -> &Arc<DeviceState> {
        &self.device
    }

    /// Leaks the resources that pending commands use. For a stream that is dropped with pending
    /// commands.
    pub(super) fn leak_resources(&mut self) {
        std::mem::forget(self.bounce.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        std::mem::forget(self.blas.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let staging = self.staging.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(staging));
        let scratch = self.scratch.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(scratch));
        let mut device_errors = self.device_errors.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(&mut *device_errors));
    }

    /// Returns the pinned memory for work of the host.
    pub(super) fn staging_blocks(&self) -> &Mutex<Vec<StagingBlock>> {
        &self.staging
    }

    /// Takes the errors that the work just launched has added with [`NativeStream::error_flag`].
    pub(super) fn take_device_errors(&self) -> Vec<DeviceError> {
        self.device_errors.lock().unwrap_or_else(PoisonError::into_inner).take_launched()
    }

    /// Returns the first of `errors` whose flag is set. Their work must have completed.
    pub(super) fn check_device_errors(&self, errors: Vec<DeviceError>) -> anyhow::Result<()> {
        self.device_errors.lock().unwrap_or_else(PoisonError::into_inner).check(errors)
    }

    /// Returns the stream's error flags.
    pub(super) fn device_errors(&self) -> Arc<Mutex<DeviceErrors>> {
        self.device_errors.clone()
    }

    /// Makes error flags free for `works` pieces of work, which have run before and are now to be
    /// captured.
    pub(super) fn reserve_error_flags(&self, works: usize) -> DriverResult<()> {
        let mut device_errors = self.device_errors.lock().unwrap_or_else(PoisonError::into_inner);
        device_errors.reserve(&self.device.context, works.saturating_mul(FLAGS_PER_WORK))
    }

    /// Joins a capture: until `active` is false, nothing may be allocated, compiled or loaded, and
    /// the host is not called.
    pub(super) fn join_capture(&self, active: Arc<AtomicBool>) {
        *self.capture.lock().unwrap_or_else(PoisonError::into_inner) = Some(active);
    }

    /// Returns whether the stream captures its work instead of running it.
    fn is_capturing(&self) -> bool {
        let capture = self.capture.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: the streams of a capture belong to one thread.
        capture.as_ref().is_some_and(|active| active.load(Ordering::Relaxed))
    }

    /// Refuses an action of captured work.
    pub(super) fn refuse_in_capture(&self, action: &str) -> anyhow::Result<()> {
        ensure!(!self.is_capturing(), "a captured call cannot {action}");
        Ok(())
    }

    /// Launches a graph in the stream's order.
    pub(super) fn launch_graph(&self, exec: &mut RawGraphExec) -> DriverResult<()> {
        // SAFETY: a graph consists of captured work, whose creator guarantees its operands for
        // every launch. The streams keep what else the work uses, and the device its kernels.
        unsafe { self.raw.launch_graph(exec) }
    }

    /// Returns the stream for collectives that another thread launches.
    pub fn for_collectives(&self) -> NcclStream {
        NcclStream::of(&self.raw)
    }

    /// Returns what kernels keep with the stream, which drops it. The first call makes it.
    ///
    /// # Panics
    /// If an earlier call was for another type.
    pub fn kept<T: Default + Send + Sync + 'static>(&self) -> &T {
        let kept = self.kept.get_or_init(|| Box::new(T::default()));
        kept.downcast_ref().expect("one kind of value is kept with a stream")
    }

    /// Returns the device's id.
    pub fn device(&self) -> &DeviceId {
        &self.device.id
    }

    /// Returns the device's properties.
    pub fn properties(&self) -> &Properties {
        &self.device.properties
    }

    /// Returns whether kernels can access the memory at an address: the device's own memory, or
    /// pinned memory.
    ///
    /// # Errors
    /// The driver's error.
    pub fn can_access(&self, address: *const u8) -> anyhow::Result<bool> {
        if self.is_planning() {
            self.note_planned(PlannedLaunch::Access(address.cast_mut()));
        }
        if self.is_planning() || self.only_compiles {
            return Ok(true);
        }
        Ok(match memory_owner(&self.device.context, address)? {
            MemoryOwner::Unknown => false,
            MemoryOwner::Pinned => true,
            MemoryOwner::Device(index) => index == self.device.id.index(),
        })
    }

    /// Copies `bytes` bytes between any two memories, in the stream's order. Copies from and to
    /// host memory that is not pinned go through pinned memory. Device memory that the copy writes
    /// must be this device's.
    ///
    /// # Errors
    /// The driver's error; also if it has no pinned memory.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes` bytes until the copy has run and do not overlap, and the
    /// copy is ordered against all other uses of them.
    pub unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> anyhow::Result<()> {
        if bytes == 0 || std::ptr::eq(to, from) || self.only_compiles {
            return Ok(());
        }
        self.refuse_in_plan("copy")?;
        let context = &self.device.context;
        let own = self.device.id.index();
        match (memory_owner(context, to)?, memory_owner(context, from)?) {
            (MemoryOwner::Device(to_device), MemoryOwner::Device(index))
                if index != own && to_device == own =>
            {
                self.refuse_in_capture("copy from another device")?;
                let peer = self.device.peer(index)?;
                // SAFETY: guaranteed by the caller, here and below.
                unsafe { self.raw.copy_from_peer(to, from, &peer, bytes)? }
            }
            (MemoryOwner::Unknown, MemoryOwner::Unknown) => {
                self.refuse_in_capture(HOST_COPY)?;
                let (to, from) = (HostAddress(to), HostAddress(from.cast_mut()));
                self.raw.call_host(Box::new(move || {
                    // SAFETY: as above.
                    unsafe { to.get().copy_from_nonoverlapping(from.get(), bytes) };
                }))?;
            }
            (_, MemoryOwner::Unknown) => {
                self.refuse_in_capture(HOST_COPY)?;
                // SAFETY: as above.
                unsafe { self.upload(to, from, bytes)? }
            }
            (MemoryOwner::Unknown, _) => {
                self.refuse_in_capture(HOST_COPY)?;
                // SAFETY: as above.
                unsafe { self.download(to, from, bytes)? }
            }
            // SAFETY: as above.
            (_, _) => unsafe { self.raw.copy(to, from, bytes)? },
        }
        Ok(())
    }

    fn bounce(&self) -> DriverResult<Arc<PinnedBlock>> {
        let mut bounce = self.bounce.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = &*bounce {
            return Ok(block.clone());
        }
        let block = Arc::new(PinnedBlock::new(self.device.context.clone(), BOUNCE_BYTES)?);
        *bounce = Some(block.clone());
        Ok(block)
    }

    /// Copies from host memory that is not pinned.
    ///
    /// # Safety
    /// As [`NativeStream::copy`].
    unsafe fn upload(&self, to: *mut u8, from: *const u8, bytes: usize) -> DriverResult<()> {
        let block = self.bounce()?;
        for start in (0..bytes).step_by(BOUNCE_BYTES) {
            let part = BOUNCE_BYTES.min(bytes - start);
            let (source, bounce) =
                (HostAddress(from.wrapping_add(start).cast_mut()), block.clone());
            self.raw.call_host(Box::new(move || {
                let to = bounce.base().as_ptr();
                // SAFETY: guaranteed by the caller for the source. The buffer holds `part` bytes,
                // and all its uses are in this stream's order.
                unsafe { to.copy_from_nonoverlapping(source.get(), part) };
            }))?;
            // SAFETY: as above.
            unsafe { self.raw.copy(to.wrapping_add(start), block.base().as_ptr(), part)? };
        }
        Ok(())
    }

    /// Copies to host memory that is not pinned.
    ///
    /// # Safety
    /// As [`NativeStream::copy`].
    unsafe fn download(&self, to: *mut u8, from: *const u8, bytes: usize) -> DriverResult<()> {
        let block = self.bounce()?;
        for start in (0..bytes).step_by(BOUNCE_BYTES) {
            let part = BOUNCE_BYTES.min(bytes - start);
            // SAFETY: as in `upload`, with source and target exchanged.
            unsafe { self.raw.copy(block.base().as_ptr(), from.wrapping_add(start), part)? };
            let (target, bounce) = (HostAddress(to.wrapping_add(start)), block.clone());
            self.raw.call_host(Box::new(move || {
                let from = bounce.base().as_ptr();
                // SAFETY: as above.
                unsafe { target.get().copy_from_nonoverlapping(from, part) };
            }))?;
        }
        Ok(())
    }

    /// Sets `bytes` bytes of memory that the driver has allocated, in the stream's order.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// As [`NativeStream::copy`], for `to`.
    pub unsafe fn fill(&self, to: *mut u8, value: u8, bytes: usize) -> anyhow::Result<()> {
        if bytes > 0 && !self.only_compiles {
            self.refuse_in_plan("fill memory")?;
            // SAFETY: guaranteed by the caller.
            unsafe { self.raw.fill(to, value, bytes)? };
        }
        Ok(())
    }

    /// Returns scratch memory for one call of a kernel.
    pub fn scratch(&self) -> Scratch<'_> {
        let blocks = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let access = match (self.only_compiles, self.is_planning(), self.is_capturing()) {
            (true, ..) => Access::Nowhere,
            (_, true, _) => Access::Refused,
            (.., true) => Access::Fixed,
            _ => Access::Growing,
        };
        Scratch::new(blocks, &self.device.context, access)
    }

    /// Launches a matrix product in the stream's order; notes it if the stream plans.
    ///
    /// # Errors
    /// cuBLAS is missing, it refuses the call, or it does not support the matrices.
    ///
    /// # Safety
    /// The matrices are valid until the product has run, and the product is ordered against all
    /// other uses of them. The elements of `out` are distinct, and none is in `x` or `y`.
    pub unsafe fn gemm(&self, gemm: &Gemm) -> anyhow::Result<()> {
        if self.is_planning() {
            self.note_planned(PlannedLaunch::Gemm(*gemm));
        }
        if self.is_planning() || self.only_compiles {
            return Ok(());
        }
        let mut blas = self.blas.lock().unwrap_or_else(PoisonError::into_inner);
        let Properties { driver, capability, .. } = *self.properties();
        let handle = match &mut *blas {
            Some(handle) => handle,
            none => {
                self.refuse_in_capture("create a handle of cuBLAS")?;
                none.insert(Handle::new(&self.raw, driver, capability)?)
            }
        };
        // SAFETY: guaranteed by the caller.
        unsafe { handle.gemm(gemm, self.device.tf32) }
    }

    /// Returns the kernel `name` of the module `key`. Loads the module from the output of `compile`
    /// on first use. Returns none on a stream on which nothing runs: it only compiles the module.
    ///
    /// # Errors
    /// `compile` fails, the driver refuses its output, or the module has no such kernel.
    pub fn kernel(
        &self,
        key: &str,
        name: &CStr,
        compile: impl FnOnce() -> anyhow::Result<Vec<u8>>,
    ) -> anyhow::Result<Option<Kernel>> {
        if self.only_compiles {
            self.device.compile_ahead(key, compile)?;
            return Ok(None);
        }
        let may_load = || self.refuse_in_capture("load a kernel");
        Ok(Some(Kernel(self.device.function(key, name, may_load, compile)?)))
    }

    /// Returns the address of an error flag for the work that is being launched. The flag is zero.
    /// If it is not zero after the work's kernels have run, the work fails with `error`. Until then
    /// no other work gets the flag.
    ///
    /// # Errors
    /// The driver has no pinned memory.
    pub fn error_flag(&self, error: anyhow::Error) -> anyhow::Result<*mut u64> {
        if self.only_compiles {
            return Ok(NOWHERE as *mut u64);
        }
        self.refuse_in_plan("take a flag for errors")?;
        let is_capturing = self.is_capturing();
        let mut device_errors = self.device_errors.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(
            !is_capturing || !device_errors.is_used_up(),
            "a captured call cannot allocate flags for errors"
        );
        Ok(device_errors.add(&self.device.context, error)?.as_ptr())
    }

    /// Launches a kernel in the stream's order: `grid` blocks of `block` threads, with `shared`
    /// bytes of dynamic shared memory per block.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// `arguments` holds the addresses of the kernel's arguments, in the number and sizes that the
    /// kernel declares. Memory that they refer to is valid until the kernel has run, and the kernel
    /// is ordered against all other uses of it.
    pub unsafe fn launch(
        &self,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        arguments: &mut [*mut c_void],
    ) -> anyhow::Result<()> {
        self.refuse_in_plan("launch a kernel without an argument block")?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.raw.launch(&kernel.0, grid, block, shared, arguments)? };
        Ok(())
    }

    /// Launches a kernel as [`NativeStream::launch`] does, with one argument: a block of words.
    /// Notes the launch if the stream plans.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// As for [`NativeStream::launch`], with the address of the block.
    pub unsafe fn launch_block(
        &self,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        arguments: &mut [u64],
    ) -> anyhow::Result<()> {
        if self.is_planning() {
            let (kernel, arguments) = (kernel.clone(), arguments.to_vec());
            let launch = KernelLaunch { kernel, grid, block, shared, arguments };
            self.note_planned(PlannedLaunch::Kernel(launch));
            return Ok(());
        }
        let mut parameters: [*mut c_void; 1] = [arguments.as_mut_ptr().cast()];
        // SAFETY: guaranteed by the caller.
        unsafe { self.launch(kernel, grid, block, shared, &mut parameters) }
    }
}

impl fmt::Debug for NativeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stream of {}", self.device.id)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a kernel")
    }
}
