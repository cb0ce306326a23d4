//! A device's primary context, which all code of this process that uses the device shares.

use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdevice_attribute_enum as Attribute};

use super::{DriverResult, ReportDropError, check};

/// The resources that this backend has created and destroyed on a device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceCounts {
    /// Events created.
    pub events_created: u64,
    /// Events destroyed.
    pub events_destroyed: u64,
    /// Allocations of device memory and pinned memory.
    pub allocations: u64,
    /// Freed allocations. To free memory that does not return to a memory pool, the driver waits
    /// for the whole device. Nothing else in this backend makes it wait.
    pub frees: u64,
}

/// The atomic form of [`ResourceCounts`]. All accesses are relaxed: the counts are independent.
#[derive(Default)]
pub(super) struct AtomicCounts {
    pub(super) events_created: AtomicU64,
    pub(super) events_destroyed: AtomicU64,
    pub(super) allocations: AtomicU64,
    pub(super) frees: AtomicU64,
}

/// The handling of destroyed resources, shared by the contexts of a backend.
pub(in crate::cuda) struct Teardown {
    report: ReportDropError,
    /// Whether resources are leaked instead of destroyed.
    disabled: AtomicBool,
}

impl Teardown {
    /// Resources are destroyed until teardown is disabled. `report` receives their errors.
    pub(in crate::cuda) fn new(report: ReportDropError) -> Arc<Teardown> {
        Arc::new(Teardown { report, disabled: AtomicBool::new(false) })
    }
}

/// A retained primary context.
pub(in crate::cuda) struct Context {
    /// A number that no other context of this process ever has, from 1.
    id: u64,
    device: CUdevice,
    raw: CUcontext,
    teardown: Arc<Teardown>,
    pub(super) counts: AtomicCounts,
}

// SAFETY: a context may be used from any thread; the driver synchronizes its calls.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

thread_local! {
    /// The id of the context that this thread entered last; 0 for none.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

impl Context {
    /// Retains the primary context of device `index`. The driver creates it on first use.
    pub(in crate::cuda) fn retain(
        index: u32,
        teardown: Arc<Teardown>,
    ) -> DriverResult<Arc<Context>> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (mut device, mut raw) = (0, std::ptr::null_mut());
        // SAFETY: the driver is initialised, and writes a number.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&raw mut device, index as c_int) })?;
        // SAFETY: as above; the driver writes a handle.
        let code = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut raw, device) };
        check("cuDevicePrimaryCtxRetain", code)?;
        // Relaxed: the id must only be unique.
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Context { id, device, raw, teardown, counts: AtomicCounts::default() }))
    }

    pub(in crate::cuda) fn counts(&self) -> ResourceCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let AtomicCounts { events_created, events_destroyed, allocations, frees } = &self.counts;
        ResourceCounts {
            events_created: load(events_created),
            events_destroyed: load(events_destroyed),
            allocations: load(allocations),
            frees: load(frees),
        }
    }

    /// Makes this the current context of the thread, which every call below requires. If the thread
    /// entered it last, the driver is not called: no other code sets a context on our threads.
    pub(in crate::cuda) fn enter(&self) -> DriverResult<()> {
        if CURRENT.get() == self.id {
            return Ok(());
        }
        // SAFETY: the context is held by this value.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.raw) })?;
        CURRENT.set(self.id);
        Ok(())
    }

    /// Returns the driver's handle.
    pub(super) fn raw(&self) -> CUcontext {
        self.raw
    }

    pub(super) fn teardown(&self) -> &Arc<Teardown> {
        &self.teardown
    }

    /// Reports an error of a drop, which has no caller that could handle it.
    pub(super) fn report_drop_error(&self, outcome: DriverResult<()>) {
        match outcome {
            Err(error) if !error.is_shutdown() => (self.teardown.report)(&error),
            _ => {}
        }
    }

    /// Leaks all resources of the backend from now on. To destroy one, the driver could wait for a
    /// stalled stream for ever, or free memory that the stream would use if it continued.
    pub(in crate::cuda) fn disable_teardown(&self) {
        // Relaxed: a thread that drops resources of a stalled stream is ordered after its error by
        // other means.
        self.teardown.disabled.store(true, Ordering::Relaxed);
    }

    /// Calls `destroy` for a resource of the context, from any thread, unless teardown is disabled.
    pub(in crate::cuda) fn destroy(&self, destroy: impl FnOnce() -> DriverResult<()>) {
        if self.teardown.disabled.load(Ordering::Relaxed) {
            return;
        }
        self.report_drop_error(self.enter().and_then(|()| destroy()));
    }

    pub(in crate::cuda) fn attribute(&self, attribute: Attribute) -> DriverResult<i32> {
        let mut value = 0;
        // SAFETY: the device exists, since it has a context.
        let code = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, self.device) };
        check("cuDeviceGetAttribute", code).map(|()| value)
    }

    pub(in crate::cuda) fn name(&self) -> DriverResult<String> {
        let mut text = [0u8; 256];
        let (buffer, length) = (text.as_mut_ptr().cast::<c_char>(), text.len() as c_int);
        // SAFETY: the driver writes at most `length` bytes, including the terminating zero.
        check("cuDeviceGetName", unsafe { sys::cuDeviceGetName(buffer, length, self.device) })?;
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    /// Returns the device's free and total memory in bytes.
    pub(in crate::cuda) fn memory(&self) -> DriverResult<(u64, u64)> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current; the driver writes two numbers.
        let code = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check("cuMemGetInfo_v2", code).map(|()| (free as u64, total as u64))
    }

    /// Returns the range of stream priorities: the least urgent one, and the most urgent one, which
    /// is the lower number.
    pub(in crate::cuda) fn priorities(&self) -> DriverResult<(i32, i32)> {
        self.enter()?;
        let (mut least, mut most) = (0, 0);
        // SAFETY: as above.
        let code = unsafe { sys::cuCtxGetStreamPriorityRange(&raw mut least, &raw mut most) };
        check("cuCtxGetStreamPriorityRange", code).map(|()| (least, most))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.teardown.disabled.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: retained once by this value, and released once. Every resource of the context
        // keeps it alive, so none is left.
        let code = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
        self.report_drop_error(check("cuDevicePrimaryCtxRelease_v2", code));
    }
}

/// Adds one to a count.
pub(super) fn increment(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Returns an address in the driver's form.
pub(super) fn address(at: *const u8) -> u64 {
    at.addr() as u64
}
