//! What threads of the pool of events meet at. The models in `tests/loom` put loom's in their place.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
