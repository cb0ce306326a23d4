//! Work of a kernel that the host does, on copies of device memory.
//!
//! # Rules
//! 1. The copies are in pinned memory that belongs to the stream. All their uses are in the
//!    stream's order, so all calls of one stream share the memory.
//! 2. A block that has become too small stays allocated until the stream is dropped, as pending
//!    copies may use it. Blocks double, so that all have less than twice the bytes of the last.
//! 3. The function of a call reports its error by a flag, as kernels of the device do.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;

use millstream_types::catch_panic;

use crate::cuda::driver::PinnedBlock;
use crate::cuda::native_stream::NativeStream;

/// The size of a stream's first block in bytes.
const MIN_BLOCK: usize = 1 << 20;

/// The alignment of each copy in bytes.
const ALIGN: usize = 64;

/// Pinned memory, and its size in bytes.
pub(super) type StagingBlock = (Arc<PinnedBlock>, usize);

/// Device memory that the host works on.
#[derive(Clone, Copy, Debug)]
pub struct HostOperand {
    /// The address of the first byte.
    pub address: *mut u8,
    /// The number of bytes.
    pub bytes: usize,
    /// Whether the bytes are copied back.
    pub is_written: bool,
}

/// The error of a host function, which is known once it has run.
#[derive(Clone, Debug, Default)]
struct HostError(Arc<Mutex<String>>);

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::error::Error for HostError {}

/// A flag that a host function sets.
struct Flag(*mut u64);

// SAFETY: the flag belongs to one call, whose function alone writes it.
unsafe impl Send for Flag {}

impl NativeStream {
    /// Makes the driver call a function of the host when the stream reaches it. The function gets
    /// the addresses of copies of these operands, aligned to 64 bytes. Afterwards the written ones
    /// are copied back. If the function fails or panics, the work that is being launched fails.
    ///
    /// # Errors
    /// The driver's error; it has no pinned memory; or the call is captured.
    ///
    /// # Safety
    /// The operands are valid until the work has run, which is ordered against all other uses of
    /// them. They are memory of this device or pinned memory.
    pub unsafe fn call_host_on_copies(
        &self,
        operands: &[HostOperand],
        function: impl FnOnce(&[*mut u8]) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        if self.only_compiles() {
            return Ok(());
        }
        self.refuse_in_capture("run on the host")?;
        self.refuse_in_plan("run on the host")?;
        let (mut offsets, mut total) = (Vec::with_capacity(operands.len()), 0usize);
        for operand in operands {
            offsets.push(total);
            let bytes = operand.bytes.checked_next_multiple_of(ALIGN);
            total = bytes.and_then(|bytes| total.checked_add(bytes)).context("too many bytes")?;
        }
        let block = self.staging(total)?;
        let copy = |at: usize| block.base().as_ptr().wrapping_add(at);
        for (operand, &at) in operands.iter().zip(&offsets).filter(|(o, _)| o.bytes > 0) {
            // SAFETY: guaranteed by the caller for the operand; rule 1 for its copy.
            unsafe { self.raw().copy(copy(at), operand.address, operand.bytes)? };
        }
        let error = HostError::default();
        let flag = Flag(self.error_flag(anyhow::Error::new(error.clone()))?);
        let staged = block.clone();
        self.raw().call_host(Box::new(move || {
            let flag = flag;
            let base = staged.base().as_ptr();
            let addresses: Vec<*mut u8> = offsets.iter().map(|&at| base.wrapping_add(at)).collect();
            if let Err(cause) = catch_panic(|| function(&addresses)) {
                *error.0.lock().unwrap_or_else(PoisonError::into_inner) = format!("{cause:#}");
                // SAFETY: the flag is assigned to this work until it has completed.
                unsafe { flag.0.write_volatile(1) };
            }
        }))?;
        let mut at = 0;
        for operand in operands {
            if operand.is_written && operand.bytes > 0 {
                // SAFETY: as above.
                unsafe { self.raw().copy(operand.address, copy(at), operand.bytes)? };
            }
            at += operand.bytes.next_multiple_of(ALIGN);
        }
        Ok(())
    }

    /// Returns pinned memory of at least this many bytes.
    fn staging(&self, bytes: usize) -> anyhow::Result<Arc<PinnedBlock>> {
        let mut blocks = self.staging_blocks().lock().unwrap_or_else(PoisonError::into_inner);
        let last = blocks.last().map_or(0, |(_, bytes)| *bytes);
        if last < bytes || blocks.is_empty() {
            let bytes = bytes.max(MIN_BLOCK).max(last.saturating_mul(2));
            let block = PinnedBlock::new(self.device_state().context.clone(), bytes)?;
            blocks.push((Arc::new(block), bytes));
        }
        blocks.last().map(|(block, _)| block.clone()).context("no pinned memory")
    }
}
