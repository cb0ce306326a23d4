//! What tests see of the stand-in, and how they steer it.
//!
//! The library that a test links with is another copy than the one that the loader finds: tests
//! reach the latter through [`StandIn`], which looks its functions up.

use std::ffi::{CString, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use libloading::{Library, Symbol};

use crate::faults::Fault;
use crate::memory::Kind;
use crate::state::driver;
use crate::stream::is_runnable;
use crate::{DEVICES, code};

/// Takes one line of a list.
type Sink = unsafe extern "C" fn(*mut c_void, *const u8, usize);

/// The stand-in that the loader finds in the driver's place.
pub struct StandIn {
    library: Library,
}

/// A test that has the stand-in for itself: nobody else in the process gets a turn meanwhile.
pub struct Turn<'a> {
    stand_in: &'a StandIn,
    _turn: MutexGuard<'a, ()>,
}

static TURNS: Mutex<()> = Mutex::new(());

/// When and how a call fails.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The driver's function.
    pub call: &'static str,
    /// How many calls of it still go well.
    pub after: u64,
    /// What it answers then, a number of [`code`], or of [`status`](crate::status) for cuBLAS.
    pub code: u32,
    /// How often.
    pub times: u64,
    /// Whether every later call answers the same: the device is lost.
    pub keeps: bool,
}

impl Failure {
    /// The call of `call` after `after` good ones answers `code`, once.
    pub const fn once(call: &'static str, after: u64, code: u32) -> Failure {
        Failure { call, after, code, times: 1, keeps: false }
    }

    /// As [`Failure::once`], and the device is lost from then on.
    pub const fn lost(call: &'static str, after: u64, code: u32) -> Failure {
        Failure { call, after, code, times: 1, keeps: true }
    }
}

impl StandIn {
    /// The library that the loader finds under the driver's name.
    ///
    /// # Errors
    /// It finds none, or another than the stand-in: a real driver, say.
    pub fn load() -> Result<StandIn> {
        // SAFETY: loading the stand-in runs nothing; a real driver's library may be loaded by
        // anyone at any time.
        let library = unsafe { Library::new("libcuda.so.1") }
            .context("no libcuda.so.1: tests with the stand-in are run by `cargo test`")?;
        let stand_in = StandIn { library };
        ensure!(
            stand_in.symbol::<extern "C" fn()>("standin_forget").is_ok(),
            "the loader finds a libcuda.so.1 that is not the stand-in; run the test by `cargo test`"
        );
        Ok(stand_in)
    }

    fn symbol<T>(&self, name: &str) -> Result<Symbol<'_, T>> {
        // SAFETY: the callers below name the functions of this file by their types.
        unsafe { self.library.get(name.as_bytes()) }.with_context(|| format!("no {name}"))
    }

    fn number(&self, name: &str, argument: &str) -> u64 {
        type Function = extern "C" fn(*const c_char) -> u64;
        let argument = CString::new(argument).expect("names have no zeros");
        self.symbol::<Function>(name).expect("the stand-in has it")(argument.as_ptr())
    }

    fn list(&self, name: &str) -> Vec<String> {
        unsafe extern "C" fn take(to: *mut c_void, text: *const u8, length: usize) {
            // SAFETY: `list` hands over its vector, and the stand-in a text of that length.
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

    /// Waits until the stand-in is the caller's alone, and starts afresh: no calls, violations,
    /// faults or holds. Devices that are open stay open.
    pub fn turn(&self) -> Turn<'_> {
        let turn = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        self.number("standin_forget", "");
        Turn { stand_in: self, _turn: turn }
    }

    /// What was done that a real driver leaves undefined.
    pub fn violations(&self) -> Vec<String> {
        self.list("standin_violations")
    }

    /// The calls so far, oldest first, each with its arguments or its error.
    pub fn calls(&self) -> Vec<String> {
        self.list("standin_calls")
    }

    /// How often the driver's function `call` was called.
    pub fn count(&self, call: &str) -> u64 {
        self.number("standin_count", call)
    }

    /// How many there are of `what`: `streams`, `events`, `modules`, `pools`, `products` (handles of
    /// cuBLAS), `device bytes`, `pinned bytes`, `contexts`.
    pub fn open(&self, what: &str) -> u64 {
        self.number("standin_open", what)
    }
}

impl Turn<'_> {
    /// Has a call fail.
    pub fn fail(&self, failure: Failure) {
        type Function = extern "C" fn(*const c_char, u64, u32, u64, bool);
        let call = CString::new(failure.call).expect("names have no zeros");
        let plan = self.symbol::<Function>("standin_fail").expect("the stand-in has it");
        plan(call.as_ptr(), failure.after, failure.code, failure.times, failure.keeps);
    }

    /// Loses one device, and no other: its calls answer `code` from now on, and nothing of it runs any
    /// more. Streams of other devices that wait for its records go on if it `lets_go`, and else stand
    /// still for good: no real driver says which.
    pub fn lose(&self, device: u32, code: u32, lets_go: bool) {
        self.number("standin_lose", &format!("{device} {code} {}", u32::from(lets_go)));
    }

    /// Calls that were to fail and have not been made yet do not. A device that is lost stays so.
    pub fn heal(&self) {
        self.number("standin_heal", "");
    }

    /// Holds all streams, those to come included: nothing runs but by [`Turn::step`].
    pub fn hold(&self) -> Hold<'_> {
        self.number("standin_hold", "*");
        Hold(self)
    }

    /// Holds one stream, by its name in the list of calls, also one that is yet to be opened.
    pub fn stall(&self, stream: &str) -> Hold<'_> {
        self.number("standin_hold", stream);
        Hold(self)
    }

    /// Has the newest stream that can run its next command do so, and waits until it has. Returns
    /// whether there was one.
    pub fn step(&self) -> bool {
        self.number("standin_step", "") != 0
    }

    /// Until the turn after this, kernels are compiled with `to` in place of `from`: a mistake, to see that
    /// it is found.
    pub fn plant(&self, from: &str, to: &str) {
        self.number("standin_plant", &format!("{from}\x01{to}"));
    }

    /// Device `by` cannot use device `of`'s memory until the turn ends.
    pub fn blind(&self, by: u32, of: u32) {
        self.number("standin_blind", &format!("{by} {of}"));
    }

    /// The next `queries` queries answer "not ready", whatever is true.
    pub fn not_ready(&self, queries: u64) {
        self.number("standin_not_ready", &queries.to_string());
    }
}

