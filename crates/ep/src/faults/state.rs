//! What the streams and events of a device share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::{DeviceId, Error};

use crate::device::Notify;

use super::plan::{Fault, FaultPlan, Site};

/// A device's part in the plan.
///
/// # Rules
/// 1. A device that is lost runs no further work. Work that runs at that moment runs to its end.
/// 2. The loss is reported only when no work runs, so that nobody takes the memory of one that
///    does.
///
/// `running` is counted up before `lost` is looked at, and `lost` is set before `running` is looked
/// at, both in one order for all (`SeqCst`): so either the work sees the loss, or who asks sees the
/// work.
pub(super) struct DeviceState {
    pub(super) id: DeviceId,
    pub(super) plan: FaultPlan,
    pub(super) asynchronous: bool,
    lost: AtomicBool,
    /// Whether a stream takes commands and completes none.
    stuck: AtomicBool,
    running: AtomicUsize,
    notifies: Mutex<Vec<Notify>>,
}

/// Work runs on the device as long as this lives.
pub(super) struct Running<'a>(&'a DeviceState);

impl DeviceState {
    pub(super) fn new(id: DeviceId, plan: FaultPlan, asynchronous: bool) -> Arc<DeviceState> {
        let state = Arc::new(DeviceState {
            id,
            plan: plan.clone(),
            asynchronous,
            lost: AtomicBool::new(false),
            stuck: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            notifies: Mutex::default(),
        });
        plan.knows(&state);
        state
    }

    /// Counts a call, and says which fault strikes it.
    pub(super) fn at(&self, site: Site) -> Option<Fault> {
        self.plan.at(site, self.asynchronous)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// Whether the loss may be told.
    pub(super) fn is_lost_and_quiet(&self) -> bool {
        self.is_lost() && self.running.load(Ordering::SeqCst) == 0
    }

    pub(super) fn check(&self) -> millstream_types::Result<()> {
        if self.is_lost() { Err(self.error("is lost")) } else { Ok(()) }
    }

    pub(super) fn error(&self, what: &str) -> Error {
        let message = format!("{what} (a planned fault)");
        Error::Device { device: self.id.clone(), message }
    }

    pub(super) fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
        self.notify_all();
    }

    pub(super) fn stick(&self) {
        self.stuck.store(true, Ordering::SeqCst);
    }

    pub(super) fn lose_if_stuck(&self) {
        if self.stuck.load(Ordering::SeqCst) {
            self.lose();
        }
    }

    /// Has `notify` called when the device is lost.
    pub(super) fn tell(&self, notify: Notify) {
        self.notifies.lock().unwrap_or_else(PoisonError::into_inner).push(notify);
    }

    fn notify_all(&self) {
        let all = self.notifies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().for_each(|notify| notify());
    }

    /// Work is about to run; none if the device is lost.
    pub(super) fn begin(&self) -> Option<Running<'_>> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = Running(self);
        if self.is_lost() { None } else { Some(running) }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let last = self.0.running.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.0.is_lost() {
            self.0.notify_all();
        }
    }
}
