//! The driver's streams.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUstream};

use super::context::address;
use super::host_functions::{self, HostFunctions};
use super::{Context, DriverResult, Function, RawEvent, check, ready};

/// Creates a stream without implicit synchronization with the default stream.
const NON_BLOCKING: u32 = 1;

/// A stream of the driver.
pub(in crate::cuda) struct RawStream {
    raw: CUstream,
    context: Arc<Context>,
    functions: HostFunctions,
}

// SAFETY: a stream may be used from any thread; the driver synchronizes its calls.
unsafe impl Send for RawStream {}
// SAFETY: as above.
unsafe impl Sync for RawStream {}

impl RawStream {
    pub(in crate::cuda) fn new(context: Arc<Context>, priority: i32) -> DriverResult<RawStream> {
        context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current; the driver writes a handle.
        let code = unsafe { sys::cuStreamCreateWithPriority(&raw mut raw, NON_BLOCKING, priority) };
        check("cuStreamCreateWithPriority", code)?;
        Ok(RawStream { raw, context, functions: HostFunctions::new() })
    }

    /// Returns the device's default stream, which is not to be used: it stands for one.
    pub(in crate::cuda) fn unused(context: Arc<Context>) -> RawStream {
        RawStream { raw: std::ptr::null_mut(), context, functions: HostFunctions::new() }
    }

    pub(in crate::cuda) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns the driver's handle, for a library that launches on the stream.
    pub(in crate::cuda) fn raw(&self) -> CUstream {
        self.raw
    }

    pub(in crate::cuda) fn record(&self, event: &RawEvent) -> DriverResult<()> {
        self.context.enter()?;
        // SAFETY: stream and event are alive.
        check("cuEventRecord", unsafe { sys::cuEventRecord(event.raw(), self.raw) })
    }

    /// Waits on the device for the event's newest record. Has no effect if there is none.
    pub(in crate::cuda) fn wait(&self, event: &RawEvent) -> DriverResult<()> {
        self.context.enter()?;
        // SAFETY: as above.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(self.raw, event.raw(), 0) })
    }

    /// Returns whether all submitted commands have completed.
    pub(in crate::cuda) fn query(&self) -> DriverResult<bool> {
        self.context.enter()?;
        // SAFETY: the stream is alive.
        ready("cuStreamQuery", unsafe { sys::cuStreamQuery(self.raw) })
    }

    /// Copies between memories that the driver has allocated, in the stream's order.
    ///
    /// # Safety
    /// Both addresses are valid for `bytes` bytes until the copy has run, and the copy is ordered
    /// against all other uses of the memory.
    pub(in crate::cuda) unsafe fn copy(
        &self,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> DriverResult<()> {
        self.context.enter()?;
        // SAFETY: the caller's promise.
        let code = unsafe { sys::cuMemcpyAsync(address(to), address(from), bytes, self.raw) };
        check("cuMemcpyAsync", code)
    }

    /// Sets bytes of memory that the driver has allocated, in the stream's order.
    ///
    /// # Safety
    /// As [`RawStream::copy`], for `to`.
    pub(in crate::cuda) unsafe fn fill(
        &self,
        to: *mut u8,
        value: u8,
        bytes: usize,
    ) -> DriverResult<()> {
        self.context.enter()?;
        // SAFETY: the caller's promise.
        let code = unsafe { sys::cuMemsetD8Async(address(to), value, bytes, self.raw) };
        check("cuMemsetD8Async", code)
    }

    /// Launches a kernel.
    ///
    /// # Safety
    /// `arguments` holds the addresses of the kernel's arguments, in the number and sizes that the
    /// kernel declares. Memory that they refer to is valid until the kernel has run, and the kernel
    /// is ordered against all other uses of it.
    pub(in crate::cuda) unsafe fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        arguments: &mut [*mut c_void],
    ) -> DriverResult<()> {
        self.context.enter()?;
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        let (list, extra) = (arguments.as_mut_ptr(), std::ptr::null_mut());
        let function = function.raw();
        // SAFETY: the caller's promise; the driver copies the arguments before it returns.
        let code = unsafe {
            sys::cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, self.raw, list, extra)
        };
        check("cuLaunchKernel", code)
    }

    /// Makes the driver call a host function when the stream reaches it. The function must not call
    /// the driver. If the device is lost first, the function is dropped with the stream.
    pub(in crate::cuda) fn call_host(
        &self,
        function: Box<dyn FnOnce() + Send>,
    ) -> DriverResult<()> {
        self.context.enter()?;
        let number = self.functions.insert(function);
        // SAFETY: `call` accepts any number, on any thread.
        let code = unsafe { sys::cuLaunchHostFunc(self.raw, Some(host_functions::call), number) };
        check("cuLaunchHostFunc", code).inspect_err(|_| self.functions.remove(number))
    }
}

impl RawStream {
    /// Drops the pending functions of [`RawStream::call_host`]: the driver's later calls of them do
    /// nothing. Returns whether none of them is running.
    pub(in crate::cuda) fn drop_host_functions(&self) -> bool {
        self.functions.drop_pending()
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return;
        }
        let mut is_destroyed = false;
        let destroy = || {
            // SAFETY: created by this value and destroyed once. Pending commands still run.
            let code = unsafe { sys::cuStreamDestroy_v2(self.raw) };
            check("cuStreamDestroy_v2", code).inspect(|()| is_destroyed = true)
        };
        self.context.destroy(destroy);
        if !is_destroyed {
            // The device is lost, so the driver calls none of them any more.
            self.functions.drop_pending();
        }
    }
}
