//! The waits of a stream for other devices.
//!
//! The driver does not specify the behaviour of a stream that waits on the device for a lost
//! device. The stream may continue: then its work reads memory that was never written, and the
//! layers above know that it did. Or the stream may stall for good, together with all streams that
//! wait for it. A stream that is still waiting [`STALL_TIMEOUT`] after the loss of the other device
//! is therefore lost as well.
//!
//! A stream that waits only within its own device, as most do, has no entries here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_types::{DeviceId, Error};

use crate::cuda::device::DeviceState;
use crate::device::Ticket;

/// Much longer than a driver takes to end the waits for a lost device, if it does so.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// The pending waits of one stream for other devices.
#[derive(Default)]
pub(super) struct PeerWaits {
    /// By the tickets of the waits, in order. A wait for a record that itself follows waits for
    /// other devices has one entry per device.
    waits: VecDeque<(Ticket, Arc<DeviceState>)>,
    /// The time at which a poll first observed that one of the devices is lost.
    lost_since: Option<Instant>,
}

impl PeerWaits {
    /// Adds the wait of `ticket`, which depends on `devices`.
    pub(super) fn add(
        &mut self,
        ticket: Ticket,
        devices: impl IntoIterator<Item = Arc<DeviceState>>,
    ) {
        self.waits.extend(devices.into_iter().map(|device| (ticket, device)));
    }

    /// Returns the devices on which all later commands of the stream depend.
    pub(super) fn devices(&self) -> Vec<Arc<DeviceState>> {
        let mut devices: Vec<Arc<DeviceState>> = Vec::new();
        for (_, device) in &self.waits {
            if !devices.iter().any(|known| Arc::ptr_eq(known, device)) {
                devices.push(device.clone());
            }
        }
        devices
    }

    /// Removes the waits up to `ticket`, which have completed.
    pub(super) fn remove_completed(&mut self, ticket: Ticket) {
        while self.waits.front().is_some_and(|(wait, _)| *wait <= ticket) {
            self.waits.pop_front();
        }
    }

    /// Returns the error of a stream of `own` that has stalled. None if it has not.
    pub(super) fn stall_error(&mut self, own: &DeviceId) -> Option<Error> {
        let lost = self.waits.iter().find_map(|(_, device)| device.lost.get());
        let Some(lost) = lost else {
            self.lost_since = None;
            return None;
        };
        let since = *self.lost_since.get_or_insert_with(Instant::now);
        (since.elapsed() >= STALL_TIMEOUT).then(|| Error::Device {
            device: own.clone(),
            message: format!("a stream waits for another device, which is lost: {lost}"),
        })
    }
}
