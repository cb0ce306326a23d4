//! Repeated sequences of calls, found and replayed without a hint from the program.
//!
//! # How it works
//! 1. Each call has a *token*: op, arguments, specs, stream and place in the program. A sequence of
//!    tokens that occurs twice is *found* (`repeats`).
//! 2. When it occurs again, its calls are noted, and compiled to an executable: it is *ready*.
//! 3. When it occurs once more, its calls are *held*: the program gets tensors whose memory is yet
//!    to be reserved. With the last call of the sequence, one launch makes them all.
//! 4. If another call comes, or anything that could see whether the held calls were made (a read, a
//!    wait, a host function, another thread's use of their tensors), they are made one by one.
//!
//! What is found and held depends on nothing but the calls, so the list is a function of the
//! program. The idea is Apophenia's (R. Yadav et al., "Automatic Tracing in Task-Based Runtime
//! Systems", ASPLOS 2025), which sorts suffixes of a window of tokens; here repeats are found token
//! by token.
//!
//! | module | holds |
//! |---|---|
//! | `token` | calls as numbers |
//! | `repeats` | the search for repeats |
//! | `sequence` | a sequence's notes and executable |
//! | `held` | the calls held |
//! | `deferred` | the tensors of calls held |
//! | `making` | how the calls held are made |
//! | `entries` | the sequences known, and their bounds |
//! | `report` | counts and reasons |

mod deferred;
mod entries;
mod held;
mod making;
mod repeats;
#[cfg(test)]
mod repeats_tests;
mod report;
mod sequence;
mod token;

use std::sync::{Arc, PoisonError, Weak};

use millstream_instructions::TensorRef;
use millstream_types::{Error, Origin, Result};

use crate::api::handle::Tensor;
use crate::api::machine::Machine;
use crate::emission::{cancel, reentrancy};
use crate::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard, Ordering};

use super::limits::CaptureLimits;
use super::note::Step;
use super::session::{Session, is_active, suspend};

pub(crate) use deferred::Deferred;
pub use report::AutoCaptureReport;

use entries::{Entries, Kind};
use held::Held;
use sequence::Sequence;

/// The state of automatic capture.
pub(crate) struct Auto {
    /// The machine, without automatic capture: what it is asked for is made at once.
    machine: Machine,
    me: Weak<Auto>,
    state: Mutex<State>,
    /// Whether there was a call since the last break.
    has_calls: AtomicBool,
    /// How many calls are held.
    steps: Arc<AtomicU32>,
    /// Whether calls are being noted.
    is_noting: AtomicBool,
    /// The tensors that ended while calls were noted. No other lock is taken under this one, as
    /// tensors end on any thread.
    ended: Mutex<Vec<TensorRef>>,
}

struct State {
    entries: Entries,
    noting: Option<Noting>,
    held: Option<Held>,
    report: AutoCaptureReport,
}

/// A found sequence whose calls are being noted.
struct Noting {
    entry: u64,
    tokens: Arc<[u64]>,
    at: usize,
    session: Session,
    /// The number of the call that is being made, until it has been.
    making: Option<u64>,
}

/// What is to be done about a step.
pub(crate) enum Begun {
    /// It is held: these are its results.
    Held(Vec<Tensor>),
    /// It is to be made. If it is to be noted, [`Auto::end`] wants this number.
    Make(Option<u64>),
}

