//! A memory pool of a device: memory is allocated and freed in the order of a stream.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUmemAccess_flags_enum as Access, CUmemAccessDesc, CUmemAllocationHandleType_enum,
    CUmemAllocationType_enum as AllocationType, CUmemLocation, CUmemLocation_st__bindgen_ty_1,
    CUmemLocationType_enum as LocationType, CUmemPool_attribute_enum as Attribute, CUmemPoolProps,
    CUmemoryPool,
};

use super::{Context, DriverResult, RawStream, can_access_peer, check, devices};

/// A memory pool, and the stream in whose order it allocates and frees. The stream runs no other
/// command, so neither operation ever waits for work of the device.
pub(in crate::cuda) struct MemoryPool {
    raw: CUmemoryPool,
    stream: RawStream,
}

// SAFETY: a pool may be used from any thread; the driver synchronizes its calls.
unsafe impl Send for MemoryPool {}
// SAFETY: as above.
unsafe impl Sync for MemoryPool {}

fn location(device: u32) -> CUmemLocation {
    let id = CUmemLocation_st__bindgen_ty_1 { id: device as i32 };
    CUmemLocation { type_: LocationType::CU_MEM_LOCATION_TYPE_DEVICE, __bindgen_anon_1: id }
}

impl MemoryPool {
    /// Creates a memory pool of device `index`. The pool keeps freed memory until it is dropped.
    /// All devices that can access the device's memory may access the pool's.
    pub(in crate::cuda) fn new(context: Arc<Context>, index: u32) -> DriverResult<Arc<MemoryPool>> {
        let stream = RawStream::new(context, 0)?;
        let properties = CUmemPoolProps {
            allocType: AllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType_enum(0),
            location: location(index),
            win32SecurityAttributes: std::ptr::null_mut(),
            // Older drivers treat these fields as reserved and require zero.
            maxSize: 0,
            usage: 0,
            gpuDirectRDMACapable: 0,
            reserved: [0; 53],
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current; the driver writes a handle.
        let code = unsafe { sys::cuMemPoolCreate(&raw mut raw, &raw const properties) };
        check("cuMemPoolCreate", code)?;
        let pool = MemoryPool { raw, stream };
        let (attribute, mut value) = (Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX);
        // SAFETY: the pool is alive; the attribute is a number of 64 bits.
        let code = unsafe { sys::cuMemPoolSetAttribute(raw, attribute, (&raw mut value).cast()) };
        check("cuMemPoolSetAttribute", code)?;
        pool.enable_peer_access(index)?;
        Ok(Arc::new(pool))
    }

    /// Lets other devices access the memory: peer access between contexts does not cover pools.
    fn enable_peer_access(&self, index: u32) -> DriverResult<()> {
        let mut peers = Vec::new();
        for other in (0..devices().unwrap_or(0)).filter(|&other| other != index) {
            if can_access_peer(other, index)? {
                let flags = Access::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
                peers.push(CUmemAccessDesc { location: location(other), flags });
            }
        }
        if peers.is_empty() {
            return Ok(());
        }
        // SAFETY: the pool is alive, and the length is the list's.
        let code = unsafe { sys::cuMemPoolSetAccess(self.raw, peers.as_ptr(), peers.len()) };
        check("cuMemPoolSetAccess", code)
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        self.stream.context()
    }

    /// Allocates memory that all streams may use when this returns: the host waits only until the
    /// pool's own stream has reached the allocation.
    pub(super) fn allocate(&self, bytes: usize) -> DriverResult<u64> {
        self.context().enter()?;
        let mut address = 0;
        // SAFETY: the context is current, pool and stream are alive; the driver writes an address.
        let code = unsafe {
            sys::cuMemAllocFromPoolAsync(&raw mut address, bytes, self.raw, self.stream.raw())
        };
        check("cuMemAllocFromPoolAsync", code)?;
        // SAFETY: the stream is alive.
        let code = unsafe { sys::cuStreamSynchronize(self.stream.raw()) };
        check("cuStreamSynchronize", code).inspect_err(|_| {
            // SAFETY: no other code has the address.
            self.context().destroy(|| unsafe { self.free(address) });
        })?;
        Ok(address)
    }

    /// Frees memory, in the order of the pool's stream.
    ///
    /// # Safety
    /// The memory came from this pool, is freed once, and no stream uses it any more.
    pub(super) unsafe fn free(&self, address: u64) -> DriverResult<()> {
        // SAFETY: the caller's promise.
        check("cuMemFreeAsync", unsafe { sys::cuMemFreeAsync(address, self.stream.raw()) })
    }
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        // SAFETY: created by this value and destroyed once. Every block keeps its pool alive, so
        // none is left.
        let destroy = || check("cuMemPoolDestroy", unsafe { sys::cuMemPoolDestroy(self.raw) });
        self.context().destroy(destroy);
    }
}
