//! The driver's state, behind one lock.
//!
//! # Rules
//! 1. The lock is never held while a command runs: copies, kernels and host functions run on their
//!    stream's thread without it.
//! 2. A command is a user of the allocations that it names, from its submission until it has run.
//!    Memory with users is not freed.
//! 3. [`Driver::announce`] follows every change for which a thread may wait: a new or completed
//!    command, the end of a hold, a permitted step, a lost device. It wakes the streams that can go
//!    on, each by a condition of its own, and by `changed` the other threads, which are few. Were
//!    all streams woken each time, most of a test's time would be theirs.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use millstream_types::{Panicked, catch_panic};

use crate::compiled::Library;
use crate::faults::Faults;
use crate::graph::{self, Capture, CapturedRecord, Graph, GraphExec};
use crate::memory::Memory;
use crate::ranks::{Comm, Group};
use crate::stream::{StreamState, is_to_be_woken};
use crate::{DEVICES, code};

/// The length of the list of calls. Older ones are removed.
const CALLS: usize = 1 << 16;

/// The calls that can wait for the device, or that change memory or code: illegal for a thread
/// whose capture is under way.
const UNSAFE_IN_CAPTURE: [&str; 9] = [
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuCtxEnablePeerAccess",
];

/// The result of a call; the error is a number of [`code`].
pub(crate) type DriverResult<T> = Result<T, u32>;

/// The driver of the process.
pub(crate) struct Driver {
    state: Mutex<State>,
    changed: Condvar,
}

pub(crate) struct EventState {
    pub(crate) name: String,
    pub(crate) device: u32,
    /// The number of records.
    pub(crate) records: u64,
    /// The records that have not completed.
    pub(crate) outstanding: BTreeSet<u64>,
    /// Whether it keeps the time of its record.
    pub(crate) timed: bool,
    /// When its newest record has completed, if it is timed.
    pub(crate) at: Option<Instant>,
    /// Its position in a capture, if its newest record is in one.
    pub(crate) captured: Option<CapturedRecord>,
    /// Whether the event was destroyed and is kept only for its outstanding records.
    pub(crate) destroyed: bool,
}

/// A module. Its image decides which kernels it has.
pub(crate) struct Module {
    pub(crate) name: String,
    /// The compiled kernels. None for the module of the host kernels.
    pub(crate) compiled: Option<Arc<Library>>,
}

/// A handle of cuBLAS.
pub(crate) struct CublasHandle {
    pub(crate) name: String,
    pub(crate) device: u32,
    /// The stream, if it was set.
    pub(crate) stream: Option<u64>,
    /// The workspace's address and bytes, if it was set after the stream.
    pub(crate) workspace: Option<(u64, u64)>,
}

/// The streams that tests hold.
#[derive(Default)]
pub(crate) struct Holds {
    /// Whether all streams are held, including later ones.
    pub(crate) all: bool,
    /// The names of held streams, which may not exist yet.
    pub(crate) streams: BTreeSet<String>,
    /// The number of commands that a held stream may still run.
    pub(crate) permits: BTreeMap<u64, u64>,
}

