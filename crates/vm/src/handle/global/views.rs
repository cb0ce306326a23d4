//! Which global tensors share memory, and which would on one rank.
//!
//! A view of a tensor whose base has to be redistributed for it is a copy. As long as both exist, a
//! change of either would be a change of both on one rank, so it is refused.

use std::sync::{Arc, PoisonError};

use millstream_runtime::sync::{Mutex, OnceLock};

use crate::handle::{Tensor, WeakTensor};

/// The memory of a global tensor, as one rank would have it.
#[derive(Default)]
pub(crate) struct Views {
    /// Shared by the views of one memory, once there are several.
    memory: OnceLock<Arc<Memory>>,
    /// Whether the tensor is a copy of what one rank has a view of, or a view of such a copy.
    is_copy: bool,
}

#[derive(Default)]
struct Memory {
    /// Copies of what one rank has views of.
    copies: Mutex<Vec<WeakTensor>>,
}

impl Views {
    fn memory(&self) -> Arc<Memory> {
        self.memory.get_or_init(Arc::default).clone()
    }

    /// Returns those of a view of this tensor, on the same memory.
    pub(super) fn view(&self) -> Views {
        let view = Views { memory: OnceLock::default(), is_copy: self.is_copy };
        view.memory.get_or_init(|| self.memory());
        view
    }

    /// Returns those of a copy that stands for a view.
    pub(super) fn copy() -> Views {
        Views { memory: OnceLock::default(), is_copy: true }
    }

    /// Notes a copy that stands for a view of this tensor.
    pub(super) fn note(&self, copy: &Tensor) {
        let memory = self.memory();
        let mut copies = memory.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|copy| copy.strong_count() > 0);
        copies.push(copy.weak());
    }

    /// Returns whether a change of the tensor in place would miss others that share its memory on
    /// one rank.
    pub(super) fn is_divided(&self) -> bool {
        let copies = |memory: &Arc<Memory>| {
            let copies = memory.copies.lock().unwrap_or_else(PoisonError::into_inner);
            copies.iter().any(|copy| copy.strong_count() > 0)
        };
        self.is_copy || self.memory.get().is_some_and(copies)
    }
}
