//! The guard that code of the program runs behind: kernels, functions, schemas, policies, wakers,
//! and the drops of what they own.
//!
//! # Rules
//! 1. Code of the program that the machine calls on its own threads, or under a lock, runs within
//!    [`catch_panic`]. Its panic becomes an error of the call that caused it.
//! 2. Code that the program's own thread calls without a lock may unwind to its caller.
//! 3. A panic that nothing else catches ends its worker, which fails the machine's waiters.

use std::any::Any;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::Error;

/// The error of code that panicked. The layers above find it in the error of work with
/// `downcast_ref`.
///
/// ```
/// # use millstream_types::*;
/// let panicked = catch_panic(|| -> Result<(), Panicked> { panic!("no disk") }).unwrap_err();
/// assert_eq!(panicked.to_string(), "panicked: no disk");
/// ```
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

#[expect(
    clippy::from_over_into,
    reason = "by a second From, `?` in closures has no one error type"
)]
impl Into<Error> for Panicked {
    fn into(self) -> Error {
        Error::Panicked(self)
    }
}

/// Calls `work`. Its panic becomes its error.
///
/// ```
/// # use millstream_types::*;
/// let error = catch_panic(|| -> Result<usize> { panic!("no disk") }).unwrap_err();
/// assert!(matches!(error, Error::Panicked(_)));
/// ```
///
/// # Errors
/// The work's error, or [`Panicked`].
#[inline]
pub fn catch_panic<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E>
where
    Panicked: Into<E>,
{
    // Work is called once and dropped after a panic, so no code sees its half-changed state.
    let outcome = catch_unwind(AssertUnwindSafe(work));
    outcome.unwrap_or_else(|payload| Err(Panicked { message: message_of(payload) }.into()))
}

/// Calls `work` as [`catch_panic`] does, for work that has no result, such as a drop.
///
/// ```
/// # use millstream_types::*;
/// assert_eq!(catch_unit(|| panic!("still open")).unwrap_err().message, "still open");
/// ```
///
/// # Errors
/// [`Panicked`].
#[inline]
pub fn catch_unit(work: impl FnOnce()) -> Result<(), Panicked> {
    catch_panic(|| {
        work();
        Ok(())
    })
}

/// A value of the program that the machine owns. A panic of its drop ends there: nothing is left
/// that could fail.
///
/// ```
/// # use millstream_types::panics::Guarded;
/// let name = Guarded::new("disk".to_owned());
/// assert_eq!(name.len(), 4);
/// ```
#[derive(Debug)]
pub struct Guarded<T>(Option<T>);

impl<T> Guarded<T> {
    /// Owns `value`.
    pub const fn new(value: T) -> Guarded<T> {
        Guarded(Some(value))
    }
}

impl<T> Deref for Guarded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap_or_else(|| unreachable!("only the drop takes the value"))
    }
}

impl<T> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().unwrap_or_else(|| unreachable!("only the drop takes the value"))
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        let _ = catch_unit(|| drop(self.0.take()));
    }
}

#[cold]
fn message_of(payload: Box<dyn Any + Send>) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        // It is a value of the program, whose drop may panic again.
        std::mem::forget(payload);
        "a value that is not text".to_owned()
    }
}
