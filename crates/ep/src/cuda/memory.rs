//! Device memory and pinned memory, as `Memory` of the layers above.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::cuda::driver::{Context, DeviceBlock, DriverResult, MemoryPool, PinnedBlock};
use crate::device::{MEMORY_ALIGN, Memory};

/// Device memory: one allocation of the driver, plain or from a memory pool, never managed memory.
pub(super) struct CudaMemory {
    base: NonNull<u8>,
    bytes: usize,
    _block: DeviceBlock,
}

// SAFETY: the address belongs to a device; this value returns it and never dereferences it. The
// thread that drops the value frees the block once.
unsafe impl Send for CudaMemory {}
// SAFETY: as above.
unsafe impl Sync for CudaMemory {}

impl CudaMemory {
    pub(super) fn new(
        context: &Arc<Context>,
        memory_pool: Option<&Arc<MemoryPool>>,
        bytes: usize,
    ) -> DriverResult<CudaMemory> {
        let allocate = |bytes| match memory_pool {
            Some(pool) => DeviceBlock::from_pool(pool.clone(), bytes),
            None => DeviceBlock::new(context.clone(), bytes),
        };
        let mut block = allocate(bytes)?;
        if !block.address().is_multiple_of(MEMORY_ALIGN) {
            // The driver guarantees an alignment of 256 bytes only, so the block leaves room to
            // align its base.
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

/// Pinned host memory. It is zeroed, like the host's other memory.
pub(super) struct CudaPinnedMemory {
    block: PinnedBlock,
    skip: usize,
    bytes: usize,
}

impl CudaPinnedMemory {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> DriverResult<CudaPinnedMemory> {
        let mut block = PinnedBlock::new(context.clone(), bytes)?;
        let mut room = bytes;
        if block.base().align_offset(MEMORY_ALIGN) != 0 {
            drop(block);
            room = bytes.saturating_add(MEMORY_ALIGN);
            block = PinnedBlock::new(context.clone(), room)?;
        }
        let skip = block.base().align_offset(MEMORY_ALIGN).min(room - bytes);
        // SAFETY: the block is new and at least `room` bytes long, and no other code uses it.
        unsafe { block.base().write_bytes(0, room) };
        Ok(CudaPinnedMemory { block, skip, bytes })
    }
}

impl Memory for CudaPinnedMemory {
    fn base(&self) -> NonNull<u8> {
        // SAFETY: `skip` and the `bytes` bytes after it lie within the block.
        unsafe { self.block.base().add(self.skip) }
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}
