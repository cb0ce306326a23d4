//! What a recorded run would take if something about it were different.
//!
//! # Contract
//! The times of a profile are divided into what each step takes and what it waits for. The steps
//! are then run again with the requested changes, in simulated time. The result is a profile of
//! predicted times, with the outputs of any other one. No kernel runs, and nothing reads a clock.
//!
//! # Rules
//! 1. The program submits instructions one after another. Between two submissions it takes the time
//!    that it took, and where it waited for an instruction it waits for that instruction again.
//! 2. An instruction begins when it was submitted, when its stream, its waits and barriers allow
//!    it, and when its worker is free. A worker runs one instruction at a time, in the measured
//!    order unless a change is about the order; a wait blocks its stream, not its worker. Streams
//!    without a worker run side by side and share nothing.
//! 3. From then on it takes its *latency*, the way to the worker or the device, and the time of its
//!    kernel. The latency is the measured one. Where a change is about what an instruction comes
//!    after, that holds only if the same kind of event holds it up as in the measured run;
//!    otherwise it is the usual latency of that kind: after a submission, after another instruction
//!    of the worker or the stream, after a wait for another worker, or after a worker has parked. A
//!    run on one worker has no waits for others, and the profile tells what these cost.
//! 4. Calls that change streams need new waits: those that their tensors need and that no earlier
//!    wait implies. Waits that the program asked for stay. A storage is never shared by two
//!    tensors that the recording keeps apart, so no wait comes from the reuse of memory.
//! 5. A kernel takes the time that it took alone or beside the same others. That several kernels
//!    at once share caches, memory or the threads within kernels is not predicted.
//!
//! `predict` is the same question about a list that never ran: it has no times to begin with.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `change` | the changes, and how they are written on a command line |
//! | `costs` | from the times of a profile to what each step takes by itself |
//! | `model` | the times of kernels on another device, from a cost model |
//! | `streams`, `waits` | calls moved to other streams, and the waits that follow |
//! | `replay` | the steps run again |
//! | `gains` | what the removal of each wait, and faster ops, would gain |

mod change;
mod costs;
mod gains;
mod model;
mod replay;
mod streams;
mod waits;

use millstream_profile::Profile;
use millstream_profile::model::{NONE, Resolution, Role, Source};
use millstream_profile::summary::{WaitCost, waits};

pub use change::{Changes, OpChange, Scaling};
pub use gains::{Gain, gains};
pub use model::Kernels;

use costs::Costs;

/// Predicts a run with changes. The result has the same tensors and places; its instructions are
/// the recorded ones, except for waits.
///
/// # Errors
/// A change names an op, a wait or a stream that the profile does not have, or the profile lacks
/// what the change needs.
pub fn what_if(profile: &Profile, changes: &Changes) -> Result<Profile, String> {
    let (mut made, mut costs) = base(profile)?;
    without_waits(&mut made, &mut costs, &changes.without_waits)?;
    if changes.compute_streams.is_some()
        || changes.assignment.is_some()
        || changes.threads.is_some()
    {
        (made, costs) = streams::moved(&made, costs, changes)?;
        if !made.storages.is_empty() {
            made.remarks.push("waits for memory that is used again are not predicted".to_owned());
        }
    }
    for change in &changes.ops {
        change.apply(&made, &mut costs)?;
    }
    if let Some(launch) = changes.launch {
        costs.scale_latencies(&made, launch);
    }
    if let Some(model) = &changes.model {
        model.apply(&mut made, &mut costs)?;
    }
    replay::replay(&mut made, &costs);
    made.source = Source::Predicted;
    made.remarks.extend(changes.describe());
    Ok(made)
}

/// Returns the profile and its costs, with the times that both are about.
fn base(profile: &Profile) -> Result<(Profile, Costs), String> {
    if !profile.instructions.iter().any(|i| i.is_shown()) {
        return Err("the profile has no times".to_owned());
    }
    Ok((profile.clone(), Costs::of(profile)))
}

/// Returns the waits that cost most, as [`Changes::without_waits`] numbers them.
pub fn numbered_waits(profile: &Profile) -> Vec<WaitCost> {
    waits(profile).into_iter().filter(|wait| wait.blocked > 0).collect()
}

/// Removes waits, by their numbers. The needs that they covered are needs again.
fn without_waits(
    profile: &mut Profile,
    costs: &mut Costs,
    numbers: &[usize],
) -> Result<(), String> {
    if numbers.is_empty() {
        return Ok(());
    }
    let numbered = numbered_waits(profile);
    for &number in numbers {
        let Some(cost) = number.checked_sub(1).and_then(|k| numbered.get(k)) else {
            let has = match numbered.len() {
                0 => "no wait of the profile takes any time".to_owned(),
                1 => "the profile has one wait that takes time".to_owned(),
                count => {
                    format!("the profile's waits that take time have the numbers 1 to {count}")
                }
            };
            return Err(format!("there is no wait {number}: {has}"));
        };
        for &wait in &cost.members {
            let waiter = profile.waits[wait as usize].waiter;
            remove(profile, wait as usize);
            // What comes after it on the stream may come before others of its worker.
            let stream = profile.instructions[waiter as usize].stream;
            let later = profile.instructions.iter().zip(&mut costs.instructions);
            let later = later.skip(waiter as usize).filter(|(i, _)| i.stream == stream);
            later.for_each(|(_, cost)| cost.release());
        }
    }
    Ok(())
}

fn remove(profile: &mut Profile, wait: usize) {
    let waiter = profile.waits[wait].waiter;
    profile.waits[wait].resolution = Resolution::Known;
    profile.waits[wait].until = NONE;
    profile.instructions[waiter as usize].role = Role::Order;
    for other in 0..profile.waits.len() {
        let covered = &mut profile.waits[other];
        if covered.covered_by == waiter && covered.until != NONE && covered.user != NONE {
            // The need comes before its user from now on, as a wait of its own would.
            covered.waiter = covered.user;
            covered.covered_by = NONE;
            covered.resolution = Resolution::Host;
        }
    }
}