#[derive(Default)]
pub(crate) struct State {
    /// The name of the current call.
    pub(crate) call: &'static str,
    pub(crate) initialised: bool,
    /// The number of references to each device's context.
    pub(crate) retained: [u64; DEVICES as usize],
    /// The enabled peer accesses: a device, and the device whose memory it accesses.
    pub(crate) peers: BTreeSet<(u32, u32)>,
    /// The pairs of devices whose peer access is not supported.
    pub(crate) denied_peer_access: BTreeSet<(u32, u32)>,
    pub(crate) memory: Memory,
    pub(crate) streams: BTreeMap<u64, StreamState>,
    pub(crate) events: BTreeMap<u64, EventState>,
    pub(crate) modules: BTreeMap<u64, Module>,
    /// The devices of memory pools.
    pub(crate) pools: BTreeMap<u64, u32>,
    /// Handles of cuBLAS.
    pub(crate) cublas_handles: BTreeMap<u64, CublasHandle>,
    /// Communicators of NCCL.
    pub(crate) comms: BTreeMap<u64, Arc<Comm>>,
    /// The groups of ranks by the numbers in their ids.
    pub(crate) comm_groups: BTreeMap<u64, Arc<Group>>,
    /// Kernels by handle: module and name.
    pub(crate) functions: BTreeMap<u64, (u64, String)>,
    /// The captures under way.
    pub(crate) captures: BTreeMap<u64, Capture>,
    pub(crate) graphs: BTreeMap<u64, Graph>,
    pub(crate) graph_execs: BTreeMap<u64, GraphExec>,
    pub(crate) faults: Faults,
    pub(crate) holds: Holds,
    /// The number of queries that still return "not ready", regardless of the state.
    pub(crate) not_ready: u64,
    /// A text in the source of kernels, and its replacement.
    pub(crate) source_mutation: Option<(String, String)>,
    pub(crate) calls: VecDeque<String>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) violations: Vec<String>,
    /// Whether the current call must signal `changed`. Most calls only query.
    pub(crate) needs_notify: bool,
    /// The number of threads that wait for `changed`: signalling it is a system call.
    waiting: usize,
    handles: u64,
    /// The number of names given to streams, events, modules, cuBLAS handles, graphs, executable
    /// graphs, and communicators.
    named: [u64; 7],
}

/// Held by each test that uses the driver.
#[cfg(test)]
pub(crate) static TURN: Mutex<()> = Mutex::new(());

/// Returns the driver of this process.
pub(crate) fn driver() -> &'static Driver {
    static DRIVER: LazyLock<Driver> =
        LazyLock::new(|| Driver { state: Mutex::new(State::default()), changed: Condvar::new() });
    &DRIVER
}

impl Driver {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock leaves at most one changed entry, so the state is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, on a thread that is not a stream's.
    pub(crate) fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        let mut state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    /// Wakes the threads for which there may be something new.
    pub(crate) fn announce(&self) {
        self.announce_and_unlock(self.lock());
    }

    /// Does as [`Driver::announce`], after the caller's changes.
    pub(crate) fn announce_and_unlock(&self, state: MutexGuard<'_, State>) {
        let woken = state.streams.iter().filter(|(handle, _)| is_to_be_woken(&state, **handle));
        let wakes: Vec<Arc<Condvar>> = woken.map(|(_, stream)| stream.wake.clone()).collect();
        let is_awaited = state.waiting > 0;
        // A thread that is woken takes the lock first.
        drop(state);
        wakes.iter().for_each(|wake| wake.notify_one());
        if is_awaited {
            self.changed.notify_all();
        }
    }
}

