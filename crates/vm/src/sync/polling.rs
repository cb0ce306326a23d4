//! How a thread polls before it parks.
//!
//! A thread that polls keeps its core, and what it polls for may need that core: threads often
//! outnumber cores, and launchers of ranks bind all threads of a process to one. So a thread pauses
//! between the first checks, while the answer may come from another core, and then yields its core
//! between the later ones. If no other thread wants the core, a yield takes a third of a
//! microsecond.
//!
//! A worker's checks together take some ten microseconds on a core of its own. That is the cost of
//! a wake-up, so a thread that polls in vain loses at most as much again as one that knew the time
//! of the next event (A. Karlin et al., "Competitive Randomized Algorithms for Non-Uniform
//! Problems", SODA 1990).

use crate::sync::{spin_loop, spins, yield_now};

/// How many checks have pauses between them: one or two microseconds.
const PAUSES: u32 = 50;

/// How often a worker checks before it parks, at most: some ten microseconds.
pub(crate) const POLLS: u32 = spins(PAUSES + 24);

/// How often a thread of the program checks before it parks: some forty microseconds, the time of
/// short launches. It has nothing else to do.
pub(crate) const PROGRAM_POLLS: u32 = spins(PAUSES + 144);

/// Lets some time pass after the check of this number, counted from 0.
#[inline]
pub(crate) fn relax(check: u32) {
    if check < PAUSES { spin_loop() } else { yield_now() }
}
