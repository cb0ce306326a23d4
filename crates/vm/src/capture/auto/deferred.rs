//! Tensors of calls that are held.

use std::sync::{Arc, PoisonError, Weak};

use millstream_instructions::TensorRef;
use millstream_types::{Error, Origin, Result};

use crate::api::handle::Tensor;
use crate::sync::{AtomicU32, Mutex, OnceLock, Ordering};

use super::Auto;

/// A tensor that a held call makes: it gets its slot once the call has been made.
pub(crate) struct Deferred {
    auto: Weak<Auto>,
    /// The number of the value among those that the held calls make.
    pub(super) number: u32,
    /// How many calls are held now.
    steps: Arc<AtomicU32>,
    /// The calls that were held when the last handle was dropped, if it has been.
    dropped: Mutex<Option<u32>>,
    tensor: OnceLock<Result<Tensor>>,
}

impl Deferred {
    pub(super) fn new(auto: Weak<Auto>, number: u32, steps: Arc<AtomicU32>) -> Arc<Deferred> {
        let (dropped, tensor) = (Mutex::new(None), OnceLock::default());
        Arc::new(Deferred { auto, number, steps, dropped, tensor })
    }

    /// Returns the slot. Makes the call first, and those held before it, if they are still held.
    ///
    /// # Errors
    /// Why the call could not be made.
    pub(crate) fn tensor_ref(&self) -> Result<TensorRef> {
        if self.tensor.get().is_none()
            && let Some(auto) = self.auto.upgrade()
        {
            let ended = auto.end_sequence();
            if self.tensor.get().is_none() {
                ended?;
            }
        }
        let gone = || Error::Internal { message: "a held call was not made".to_owned() };
        match self.tensor.get() {
            Some(Ok(tensor)) => tensor.resolved(),
            Some(Err(error)) => Err(error.clone()),
            None => Err(gone()),
        }
    }

    /// Whether the call is still held.
    pub(crate) fn is_waiting(&self) -> bool {
        self.tensor.get().is_none()
    }

    /// Notes that the last handle was dropped.
    pub(crate) fn drop_handle(&self) {
        if self.is_waiting() {
            // Relaxed: under the lock of the state, or between two of this thread's calls.
            let steps = self.steps.load(Ordering::Relaxed);
            *self.dropped.lock().unwrap_or_else(PoisonError::into_inner) = Some(steps);
        }
    }

    /// Returns how many calls were held when the last handle was dropped, if it has been.
    pub(super) fn dropped_at(&self) -> Option<u32> {
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the tensor was released by hand: handles may still exist.
    pub(super) fn release(&self, steps: u32) {
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner) = Some(steps);
    }

    /// Ends a tensor that was released by hand, and that no call made for itself.
    pub(super) fn end(&self, released: &Origin) {
        let tensor = "a tensor of a replayed sequence".to_owned();
        // It is set once.
        let _ = self.tensor.set(Err(Error::Released { tensor, released: released.clone() }));
    }

    /// Sets the tensor, or why there is none.
    pub(super) fn set(&self, tensor: Result<Tensor>) {
        let dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        if dropped.is_none() {
            // It is set once: the calls held are made once.
            let _ = self.tensor.set(tensor);
        }
    }
}
