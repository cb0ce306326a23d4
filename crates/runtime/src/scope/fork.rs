//! Forked processes. A child has a copy of its parent's machines, and none of their threads: its
//! waits for them would never end, so they are errors.

use std::sync::atomic::{AtomicU64, Ordering};

use millstream_types::{Error, Result};

/// The number of the next machine.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Machines with a lower number were made before the process was forked.
static FIRST_OWN: AtomicU64 = AtomicU64::new(0);

/// Returns the number of a new machine. The first call in a program registers for forks.
pub fn number_machine() -> u64 {
    #[cfg(unix)]
    {
        static REGISTERED: std::sync::Once = std::sync::Once::new();
        // SAFETY: the function only accesses atomics, which is allowed in a forked child. Without
        // memory for the registration forks stay unnoticed.
        REGISTERED.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(mark_child));
        });
    }
    // Relaxed: only uniqueness is wanted.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[cfg(unix)]
extern "C" fn mark_child() {
    FIRST_OWN.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Returns whether the process is a fork of the one that made the machine.
#[inline]
pub(crate) fn is_inherited(machine: u64) -> bool {
    // Relaxed: written while the process has one thread.
    machine < FIRST_OWN.load(Ordering::Relaxed)
}

/// Checks that this process has made the machine.
///
/// # Errors
/// [`Error::Forked`].
#[inline]
pub(crate) fn check(machine: u64) -> Result<()> {
    if is_inherited(machine) { Err(Error::Forked) } else { Ok(()) }
}
