//! The time between two checks of a condition.
//!
//! # Rules
//! 1. A thread first pauses between its checks, for one or two microseconds: the condition may come
//!    true on another core.
//! 2. Then it yields its core between the checks, since the thread that it waits for may need that
//!    core: threads often outnumber cores, and launchers of ranks bind all threads of a process to
//!    one. A yield that nobody takes costs a third of a microsecond, a yield to a thread that polls
//!    as well about one.
//! 3. After its last check it sleeps. The checks of a worker take some ten microseconds on a core
//!    of its own, which is the cost of a wake-up. So a thread that polls in vain loses at most as
//!    much again as a thread that foresaw the next event (A. Karlin et al., "Competitive Randomized
//!    Algorithms for Non-Uniform Problems", SODA 1990).
//! 4. A yield to a thread that computes, such as another program's, lasts for that thread's time
//!    slice: milliseconds, each time. A sleeping thread loses nothing like that: the scheduler runs
//!    it soon after its wake-up, as it has used less than its share of the core. So every yield is
//!    timed, and after a long one (`LONG`) no thread of the process yields for `REST` times as
//!    long: pauses are followed by sleep. Then yields are tried again, so each thread loses by them
//!    at most one part in `REST` of the time on a busy machine, and nothing on an idle one.
//! 5. Where nothing can wake the thread, it sleeps for growing times ([`Backoff::snooze`]), each
//!    about as long as it has waited so far, and at most [`LONGEST_NAP`].
//! 6. All of this is a matter of speed. A condition is checked after each call here, and whoever
//!    makes it true wakes the threads that sleep on it, whatever they did before.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sync::{nanos, sleep, spin_loop, spins, yield_now};

/// How many checks have pauses between them: one or two microseconds.
const PAUSES: u32 = 50;

/// How often a worker checks before it sleeps, at most: some ten microseconds.
pub const POLLS: u32 = spins(PAUSES + 24);

/// How often a thread of the program checks before it sleeps: some forty microseconds, the time of
/// short launches. It has nothing else to do.
pub const PROGRAM_POLLS: u32 = spins(PAUSES + 144);

/// A yield of this length was taken by a thread that computes. Schedulers' time slices last longer.
const LONG: u64 = 500_000;

/// How many times as long as a long yield the process does without yields.
const REST: u64 = 32;

/// The first sleep of a thread that nothing wakes.
const FIRST_NAP: Duration = Duration::from_micros(20);

/// The longest sleep of a thread that nothing wakes.
pub const LONGEST_NAP: Duration = Duration::from_millis(1);

/// When threads may yield again, on the clock of `nanos`.
static YIELDS_AGAIN: AtomicU64 = AtomicU64::new(0);

/// The wait of one thread for one condition.
#[derive(Clone, Debug)]
pub struct Backoff {
    check: u32,
    pauses: u32,
    limit: u32,
    nap: Duration,
}

impl Backoff {
    /// Returns the backoff of a thread that checks `limit` times before it sleeps.
    pub const fn new(limit: u32) -> Backoff {
        Backoff { check: 0, pauses: PAUSES, limit, nap: FIRST_NAP }
    }

    /// Does as [`Backoff::new`] for checks that take about a microsecond: without pauses.
    pub const fn yielding(limit: u32) -> Backoff {
        Backoff { check: 0, pauses: 0, limit, nap: FIRST_NAP }
    }

    /// Returns how many checks have passed.
    #[inline]
    pub const fn checks(&self) -> u32 {
        self.check
    }

    /// Begins anew, with another number of checks.
    #[inline]
    pub const fn restart(&mut self, limit: u32) {
        (self.check, self.limit, self.nap) = (0, limit, FIRST_NAP);
    }

    /// Lets a little time pass before the next check. Returns false, at once, if the thread should
    /// sleep instead.
    #[inline]
    pub fn spin(&mut self) -> bool {
        if self.check >= self.limit {
            return false;
        }
        self.check += 1;
        if self.check <= self.pauses {
            spin_loop();
            return true;
        }
        yield_core()
    }

    /// Returns how long a thread sleeps next that waits for something that wakes it, and for
    /// something that cannot.
    pub fn next_nap(&mut self) -> Duration {
        let nap = self.nap;
        self.nap = (nap * 2).min(LONGEST_NAP);
        nap
    }

    /// Lets time pass before the next check of a condition that wakes nobody when it comes true.
    pub fn snooze(&mut self) {
        if !self.spin() {
            sleep(self.next_nap());
        }
    }
}

/// Waits until `done` returns true, where nothing wakes the thread once it would.
pub fn wait_until(mut done: impl FnMut() -> bool) {
    let mut backoff = Backoff::new(POLLS);
    while !done() {
        backoff.snooze();
    }
}

/// Yields the core. Returns false, at once, if yields have lately been long.
fn yield_core() -> bool {
    let begin = nanos();
    // Relaxed: a hint. A thread that misses it loses another time slice.
    if begin < YIELDS_AGAIN.load(Ordering::Relaxed) {
        return false;
    }
    yield_now();
    let end = nanos();
    let took = end - begin;
    if took >= LONG {
        YIELDS_AGAIN.fetch_max(end + REST * took, Ordering::Relaxed);
    }
    true
}
