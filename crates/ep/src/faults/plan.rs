//! What is to fail, and when.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::state::DeviceState;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The device has no memory for an allocation.
    Allocation,
    /// The device makes no event.
    EventCreation,
    /// The device opens no stream.
    StreamCreation,
    /// The device refuses a launch: the work does not run.
    LaunchRefused,
    /// The work returns an error and has done nothing.
    WorkError,
    /// The work panics and has done nothing.
    WorkPanic,
    /// The work does all that it has to do, and then returns an error.
    WorkErrorAfterAll,
    /// The device refuses a record.
    RecordRefused,
    /// The device refuses a wait.
    WaitRefused,
    /// The device records, and reports an error where it should report that it has.
    RecordFailsLate,
    /// The device waits, and then reports an error.
    WaitFailsLate,
    /// The stream takes the command and all later ones, and completes none of them. Where commands
    /// run inside `submit`, that call blocks.
    NeverCompletes,
    /// The device is lost: what has not completed never will, and every call fails.
    DeviceLost,
}

impl Fault {
    /// Every kind.
    pub const ALL: [Fault; 13] = [
        Fault::Allocation,
        Fault::EventCreation,
        Fault::StreamCreation,
        Fault::LaunchRefused,
        Fault::WorkError,
        Fault::WorkPanic,
        Fault::WorkErrorAfterAll,
        Fault::RecordRefused,
        Fault::WaitRefused,
        Fault::RecordFailsLate,
        Fault::WaitFailsLate,
        Fault::NeverCompletes,
        Fault::DeviceLost,
    ];

    /// Where it can strike.
    pub const fn site(self) -> Site {
        match self {
            Fault::Allocation => Site::Allocation,
            Fault::EventCreation => Site::Event,
            Fault::StreamCreation => Site::Stream,
            Fault::LaunchRefused
            | Fault::WorkError
            | Fault::WorkPanic
            | Fault::WorkErrorAfterAll => Site::Launch,
            Fault::RecordRefused | Fault::RecordFailsLate => Site::Record,
            Fault::WaitRefused | Fault::WaitFailsLate => Site::Wait,
            Fault::NeverCompletes | Fault::DeviceLost => Site::Command,
        }
    }
}

/// A kind of call, whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// Allocations of memory.
    Allocation,
    /// Events made.
    Event,
    /// Streams opened.
    Stream,
    /// Works handed over.
    Launch,
    /// Records handed over.
    Record,
    /// Waits handed over.
    Wait,
    /// Commands of any kind handed over.
    Command,
}

const SITES: usize = 7;

/// What was planned: a fault, and the calls of its site that it strikes.
#[derive(Clone, Copy, Debug)]
struct Armed {
    fault: Fault,
    from: u64,
    times: u64,
}

#[derive(Default)]
struct State {
    counts: [u64; SITES],
    armed: Option<Armed>,
    struck: u64,
    released: bool,
    asleep: bool,
    queues_only: bool,
    devices: Vec<Weak<DeviceState>>,
}

/// Which call fails and how. Clones are the same plan; backends may share one, and then count
/// together. A new plan lets everything pass and counts.
#[derive(Clone, Default)]
pub struct FaultPlan {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl FaultPlan {
    /// A plan without faults.
    pub fn new() -> FaultPlan {
        FaultPlan::default()
    }

    /// A plan by which the `nth` call of the fault's site fails, counted from 1.
    pub fn once(fault: Fault, nth: u64) -> FaultPlan {
        let plan = FaultPlan::new();
        plan.lock().armed = Some(Armed { fault, from: nth, times: 1 });
        plan
    }

    /// A plan by which the `nth` call of the fault's site fails, and all after it.
    pub fn from(fault: Fault, nth: u64) -> FaultPlan {
        let plan = FaultPlan::new();
        plan.lock().armed = Some(Armed { fault, from: nth, times: u64::MAX });
        plan
    }

    /// The plan, asleep: calls pass and are not counted before [`FaultPlan::wake`].
    #[must_use]
    pub fn asleep(self) -> FaultPlan {
        self.lock().asleep = true;
        self
    }

    /// The plan for devices with queues alone: a call to one that runs its commands inside `submit`
    /// passes and is not counted.
    #[must_use]
    pub fn for_queues(self) -> FaultPlan {
        self.lock().queues_only = true;
        self
    }

    /// Begins to count, and to strike.
    pub fn wake(&self) {
        self.lock().asleep = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under the lock.
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls of a site there were so far: the positions at which a fault can strike.
    pub fn count(&self, site: Site) -> u64 {
        self.lock().counts[site as usize]
    }

    /// How often the fault has struck.
    pub fn struck(&self) -> u64 {
        self.lock().struck
    }

    /// Plans nothing more; what has failed stays so.
    pub fn disarm(&self) {
        self.lock().armed = None;
    }

    /// Ends streams that never complete, by the loss of their device. For the end of a test: the
    /// threads that were left behind can then end too.
    pub fn release(&self) {
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

    /// Counts a call to a device, and says which fault strikes it.
    pub(super) fn at(&self, site: Site, asynchronous: bool) -> Option<Fault> {
        let mut state = self.lock();
        if state.asleep || (state.queues_only && !asynchronous) {
            return None;
        }
        state.counts[site as usize] += 1;
        let number = state.counts[site as usize];
        let armed = state.armed.filter(|armed| armed.fault.site() == site)?;
        let strikes = number >= armed.from && number - armed.from < armed.times;
        state.struck += u64::from(strikes);
        strikes.then_some(armed.fault)
    }

    pub(super) fn knows(&self, device: &Arc<DeviceState>) {
        self.lock().devices.push(Arc::downgrade(device));
    }

    /// Blocks until the plan is released.
    pub(super) fn block(&self) {
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
            .field("armed", &state.armed)
            .field("counts", &state.counts)
            .field("struck", &state.struck)
            .finish_non_exhaustive()
    }
}
