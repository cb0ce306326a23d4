//! Device memory and pinned host memory.

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUpointer_attribute_enum as PointerAttribute};

use super::context::{address, increment};
use super::{Context, DriverError, DriverResult, MemoryPool, check};

/// Allocates pinned memory that every context may access.
const PORTABLE: u32 = 1;

/// The memory type of device memory (`CU_MEMORYTYPE_DEVICE`).
const DEVICE: u32 = 2;

/// A block of a device's memory.
pub(in crate::cuda) struct DeviceBlock {
    raw: u64,
    bytes: usize,
    context: Arc<Context>,
    /// The memory pool of the block. None for a plain allocation.
    pool: Option<Arc<MemoryPool>>,
}

impl DeviceBlock {
    /// Allocates `bytes` bytes, or one byte if `bytes` is zero: the driver refuses zero.
    pub(in crate::cuda) fn new(context: Arc<Context>, bytes: usize) -> DriverResult<DeviceBlock> {
        context.enter()?;
        let mut raw = 0;
        // SAFETY: the context is current; the driver writes an address.
        check("cuMemAlloc_v2", unsafe { sys::cuMemAlloc_v2(&raw mut raw, bytes.max(1)) })?;
        increment(&context.counts.allocations);
        Ok(DeviceBlock { raw, bytes, context, pool: None })
    }

    /// Does as [`DeviceBlock::new`], from a memory pool.
    pub(in crate::cuda) fn from_pool(
        pool: Arc<MemoryPool>,
        bytes: usize,
    ) -> DriverResult<DeviceBlock> {
        let (raw, context) = (pool.allocate(bytes.max(1))?, pool.context().clone());
        increment(&context.counts.allocations);
        Ok(DeviceBlock { raw, bytes, context, pool: Some(pool) })
    }

    /// Returns the address of the first byte, in the address space of the device.
    pub(in crate::cuda) fn address(&self) -> usize {
        self.raw as usize
    }

    /// Returns the size in bytes.
    pub(in crate::cuda) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        let destroy = || match &self.pool {
            // SAFETY: allocated by this value and freed once. By the contract of `Memory` no stream
            // uses it.
            Some(pool) => unsafe { pool.free(self.raw) },
            // SAFETY: as above.
            None => check("cuMemFree_v2", unsafe { sys::cuMemFree_v2(self.raw) }),
        };
        increment(&self.context.counts.frees);
        self.context.destroy(destroy);
    }
}

/// A block of pinned host memory.
pub(in crate::cuda) struct PinnedBlock {
    raw: NonNull<u8>,
    context: Arc<Context>,
}

// SAFETY: this value alone owns the block and frees it once, and never reads or writes it. Code
// that does so through the address is responsible for it.
unsafe impl Send for PinnedBlock {}
// SAFETY: as above; a shared reference exposes only the address.
unsafe impl Sync for PinnedBlock {}

impl PinnedBlock {
    /// Allocates `bytes` bytes, or one byte if `bytes` is zero.
    pub(in crate::cuda) fn new(context: Arc<Context>, bytes: usize) -> DriverResult<PinnedBlock> {
        context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current; the driver writes an address.
        let code = unsafe { sys::cuMemHostAlloc(&raw mut raw, bytes.max(1), PORTABLE) };
        check("cuMemHostAlloc", code)?;
        increment(&context.counts.allocations);
        let Some(raw) = NonNull::new(raw.cast()) else {
            return Err(DriverError::out_of_memory("cuMemHostAlloc"));
        };
        Ok(PinnedBlock { raw, context })
    }

    pub(in crate::cuda) fn base(&self) -> NonNull<u8> {
        self.raw
    }
}

impl Drop for PinnedBlock {
    fn drop(&mut self) {
        // SAFETY: as for a `DeviceBlock`.
        let destroy =
            || check("cuMemFreeHost", unsafe { sys::cuMemFreeHost(self.raw.as_ptr().cast()) });
        increment(&self.context.counts.frees);
        self.context.destroy(destroy);
    }
}

/// The owner of the memory at an address, as the driver reports it. Copies of memory that the
/// driver has not allocated may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cuda) enum MemoryOwner {
    /// The driver has not allocated the memory: host memory that is not pinned.
    Unknown,
    /// The host: pinned memory.
    Pinned,
    /// The device of this index.
    Device(u32),
}

/// Queries the owner of the memory at an address.
pub(in crate::cuda) fn memory_owner(context: &Context, at: *const u8) -> DriverResult<MemoryOwner> {
    context.enter()?;
    let (mut kind, mut device) = (0u32, 0i32);
    let mut attributes = [
        PointerAttribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        PointerAttribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    ];
    let mut values = [(&raw mut kind).cast(), (&raw mut device).cast()];
    let (count, at) = (attributes.len() as u32, address(at));
    let (attributes, values) = (attributes.as_mut_ptr(), values.as_mut_ptr());
    // SAFETY: the driver writes two numbers of the attributes' types, and does not access the
    // memory at the address. The type stays zero if the driver has not allocated it.
    let code = unsafe { sys::cuPointerGetAttributes(count, attributes, values, at) };
    check("cuPointerGetAttributes", code)?;
    Ok(match (kind, u32::try_from(device)) {
        (0, _) => MemoryOwner::Unknown,
        (DEVICE, Ok(device)) => MemoryOwner::Device(device),
        _ => MemoryOwner::Pinned,
    })
}
