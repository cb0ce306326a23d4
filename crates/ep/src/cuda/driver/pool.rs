//! A device's memory pool, from which memory is taken and given back in a stream's order.

use std::sync::Arc;

use cudarc::driver::sys::{
    self, CUmemAccess_flags_enum as Access, CUmemAccessDesc, CUmemAllocationHandleType_enum,
    CUmemAllocationType_enum as AllocationType, CUmemLocation, CUmemLocation_st__bindgen_ty_1,
    CUmemLocationType_enum as LocationType, CUmemPool_attribute_enum as Attribute, CUmemPoolProps,
    CUmemoryPool,
};

use super::{Answer, Context, RawStream, can_reach, check, devices};

/// A pool, and the stream in whose order it gives and takes. Nothing else is on that stream, so that
/// neither ever waits for work of the device.
pub(in crate::cuda) struct MemoryPool {
    raw: CUmemoryPool,
    stream: RawStream,
}

// SAFETY: a pool may be used from any thread; the driver locks by itself.
unsafe impl Send for MemoryPool {}
// SAFETY: as above.
unsafe impl Sync for MemoryPool {}

fn location(device: u32) -> CUmemLocation {
    let id = CUmemLocation_st__bindgen_ty_1 { id: device as i32 };
    CUmemLocation { type_: LocationType::CU_MEM_LOCATION_TYPE_DEVICE, __bindgen_anon_1: id }
}

impl MemoryPool {
    /// A pool of device `index`, which keeps what is given back for as long as it lives, and which
    /// devices may use that reach its memory.
    pub(in crate::cuda) fn new(context: Arc<Context>, index: u32) -> Answer<Arc<MemoryPool>> {
        let stream = RawStream::new(context, 0)?;
        let wanted = CUmemPoolProps {
            allocType: AllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            handleTypes: CUmemAllocationHandleType_enum(0),
            location: location(index),
            win32SecurityAttributes: std::ptr::null_mut(),
            // What older drivers take for reserved is zero, as they want it.
            maxSize: 0,
            usage: 0,
            gpuDirectRDMACapable: 0,
            reserved: [0; 53],
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is the thread's; the driver writes a handle.
        let code = unsafe { sys::cuMemPoolCreate(&raw mut raw, &raw const wanted) };
        check("cuMemPoolCreate", code)?;
        let pool = MemoryPool { raw, stream };
        let (which, mut most) = (Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX);
        // SAFETY: the pool is alive; the attribute is a number of 64 bits.
        let code = unsafe { sys::cuMemPoolSetAttribute(raw, which, (&raw mut most).cast()) };
        check("cuMemPoolSetAttribute", code)?;
        pool.share(index)?;
        Ok(Arc::new(pool))
    }

    /// Lets other devices use the memory: what holds between contexts does not hold for pools.
    fn share(&self, index: u32) -> Answer<()> {
        let mut with = Vec::new();
        for other in (0..devices().unwrap_or(0)).filter(|&other| other != index) {
            if can_reach(other, index)? {
                let flags = Access::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
                with.push(CUmemAccessDesc { location: location(other), flags });
            }
        }
        if with.is_empty() {
            return Ok(());
        }
        // SAFETY: the pool is alive, and the list as long as it is said to be.
        let code = unsafe { sys::cuMemPoolSetAccess(self.raw, with.as_ptr(), with.len()) };
        check("cuMemPoolSetAccess", code)
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        self.stream.context()
    }

    /// Memory that is there for all streams when this returns: the host waits until the pool's own
    /// stream has got to it, and for nothing else.
    pub(super) fn allocate(&self, bytes: usize) -> Answer<u64> {
        self.context().enter()?;
        let mut address = 0;
        // SAFETY: the context is the thread's, pool and stream are alive; the driver writes an
        // address.
        let code = unsafe {
            sys::cuMemAllocFromPoolAsync(&raw mut address, bytes, self.raw, self.stream.raw())
        };
        check("cuMemAllocFromPoolAsync", code)?;
        // SAFETY: the stream is alive.
        let code = unsafe { sys::cuStreamSynchronize(self.stream.raw()) };
        check("cuStreamSynchronize", code).inspect_err(|_| {
            // SAFETY: nobody has heard of the memory.
            self.context().destroy(|| unsafe { self.free(address) });
        })?;
        Ok(address)
    }

    /// # Safety
    /// The memory came from here, is freed once, and no stream uses it any more.
    pub(super) unsafe fn free(&self, address: u64) -> Answer<()> {
        // SAFETY: the caller's promise.
        check("cuMemFreeAsync", unsafe { sys::cuMemFreeAsync(address, self.stream.raw()) })
    }
}

impl Drop for MemoryPool {
    fn drop(&mut self) {
        // SAFETY: made by this value, destroyed once; what came from it holds it and is gone.
        let destroy = || check("cuMemPoolDestroy", unsafe { sys::cuMemPoolDestroy(self.raw) });
        self.context().destroy(destroy);
    }
}
