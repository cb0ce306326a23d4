//! Streams and events.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUevent, CUstream};

use super::context::{address, count};
use super::functions::{self, Functions};
use super::{Answer, Context, Function, check, ready};

/// A stream that waits for no other by itself.
const NON_BLOCKING: u32 = 1;

/// An event that measures no time, which is what makes events cheap.
const DISABLE_TIMING: u32 = 2;

/// A stream.
pub(in crate::cuda) struct RawStream {
    raw: CUstream,
    context: Arc<Context>,
    functions: Functions,
}

// SAFETY: a stream may be used from any thread; the driver locks by itself.
unsafe impl Send for RawStream {}
// SAFETY: as above.
unsafe impl Sync for RawStream {}

impl RawStream {
    pub(in crate::cuda) fn new(context: Arc<Context>, priority: i32) -> Answer<RawStream> {
        context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is the thread's; the driver writes a handle.
        let code = unsafe { sys::cuStreamCreateWithPriority(&raw mut raw, NON_BLOCKING, priority) };
        check("cuStreamCreateWithPriority", code)?;
        Ok(RawStream { raw, context, functions: Functions::new() })
    }

    pub(in crate::cuda) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The driver's handle, for a library that launches on the stream.
    pub(in crate::cuda) fn raw(&self) -> CUstream {
        self.raw
    }

    pub(in crate::cuda) fn record(&self, event: &RawEvent) -> Answer<()> {
        self.context.enter()?;
        // SAFETY: both are alive.
        check("cuEventRecord", unsafe { sys::cuEventRecord(event.raw, self.raw) })
    }

    /// Waits on the device for the event's newest record; of no effect if there is none.
    pub(in crate::cuda) fn wait(&self, event: &RawEvent) -> Answer<()> {
        self.context.enter()?;
        // SAFETY: both are alive.
        check("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(self.raw, event.raw, 0) })
    }

    /// Whether all that was handed over has completed.
    pub(in crate::cuda) fn query(&self) -> Answer<bool> {
        self.context.enter()?;
        // SAFETY: the stream is alive.
        ready("cuStreamQuery", unsafe { sys::cuStreamQuery(self.raw) })
    }

    /// Copies between memories that the driver knows, in the stream's order.
    ///
    /// # Safety
    /// Both are valid for `bytes` bytes until the copy has run, and the copy is ordered against all
    /// other uses of them.
    pub(in crate::cuda) unsafe fn copy(
        &self,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> Answer<()> {
        self.context.enter()?;
        // SAFETY: the caller's promise.
        let code = unsafe { sys::cuMemcpyAsync(address(to), address(from), bytes, self.raw) };
        check("cuMemcpyAsync", code)
    }

    /// Sets bytes of memory that the driver knows, in the stream's order.
    ///
    /// # Safety
    /// As [`RawStream::copy`] asks of what is written.
    pub(in crate::cuda) unsafe fn fill(&self, to: *mut u8, value: u8, bytes: usize) -> Answer<()> {
        self.context.enter()?;
        // SAFETY: the caller's promise.
        let code = unsafe { sys::cuMemsetD8Async(address(to), value, bytes, self.raw) };
        check("cuMemsetD8Async", code)
    }

    /// Launches a kernel.
    ///
    /// # Safety
    /// `arguments` holds the addresses of the kernel's arguments, as many and of such sizes as it
    /// has; memory that they name is valid until the kernel has run, and the kernel is ordered
    /// against all other uses of it.
    pub(in crate::cuda) unsafe fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        shared: u32,
        arguments: &mut [*mut c_void],
    ) -> Answer<()> {
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

    /// Has the driver call a function on the host when the stream gets there. It must not call the
    /// driver. If the device is lost before, it is dropped with the stream.
    pub(in crate::cuda) fn host(&self, function: Box<dyn FnOnce() + Send>) -> Answer<()> {
        self.context.enter()?;
        let number = self.functions.keep(function);
        // SAFETY: the function takes any number, on any thread.
        let code = unsafe { sys::cuLaunchHostFunc(self.raw, Some(functions::call), number) };
        check("cuLaunchHostFunc", code).inspect_err(|_| self.functions.take_back(number))
    }

    /// Drops the functions of [`RawStream::host`] that the driver has not called: a later call does
    /// nothing. Returns whether none is running.
    pub(in crate::cuda) fn withdraw(&self) -> bool {
        self.functions.withdraw()
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        let mut is_destroyed = false;
        let destroy = || {
            // SAFETY: made by this value and destroyed once. What is on its way still runs.
            let code = unsafe { sys::cuStreamDestroy_v2(self.raw) };
            check("cuStreamDestroy_v2", code).inspect(|()| is_destroyed = true)
        };
        self.context.destroy(destroy);
        if !is_destroyed {
            // The device is lost.
            self.functions.withdraw();
        }
    }
}

/// An event.
pub(in crate::cuda) struct RawEvent {
    raw: CUevent,
    context: Arc<Context>,
}

// SAFETY: an event may be used from any thread; the driver locks by itself.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

impl RawEvent {
    pub(in crate::cuda) fn new(context: Arc<Context>) -> Answer<RawEvent> {
        context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is the thread's; the driver writes a handle.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut raw, DISABLE_TIMING) })?;
        count(&context.tally.events_created);
        Ok(RawEvent { raw, context })
    }

    /// Whether the newest record has completed; true if there is none.
    pub(in crate::cuda) fn query(&self) -> Answer<bool> {
        self.context.enter()?;
        // SAFETY: the event is alive.
        ready("cuEventQuery", unsafe { sys::cuEventQuery(self.raw) })
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        count(&self.context.tally.events_destroyed);
        // SAFETY: made by this value and destroyed once. The driver keeps it for its records.
        let destroy = || check("cuEventDestroy_v2", unsafe { sys::cuEventDestroy_v2(self.raw) });
        self.context.destroy(destroy);
    }
}
