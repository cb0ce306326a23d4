//! A CUDA event: pooled by the layers above, without timing.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::Result;

use crate::cuda::device::Opened;
use crate::cuda::device_error;
use crate::cuda::driver::{Answer, RawEvent};
use crate::device::Event;

/// An event of a device.
pub(super) struct CudaEvent {
    raw: RawEvent,
    device: Arc<Opened>,
    /// Whether it was ever recorded. To the driver a wait for one that was not is no wait, and no
    /// error either.
    recorded: AtomicBool,
    /// Whether the newest record stands behind other devices, which is seldom, and which they are.
    is_behind: AtomicBool,
    behind: Mutex<Vec<Arc<Opened>>>,
}

impl CudaEvent {
    pub(super) fn new(device: Arc<Opened>) -> Answer<CudaEvent> {
        let raw = RawEvent::new(device.context.clone())?;
        let (recorded, is_behind, behind) = Default::default();
        Ok(CudaEvent { raw, device, recorded, is_behind, behind })
    }

    pub(super) fn raw(&self) -> &RawEvent {
        &self.raw
    }

    /// Whether it is an event of this device.
    pub(super) fn is_of(&self, device: &Arc<Opened>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// Notes that it has been recorded, on a stream that stands behind these other devices. The
    /// layers above order this before any wait; release and acquire pair with
    /// [`CudaEvent::is_recorded`] where they do not.
    pub(super) fn note_record(&self, behind: Vec<Arc<Opened>>) {
        let is_behind = !behind.is_empty();
        // Relaxed: only those look who come after the record.
        if is_behind || self.is_behind.load(Ordering::Relaxed) {
            *self.behind.lock().unwrap_or_else(PoisonError::into_inner) = behind;
            self.is_behind.store(is_behind, Ordering::Relaxed);
        }
        self.recorded.store(true, Ordering::Release);
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.load(Ordering::Acquire)
    }

    /// The devices but `own` that a wait of one of its streams comes after.
    pub(super) fn abroad(&self, own: &Arc<Opened>) -> Vec<Arc<Opened>> {
        let is_behind = self.is_behind.load(Ordering::Relaxed);
        if !is_behind && self.is_of(own) {
            return Vec::new();
        }
        let mut devices = self.behind.lock().unwrap_or_else(PoisonError::into_inner).clone();
        devices.push(self.device.clone());
        devices.retain(|device| !Arc::ptr_eq(device, own));
        devices
    }
}

impl Event for CudaEvent {
    fn query(&self) -> Result<bool> {
        if !self.is_recorded() {
            return Ok(true);
        }
        self.raw.query().map_err(|e| device_error(&self.device.id, &e))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