thread_local! {
    /// The thread's context: a device's number plus one, or zero for none.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// Returns the device of the thread's current context.
pub(crate) fn current() -> Option<u32> {
    CURRENT.get().checked_sub(1)
}

/// Sets the thread's current context.
pub(crate) fn set_current(device: Option<u32>) {
    CURRENT.set(device.map_or(0, |d| d + 1));
}

/// Executes a call of the driver. `body` returns the call's text for the list of calls.
pub(crate) fn driver_call(
    name: &'static str,
    body: impl FnOnce(&mut State) -> DriverResult<String>,
) -> u32 {
    library_call(name, code::name_and_meaning, |state| match state.faults.next_failure(name) {
        Some(code) => Err(code),
        None if !state.initialised && name != "cuInit" && name != "cuDriverGetVersion" => {
            Err(code::NOT_INITIALIZED)
        }
        None => body(state),
    })
}

/// Executes a call of a library. `name_and_meaning` returns the names of its error codes.
pub(crate) fn library_call(
    name: &'static str,
    name_and_meaning: fn(u32) -> Option<(&'static str, &'static str)>,
    body: impl FnOnce(&mut State) -> DriverResult<String>,
) -> u32 {
    let outcome = catch_panic(|| {
        let mut state = driver().lock();
        state.call = name;
        *state.counts.entry(name).or_default() += 1;
        let (line, code) = match body(&mut state) {
            Ok(line) => (format!("{name}{line}"), code::SUCCESS),
            Err(code) => {
                let error = name_and_meaning(code).map_or("?", |w| w.0.trim_end_matches('\0'));
                (format!("{name}: {error}"), code)
            }
        };
        if state.calls.len() == CALLS {
            state.calls.pop_front();
        }
        state.calls.push_back(line);
        if std::mem::take(&mut state.needs_notify) || state.faults.lost.is_some() {
            driver().announce_and_unlock(state);
        }
        Ok(code)
    });
    outcome.unwrap_or_else(|_: Panicked| {
        driver().announce();
        code::UNKNOWN
    })
}

/// Executes a call that requires a current context. `body` gets its device.
pub(crate) fn driver_call_in_context(
    name: &'static str,
    body: impl FnOnce(&mut State, u32) -> DriverResult<String>,
) -> u32 {
    driver_call(name, |state| match current() {
        Some(device) if state.retained[device as usize] > 0 => {
            if let Some(code) = state.faults.lost_devices.get(&device) {
                return Err(*code);
            }
            if UNSAFE_IN_CAPTURE.contains(&name) {
                graph::refuse_unsafe(state)?;
            }
            body(state, device)
        }
        Some(device) => state.violation(format!("device {device}'s context was released"), 201),
        None => state.violation("the thread has no context", code::INVALID_CONTEXT),
    })
}

impl State {
    /// Returns a new handle, which no other object has.
    pub(crate) fn handle(&mut self) -> u64 {
        self.handles += 1;
        // No address of the host has this form.
        (1 << 61) + self.handles * 16
    }

    /// Returns a new name for an object: `s0`, `e0`, `k0`, `b0`, `g0`, `x0`, `c0`.
    pub(crate) fn name(&mut self, letter: char) -> String {
        let count = &mut self.named["sekbgxc".find(letter).unwrap_or(0)];
        *count += 1;
        format!("{letter}{}", *count - 1)
    }

    /// Records a violation: a call whose behaviour a real driver leaves undefined.
    ///
    /// # Errors
    /// Always: `code`.
    pub(crate) fn violation<T>(&mut self, what: impl Display, code: u32) -> DriverResult<T> {
        self.violations.push(format!("{}: {what}", self.call));
        Err(code)
    }

    /// Returns the entry of a handle.
    ///
    /// # Errors
    /// There is no such `what`: `code`.
    pub(crate) fn entry<T>(
        &mut self,
        of: fn(&mut State) -> &mut BTreeMap<u64, T>,
        handle: u64,
        what: &str,
        code: u32,
    ) -> DriverResult<&mut T> {
        if !of(self).contains_key(&handle) {
            return self.violation(format!("there is no such {what}"), code);
        }
        of(self).get_mut(&handle).ok_or(code)
    }

    /// Clears calls, violations, faults and holds, and restarts names at zero. Open objects stay
    /// open, unless a device was lost: its objects could not be closed and are removed.
    pub(crate) fn reset(&mut self) {
        if self.faults.has_lost_any() {
            // The threads of the streams end.
            self.streams.values().for_each(|stream| stream.wake.notify_one());
            let State { initialised, needs_notify, waiting, handles, .. } = *self;
            *self = State { initialised, needs_notify, waiting, handles, ..State::default() };
        }
        self.faults = Faults::default();
        self.holds = Holds::default();
        self.denied_peer_access.clear();
        self.not_ready = 0;
        self.source_mutation = None;
        self.calls.clear();
        self.counts.clear();
        self.violations.clear();
        self.named = [0; 7];
        self.memory.reset_names();
    }
}
