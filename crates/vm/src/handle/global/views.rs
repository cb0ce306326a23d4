//! Which global tensors share memory, and which would on one rank.
//!
//! A view of a tensor whose base has to be redistributed for it is a copy. As long as both exist, a
//! change of either would be a change of both on one rank, so it is refused.

use std::sync::atomic::{AtomicBool, Ordering};
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
pub(super) struct Memory {
    /// Copies of what one rank has views of.
    copies: Mutex<Vec<WeakTensor>>,
    /// Whether a call has changed it.
    is_changed: AtomicBool,
}

/// The memories of a list, each with that of a launch.
pub(super) type Memories = Vec<(Arc<Memory>, Arc<Memory>)>;

impl Memory {
    pub(super) fn note(&self, copy: &Tensor) {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.retain(|copy| copy.strong_count() > 0);
        copies.push(copy.weak());
    }

    /// Returns whether a tensor is a copy of what one rank has a view of.
    pub(super) fn has(&self, copy: &Tensor) -> bool {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.iter().any(|of| std::ptr::addr_eq(of.as_ptr(), copy.weak().as_ptr()))
    }
}

impl Views {
    pub(super) fn memory(&self) -> Arc<Memory> {
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

    /// Returns those of a launch's tensor from its list's, which are these.
    pub(super) fn launched(&self, memories: &mut Memories) -> Views {
        let of_list = self.memory();
        let known = memories.iter().find(|(of, _)| Arc::ptr_eq(of, &of_list));
        let memory = known.map_or_else(Arc::default, |(_, memory)| memory.clone());
        memories.push((of_list, memory.clone()));
        let views = Views { memory: OnceLock::default(), is_copy: self.is_copy };
        views.memory.get_or_init(|| memory);
        views
    }

    /// Notes a copy that stands for a view of this tensor.
    pub(super) fn note(&self, copy: &Tensor) {
        self.memory().note(copy);
    }

    /// Notes a change of the memory.
    pub(super) fn change(&self) {
        self.memory.get_or_init(Arc::default).is_changed.store(true, Ordering::Relaxed);
    }

    /// Returns whether a call has changed the memory.
    pub(super) fn is_changed(&self) -> bool {
        self.memory.get().is_some_and(|memory| memory.is_changed.load(Ordering::Relaxed))
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
