//! Many seeds, on several threads. Each trial has a machine of its own, so the outcome does not
//! depend on how many threads there are.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::run::RunError;
use crate::simulate::{Finding, Trial};

/// What many seeds gave.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// How many seeds were tried.
    pub seeds: u64,
    /// How many steps were taken by all together.
    pub steps: u64,
    /// The hash of the logs' hashes, in the order of the seeds.
    pub hash: String,
    /// The least seed that has shown something to be wrong, and what.
    pub found: Option<(u64, Finding)>,
}

/// Hashes of logs, put in the order of their seeds as they come.
struct Hashes {
    next: u64,
    early: BTreeMap<u64, String>,
    hasher: blake3::Hasher,
}

impl Hashes {
    fn add(&mut self, seed: u64, hash: String) {
        self.early.insert(seed, hash);
        while let Some(hash) = self.early.remove(&self.next) {
            self.hasher.update(hash.as_bytes());
            self.next += 1;
        }
    }
}

struct State {
    sweep: Sweep,
    hashes: Hashes,
    error: Option<(u64, RunError)>,
}

/// Tries all `seeds`, or all up to the least that shows something to be wrong. `progress` is called
/// after each.
///
/// # Errors
/// The first one of a trial.
pub fn sweep(
    seeds: Range<u64>,
    threads: usize,
    trial: impl Fn(u64) -> Result<Trial, RunError> + Sync,
    progress: impl Fn() + Sync,
) -> Result<Sweep, RunError> {
    let hasher = blake3::Hasher::new();
    let hashes = Hashes { next: seeds.start, early: BTreeMap::new(), hasher };
    let state = Mutex::new(State { sweep: Sweep::default(), hashes, error: None });
    let next = AtomicU64::new(seeds.start);
    // Seeds are taken in order, so when one fails all lesser ones have been taken.
    let end = AtomicU64::new(seeds.end);
    let work = || {
        loop {
            // Relaxed: only that each seed is taken once matters; results meet under the lock.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return;
            }
            let tried = trial(seed);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { sweep, hashes, error } = &mut *state;
            sweep.seeds += 1;
            match tried {
                Ok(Trial { schedule, finding }) => {
                    sweep.steps += schedule.as_ref().map_or(0, |s| s.steps);
                    hashes.add(seed, schedule.map_or_else(String::new, |s| s.hash));
                    if let Some(finding) = finding {
                        end.fetch_min(seed, Ordering::Relaxed);
                        if sweep.found.as_ref().is_none_or(|(least, _)| seed < *least) {
                            sweep.found = Some((seed, finding));
                        }
                    }
                }
                Err(wrong) => {
                    end.fetch_min(seed, Ordering::Relaxed);
                    if error.as_ref().is_none_or(|(least, _)| seed < *least) {
                        *error = Some((seed, wrong));
                    }
                }
            }
            drop(state);
            progress();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let State { mut sweep, hashes, error } =
        state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, error)) = error {
        return Err(error);
    }
    sweep.hash = hashes.hasher.finalize().to_hex().to_string();
    Ok(sweep)
}
