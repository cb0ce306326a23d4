//! A CUDA event, with or without timing. The layers above pool it.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::Result;

use crate::cuda::device::DeviceState;
use crate::cuda::driver::{DriverResult, RawEvent, compares_times};
use crate::cuda::driver_error;
use crate::device::Event;

/// An event of a device.
pub(super) struct CudaEvent {
    raw: RawEvent,
    /// Whether the driver keeps the times of its records, and compares them.
    timed: bool,
    device: Arc<DeviceState>,
    /// Whether the event was ever recorded. The driver ignores a wait for one that was not, and
    /// reports no error.
    recorded: AtomicBool,
    /// Whether `remote` is not empty, which is rare. Spares the common case the lock.
    has_remote: AtomicBool,
    /// The other devices on which the newest record depends.
    remote: Mutex<Vec<Arc<DeviceState>>>,
}

impl CudaEvent {
    pub(super) fn new(device: Arc<DeviceState>, timed: bool) -> DriverResult<CudaEvent> {
        let timed = timed && compares_times(device.properties.driver);
        let raw = match timed {
            true => RawEvent::timed(device.context.clone())?,
            false => RawEvent::new(device.context.clone())?,
        };
        let (recorded, has_remote, remote) = Default::default();
        Ok(CudaEvent { raw, timed, device, recorded, has_remote, remote })
    }

    pub(super) fn raw(&self) -> &RawEvent {
        &self.raw
    }

    /// Returns whether the event belongs to `device`.
    pub(super) fn is_of(&self, device: &Arc<DeviceState>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// Marks the event as recorded, on a stream that depends on the other devices `remote`.
    ///
    /// The layers above order this call before any wait for the event. Otherwise the release store
    /// pairs with the acquire load of [`CudaEvent::is_recorded`].
    pub(super) fn set_recorded(&self, remote: Vec<Arc<DeviceState>>) {
        let has_remote = !remote.is_empty();
        // Relaxed: readers come after the record.
        if has_remote || self.has_remote.load(Ordering::Relaxed) {
            *self.remote.lock().unwrap_or_else(PoisonError::into_inner) = remote;
            self.has_remote.store(has_remote, Ordering::Relaxed);
        }
        self.recorded.store(true, Ordering::Release);
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.load(Ordering::Acquire)
    }

    /// Returns the devices other than `own` on which a wait for this event depends, if a stream of
    /// `own` waits.
    pub(super) fn remote_devices(&self, own: &Arc<DeviceState>) -> Vec<Arc<DeviceState>> {
        let has_remote = self.has_remote.load(Ordering::Relaxed);
        if !has_remote && self.is_of(own) {
            return Vec::new();
        }
        let mut devices = self.remote.lock().unwrap_or_else(PoisonError::into_inner).clone();
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
        self.raw.query().map_err(|e| driver_error(&self.device.id, &e))
    }

    fn since(&self, earlier: &dyn Event) -> Result<Option<f64>> {
        let earlier = earlier.as_any().downcast_ref::<CudaEvent>();
        let comparable = |e: &&CudaEvent| self.timed && e.timed && e.is_of(&self.device);
        let Some(earlier) = earlier.filter(comparable) else { return Ok(None) };
        let milliseconds = self.raw.since(&earlier.raw);
        milliseconds.map(|v| Some(f64::from(v))).map_err(|e| driver_error(&self.device.id, &e))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
