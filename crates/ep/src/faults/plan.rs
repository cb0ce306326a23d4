//! The plan of a fault: which calls fail, and how.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::state::FaultState;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The device has no memory for an allocation.
    Allocation,
    /// The device refuses an event.
    EventCreation,
    /// The device refuses a stream.
    StreamCreation,
    /// The device refuses a launch: the work does not run.
    LaunchRefused,
    /// The work returns an error without running.
    WorkError,
    /// The work panics without running.
    WorkPanic,
    /// The work runs to its end, and then returns an error.
    WorkErrorAfterRun,
    /// The device refuses a record.
    RecordRefused,
    /// The device refuses a wait.
    WaitRefused,
    /// The device records, and then reports the record as failed.
    RecordFailsLate,
    /// The device waits, and then reports the wait as failed.
    WaitFailsLate,
    /// The stream accepts the command and all later ones, and completes none of them. If commands
    /// run inside `submit`, that call blocks.
    NeverCompletes,
    /// The device is lost: pending commands never complete, and every call fails.
    DeviceLost,
}

millstream_types::names! {
    Fault: Allocation "allocation", EventCreation "event creation",
    StreamCreation "stream creation", LaunchRefused "launch refused", WorkError "work error",
    WorkPanic "work panic", WorkErrorAfterRun "work error after run",
    RecordRefused "record refused", WaitRefused "wait refused",
    RecordFailsLate "record fails late", WaitFailsLate "wait fails late",
    NeverCompletes "never completes", DeviceLost "device lost"
}

impl Fault {
    /// Returns the kind of call into which the fault can be injected.
    pub const fn site(self) -> Site {
        match self {
            Fault::Allocation => Site::Allocation,
            Fault::EventCreation => Site::Event,
            Fault::StreamCreation => Site::Stream,
            Fault::LaunchRefused
            | Fault::WorkError
            | Fault::WorkPanic
            | Fault::WorkErrorAfterRun => Site::Launch,
            Fault::RecordRefused | Fault::RecordFailsLate => Site::Record,
            Fault::WaitRefused | Fault::WaitFailsLate => Site::Wait,
            Fault::NeverCompletes | Fault::DeviceLost => Site::Command,
        }
    }
}

/// A kind of call. A plan counts the calls of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// Allocations of memory.
    Allocation,
    /// Creations of events.
    Event,
    /// Creations of streams.
    Stream,
    /// Submissions of work.
    Launch,
    /// Submissions of records.
    Record,
    /// Submissions of waits.
    Wait,
    /// Submissions of any kind.
    Command,
}

const SITES: usize = 7;

/// A fault, and the calls of its site into which it is injected: `times` calls, beginning with
/// number `from`.
#[derive(Clone, Copy, Debug)]
struct PlannedFault {
    fault: Fault,
    from: u64,
    times: u64,
}

#[derive(Default)]
struct PlanState {
    counts: [u64; SITES],
    planned: Option<PlannedFault>,
    triggered: u64,
    released: bool,
    paused: bool,
    asynchronous_only: bool,
    devices: Vec<Weak<FaultState>>,
}

/// A plan of which calls fail, and how. Clones share one plan and its counts, also across backends.
/// A new plan counts the calls and injects no fault.
#[derive(Clone, Default)]
pub struct FaultPlan {
    shared: Arc<(Mutex<PlanState>, Condvar)>,
}

impl FaultPlan {
    /// Creates a plan without faults.
    pub fn new() -> FaultPlan {
        FaultPlan::default()
    }

    /// Creates a plan that injects `fault` into the `nth` call of its site, counted from 1.
    pub fn once(fault: Fault, nth: u64) -> FaultPlan {
        let plan = FaultPlan::new();
        plan.lock().planned = Some(PlannedFault { fault, from: nth, times: 1 });
        plan
    }

    /// Creates a plan that injects `fault` into the `nth` call of its site and all later ones.
    pub fn starting_at(fault: Fault, nth: u64) -> FaultPlan {
        let plan = FaultPlan::new();
        plan.lock().planned = Some(PlannedFault { fault, from: nth, times: u64::MAX });
        plan
    }

    /// Pauses the plan: until [`FaultPlan::resume`], calls pass and are not counted.
    #[must_use]
    pub fn paused(self) -> FaultPlan {
        self.lock().paused = true;
        self
    }

    /// Restricts the plan to asynchronous devices: a call to a device that runs its commands inside
    /// `submit` passes and is not counted.
    #[must_use]
    pub fn for_asynchronous_devices(self) -> FaultPlan {
        self.lock().asynchronous_only = true;
        self
    }

    /// Begins to count calls and to inject the fault.
    pub fn resume(&self) {
        self.lock().paused = false;
    }

    fn lock(&self) -> MutexGuard<'_, PlanState> {
        // No code that can panic runs under the lock.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of calls of a site so far: the positions for a fault.
    pub fn count(&self, site: Site) -> u64 {
        self.lock().counts[site as usize]
    }

    /// Returns how often the fault was injected.
    pub fn triggered(&self) -> u64 {
        self.lock().triggered
    }

    /// Removes the fault from the plan. Lost devices stay lost, stuck streams stuck.
    pub fn disarm(&self) {
        self.lock().planned = None;
    }

    /// Marks every device with a stuck stream as lost, and unblocks its threads. A test calls this
    /// at its end, so that the blocked threads end too.
    pub fn release_stuck(&self) {
        let devices = {
            let mut state = self.lock();
            state.released = true;
            state.devices.clone()
        };
        self.shared.1.notify_all();
        for device in devices.iter().filter_map(Weak::upgrade) {
            device.lose_if_stuck();
        }
    }

    /// Counts a call to a device and returns the fault to inject into it.
    pub(super) fn count_call(&self, site: Site, asynchronous: bool) -> Option<Fault> {
        let mut state = self.lock();
        if state.paused || (state.asynchronous_only && !asynchronous) {
            return None;
        }
        state.counts[site as usize] += 1;
        let number = state.counts[site as usize];
        let planned = state.planned.filter(|planned| planned.fault.site() == site)?;
        let triggers = number >= planned.from && number - planned.from < planned.times;
        state.triggered += u64::from(triggers);
        triggers.then_some(planned.fault)
    }

    pub(super) fn add_device(&self, device: &Arc<FaultState>) {
        self.lock().devices.push(Arc::downgrade(device));
    }

    /// Blocks until [`FaultPlan::release_stuck`].
    pub(super) fn block_until_released(&self) {
        let mut state = self.lock();
        while !state.released {
            state = self.shared.1.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl fmt::Debug for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("FaultPlan")
            .field("planned", &state.planned)
            .field("counts", &state.counts)
            .field("triggered", &state.triggered)
            .finish_non_exhaustive()
    }
}
