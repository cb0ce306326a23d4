//! Memory of the devices that compute on the host: blocks of host memory within a device's limit.
//!
//! The bytes are zero at first, so that a kernel that reads memory nobody wrote reads something
//! defined. The system's allocator hands out large zeroed blocks without touching their pages, but
//! only at its own alignment; the block is therefore a little larger than asked for and aligned by
//! hand.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;

use millstream_types::{DeviceId, Result};

use crate::account::{Account, Charge};
use crate::device::{MEMORY_ALIGN, Memory};

/// The alignment asked of the system's allocator: what it gives without extra work.
const SYSTEM_ALIGN: usize = 16;

/// A device's memory that lies on the host.
#[derive(Debug)]
pub(crate) struct HostMemory {
    block: Block,
    _charge: Charge,
}

impl HostMemory {
    /// `bytes` bytes for `device`, within its account.
    ///
    /// # Errors
    /// [`millstream_types::Error::OutOfMemory`]: the limit would be passed, or the system refuses.
    pub(crate) fn new(
        bytes: usize,
        account: &Arc<Account>,
        device: &DeviceId,
    ) -> Result<HostMemory> {
        let charge = account.charge(bytes, device)?;
        match Block::new(bytes) {
            Some(block) => Ok(HostMemory { block, _charge: charge }),
            None => {
                // Given back first, so that the error tells what others have in use.
                drop(charge);
                Err(account.refusal(bytes as u64, device))
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

// SAFETY: the block is owned by this value alone and freed once, by whichever thread drops it. The
// value itself never reads or writes the block; whoever does so through the address answers for it.
unsafe impl Send for Block {}
// SAFETY: as above; a shared reference gives out the address and the size, and nothing else.
unsafe impl Sync for Block {}

impl Block {
    /// A block of `bytes` bytes; none if the system refuses.
    fn new(bytes: usize) -> Option<Block> {
        // Room for the way to the next aligned address, and never an empty block.
        let size = bytes.checked_add(MEMORY_ALIGN)?;
        let layout = Layout::from_size_align(size, SYSTEM_ALIGN).ok()?;
        // SAFETY: the layout's size is at least MEMORY_ALIGN, so it is not zero.
        let block = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = block.align_offset(MEMORY_ALIGN);
        if skip > MEMORY_ALIGN {
            // `align_offset` may decline to answer, though no known host does for bytes.
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
            // SAFETY: the block is `bytes` long, initialised, and used by nobody else.
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