impl Auto {
    /// Returns the state for a machine, of which it holds `machine`.
    pub(crate) fn new(machine: Machine, limits: CaptureLimits) -> Arc<Auto> {
        Arc::new_cyclic(|me| Auto {
            machine,
            me: me.clone(),
            state: Mutex::new(State {
                entries: Entries::new(limits),
                noting: None,
                held: None,
                report: AutoCaptureReport::default(),
            }),
            has_calls: AtomicBool::new(false),
            steps: Arc::new(AtomicU32::new(0)),
            is_noting: AtomicBool::new(false),
            ended: Mutex::new(Vec::new()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks what is to be done about a step: call it before the step is made.
    ///
    /// # Errors
    /// A call that was held could not be made.
    pub(crate) fn begin(&self, step: &Step<'_>, origin: &Origin) -> Result<Begun> {
        let number = self.machine.shared.tables.machine;
        let is_own = reentrancy::check(number, "").is_err();
        if is_own || reentrancy::check_batch(number).is_err() {
            // The step will be refused.
            return Ok(Begun::Make(None));
        }
        let token = match is_active() || cancel::current().is_some() {
            true => None,
            false => token::token(step, origin),
        };
        let Some(token) = token else {
            self.end_sequence()?;
            return Ok(Begun::Make(None));
        };
        let mut state = self.lock();
        // Release: see `end_sequence`.
        self.has_calls.store(true, Ordering::Release);
        state.report.calls += 1;
        if let Some(results) = self.hold(&mut state, step, origin)? {
            return Ok(Begun::Held(results));
        }
        self.note_token(&mut state, token);
        if state.noting.is_none()
            && let Some(results) = self.start(&mut state, token, step, origin)?
        {
            return Ok(Begun::Held(results));
        }
        let number = state.report.calls;
        let making = state.noting.as_mut().map(|noting| {
            noting.making = Some(number);
            number
        });
        state.entries.observe(token);
        Ok(Begun::Make(making))
    }

    /// Tells the results of a step that is to be noted, by the number that [`Auto::begin`] gave.
    pub(crate) fn end(&self, number: u64, step: &Step<'_>, results: &[Tensor], origin: &Origin) {
        let mut state = self.lock();
        let Some(noting) = &mut state.noting else { return };
        if noting.making != Some(number) {
            return;
        }
        noting.making = None;
        let _own = suspend();
        noting.session.note(step, results, origin);
        if noting.at == noting.tokens.len() {
            self.finish_noting(&mut state);
        }
    }

    /// Makes the calls that are held, and ends all sequences, since something else may see whether
    /// the calls were made.
    ///
    /// # Errors
    /// Why a call could not be made.
    pub(crate) fn end_sequence(&self) -> Result<()> {
        // Acquire: a call that happened before, on any thread, has set this.
        if !self.has_calls.load(Ordering::Acquire) {
            return Ok(());
        }
        let number = self.machine.shared.tables.machine;
        reentrancy::check(number, "using a tensor of a held call")?;
        reentrancy::check_batch(number)?;
        let mut state = self.lock();
        let made = self.make_held(&mut state, "something else than a call");
        self.give_up_noting(&mut state);
        state.entries.break_sequence();
        self.has_calls.store(false, Ordering::Release);
        made
    }

    /// Gives up all sequences, as their memory is wanted. Returns whether there were any.
    pub(crate) fn give_up_all(&self) -> bool {
        let mut state = self.lock();
        let ended = state.entries.take_ready();
        let count = ended.len() as u64;
        state.report.evictions += count;
        if count > 0 {
            state.report.count("given up: other calls need the memory".to_owned());
        }
        drop(state);
        count > 0
    }

    /// Notes the end of a tensor.
    pub(crate) fn ended(&self, tensor: TensorRef) {
        // Relaxed: this thread's own calls are before this in its order, and other threads' ends
        // come at any time.
        if self.is_noting.load(Ordering::Relaxed) {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(tensor);
        }
    }

    /// Returns what was found and replayed so far.
    pub(crate) fn report(&self) -> AutoCaptureReport {
        let state = self.lock();
        let mut report = state.report.clone();
        (report.sequences, report.bytes) = state.entries.size();
        report
    }

    /// Holds a step if it is the next one of the sequence whose calls are held; otherwise makes
    /// these.
    fn hold(
        &self,
        state: &mut State,
        step: &Step<'_>,
        origin: &Origin,
    ) -> Result<Option<Vec<Tensor>>> {
        let Some(held) = &mut state.held else { return Ok(None) };
        let token = held.tokens.get(held.steps()).copied();
        let length = held.tokens.len();
        let is_next = held.is_next(&self.machine, step, origin);
        let is_wanted = || token.is_some_and(|t| state.entries.starts_longer(t, length));
        if !is_next || is_wanted() {
            let reason = if is_next { "a longer sequence is to be noted" } else { "another call" };
            self.make_held(state, reason)?;
            return Ok(None);
        }
        let results = self.hold_next(state, step)?;
        if let Some(token) = token {
            state.observe_held(token);
        }
        Ok(results)
    }

    /// Holds a step, which is the next one. Launches the sequence if it was the last one.
    fn hold_next(&self, state: &mut State, step: &Step<'_>) -> Result<Option<Vec<Tensor>>> {
        let Some(held) = &mut state.held else { return Ok(None) };
        let results = held.hold(step, &self.me, &self.steps)?;
        // Relaxed: read by this thread, or under this lock.
        self.steps.store(held.steps() as u32, Ordering::Relaxed);
        if held.steps() == held.sequence.notes.len() {
            self.replay(state)?;
        }
        Ok(Some(results))
    }

    /// Goes on with the noting of a sequence, or gives it up.
    fn note_token(&self, state: &mut State, token: u64) {
        let Some(noting) = &mut state.noting else { return };
        if noting.making.is_none() && noting.tokens.get(noting.at) == Some(&token) {
            noting.at += 1;
        } else {
            self.give_up_noting(state);
        }
    }

    /// Begins to note or to hold a sequence that begins with this step.
    fn start(
        &self,
        state: &mut State,
        token: u64,
        step: &Step<'_>,
        origin: &Origin,
    ) -> Result<Option<Vec<Tensor>>> {
        let Some(entry) = state.entries.longest_from(token) else { return Ok(None) };
        let (number, tokens) = (entry.number, entry.tokens.clone());
        match &entry.kind {
            Kind::Found => {
                let session = Session::new(&self.machine, &[], &[], Vec::new(), None)?;
                self.ended.lock().unwrap_or_else(PoisonError::into_inner).clear();
                // Relaxed: see `ended`.
                self.is_noting.store(true, Ordering::Relaxed);
                state.noting = Some(Noting { entry: number, tokens, at: 1, session, making: None });
                Ok(None)
            }
            Kind::Ready(sequence) => {
                let mut held = Held::new(number, tokens, sequence.clone());
                if !held.is_next(&self.machine, step, origin) {
                    return Ok(None);
                }
                state.held = Some(held);
                let results = self.hold_next(state, step)?;
                state.observe_held(token);
                Ok(results)
            }
        }
    }

    /// Stops noting.
    fn give_up_noting(&self, state: &mut State) {
        let Some(noting) = state.noting.take() else { return };
        self.is_noting.store(false, Ordering::Relaxed);
        if let Some(reason) = state.entries.fail(noting.entry) {
            state.report.count(reason);
        }
    }

    /// Makes a sequence ready whose calls have all been noted.
    fn finish_noting(&self, state: &mut State) {
        let Some(mut noting) = state.noting.take() else { return };
        self.is_noting.store(false, Ordering::Relaxed);
        let ended = self.ended.lock().map(|mut e| std::mem::take(&mut *e)).unwrap_or_default();
        ended.into_iter().for_each(|tensor| noting.session.end(tensor));
        let sequence = match noting.session.refusal.take() {
            Some(refusal) => Err(refusal.error()),
            None => Sequence::new(&self.machine, &noting.session),
        };
        match sequence {
            Ok(sequence) => {
                let calls = state.report.calls;
                let given_up = state.entries.make_ready(noting.entry, Arc::new(sequence), calls);
                state.report.found += 1;
                state.report.evictions += given_up;
            }
            Err(error) => {
                state.entries.remove(noting.entry);
                state.report.count(format!("not captured: {error}"));
            }
        }
    }
}

impl Drop for Auto {
    /// Makes the calls that are held: tensors of them may live on.
    fn drop(&mut self) {
        let mut state = self.lock();
        // The tensors hold the error.
        let _ = self.make_held(&mut state, "the machine's handle was dropped");
    }
}

/// Whether a call failed for lack of memory.
pub(crate) fn is_out_of_memory(error: &Error) -> bool {
    matches!(error.without_place(), Error::OutOfMemory { .. })
}

impl State {
    /// Adds a token of a call that is held to the search for repeats, unless nothing was found for
    /// long.
    fn observe_held(&mut self, token: u64) {
        self.entries.observe_held(token, self.report.calls);
    }

    fn give_up_all(&mut self) -> bool {
        let ended = self.entries.take_ready();
        self.report.evictions += ended.len() as u64;
        !ended.is_empty()
    }
}
