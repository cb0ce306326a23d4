//! Calls that are to fail.

use std::collections::BTreeMap;

/// A failure that is planned.
pub(crate) struct Fault {
    /// The driver's function.
    pub(crate) call: String,
    /// How many calls of it still go well before.
    pub(crate) after: u64,
    /// What it answers then.
    pub(crate) code: u32,
    /// How often; `u64::MAX` for ever.
    pub(crate) times: u64,
    /// Whether every later call of any function answers the same: the device is lost.
    pub(crate) keeps: bool,
}

/// The failures that are planned, and the one that is kept.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) planned: Vec<Fault>,
    /// What every call answers from now on.
    pub(crate) lost: Option<u32>,
    /// What every call answers from now on that a thread with the context of one of these devices
    /// makes.
    pub(crate) lost_devices: BTreeMap<u32, u32>,
}

impl Faults {
    /// Whether nothing runs on a device any more.
    pub(crate) fn has_lost(&self, device: u32) -> bool {
        self.lost.is_some() || self.lost_devices.contains_key(&device)
    }

    /// Whether some device is lost.
    pub(crate) fn has_lost_any(&self) -> bool {
        self.lost.is_some() || !self.lost_devices.is_empty()
    }

    /// What a call of `name` is to answer in place of doing what it is asked.
    pub(crate) fn strike(&mut self, name: &str) -> Option<u32> {
        if self.lost.is_some() {
            return self.lost;
        }
        let mut struck = None;
        self.planned.retain_mut(|fault| {
            if fault.call != name || struck.is_some() {
                return true;
            }
            if fault.after > 0 {
                fault.after -= 1;
                return true;
            }
            struck = Some((fault.code, fault.keeps));
            fault.times = fault.times.saturating_sub(u64::from(fault.times != u64::MAX));
            fault.times > 0
        });
        let (code, keeps) = struck?;
        if keeps {
            self.lost = Some(code);
        }
        Some(code)
    }
}
