//! Memory of the devices that compute on the host: blocks of host memory within a device's limit.
//!
//! A new block is zeroed, so that a kernel that reads unwritten memory reads defined bytes. The
//! system's allocator returns large zeroed blocks without touching their pages, but only at its
//! own alignment. Each allocation is therefore [`MEMORY_ALIGN`] bytes larger than requested, and
//! its base is aligned within it.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use millstream_types::{DeviceId, Result};

use crate::account::{Account, Charge};
use crate::device::{MEMORY_ALIGN, Memory};

/// The alignment requested from the system's allocator: the largest that it supports at no cost.
const SYSTEM_ALIGN: usize = 16;

/// Device memory in host memory.
#[derive(Debug)]
pub(crate) struct HostMemory {
    block: Block,
    _charge: Charge,
}

impl HostMemory {
    /// Allocates `bytes` bytes for `device` and charges its account.
    ///
    /// # Errors
    /// [`millstream_types::Error::OutOfMemory`]: the allocation would exceed the limit, or the
    /// system refuses.
    pub(crate) fn new(
        bytes: usize,
        account: &Arc<Account>,
        device: &DeviceId,
    ) -> Result<HostMemory> {
        let charge = account.charge(bytes, device)?;
        match Block::new(bytes) {
            Some(block) => Ok(HostMemory { block, _charge: charge }),
            None => {
                // Credited first, so that `in_use` in the error counts only other allocations.
                drop(charge);
                Err(account.out_of_memory(bytes as u64, device))
            }
        }
    }
}

impl Memory for HostMemory {
    fn base(&self) -> NonNull<u8> {
        self.block.base
    }

    fn bytes(&self) -> usize {
        self.block.bytes
    }
}

/// A block of host memory, aligned to [`MEMORY_ALIGN`].
#[derive(Debug)]
struct Block {
    block: NonNull<u8>,
    layout: Layout,
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: this value alone owns the block, and the thread that drops the value frees it once. The
// value itself never reads or writes the block; code that does so through the address is
// responsible for it.
unsafe impl Send for Block {}
// SAFETY: as above; a shared reference exposes only the address and the size.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block of `bytes` bytes. None if the system refuses.
    fn new(bytes: usize) -> Option<Block> {
        // Leaves room to align the base, and makes the layout non-empty.
        let size = bytes.checked_add(MEMORY_ALIGN)?;
        let layout = Layout::from_size_align(size, SYSTEM_ALIGN).ok()?;
        // SAFETY: the layout's size is at least MEMORY_ALIGN, so it is not zero.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = block.align_offset(MEMORY_ALIGN);
        if skip > MEMORY_ALIGN {
            // The contract of `align_offset` lets it fail, though it fails for bytes on no known
            // host.
            // SAFETY: the block came from the same allocator with the same layout.
            unsafe { dealloc(block.as_ptr(), layout) };
            return None;
        }
        // SAFETY: `skip` is at most MEMORY_ALIGN, so base and the `bytes` bytes from it on lie
        // within the block.
        let base = unsafe { block.add(skip) };
        Some(Block { block, layout, base, bytes })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block came from the same allocator with the same layout, and is freed once.
        unsafe { dealloc(self.block.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_zeroed_and_of_their_size() {
        for bytes in [0, 1, 511, 512, 513, 100_000] {
            let memory = Block::new(bytes).unwrap();
            assert_eq!(memory.base.as_ptr() as usize % MEMORY_ALIGN, 0);
            assert_eq!(memory.bytes, bytes);
            // SAFETY: the block is `bytes` long, initialised, and no other code uses it.
            let slice = unsafe { std::slice::from_raw_parts(memory.base.as_ptr(), bytes) };
            assert!(slice.iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn an_impossible_size_is_refused() {
        assert!(Block::new(usize::MAX).is_none());
        assert!(Block::new(isize::MAX as usize).is_none());
    }
}