/// Streams that are held until this is dropped. Kept below what waits for them, so that it goes
/// first however a test ends.
#[must_use]
pub struct Hold<'a>(&'a StandIn);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.number("standin_go", "");
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

// The other side: functions of the library that the loader found.

fn name_of(name: *const c_char) -> String {
    // SAFETY: `StandIn` hands over texts that end with a zero.
    unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

#[unsafe(no_mangle)]
extern "C" fn standin_forget(_: *const c_char) -> u64 {
    driver().lock().forget();
    driver().moved.notify_all();
    0
}

fn tell(lines: Vec<String>, to: *mut c_void, sink: Sink) {
    for line in lines {
        // SAFETY: `StandIn` hands over a sink and what it writes to.
        unsafe { sink(to, line.as_ptr(), line.len()) };
    }
}

#[unsafe(no_mangle)]
extern "C" fn standin_calls(to: *mut c_void, sink: Sink) {
    let calls = driver().lock().calls.iter().cloned().collect();
    tell(calls, to, sink);
}

#[unsafe(no_mangle)]
extern "C" fn standin_violations(to: *mut c_void, sink: Sink) {
    let violations = driver().lock().violations.clone();
    tell(violations, to, sink);
}

#[unsafe(no_mangle)]
extern "C" fn standin_count(call: *const c_char) -> u64 {
    driver().lock().counts.get(&*name_of(call)).copied().unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn standin_open(what: *const c_char) -> u64 {
    let state = driver().lock();
    let devices = (0..DEVICES).map(|device| state.memory.in_use(Kind::Device(device)));
    match &*name_of(what) {
        "streams" => state.streams.values().filter(|s| !s.closed).count() as u64,
        "events" => state.events.values().filter(|e| !e.gone).count() as u64,
        "pools" => state.pools.len() as u64,
        "modules" => state.modules.len() as u64,
        "products" => state.products.len() as u64,
        "device bytes" => devices.sum(),
        "pinned bytes" => state.memory.in_use(Kind::Pinned),
        "contexts" => state.retained.iter().sum(),
        _ => u64::MAX,
    }
}

#[unsafe(no_mangle)]
extern "C" fn standin_fail(call: *const c_char, after: u64, code: u32, times: u64, keeps: bool) {
    let fault = Fault { call: name_of(call), after, code, times, keeps };
    driver().lock().faults.planned.push(fault);
}

#[unsafe(no_mangle)]
extern "C" fn standin_lose(what: *const c_char) -> u64 {
    let what = name_of(what);
    let numbers: Vec<u32> = what.split(' ').filter_map(|number| number.parse().ok()).collect();
    let [device, code, lets_go] = numbers[..] else { return 0 };
    let mut state = driver().lock();
    state.faults.lost_devices.insert(device, code);
    if lets_go != 0 {
        let of = state.events.values_mut().filter(|event| event.device == device);
        of.for_each(|event| event.outstanding.clear());
    }
    driver().moved.notify_all();
    1
}

#[unsafe(no_mangle)]
extern "C" fn standin_heal(_: *const c_char) -> u64 {
    driver().lock().faults.planned.clear();
    0
}

#[unsafe(no_mangle)]
extern "C" fn standin_hold(stream: *const c_char) -> u64 {
    let name = name_of(stream);
    let mut state = driver().lock();
    if name == "*" {
        state.held.all = true;
        return 1;
    }
    state.held.streams.insert(name).into()
}

#[unsafe(no_mangle)]
extern "C" fn standin_go(_: *const c_char) -> u64 {
    driver().lock().held = Default::default();
    driver().moved.notify_all();
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
    *state.held.permits.entry(handle).or_default() += 1;
    driver().moved.notify_all();
    let is_lost = |lost: Option<u32>| lost.is_some_and(|code| code != code::SUCCESS);
    while state.streams.get(&handle).is_some_and(|s| s.completed == before)
        && !is_lost(state.faults.lost)
    {
        state = driver().wait(state);
    }
    1
}

#[unsafe(no_mangle)]
extern "C" fn standin_plant(mistake: *const c_char) -> u64 {
    let mistake = name_of(mistake);
    let both = mistake.split_once('\x01').map(|(from, to)| (from.to_owned(), to.to_owned()));
    driver().lock().planted = both;
    0
}

#[unsafe(no_mangle)]
extern "C" fn standin_not_ready(queries: *const c_char) -> u64 {
    driver().lock().not_ready = name_of(queries).parse().unwrap_or(0);
    0
}

#[unsafe(no_mangle)]
extern "C" fn standin_blind(pair: *const c_char) -> u64 {
    let pair = name_of(pair);
    let parsed = pair.split_once(' ').map(|(by, of)| (by.parse(), of.parse()));
    let Some((Ok(by), Ok(of))) = parsed else { return 0 };
    driver().lock().blind.insert((by, of)).into()
}
