//! What a recorded run would take if something about it were different.
//!
//! # Contract
//! The times of a profile are divided into what each step takes and what it waits for. The steps
//! are then run again with the requested changes, in simulated time. The result is a profile of
//! predicted times, with the outputs of any other one. No kernel runs, and nothing reads a clock.
//!
//! # Rules
//! 1. Threads of the program are streams: their instructions are the parts of its calls, or, of our
//!    own programs, submissions. Between two of them a thread takes the time that it took. Where it
//!    waited for an instruction, it waits for that instruction again.
//! 2. An instruction begins when the thread has come to its submission, when its stream, its waits
//!    and barriers allow it, and when its worker is free. A worker runs one instruction at a time,
//!    in the measured order unless a change is about the order; a wait blocks its stream, not its
//!    worker. Streams without a worker run side by side and share nothing.
//! 3. After each of these events it has a *delay*: the way to the worker or the device. The delay
//!    after the event that held it up is the measured one. The others are the usual ones of their
//!    kind, at most as long as the measured times leave room for: after a submission, after another
//!    instruction of the worker or the stream, after a wait, or after a worker has parked. A run on
//!    one worker has no waits for others, and the profile tells what these cost. Then it takes the
//!    time of its kernel. So an instruction that ends earlier makes none begin later, but for the
//!    choices of workers.
//! 4. Calls that change streams need new waits: those that their tensors need and that no earlier
//!    wait implies. Waits that the program asked for stay. A storage is never shared by two
//!    tensors that the recording keeps apart, so no wait comes from the reuse of memory.
//! 5. A kernel takes the time that it took alone or beside the same others. That several kernels
//!    at once share caches, memory or the threads within kernels is not predicted.
//! 6. A launch is submitted with its steps, and ends when the last of them has. Steps of one tape
//!    run in the order of the list. On other streams they are those of an executable that is
//!    compiled for these, whose streams have tapes in turn; its calls and its memory stay the same.
//!
//! [`predict`](crate::predict) is the same question about a list that never ran: its instructions
//! take the times of a cost model.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `change` | the changes, and how they are written on a command line |
//! | `threads` | the threads of our own programs, as streams |
//! | `costs` | from the times of a profile to what each instruction takes by itself |
//! | `model` | the times of kernels on another device, from a cost model |
//! | `spread` | the stream of each call, in turn or by the assigner |
//! | `streams`, `waits` | calls moved to other streams, and the waits that follow |
//! | `replay` | the instructions run again, on workers |
//! | `gains` | what the removal of each wait, and faster ops, would gain |

mod change;
pub(crate) mod costs;
mod gains;
mod model;
pub(crate) mod replay;
mod spread;
mod streams;
pub(crate) mod threads;
mod waits;

use millstream_profile::Profile;
use millstream_profile::model::{NONE, Resolution, Role, Source};
use millstream_profile::summary::{WaitCost, waits};

pub use change::{Changes, OpChange, Scaling};
pub use gains::{Gain, gains};
pub use model::Kernels;
pub use spread::streams_as_assignment;

use costs::Costs;
use threads::Threads;

/// Predicts a run with changes. The result has the same tensors and places; its instructions are
/// the recorded ones, except for waits.
///
/// # Errors
/// A change names an op, a wait or a stream that the profile does not have, or the profile lacks
/// what the change needs.
pub fn what_if(profile: &Profile, changes: &Changes) -> Result<Profile, String> {
    Recorded::of(profile)?.changed(changes)
}

/// A recorded run with the threads of the program, and the cost of each instruction.
struct Recorded {
    profile: Profile,
    threads: Threads,
    costs: Costs,
    /// The waits that take time, as [`Changes::without_waits`] numbers them.
    waits: Vec<WaitCost>,
}

impl Recorded {
    fn of(profile: &Profile) -> Result<Recorded, String> {
        if !profile.instructions.iter().any(|i| i.is_shown()) {
            return Err("the profile has no times".to_owned());
        }
        let waits = numbered_waits(profile);
        let mut profile = profile.clone();
        let threads = Threads::add(&mut profile);
        let costs = Costs::of(&profile);
        Ok(Recorded { profile, threads, costs, waits })
    }

    /// Predicts the run with changes.
    fn changed(&self, changes: &Changes) -> Result<Profile, String> {
        let (mut made, mut costs) = (self.profile.clone(), self.costs.clone());
        if !changes.without_waits.is_empty() {
            without_waits(&mut made, &mut costs, &self.waits, &changes.without_waits)?;
        }
        if changes.compute_streams.is_some()
            || changes.assignment.is_some()
            || changes.threads.is_some()
        {
            (made, costs) = streams::moved(&made, costs, changes)?;
            if !made.storages.is_empty() {
                let remark = "waits for memory that is used again are not predicted";
                made.remarks.push(remark.to_owned());
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
        self.threads.clone().remove(&mut made);
        made.source = Source::Predicted;
        made.remarks.extend(changes.describe());
        Ok(made)
    }
}

/// Returns the waits that cost most, as [`Changes::without_waits`] numbers them.
pub fn numbered_waits(profile: &Profile) -> Vec<WaitCost> {
    waits(profile).into_iter().filter(|wait| wait.blocked > 0).collect()
}

/// Removes waits, by their numbers. The needs that they covered are needs again.
fn without_waits(
    profile: &mut Profile,
    costs: &mut Costs,
    numbered: &[WaitCost],
    numbers: &[usize],
) -> Result<(), String> {
    let mut removed = Vec::new();
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
        removed.extend(cost.members.iter().map(|&wait| wait as usize));
    }
    let mut is_removed = vec![false; profile.instructions.len()];
    for wait in removed {
        let wait = &mut profile.waits[wait];
        wait.resolution = Resolution::Known;
        wait.until = NONE;
        is_removed[wait.waiter as usize] = true;
    }
    for covered in &mut profile.waits {
        let is_bare = is_removed.get(covered.covered_by as usize).copied().unwrap_or(false);
        if is_bare && covered.until != NONE && covered.user != NONE {
            // The need comes before its user from now on, as a wait of its own would.
            covered.waiter = covered.user;
            covered.covered_by = NONE;
            covered.resolution = Resolution::Host;
        }
    }
    // Later instructions of the stream may run before others of its worker.
    let mut is_after = vec![false; profile.streams.len()];
    let instructions = profile.instructions.iter_mut().zip(is_removed);
    for (k, (instruction, is_removed)) in instructions.enumerate() {
        if is_removed {
            instruction.role = Role::Order;
        }
        let Some(is_after) = is_after.get_mut(instruction.stream as usize) else { continue };
        *is_after |= is_removed;
        if *is_after {
            costs.free_of_worker(k);
        }
    }
    Ok(())
}
