//! Device memory and pinned host memory.

use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUpointer_attribute_enum as PointerAttribute};

use super::context::{address, count};
use super::{Answer, Context, DriverError, MemoryPool, check};

/// Pinned memory that every context may use.
const PORTABLE: u32 = 1;

/// The type of device memory (`CU_MEMORYTYPE_DEVICE`).
const DEVICE: u32 = 2;

/// A block of a device's memory.
pub(in crate::cuda) struct DeviceBlock {
    raw: u64,
    bytes: usize,
    context: Arc<Context>,
    /// The pool that it came from; none if it is a plain allocation.
    pool: Option<Arc<MemoryPool>>,
}

impl DeviceBlock {
    /// At least one byte, as the driver gives no less.
    pub(in crate::cuda) fn new(context: Arc<Context>, bytes: usize) -> Answer<DeviceBlock> {
        context.enter()?;
        let mut raw = 0;
        // SAFETY: the context is the thread's; the driver writes an address.
        check("cuMemAlloc_v2", unsafe { sys::cuMemAlloc_v2(&raw mut raw, bytes.max(1)) })?;
        count(&context.tally.allocations);
        Ok(DeviceBlock { raw, bytes, context, pool: None })
    }

    /// As [`DeviceBlock::new`], from a pool.
    pub(in crate::cuda) fn from_pool(pool: Arc<MemoryPool>, bytes: usize) -> Answer<DeviceBlock> {
        let (raw, context) = (pool.allocate(bytes.max(1))?, pool.context().clone());
        count(&context.tally.allocations);
        Ok(DeviceBlock { raw, bytes, context, pool: Some(pool) })
    }

    /// Its first byte, in the device's address space.
    pub(in crate::cuda) fn address(&self) -> usize {
        self.raw as usize
    }

    /// How long it is, in bytes.
    pub(in crate::cuda) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceBlock {
    fn drop(&mut self) {
        let destroy = || match &self.pool {
            // SAFETY: allocated by this value, freed once, and by contract when no stream uses it.
            Some(pool) => unsafe { pool.free(self.raw) },
            // SAFETY: as above.
            None => check("cuMemFree_v2", unsafe { sys::cuMemFree_v2(self.raw) }),
        };
        count(&self.context.tally.frees);
        self.context.destroy(destroy);
    }
}

/// A block of pinned host memory.
pub(in crate::cuda) struct PinnedBlock {
    raw: NonNull<u8>,
    context: Arc<Context>,
}

// SAFETY: the block is owned by this value alone and freed once; the value itself never reads or
// writes it. Whoever does so through the address answers for it.
unsafe impl Send for PinnedBlock {}
// SAFETY: as above; a shared reference gives out the address alone.
unsafe impl Sync for PinnedBlock {}

impl PinnedBlock {
    /// At least one byte.
    pub(in crate::cuda) fn new(context: Arc<Context>, bytes: usize) -> Answer<PinnedBlock> {
        context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is the thread's; the driver writes an address.
        let code = unsafe { sys::cuMemHostAlloc(&raw mut raw, bytes.max(1), PORTABLE) };
        check("cuMemHostAlloc", code)?;
        count(&context.tally.allocations);
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
        // SAFETY: allocated by this value, freed once, and by contract when no stream uses it.
        let destroy =
            || check("cuMemFreeHost", unsafe { sys::cuMemFreeHost(self.raw.as_ptr().cast()) });
        count(&self.context.tally.frees);
        self.context.destroy(destroy);
    }
}

/// Whose memory lies at an address, as far as the driver knows. Copies of other memory may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cuda) enum Owner {
    /// The host's, not pinned.
    Unknown,
    /// The host's, pinned.
    Pinned,
    /// That of the device of this number.
    Device(u32),
}

/// Asks for the owner of the memory at an address.
pub(in crate::cuda) fn owner(context: &Context, at: *const u8) -> Answer<Owner> {
    context.enter()?;
    let (mut kind, mut device) = (0u32, 0i32);
    let mut which = [
        PointerAttribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        PointerAttribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    ];
    let mut to = [(&raw mut kind).cast(), (&raw mut device).cast()];
    let (count, at) = (which.len() as u32, address(at));
    // SAFETY: the driver writes two numbers of the attributes' types; the address is only looked up.
    // Of memory that it does not know, the type stays zero.
    let code =
        unsafe { sys::cuPointerGetAttributes(count, which.as_mut_ptr(), to.as_mut_ptr(), at) };
    check("cuPointerGetAttributes", code)?;
    Ok(match (kind, u32::try_from(device)) {
        (0, _) => Owner::Unknown,
        (DEVICE, Ok(device)) => Owner::Device(device),
        _ => Owner::Pinned,
    })
}
