//! The counts of a captured function's handles: a capture learns of each that is made or dropped.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Tensor;

/// How many captures count.
static COUNTING: AtomicUsize = AtomicUsize::new(0);

/// Takes a tensor and the change of its number of handles, on the thread that makes the change.
static COUNT: OnceLock<fn(&Tensor, isize)> = OnceLock::new();

/// Begins to count, by this function.
pub(crate) fn begin(count: fn(&Tensor, isize)) {
    COUNT.get_or_init(|| count);
    // Relaxed: only the capture's own thread has to see it.
    COUNTING.fetch_add(1, Ordering::Relaxed);
}

/// Ends a count that was begun.
pub(crate) fn end() {
    COUNTING.fetch_sub(1, Ordering::Relaxed);
}

/// Notes that the thread makes a handle of a tensor, or drops one.
#[inline]
pub(super) fn count(tensor: &Tensor, change: isize) {
    if COUNTING.load(Ordering::Relaxed) != 0
        && let Some(count) = COUNT.get()
    {
        count(tensor, change);
    }
}
