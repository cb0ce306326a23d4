//! What kernels launch with: a stream of the driver's, and what can be put on it.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::DeviceId;

use crate::cuda::blas::{Gemm, Handle};
use crate::cuda::device::{Opened, Properties};
use crate::cuda::driver::{Answer, DeviceBlock, Function, Owner, PinnedBlock, RawStream, owner};
use crate::cuda::scratch::Scratch;
use crate::cuda::verdict::{Verdict, Verdicts};

/// The buffer by which memory that the driver does not know is copied, in bytes.
const BOUNCE: usize = 4 << 20;

/// A stream, as kernels see it: the `native` of a kernel's context.
pub struct Native {
    /// Made at the first matrix product. Before the stream, which it launches on.
    blas: Mutex<Option<Handle>>,
    raw: RawStream,
    device: Arc<Opened>,
    /// Made at the first copy that needs it. All its uses are on this stream, in its order.
    bounce: Mutex<Option<Arc<PinnedBlock>>>,
    /// Scratch memory, kept for the stream's life.
    scratch: Mutex<Vec<DeviceBlock>>,
    verdicts: Mutex<Verdicts>,
}

/// A kernel of a module that was loaded.
#[derive(Clone)]
pub struct Kernel(Arc<Function>);

/// An address that a function on the host is given.
struct At(*mut u8);

// SAFETY: who hands the address over has promised that it is valid until the function has run.
unsafe impl Send for At {}

impl At {
    /// The address; by a method, so that a closure takes the whole.
    fn get(&self) -> *mut u8 {
        self.0
    }
}

impl Native {
    pub(super) fn new(raw: RawStream, device: Arc<Opened>) -> Native {
        let (blas, bounce, scratch) = (Mutex::default(), Mutex::default(), Mutex::default());
        Native { blas, raw, device, bounce, scratch, verdicts: Mutex::default() }
    }

    pub(super) fn raw(&self) -> &RawStream {
        &self.raw
    }

    pub(super) fn opened(&self) -> &Arc<Opened> {
        &self.device
    }

    /// The stream is dropped while something is on its way: what that uses is kept for good.
    pub(super) fn abandon(&mut self) {
        std::mem::forget(self.bounce.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        std::mem::forget(self.blas.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        let scratch = self.scratch.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(scratch));
        let verdicts = self.verdicts.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(verdicts));
    }

