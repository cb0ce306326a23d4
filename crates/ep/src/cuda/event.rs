//! A CUDA event: pooled by the layers above, without timing.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_types::{DeviceId, Result};

use crate::cuda::device_error;
use crate::cuda::driver::{Answer, Context, RawEvent};
use crate::device::Event;

/// An event of a device.
pub(super) struct CudaEvent {
    device: DeviceId,
    raw: RawEvent,
    /// Whether it was ever recorded. To the driver a wait for one that was not is no wait, and no
    /// error either.
    recorded: AtomicBool,
}

impl CudaEvent {
    pub(super) fn new(device: DeviceId, context: Arc<Context>) -> Answer<CudaEvent> {
        Ok(CudaEvent { device, raw: RawEvent::new(context)?, recorded: AtomicBool::new(false) })
    }

    /// The driver's event, if it is one of `context`'s.
    pub(super) fn of(&self, context: &Context) -> Option<&RawEvent> {
        self.raw.context().is(context).then_some(&self.raw)
    }

    /// Notes that it has been recorded. The layers above order this before any wait; release and
    /// acquire pair with [`CudaEvent::is_recorded`] where they do not.
    pub(super) fn note_record(&self) {
        self.recorded.store(true, Ordering::Release);
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.load(Ordering::Acquire)
    }
}

impl Event for CudaEvent {
    fn query(&self) -> Result<bool> {
        if !self.is_recorded() {
            return Ok(true);
        }
        self.raw.query().map_err(|e| device_error(&self.device, &e))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
