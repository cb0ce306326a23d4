//! Being in the critical section.
//!
//! A panic in the midst of an emission leaves it half done, and nobody may go on from there. A panic
//! of the program's own, while a batch keeps its thread in the section between two calls, leaves
//! nothing half done. The lock's own poison does not tell one from the other, so this notes which it
//! was.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use millstream_types::{Error, Result};

use crate::emission::Emission;
use crate::sync::{Mutex, MutexGuard};

/// The emission, as long as its lock is held.
pub(crate) struct EmissionGuard<'a> {
    emission: MutexGuard<'a, Emission>,
    /// Whether the thread was panicking already when it came in.
    panicking: bool,
    /// Whether nothing is half done now.
    pub(crate) between_calls: bool,
}

impl<'a> EmissionGuard<'a> {
    /// Waits for the lock.
    ///
    /// # Errors
    /// An earlier emission was left half done.
    pub(crate) fn enter(emission: &'a Mutex<Emission>) -> Result<EmissionGuard<'a>> {
        EmissionGuard::from_lock(emission.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// With the lock held.
    ///
    /// # Errors
    /// As [`EmissionGuard::enter`].
    pub(crate) fn from_lock(emission: MutexGuard<'a, Emission>) -> Result<EmissionGuard<'a>> {
        if emission.is_broken {
            return Err(Error::Internal { message: "an earlier emission panicked".to_owned() });
        }
        let panicking = std::thread::panicking();
        Ok(EmissionGuard { emission, panicking, between_calls: false })
    }
}

impl Drop for EmissionGuard<'_> {
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
