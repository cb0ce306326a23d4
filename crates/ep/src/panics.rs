//! Turns a panic of work into its error.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::device::{Work, WorkResult};

/// The error of work that panicked. The layers above find it in the work's error with
/// `downcast_ref`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// The panic's message.
    pub message: String,
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.message)
    }
}

impl std::error::Error for Panicked {}

/// Runs `work` on `native`. A panic becomes a [`Panicked`] error.
///
/// # Errors
/// The work's error, or [`Panicked`].
pub fn run_catching_panic(work: &mut dyn Work, native: &dyn Any) -> WorkResult {
    catch_panic(|| work.run(native))
}

/// Calls `work`. A panic becomes a [`Panicked`] error.
///
/// # Errors
/// The work's error, or [`Panicked`].
pub fn catch_panic<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    // Work is called once and dropped after a panic, so no code sees its half-changed state.
    let outcome = catch_unwind(AssertUnwindSafe(work));
    outcome.unwrap_or_else(|payload| Err(Panicked { message: message_of(&*payload) }.into()))
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a value that is not text".to_owned()
    }
}
