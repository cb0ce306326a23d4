//! A hold on the critical section.
//!
//! A panic inside an emission leaves it half done, and no thread may continue from there. A panic
//! of the program between two calls of a batch, which keeps its thread in the section, leaves
//! nothing half done. The poison flag of the lock does not distinguish the two, so the guard does.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use millstream_types::{Error, Result};

use crate::emission::Emission;
use crate::sync::{Mutex, MutexGuard};

/// Access to the emission while its lock is held.
pub struct EmissionGuard<'a> {
    emission: MutexGuard<'a, Emission>,
    /// Whether the thread was already panicking when it entered.
    panicking: bool,
    /// Whether no emission is half done at the moment.
    pub between_calls: bool,
}

impl<'a> EmissionGuard<'a> {
    /// Waits for the lock.
    ///
    /// # Errors
    /// A panic interrupted an earlier emission.
    #[inline]
    pub(crate) fn enter(emission: &'a Mutex<Emission>) -> Result<EmissionGuard<'a>> {
        EmissionGuard::from_lock(emission.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Wraps the held lock.
    ///
    /// # Errors
    /// As [`EmissionGuard::enter`].
    #[inline]
    pub(crate) fn from_lock(mut emission: MutexGuard<'a, Emission>) -> Result<EmissionGuard<'a>> {
        if emission.is_broken {
            return Err(broken());
        }
        emission.entries += 1;
        let panicking = std::thread::panicking();
        Ok(EmissionGuard { emission, panicking, between_calls: false })
    }
}

#[cold]
fn broken() -> Error {
    Error::Internal { message: "an earlier emission panicked".to_owned() }
}

impl Drop for EmissionGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let panicked = !self.panicking && std::thread::panicking();
        self.emission.is_broken |= panicked && !self.between_calls;
    }
}

impl Deref for EmissionGuard<'_> {
    type Target = Emission;

    fn deref(&self) -> &Emission {
        &self.emission
    }
}

impl DerefMut for EmissionGuard<'_> {
    fn deref_mut(&mut self) -> &mut Emission {
        &mut self.emission
    }
}
