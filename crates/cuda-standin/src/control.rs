//! Observation and control of the stand-in by tests.
//!
//! A test links with one copy of this library, and the loader finds another. [`StandIn`] looks up
//! the functions of the second copy, which the CUDA backend calls.

use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use libloading::{Library, Symbol};

use crate::faults::Fault;
use crate::memory::MemoryKind;
use crate::state::driver;
use crate::stream::is_runnable;
use crate::{DEVICES, code};

/// Receives one line of a list.
type Sink = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// The stand-in that the loader finds under the driver's name.
pub struct StandIn {
    library: Library,
}

/// Exclusive use of the stand-in: no other test of the process has a turn meanwhile.
pub struct Turn<'a> {
    stand_in: &'a StandIn,
    _turn: MutexGuard<'a, ()>,
}

static TURNS: Mutex<()> = Mutex::new(());

/// A planned failure of a call.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The function of the driver or of cuBLAS.
    pub call: &'static str,
    /// The number of calls that still succeed before.
    pub after: u64,
    /// The error code: a number of [`code`], or of [`status`](crate::status) for cuBLAS.
    pub code: u32,
    /// The number of failing calls.
    pub times: u64,
    /// Whether every later call fails with the same code: the device is lost.
    pub loses_device: bool,
}

impl Failure {
    /// Plans one failure of `call` with `code`, after `after` successful calls.
    pub const fn once(call: &'static str, after: u64, code: u32) -> Failure {
        Failure { call, after, code, times: 1, loses_device: false }
    }

    /// Does as [`Failure::once`], and the device is lost from then on.
    pub const fn lost(call: &'static str, after: u64, code: u32) -> Failure {
        Failure { call, after, code, times: 1, loses_device: true }
    }
}

impl StandIn {
    /// Loads the library that the loader finds under the driver's name.
    ///
    /// # Errors
    /// The loader finds none, or another library than the stand-in: a real driver, for example.
    pub fn load() -> Result<StandIn> {
        // SAFETY: loading the stand-in runs no code; a real driver's library may be loaded at any
        // time.
        let library = unsafe { Library::new("libcuda.so.1") }
            .context("no libcuda.so.1: run tests with the stand-in by `cargo test`")?;
        let stand_in = StandIn { library };
        ensure!(
            stand_in.symbol::<extern "C" fn()>("standin_reset").is_ok(),
            "the loader finds a libcuda.so.1 that is not the stand-in; run the test by `cargo test`"
        );
        Ok(stand_in)
    }

    fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>> {
        // SAFETY: the callers below use the types of the functions at the end of this file.
        unsafe { self.library.get(name.as_bytes()) }.with_context(|| format!("no {name}"))
    }

    fn number(&self, name: &str, argument: &str) -> u64 {
        type Function = extern "C" fn(*const c_char) -> u64;
        let argument = CString::new(argument).expect("names have no zeros");
        self.symbol::<Function>(name).expect("the stand-in has it")(argument.as_ptr())
    }

    fn list(&self, name: &str) -> Vec<String> {
        unsafe extern "C" fn take(to: *mut c_void, text: *const u8, length: usize) {
            // SAFETY: `list` passes its vector, and the stand-in a text of that length.
            let (to, text) = unsafe {
                (&mut *to.cast::<Vec<String>>(), std::slice::from_raw_parts(text, length))
            };
            to.push(String::from_utf8_lossy(text).into_owned());
        }
        let mut lines: Vec<String> = Vec::new();
        let function = self.symbol::<extern "C" fn(*mut c_void, Sink)>(name);
        function.expect("the stand-in has it")((&raw mut lines).cast(), take);
        lines
    }

    /// Waits for exclusive use of the stand-in and resets it: no calls, violations, faults or
    /// holds. Open devices stay open.
    pub fn turn(&self) -> Turn<'_> {
        let turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        self.number("standin_reset", "");
        Turn { stand_in: self, _turn: turn }
    }

    /// Returns the violations: calls whose behaviour a real driver leaves undefined.
    pub fn violations(&self) -> Vec<String> {
        self.list("standin_violations")
    }

    /// Returns the calls so far, oldest first, each with its arguments or its error.
    pub fn calls(&self) -> Vec<String> {
        self.list("standin_calls")
    }

    /// Returns the number of calls of the driver's function `call`.
    pub fn count(&self, call: &str) -> u64 {
        self.number("standin_count", call)
    }

    /// Returns the number of open objects of a kind: `streams`, `events`, `modules`, `memory
    /// pools`, `graphs`, `executable graphs`, `cublas handles`, `device bytes`, `pinned bytes`,
    /// `contexts`.
    pub fn open(&self, what: &str) -> u64 {
        self.number("standin_open", what)
    }
}

