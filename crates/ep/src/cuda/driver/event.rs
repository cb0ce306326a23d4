//! The driver's events.

use std::sync::Arc;

use cudarc::driver::sys::{self, CUevent};

use super::context::increment;
use super::{Context, DriverResult, check, ready};

/// Creates an event without timing, which is cheaper.
const DISABLE_TIMING: u32 = 2;

/// The first version of the driver with the function that compares the times of two events.
const WITH_TIMES: i32 = 12080;

/// Returns whether a driver of this version compares the times of events.
pub(in crate::cuda) const fn compares_times(version: i32) -> bool {
    version >= WITH_TIMES
}

/// An event of the driver.
pub(in crate::cuda) struct RawEvent {
    raw: CUevent,
    context: Arc<Context>,
}

// SAFETY: an event may be used from any thread; the driver synchronizes its calls.
unsafe impl Send for RawEvent {}
// SAFETY: as above.
unsafe impl Sync for RawEvent {}

impl RawEvent {
    pub(in crate::cuda) fn new(context: Arc<Context>) -> DriverResult<RawEvent> {
        RawEvent::with_flags(context, DISABLE_TIMING)
    }

    /// Creates an event that keeps the time of its record.
    pub(in crate::cuda) fn timed(context: Arc<Context>) -> DriverResult<RawEvent> {
        RawEvent::with_flags(context, 0)
    }

    fn with_flags(context: Arc<Context>, flags: u32) -> DriverResult<RawEvent> {
        context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the context is current; the driver writes a handle.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&raw mut raw, flags) })?;
        increment(&context.counts.events_created);
        Ok(RawEvent { raw, context })
    }

    /// Returns the driver's handle.
    pub(super) fn raw(&self) -> CUevent {
        self.raw
    }

    /// Returns the milliseconds from the record of a timed event to that of this one. Both have
    /// completed, and the driver [compares times](compares_times).
    pub(in crate::cuda) fn since(&self, earlier: &RawEvent) -> DriverResult<f32> {
        self.context.enter()?;
        let mut milliseconds = 0.0;
        let to = &raw mut milliseconds;
        // SAFETY: both events are alive; the driver writes a number.
        let code = unsafe { sys::cuEventElapsedTime_v2(to, earlier.raw, self.raw) };
        check("cuEventElapsedTime_v2", code)?;
        Ok(milliseconds)
    }

    /// Returns whether the newest record has completed; true if there is none.
    pub(in crate::cuda) fn query(&self) -> DriverResult<bool> {
        self.context.enter()?;
        // SAFETY: the event is alive.
        ready("cuEventQuery", unsafe { sys::cuEventQuery(self.raw) })
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        increment(&self.context.counts.events_destroyed);
        // SAFETY: created by this value and destroyed once. The driver keeps the event until its
        // records have completed.
        let destroy = || check("cuEventDestroy_v2", unsafe { sys::cuEventDestroy_v2(self.raw) });
        self.context.destroy(destroy);
    }
}
