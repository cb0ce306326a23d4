//! The place of a tensor's gradient.

use std::sync::{Arc, PoisonError};

use millstream_runtime::sync::{Mutex, OnceLock};
use millstream_types::Sharding;

use crate::handle::Tensor;

/// The place of a tensor's gradient.
#[derive(Default)]
pub(crate) struct Leaf {
    /// How the ranks of a mesh hold the tensor, and its gradient; `None` for a tensor of one rank.
    pub(crate) sharding: Option<Arc<Sharding>>,
    gradient: Mutex<Option<Tensor>>,
}

/// Holds a leaf, once a tensor is one.
pub(crate) type LeafSlot = OnceLock<Arc<Leaf>>;

impl Leaf {
    /// Returns the place of a tensor's gradient.
    pub(crate) fn of(tensor: &Tensor) -> Leaf {
        let sharding = tensor.global().map(|global| global.sharding.clone());
        Leaf { sharding, ..Leaf::default() }
    }

    /// Returns the gradient.
    pub(crate) fn held(&self) -> Option<Tensor> {
        self.gradient.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes the gradient out of the leaf if it is this one, and nobody else has it but the caller.
    pub(crate) fn take_from(&self, tensor: &Tensor) -> bool {
        let mut own = self.gradient.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = own.as_ref().is_some_and(|own| own.is_same(tensor));
        // The caller's, so that the tensor does not end here.
        let is_taken = is_own && tensor.holders() == Some(2);
        if is_taken {
            *own = None;
        }
        is_taken
    }

    /// Replaces the gradient.
    pub(crate) fn hold(&self, gradient: Option<Tensor>) {
        let former = {
            let mut own = self.gradient.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *own, gradient)
        };
        // Outside the lock, as a tensor ends.
        drop(former);
    }
}
