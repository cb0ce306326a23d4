//! All that the driver knows, behind one lock.
//!
//! # Rules
//! 1. The lock is never held while a command runs: copies, kernels and host functions run on their
//!    stream's thread without it.
//! 2. A command counts as a user of the allocations that it names from when it is handed over until
//!    it has run. Memory that has users is not freed.
//! 3. `moved` is signalled after every change that somebody may wait for: a command more or less, a
//!    hold that ends, a step that is allowed, a device that is lost.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::compiled::Library;
use crate::faults::Faults;
use crate::memory::Memory;
use crate::stream::StreamState;
use crate::{DEVICES, code};

/// Calls that are remembered; older ones are forgotten.
const CALLS: usize = 1 << 16;

/// What a call is answered with if it fails: a number of [`code`].
pub(crate) type Answer<T> = Result<T, u32>;

/// The driver, of which a process has one.
pub(crate) struct Driver {
    state: Mutex<State>,
    pub(crate) moved: Condvar,
}

pub(crate) struct EventState {
    pub(crate) name: String,
    pub(crate) device: u32,
    /// How often it was recorded.
    pub(crate) records: u64,
    /// Records that have not completed.
    pub(crate) outstanding: BTreeSet<u64>,
    /// Whether it was destroyed, and is kept for its records alone.
    pub(crate) gone: bool,
}

/// A module: what its kernels are is decided by its image.
pub(crate) struct Module {
    pub(crate) name: String,
    /// The kernels of a source; none if the module's are the host's.
    pub(crate) compiled: Option<Arc<Library>>,
}

/// A handle of cuBLAS.
pub(crate) struct Products {
    pub(crate) name: String,
    pub(crate) device: u32,
    /// The stream, if it was given one.
    pub(crate) stream: Option<u64>,
    /// The workspace's address and bytes, if it was given one since the stream.
    pub(crate) workspace: Option<(u64, u64)>,
}

#[derive(Default)]
pub(crate) struct Held {
    /// All streams, also those to come.
    pub(crate) all: bool,
    /// Streams by name, also those to come.
    pub(crate) streams: BTreeSet<String>,
    /// Commands that a held stream may run all the same.
    pub(crate) permits: BTreeMap<u64, u64>,
}

pub(crate) struct State {
    pub(crate) initialised: bool,
    /// How often each device's context was retained.
    pub(crate) retained: [u64; DEVICES as usize],
    /// Who may use whose memory.
    pub(crate) peers: BTreeSet<(u32, u32)>,
    /// Who cannot use whose.
    pub(crate) blind: BTreeSet<(u32, u32)>,
    pub(crate) memory: Memory,
    pub(crate) streams: BTreeMap<u64, StreamState>,
    pub(crate) events: BTreeMap<u64, EventState>,
    pub(crate) modules: BTreeMap<u64, Module>,
    /// The devices of memory pools.
    pub(crate) pools: BTreeMap<u64, u32>,
    /// Handles of cuBLAS.
    pub(crate) products: BTreeMap<u64, Products>,
    /// Kernels by handle, with the module that they are from.
    pub(crate) functions: BTreeMap<u64, (u64, String)>,
    pub(crate) faults: Faults,
    pub(crate) held: Held,
    /// How many queries still answer "not ready", whatever is true.
    pub(crate) not_ready: u64,
    /// What sources are compiled with in place of what.
    pub(crate) planted: Option<(String, String)>,
    pub(crate) calls: VecDeque<String>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
    pub(crate) violations: Vec<String>,
    /// Whether a call has changed what streams wait for. Most calls are questions.
    pub(crate) stirred: bool,
    handles: u64,
    /// How many streams, events, modules and handles were named.
    named: [u64; 4],
}

/// The driver of this process.
pub(crate) fn driver() -> &'static Driver {
    static DRIVER: LazyLock<Driver> =
        LazyLock::new(|| Driver { state: Mutex::new(State::new()), moved: Condvar::new() });
    &DRIVER
}