impl Turn<'_> {
    /// Plans the failure of a call.
    pub fn fail(&self, failure: Failure) {
        type Function = extern "C" fn(*const c_char, u64, u32, u64, bool);
        let call = CString::new(failure.call).expect("names have no zeros");
        let plan = self.symbol::<Function>("standin_fail").expect("the stand-in has it");
        plan(call.as_ptr(), failure.after, failure.code, failure.times, failure.loses_device);
    }

    /// Loses one device: its calls fail with `code` from now on, and none of its commands runs any
    /// more. Streams of other devices that wait for its records continue if `releases_waiters`, and
    /// stall for good otherwise: no real driver documents which.
    pub fn lose(&self, device: u32, code: u32, releases_waiters: bool) {
        self.number("standin_lose", &format!("{device} {code} {}", u32::from(releases_waiters)));
    }

    /// Cancels the planned failures. A lost device stays lost.
    pub fn cancel_failures(&self) {
        self.number("standin_cancel_failures", "");
    }

    /// Holds all streams, including later ones: commands run only by [`Turn::step`].
    pub fn hold(&self) -> Hold<'_> {
        self.number("standin_hold", "*");
        Hold(self)
    }

    /// Holds one stream, by its name in the list of calls. The stream need not exist yet.
    pub fn hold_stream(&self, stream: &str) -> Hold<'_> {
        self.number("standin_hold", stream);
        Hold(self)
    }

    /// Runs the next command of the newest runnable stream, and waits until it has run. Returns
    /// whether there was such a stream.
    pub fn step(&self) -> bool {
        self.number("standin_step", "") != 0
    }

    /// Replaces `from` by `to` in the source of kernels until the next turn: a planted defect that
    /// tests must detect.
    pub fn mutate_source(&self, from: &str, to: &str) {
        self.number("standin_mutate_source", &format!("{from}\x01{to}"));
    }

    /// Makes device `by` unable to access the memory of device `of` until the turn ends.
    pub fn deny_peer_access(&self, by: u32, of: u32) {
        self.number("standin_deny_peer_access", &format!("{by} {of}"));
    }

    /// Makes the next `queries` queries return "not ready", regardless of the state.
    pub fn not_ready(&self, queries: u64) {
        self.number("standin_not_ready", &queries.to_string());
    }
}

/// Held streams. Dropping the value releases them. A test declares it after the values that wait
/// for the streams, so that it is dropped first.
#[must_use]
pub struct Hold<'a>(&'a StandIn);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.number("standin_release", "");
    }
}

impl std::ops::Deref for Turn<'_> {
    type Target = StandIn;
    fn deref(&self) -> &StandIn {
        self.stand_in
    }
}

impl std::fmt::Debug for StandIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StandIn").field("violations", &self.violations()).finish_non_exhaustive()
    }
}

// The functions that `StandIn` looks up, in the copy that the loader finds.