    /// What the work that was just run has asked by [`Native::fails_with`].
    pub(super) fn asked(&self) -> Vec<Verdict> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether work that has completed has failed by what it asked.
    pub(super) fn judge(&self, asked: Vec<Verdict>) -> anyhow::Result<()> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).judge(asked)
    }

    /// The device.
    pub fn device(&self) -> &DeviceId {
        &self.device.id
    }

    /// What the device says of itself.
    pub fn properties(&self) -> &Properties {
        &self.device.properties
    }

    /// Whether a kernel can use the memory at an address: the device's, and pinned memory.
    ///
    /// # Errors
    /// The driver's.
    pub fn reaches(&self, at: *const u8) -> anyhow::Result<bool> {
        Ok(match owner(&self.device.context, at)? {
            Owner::Unknown => false,
            Owner::Pinned => true,
            Owner::Device(index) => index == self.device.id.index(),
        })
    }

    /// Copies `bytes` bytes between any two memories, in the stream's order. Memory of the host's
    /// that is not pinned goes by way of pinned memory. Device memory that is written is this
    /// device's.
    ///
    /// # Errors
    /// The driver's, or there is no pinned memory.
    ///
    /// # Safety
    /// Both are valid for `bytes` bytes until the copy has run, do not overlap, and the copy is
    /// ordered against all other uses of them.
    pub unsafe fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) -> anyhow::Result<()> {
        if bytes == 0 || std::ptr::eq(to, from) {
            return Ok(());
        }
        let context = &self.device.context;
        let (own, owners) = (self.device.id.index(), (owner(context, to)?, owner(context, from)?));
        match owners {
            (Owner::Device(to_device), Owner::Device(index))
                if index != own && to_device == own =>
            {
                let peer = self.device.peer(index)?;
                // SAFETY: the caller's promise, here and below.
                unsafe { self.raw.copy_from_peer(to, from, &peer, bytes)? }
            }
            (Owner::Unknown, Owner::Unknown) => {
                let (to, from) = (At(to), At(from.cast_mut()));
                self.raw.host(Box::new(move || {
                    // SAFETY: as above.
                    unsafe { to.get().copy_from_nonoverlapping(from.get(), bytes) };
                }))?;
            }
            // SAFETY: as above.
            (_, Owner::Unknown) => unsafe { self.upload(to, from, bytes)? },
            // SAFETY: as above.
            (Owner::Unknown, _) => unsafe { self.download(to, from, bytes)? },
            // SAFETY: as above.
            (_, _) => unsafe { self.raw.copy(to, from, bytes)? },
        }
        Ok(())
    }

    fn bounce(&self) -> Answer<Arc<PinnedBlock>> {
        let mut bounce = self.bounce.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = &*bounce {
            return Ok(block.clone());
        }
        let block = Arc::new(PinnedBlock::new(self.device.context.clone(), BOUNCE)?);
        *bounce = Some(block.clone());
        Ok(block)
    }

    /// # Safety
    /// As [`Native::copy`]; `from` is not known to the driver.
    unsafe fn upload(&self, to: *mut u8, from: *const u8, bytes: usize) -> Answer<()> {
        let block = self.bounce()?;
        for start in (0..bytes).step_by(BOUNCE) {
            let part = BOUNCE.min(bytes - start);
            let (source, bounce) = (At(from.wrapping_add(start).cast_mut()), block.clone());
            self.raw.host(Box::new(move || {
                let to = bounce.base().as_ptr();
                // SAFETY: the caller's promise for the source. The buffer holds `part` bytes, and
                // its uses are all in this stream's order.
                unsafe { to.copy_from_nonoverlapping(source.get(), part) };
            }))?;
            // SAFETY: as above.
            unsafe { self.raw.copy(to.wrapping_add(start), block.base().as_ptr(), part)? };
        }
        Ok(())
    }

    /// # Safety
    /// As [`Native::copy`]; `to` is not known to the driver.
    unsafe fn download(&self, to: *mut u8, from: *const u8, bytes: usize) -> Answer<()> {
        let block = self.bounce()?;
        for start in (0..bytes).step_by(BOUNCE) {
            let part = BOUNCE.min(bytes - start);
            // SAFETY: as in `upload`, the other way round.
            unsafe { self.raw.copy(block.base().as_ptr(), from.wrapping_add(start), part)? };
            let (target, bounce) = (At(to.wrapping_add(start)), block.clone());
            self.raw.host(Box::new(move || {
                let from = bounce.base().as_ptr();
                // SAFETY: as above.
                unsafe { target.get().copy_from_nonoverlapping(from, part) };
            }))?;
        }
        Ok(())
    }

    /// Sets `bytes` bytes of memory that the driver knows, in the stream's order.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// As [`Native::copy`] asks of what is written.
    pub unsafe fn fill(&self, to: *mut u8, value: u8, bytes: usize) -> anyhow::Result<()> {
        if bytes > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.raw.fill(to, value, bytes)? };
        }
        Ok(())
    }

    /// Scratch memory for one call of a kernel.
    pub fn scratch(&self) -> Scratch<'_> {
        let blocks = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        Scratch::new(blocks, &self.device.context)
    }

    /// Launches a product of matrices in the stream's order.
    ///
    /// # Errors
    /// There is no cuBLAS, it refuses, or the matrices are none that it multiplies.
    ///
    /// # Safety
    /// The matrices are valid until the product has run, and it is ordered against all other uses of
    /// them. No element of `out` is named twice or is one of `x` or `y`.
    pub unsafe fn gemm(&self, gemm: &Gemm) -> anyhow::Result<()> {
        let mut blas = self.blas.lock().unwrap_or_else(PoisonError::into_inner);
        let Properties { driver, capability, .. } = *self.properties();
        let handle = match &mut *blas {
            Some(handle) => handle,
            none => none.insert(Handle::new(&self.raw, driver, capability)?),
        };
        // SAFETY: the caller's promise.
        unsafe { handle.gemm(gemm, self.device.tf32) }
    }

    /// The kernel `name` of the module of this `key`, which is loaded from `image` if it is not
    /// there yet.
    ///
    /// # Errors
    /// There is no image, the driver does not take it, or it has no such kernel.
    pub fn kernel(
        &self,
        key: &str,
        name: &CStr,
        image: impl FnOnce() -> anyhow::Result<CString>,
    ) -> anyhow::Result<Kernel> {
        Ok(Kernel(self.device.function(key, name, image)?))
    }

    /// The address of a word, zero, that kernels of the work that is being launched may set: if it is
    /// not zero when they have run, the work has failed with `error`. No other work is given the word
    /// before that.
    ///
    /// # Errors
    /// The driver's: there is no pinned memory.
    pub fn fails_with(&self, error: anyhow::Error) -> anyhow::Result<*mut u64> {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(verdicts.ask(&self.device.context, error)?.as_ptr())
    }

    /// Launches a kernel in the stream's order: `grid` blocks of `block` threads, with `shared`
    /// bytes of memory per block beside what the kernel says.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `arguments` holds the addresses of the kernel's arguments, as many and of such sizes as it
    /// has. Memory that they name is valid until the kernel has run, and the kernel is ordered
    /// against all other uses of it.
    pub unsafe fn launch(
        &self,
        kernel: &Kernel,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        arguments: &mut [*mut c_void],
    ) -> anyhow::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.raw.launch(&kernel.0, grid, block, shared, arguments)? };
        Ok(())
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stream of {}", self.device.id)
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a kernel")
    }
}
