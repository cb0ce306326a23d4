//! The fault state that the streams and events of one device share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_types::{DeviceId, Error};

use crate::device::Notify;

use super::plan::{Fault, FaultPlan, Site};

/// The fault state of one device.
///
/// # Rules
/// 1. A lost device starts no further work. Work that is running at that moment runs to its end.
/// 2. The loss is reported only when no work is running, so that no caller frees memory that
///    running work uses.
///
/// [`FaultState::begin_work`] increments `running` before it reads `lost`;
/// [`FaultState::is_lost_and_idle`] reads `lost` before `running`. Both are `SeqCst`, so either the
/// work observes the loss, or the caller observes the work.
pub(super) struct FaultState {
    pub(super) id: DeviceId,
    pub(super) plan: FaultPlan,
    pub(super) asynchronous: bool,
    lost: AtomicBool,
    /// Whether a stream accepts commands and completes none.
    has_stuck_stream: AtomicBool,
    /// The number of works that are running.
    running: AtomicUsize,
    notifies: Mutex<Vec<Notify>>,
}

/// Counts work as running on the device until it is dropped.
pub(super) struct RunningWork<'a>(&'a FaultState);

impl FaultState {
    pub(super) fn new(id: DeviceId, plan: FaultPlan, asynchronous: bool) -> Arc<FaultState> {
        let state = Arc::new(FaultState {
            id,
            plan: plan.clone(),
            asynchronous,
            lost: AtomicBool::new(false),
            has_stuck_stream: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            notifies: Mutex::default(),
        });
        plan.add_device(&state);
        state
    }

    /// Counts a call of a site and returns the fault that the plan injects into it.
    pub(super) fn count_call(&self, site: Site) -> Option<Fault> {
        self.plan.count_call(site, self.asynchronous)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// Returns whether the loss may be reported (rule 2).
    pub(super) fn is_lost_and_idle(&self) -> bool {
        self.is_lost() && self.running.load(Ordering::SeqCst) == 0
    }

    /// Returns an error if the device is lost.
    pub(super) fn check(&self) -> millstream_types::Result<()> {
        if self.is_lost() { Err(self.error("is lost")) } else { Ok(()) }
    }

    pub(super) fn error(&self, what: &str) -> Error {
        let message = format!("{what} (a planned fault)");
        Error::Device { device: self.id.clone(), message }
    }

    pub(super) fn mark_lost(&self) {
        self.lost.store(true, Ordering::SeqCst);
        self.notify_all();
    }

    pub(super) fn mark_stuck(&self) {
        self.has_stuck_stream.store(true, Ordering::SeqCst);
    }

    pub(super) fn lose_if_stuck(&self) {
        if self.has_stuck_stream.load(Ordering::SeqCst) {
            self.mark_lost();
        }
    }

    /// Registers a function that is called when the device is lost.
    pub(super) fn add_notify(&self, notify: Notify) {
        self.notifies.lock().unwrap_or_else(PoisonError::into_inner).push(notify);
    }

    fn notify_all(&self) {
        let all = self.notifies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().for_each(|notify| notify());
    }

    /// Counts work that is about to run. None if the device is lost: the work must not run.
    pub(super) fn begin_work(&self) -> Option<RunningWork<'_>> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let running = RunningWork(self);
        if self.is_lost() { None } else { Some(running) }
    }
}

impl Drop for RunningWork<'_> {
    fn drop(&mut self) {
        let last = self.0.running.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.0.is_lost() {
            self.0.notify_all();
        }
    }
}
