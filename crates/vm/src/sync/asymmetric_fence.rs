//! Two fences of which one costs next to nothing: for a pair of threads of which one is often there
//! and the other seldom.
//!
//! Each thread stores, fences, and loads what the other stores (Dekker's argument): at least one of
//! the two sees the other's store. With a full fence on both sides, giving a worker a task would
//! cost a fence every time, for the sake of a worker that goes to sleep now and then. Instead the
//! sleeper makes all threads of the process fence, and the giver only keeps the compiler from
//! exchanging its two accesses.
//!
//! Why that holds: when the kernel's call returns, each thread that ran meanwhile has executed a full
//! fence during the call, and one that did not run had one when it was switched out. A giver's
//! accesses before that fence are seen by the sleeper's load after the call; a giver's load after it
//! sees the sleeper's store before the call.
//!
//! Source: `membarrier(2)`, `MEMBARRIER_CMD_PRIVATE_EXPEDITED`. Where the system does not have it,
//! both are full fences.

use std::sync::atomic::{Ordering, fence};

/// The fence of the side that is often there.
#[inline]
pub(crate) fn light_fence() {
    if system::is_ready() {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The fence of the side that is seldom there. Returns false if the system, which has done it
/// before, refuses: then this was no fence between the two sides.
#[must_use]
pub(crate) fn heavy_fence() -> bool {
    fence(Ordering::SeqCst);
    system::fence_all()
}

#[cfg(target_os = "linux")]
mod system {
    use std::sync::OnceLock;

    const PRIVATE_EXPEDITED: i32 = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

    static READY: OnceLock<bool> = OnceLock::new();

    fn call(command: i32) -> bool {
        // SAFETY: the call takes no address and changes nothing but the order of accesses.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Whether the system fences all threads when asked. The same answer for as long as the process
    /// lives, so that both sides go by it.
    #[inline]
    pub(super) fn is_ready() -> bool {
        *READY.get_or_init(|| call(REGISTER_PRIVATE_EXPEDITED) && call(PRIVATE_EXPEDITED))
    }

    pub(super) fn fence_all() -> bool {
        !is_ready() || call(PRIVATE_EXPEDITED)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) const fn is_ready() -> bool {
        false
    }

    pub(super) const fn fence_all() -> bool {
        true
    }
}