fn name_of(name: *const c_char) -> String {
    // SAFETY: `StandIn` passes texts that end with a zero.
    unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

#[unsafe(no_mangle)]
extern "C" fn standin_reset(_: *const c_char) -> u64 {
    driver().lock().reset();
    driver().announce();
    0
}

fn send_lines(lines: Vec<String>, to: *mut c_void, sink: Sink) {
    for line in lines {
        // SAFETY: `StandIn` passes a sink and its target.
        unsafe { sink(to, line.as_ptr(), line.len()) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn standin_calls(to: *mut c_void, sink: Sink) {
    let calls = driver().lock().calls.iter().cloned().collect();
    send_lines(calls, to, sink);
}

#[unsafe(no_mangle)]
extern "C" fn standin_violations(to: *mut c_void, sink: Sink) {
    let violations = driver().lock().violations.clone();
    send_lines(violations, to, sink);
}

#[unsafe(no_mangle)]
extern "C" fn standin_count(call: *const c_char) -> u64 {
    driver().lock().counts.get(&*name_of(call)).copied().unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn standin_open(what: *const c_char) -> u64 {
    let state = driver().lock();
    let devices = (0..DEVICES).map(|device| state.memory.in_use(MemoryKind::Device(device)));
    match &*name_of(what) {
        "streams" => state.streams.values().filter(|s| !s.closed).count() as u64,
        "events" => state.events.values().filter(|e| !e.destroyed).count() as u64,
        "memory pools" => state.pools.len() as u64,
        "modules" => state.modules.len() as u64,
        "graphs" => state.graphs.len() as u64,
        "executable graphs" => state.graph_execs.len() as u64,
        "cublas handles" => state.cublas_handles.len() as u64,
        "device bytes" => devices.sum(),
        "pinned bytes" => state.memory.in_use(MemoryKind::Pinned),
        "contexts" => state.retained.iter().sum(),
        _ => u64::MAX,
    }
}

#[unsafe(no_mangle)]
extern "C" fn standin_fail(
    call: *const c_char,
    after: u64,
    code: u32,
    times: u64,
    loses_device: bool,
) {
    let fault = Fault { call: name_of(call), after, code, times, loses_device };
    driver().lock().faults.planned.push(fault);
}

#[unsafe(no_mangle)]
extern "C" fn standin_lose(what: *const c_char) -> u64 {
    let what = name_of(what);
    let numbers: Vec<u32> = what.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [device, code, releases_waiters] = numbers[..] else { return 0 };
    let mut state = driver().lock();
    state.faults.lost_devices.insert(device, code);
    if releases_waiters != 0 {
        let own = state.events.values_mut().filter(|event| event.device == device);
        own.for_each(|event| event.outstanding.clear());
    }
    driver().announce_and_unlock(state);
    1
}

#[unsafe(no_mangle)]
extern "C" fn standin_cancel_failures(_: *const c_char) -> u64 {
    driver().lock().faults.planned.clear();
    0
}

#[unsafe(no_mangle)]
extern "C" fn standin_hold(stream: *const c_char) -> u64 {
    let name = name_of(stream);
    let mut state = driver().lock();
    if name == "*" {
        state.holds.all = true;
        return 1;
    }
    state.holds.streams.insert(name).into()
}

#[unsafe(no_mangle)]
extern "C" fn standin_release(_: *const c_char) -> u64 {
    driver().lock().holds = Default::default();
    driver().announce();
    0
}

#[unsafe(no_mangle)]
extern "C" fn standin_step(_: *const c_char) -> u64 {
    let mut state = driver().lock();
    let handles: Vec<u64> = state.streams.keys().rev().copied().collect();
    let Some(handle) = handles.into_iter().find(|&handle| is_runnable(&state, handle)) else {
        return 0;
    };
    let before = state.streams[&handle].completed;
    *state.holds.permits.entry(handle).or_default() += 1;
    driver().announce_and_unlock(state);
    let mut state = driver().lock();
    let is_lost = |lost: Option<u32>| lost.is_some_and(|code| code != code::SUCCESS);
    while state.streams.get(&handle).is_some_and(|s| s.completed == before)
        && !is_lost(state.faults.lost)
    {
        state = driver().wait(state);
    }
    1
}

#[unsafe(no_mangle)]
extern "C" fn standin_mutate_source(mistake: *const c_char) -> u64 {
    let mistake = name_of(mistake);
    let both = mistake.split_once('\x01').map(|(from, to)| (from.to_owned(), to.to_owned()));
    driver().lock().source_mutation = both;
    0
}

#[unsafe(no_mangle)]
extern "C" fn standin_not_ready(queries: *const c_char) -> u64 {
    driver().lock().not_ready = name_of(queries).parse().unwrap_or(0);
    0
}

#[unsafe(no_mangle)]
extern "C" fn standin_deny_peer_access(pair: *const c_char) -> u64 {
    let pair = name_of(pair);
    let parsed = pair.split_once(' ').map(|(by, of)| (by.parse(), of.parse()));
    let Some((Ok(by), Ok(of))) = parsed else { return 0 };
    driver().lock().denied_peer_access.insert((by, of)).into()
}
