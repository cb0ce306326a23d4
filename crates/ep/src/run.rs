//! Runs work so that its panic becomes its error.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::device::{Work, WorkResult};

/// A piece of work panicked. The layers above find it with `downcast_ref` in the work's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// What the panic said.
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
/// The work's own, or [`Panicked`].
pub fn run_caught(work: &mut dyn Work, native: &dyn Any) -> WorkResult {
    caught(|| work.run(native))
}

/// Calls `work`. A panic becomes a [`Panicked`] error.
///
/// # Errors
/// The work's own, or [`Panicked`].
pub fn caught<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    // Work is called once and dropped after a panic, so nobody sees what the panic left half done.
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
