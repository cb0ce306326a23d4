//! A hold on the critical section.
//!
//! A panic inside an emission leaves it half done, and no thread may continue from there. A panic
//! of the program between two calls of a batch, which keeps its thread in the section, leaves
//! nothing half done. The poison flag of the lock does not distinguish the two, so the guard does.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

use millstream_types::{Error, Result};

use crate::engine::Engine;
use crate::sync::{Mutex, MutexGuard};

/// Access to the engine while its lock is held.
pub struct EngineGuard<'a> {
    engine: MutexGuard<'a, Engine>,
    /// Whether the thread was already panicking when it entered.
    panicking: bool,
    /// Whether no emission is half done at the moment.
    pub between_calls: bool,
}

impl<'a> EngineGuard<'a> {
    /// Waits for the lock.
    ///
    /// # Errors
    /// A panic interrupted an earlier emission.
    #[inline]
    pub(crate) fn enter(engine: &'a Mutex<Engine>) -> Result<EngineGuard<'a>> {
        EngineGuard::from_lock(engine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Wraps the held lock.
    ///
    /// # Errors
    /// As [`EngineGuard::enter`].
    #[inline]
    pub(crate) fn from_lock(mut engine: MutexGuard<'a, Engine>) -> Result<EngineGuard<'a>> {
        if engine.is_broken {
            return Err(broken());
        }
        engine.entries += 1;
        let panicking = std::thread::panicking();
        Ok(EngineGuard { engine, panicking, between_calls: false })
    }
}

#[cold]
fn broken() -> Error {
    Error::Internal { message: "an earlier emission panicked".to_owned() }
}

impl Drop for EngineGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let panicked = !self.panicking && std::thread::panicking();
        self.engine.is_broken |= panicked && !self.between_calls;
    }
}

impl Deref for EngineGuard<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for EngineGuard<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}