impl Driver {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panics under the lock has changed one entry at most.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.moved.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// The thread's context: a device's number plus one, or zero for none.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

/// The device whose context is the thread's.
pub(crate) fn current() -> Option<u32> {
    CURRENT.get().checked_sub(1)
}

/// Sets the thread's context.
pub(crate) fn set_current(device: Option<u32>) {
    CURRENT.set(device.map_or(0, |d| d + 1));
}

/// Answers a call of the driver. `body` gives what the call was, for the list.
pub(crate) fn answer(name: &'static str, body: impl FnOnce(&mut State) -> Answer<String>) -> u32 {
    answer_by(name, code::words, |state| match state.faults.strike(name) {
        Some(code) => Err(code),
        None if !state.initialised && name != "cuInit" && name != "cuDriverGetVersion" => {
            Err(code::NOT_INITIALIZED)
        }
        None => body(state),
    })
}

/// Answers a call of a library whose numbers have these words.
pub(crate) fn answer_by(
    name: &'static str,
    words: fn(u32) -> Option<(&'static str, &'static str)>,
    body: impl FnOnce(&mut State) -> Answer<String>,
) -> u32 {
    let mut stirred = true;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut state = driver().lock();
        *state.counts.entry(name).or_default() += 1;
        let (line, answer) = match body(&mut state) {
            Ok(line) => (format!("{name}{line}"), code::SUCCESS),
            Err(code) => {
                let words = words(code).map_or("?", |w| w.0.trim_end_matches('\0'));
                (format!("{name}: {words}"), code)
            }
        };
        if state.calls.len() == CALLS {
            state.calls.pop_front();
        }
        state.calls.push_back(line);
        stirred = std::mem::take(&mut state.stirred) || state.faults.lost.is_some();
        answer
    }));
    if stirred {
        driver().moved.notify_all();
    }
    outcome.unwrap_or(code::UNKNOWN)
}

/// Answers a call that needs the thread to have a context; `body` is given its device.
pub(crate) fn answer_in_context(
    name: &'static str,
    body: impl FnOnce(&mut State, u32) -> Answer<String>,
) -> u32 {
    answer(name, |state| match current() {
        Some(device) if state.retained[device as usize] > 0 => {
            match state.faults.lost_devices.get(&device) {
                Some(code) => Err(*code),
                None => body(state, device),
            }
        }
        Some(device) => {
            Err(state.violation(name, &format!("device {device}'s context is gone"), 201))
        }
        None => Err(state.violation(name, "the thread has no context", code::INVALID_CONTEXT)),
    })
}

impl State {
    fn new() -> State {
        State {
            initialised: false,
            retained: [0; DEVICES as usize],
            peers: BTreeSet::new(),
            blind: BTreeSet::new(),
            memory: Memory::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            pools: BTreeMap::new(),
            products: BTreeMap::new(),
            functions: BTreeMap::new(),
            faults: Faults::default(),
            held: Held::default(),
            not_ready: 0,
            planted: None,
            calls: VecDeque::new(),
            counts: BTreeMap::new(),
            violations: Vec::new(),
            stirred: false,
            handles: 0,
            named: [0; 4],
        }
    }

    /// A handle that no other object has.
    pub(crate) fn handle(&mut self) -> u64 {
        self.handles += 1;
        // Of a form that no address of the host's has.
        (1 << 61) + self.handles * 16
    }

    /// A new name: `s0`, `e0`, `k0`, `b0`.
    pub(crate) fn name(&mut self, letter: char) -> String {
        let count = &mut self.named["sekb".find(letter).unwrap_or(0)];
        *count += 1;
        format!("{letter}{}", *count - 1)
    }

    /// Writes down what a real driver would have left undefined. Returns what it is answered with.
    pub(crate) fn violation(&mut self, call: &str, what: &str, code: u32) -> u32 {
        self.violations.push(format!("{call}: {what}"));
        code
    }

    /// Forgets calls, violations, faults and holds, and counts names from zero again. What is open
    /// stays open; but what was left on a device that is lost could not be closed, and goes.
    pub(crate) fn forget(&mut self) {
        if self.faults.has_lost_any() {
            self.retained = [0; DEVICES as usize];
            self.peers.clear();
            self.memory = Memory::new();
            self.streams.clear();
            self.events.clear();
            self.modules.clear();
            self.pools.clear();
            self.products.clear();
            self.functions.clear();
        }
        self.faults = Faults::default();
        self.held = Held::default();
        self.blind.clear();
        self.not_ready = 0;
        self.planted = None;
        self.calls.clear();
        self.counts.clear();
        self.violations.clear();
        self.named = [0; 4];
        self.memory.rename();
    }
}
