//! Planned failures of calls, and lost devices.

use std::collections::BTreeMap;

/// A planned failure.
pub(crate) struct Fault {
    /// The driver's function.
    pub(crate) call: String,
    /// The number of calls that still succeed before.
    pub(crate) after: u64,
    /// The error code.
    pub(crate) code: u32,
    /// The number of failing calls; `u64::MAX` for all later ones.
    pub(crate) times: u64,
    /// Whether every later call of any function fails with the same code: the device is lost.
    pub(crate) loses_device: bool,
}

/// The planned failures, and the lost devices.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) planned: Vec<Fault>,
    /// The code with which every call fails, if all devices are lost.
    pub(crate) lost: Option<u32>,
    /// By device: the code with which every call fails from a thread with the device's context.
    pub(crate) lost_devices: BTreeMap<u32, u32>,
}

impl Faults {
    /// Returns whether a device is lost.
    pub(crate) fn has_lost(&self, device: u32) -> bool {
        self.lost.is_some() || self.lost_devices.contains_key(&device)
    }

    /// Returns whether any device is lost.
    pub(crate) fn has_lost_any(&self) -> bool {
        self.lost.is_some() || !self.lost_devices.is_empty()
    }

    /// Counts a call of `name`, and returns the code with which it must fail.
    pub(crate) fn next_failure(&mut self, name: &str) -> Option<u32> {
        if self.lost.is_some() {
            return self.lost;
        }
        let mut failure = None;
        self.planned.retain_mut(|fault| {
            if fault.call != name || failure.is_some() {
                return true;
            }
            if fault.after > 0 {
                fault.after -= 1;
                return true;
            }
            failure = Some((fault.code, fault.loses_device));
            fault.times = fault.times.saturating_sub(u64::from(fault.times != u64::MAX));
            fault.times > 0
        });
        let (code, loses_device) = failure?;
        if loses_device {
            self.lost = Some(code);
        }
        Some(code)
    }
}
