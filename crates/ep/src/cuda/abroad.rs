//! What a stream waits for on other devices.
//!
//! The driver does not say what becomes of a stream that waits on the device for a device that is
//! lost. It may go on: then what it runs reads what was never written, and the layers above know. Or
//! it may stand still for good, and all that waits for it on its own device with it. So a stream that
//! is still waiting [`PATIENCE`] after the other device was found to be lost is lost as well.
//!
//! Streams of one device alone, which is what most are, keep nothing here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_types::{DeviceId, Error};

use crate::cuda::device::Opened;
use crate::device::Ticket;

/// Much longer than a driver that lets waits go takes to do so.
const PATIENCE: Duration = Duration::from_secs(1);

/// The other devices that a stream waits for.
#[derive(Default)]
pub(super) struct Abroad {
    /// By the waits' tickets, in order. A wait for a record that itself stands behind other devices
    /// is there once for each.
    waits: VecDeque<(Ticket, Arc<Opened>)>,
    /// When one of them was first seen to be lost.
    since: Option<Instant>,
}

impl Abroad {
    /// The wait of `ticket` is for what these devices do.
    pub(super) fn wait(&mut self, ticket: Ticket, devices: impl IntoIterator<Item = Arc<Opened>>) {
        self.waits.extend(devices.into_iter().map(|device| (ticket, device)));
    }

    /// The devices that stand before all that is handed over from now on.
    pub(super) fn devices(&self) -> Vec<Arc<Opened>> {
        let mut devices: Vec<Arc<Opened>> = Vec::new();
        for (_, device) in &self.waits {
            if !devices.iter().any(|known| Arc::ptr_eq(known, device)) {
                devices.push(device.clone());
            }
        }
        devices
    }

    /// Everything up to `ticket` has completed.
    pub(super) fn passed(&mut self, ticket: Ticket) {
        while self.waits.front().is_some_and(|(wait, _)| *wait <= ticket) {
            self.waits.pop_front();
        }
    }

    /// Why a stream of `own` will not go on, if it will not.
    pub(super) fn stuck(&mut self, own: &DeviceId) -> Option<Error> {
        let lost = self.waits.iter().find_map(|(_, device)| device.lost.get());
        let Some(lost) = lost else {
            self.since = None;
            return None;
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        (since.elapsed() >= PATIENCE).then(|| Error::Device {
            device: own.clone(),
            message: format!("a stream waits for another device, which is lost: {lost}"),
        })
    }
}
