//! Device memory and pinned memory as the layers above know them.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::cuda::driver::{Answer, Context, DeviceBlock, MemoryPool, PinnedBlock};
use crate::device::{MEMORY_ALIGN, Memory};

/// Memory of a device: one allocation of the driver's, plain or from a pool, never managed memory.
pub(super) struct CudaMemory {
    base: NonNull<u8>,
    bytes: usize,
    _block: DeviceBlock,
}

// SAFETY: the address is a device's, which this value gives out and never follows; the block is
// freed once, by whichever thread drops it.
unsafe impl Send for CudaMemory {}
// SAFETY: as above.
unsafe impl Sync for CudaMemory {}

impl CudaMemory {
    pub(super) fn new(
        context: &Arc<Context>,
        pool: Option<&Arc<MemoryPool>>,
        bytes: usize,
    ) -> Answer<CudaMemory> {
        let allocate = |bytes| match pool {
            Some(pool) => DeviceBlock::from_pool(pool.clone(), bytes),
            None => DeviceBlock::new(context.clone(), bytes),
        };
        let mut block = allocate(bytes)?;
        if !block.address().is_multiple_of(MEMORY_ALIGN) {
            // The driver promises 256 bytes; the way to the next aligned address is added.
            drop(block);
            block = allocate(bytes.saturating_add(MEMORY_ALIGN))?;
        }
        let base = block.address().next_multiple_of(MEMORY_ALIGN);
        let base = NonNull::new(std::ptr::without_provenance_mut(base));
        // No driver allocates at address zero.
        Ok(CudaMemory { base: base.unwrap_or(NonNull::dangling()), bytes, _block: block })
    }
}

impl Memory for CudaMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Pinned host memory. Zero at first, as other memory of the host's is.
pub(super) struct CudaPinned {
    block: PinnedBlock,
    skip: usize,
    bytes: usize,
}

impl CudaPinned {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Answer<CudaPinned> {
        let mut block = PinnedBlock::new(context.clone(), bytes)?;
        let mut room = bytes;
        if block.base().align_offset(MEMORY_ALIGN) != 0 {
            drop(block);
            room = bytes.saturating_add(MEMORY_ALIGN);
            block = PinnedBlock::new(context.clone(), room)?;
        }
        let skip = block.base().align_offset(MEMORY_ALIGN).min(room - bytes);
        // SAFETY: the block is at least `room` bytes long, new, and used by nobody else.
        unsafe { block.base().write_bytes(0, room) };
        Ok(CudaPinned { block, skip, bytes })
    }
}

impl Memory for CudaPinned {
    fn base(&self) -> NonNull<u8> {
        // SAFETY: `skip` and the `bytes` bytes behind it lie within the block.
        unsafe { self.block.base().add(self.skip) }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
