//! The synchronization primitives of `event_pool`. The models in `tests/loom` replace them by
//! loom's.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
