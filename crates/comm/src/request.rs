//! Requests: calls that were started and complete later.
//!
//! # Rules
//! 1. The backend holds the [`Completer`], the kernel the [`Request`]. The outcome is given once.
//! 2. A function that [`Request::then`] registers runs once: on the thread that completes the
//!    request, or on that of `then` if the request has completed before. No lock is held meanwhile.
//! 3. A completer that is dropped completes its request with an error, so nobody waits for ever.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::buffer::Buffer;
use crate::error::CommError;

/// The buffers that a rank gets, in the order of [`Call::expected`](crate::Call::expected); or why
/// it gets none.
pub type Outcome = Result<Vec<Buffer>, CommError>;

type Then = Box<dyn FnOnce(Outcome) + Send>;

enum State {
    Pending,
    /// Pending, with the function that gets the outcome.
    Awaited(Then),
    Done(Outcome),
    /// The outcome was passed on.
    Taken,
}

/// A started call.
#[must_use = "the outcome of a request that nobody asks is lost"]
pub struct Request {
    state: Arc<Mutex<State>>,
}

/// The backend's half of a request.
pub struct Completer {
    state: Option<Arc<Mutex<State>>>,
}

/// Returns a request and its completer.
pub fn request() -> (Request, Completer) {
    let state = Arc::new(Mutex::new(State::Pending));
    (Request { state: state.clone() }, Completer { state: Some(state) })
}

impl Request {
    /// Returns a request that has completed.
    pub fn completed(outcome: Outcome) -> Request {
        Request { state: Arc::new(Mutex::new(State::Done(outcome))) }
    }

    /// Returns the outcome, if the request has completed; never blocks.
    pub fn test(&self) -> Option<Outcome> {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Done(outcome) => Some(outcome.clone()),
            State::Pending | State::Awaited(_) | State::Taken => None,
        }
    }

    /// Passes the outcome to a function, once there is one.
    pub fn then(self, f: impl FnOnce(Outcome) + Send + 'static) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(outcome) => {
                drop(state);
                f(outcome);
            }
            State::Pending | State::Awaited(_) | State::Taken => {
                *state = State::Awaited(Box::new(f));
            }
        }
    }
}

impl Completer {
    /// Completes the request.
    pub fn complete(mut self, outcome: Outcome) {
        self.give(outcome);
    }

    fn give(&mut self, outcome: Outcome) {
        let Some(state) = self.state.take() else { return };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Awaited(then) => {
                drop(state);
                then(outcome);
            }
            State::Pending => *state = State::Done(outcome),
            State::Done(_) | State::Taken => unreachable!("a completer completes once"),
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        if self.state.is_some() {
            self.give(Err(CommError::new("the communicator has given the call up")));
        }
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completer").finish_non_exhaustive()
    }
}
