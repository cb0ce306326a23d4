//! Tries many seeds on several threads. Each trial has a machine of its own, so the result does not
//! depend on the number of threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::simulate::{Finding, Trial};
use millstream_runner::RunError;

/// The result of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// The number of seeds that were tried.
    pub seeds: u64,
    /// The number of steps in all trials together.
    pub steps: u64,
    /// The hash of the log. For several seeds, the hash of their hashes in the order of the seeds.
    pub hash: String,
    /// The least seed that shows a violation, with the violation.
    pub found: Option<(u64, Finding)>,
}

#[derive(Default)]
struct State {
    /// The seeds that were tried, each with its steps and the hash of its log, in any order.
    tried: Vec<(u64, u64, String)>,
    found: Option<(u64, Finding)>,
    error: Option<(u64, RunError)>,
}

/// Tries all `seeds`, or all up to the least one that shows a violation. Calls `progress` after
/// each trial.
///
/// # Errors
/// Fails with the first error of a trial.
pub fn sweep(
    seeds: Range<u64>,
    threads: usize,
    trial: impl Fn(u64) -> Result<Trial, RunError> + Sync,
    progress: impl Fn() + Sync,
) -> Result<Sweep, RunError> {
    let state = Mutex::new(State::default());
    let next = AtomicU64::new(seeds.start);
    // Seeds are taken in order, so when one fails all smaller ones have been taken.
    let end = AtomicU64::new(seeds.end);
    let work = || {
        loop {
            // Relaxed suffices: the counter only hands out each seed once. The lock publishes
            // results.
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return;
            }
            let outcome = trial(seed);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome {
                Ok(Trial { schedule, finding }) => {
                    let (steps, hash) =
                        schedule.map_or_else(Default::default, |s| (s.steps, s.hash));
                    state.tried.push((seed, steps, hash));
                    if let Some(finding) = finding {
                        end.fetch_min(seed, Ordering::Relaxed);
                        if state.found.as_ref().is_none_or(|(least, _)| seed < *least) {
                            state.found = Some((seed, finding));
                        }
                    }
                }
                Err(wrong) => {
                    end.fetch_min(seed, Ordering::Relaxed);
                    if state.error.as_ref().is_none_or(|(least, _)| seed < *least) {
                        state.error = Some((seed, wrong));
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
    let State { mut tried, found, error } =
        state.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, error)) = error {
        return Err(error);
    }
    // Chance decides how far other threads got when a seed failed, so later seeds are not counted.
    let last = found.as_ref().map_or(u64::MAX, |(seed, _)| *seed);
    tried.retain(|(seed, ..)| *seed <= last);
    tried.sort_unstable();
    let hash = match tried.as_slice() {
        [(.., hash)] => hash.clone(),
        several => {
            let mut hasher = blake3::Hasher::new();
            for (.., hash) in several {
                hasher.update(hash.as_bytes());
            }
            hasher.finalize().to_hex().to_string()
        }
    };
    let steps = tried.iter().map(|(_, steps, _)| steps).sum();
    Ok(Sweep { seeds: tried.len() as u64, steps, hash, found })
}
