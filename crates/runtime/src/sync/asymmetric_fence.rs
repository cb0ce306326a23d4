//! An asymmetric fence (membarrier): cheap on the frequent side, expensive on the rare side.
//!
//! Each of two threads stores, fences, and loads the other's store (Dekker's argument): at least
//! one of them sees the other's store. With a full fence on both sides, every task given to a
//! worker would cost a fence, although workers park rarely. Instead the parking worker makes all
//! threads of the process fence, and the submitter only keeps the compiler from reordering its two
//! accesses.
//!
//! Why this holds: when the system call returns, each thread that ran meanwhile has executed a full
//! fence during the call, and each other thread executed one when it was switched out. The worker's
//! load after the call sees the submitter's accesses before that fence; the submitter's load after
//! that fence sees the worker's store before the call.
//!
//! Source: `membarrier(2)`, `MEMBARRIER_CMD_PRIVATE_EXPEDITED`. On a system without it, both sides
//! are full fences.

use std::sync::atomic::{Ordering, fence};

/// Executes the cheap half, on the frequent side.
#[inline]
pub fn light_fence() {
    if system::is_ready() {
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Executes the expensive half, on the rare side. Returns false if the system refuses a call that
/// it served before: then the two sides are not ordered.
#[must_use]
pub fn heavy_fence() -> bool {
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

    /// Returns whether the system fences all threads on request. The answer stays the same for the
    /// life of the process, so that both sides agree.
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
