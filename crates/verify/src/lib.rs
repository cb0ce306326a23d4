//! The verifier of instruction lists.
//!
//! # Properties
//! [`check`] walks a list once and accepts or rejects it. An accepted list has these properties for
//! every timing of the devices:
//!
//! 1. *No race.* Of every two uses of one storage, one of which writes, one happens before the
//!    other.
//! 2. *Liveness.* A tensor is used between its beginning and its release, and lies within its
//!    storage.
//! 3. *Memory.* A placement has one owner at a time. The next owner is ordered after all uses by
//!    earlier owners.
//! 4. *Waits.* Every wait by an event follows that event's record in the list, and names that
//!    record's point. Every wait for a point names a point that is earlier in the list.
//! 5. *Regions.* No two open critical sections hold one tensor, and every section ends.
//! 6. *References.* Streams, arenas and ops are declared. Every instruction is on a stream whose
//!    type can run it. Sequence numbers increase.
//!
//! A rejected list yields [`Violation`]s: both instructions of a conflict, with their indices and
//! lines, and the wait that would order them.
//!
//! # Entry points
//! [`check`] is the gate for lists that are to run. It decides conflicts by storages: two uses of
//! disjoint parts of one storage conflict. The reason is that a kernel may copy a whole storage to
//! a device and back, and that the engine orders and poisons by storages. [`verify`] runs nothing
//! and decides conflicts by bytes. Its [`Verdict`] holds the violations, the number of compared
//! pairs, and which waits are needed. `verify` proves every list that `check` accepts.
//! [`verify_ranks`] compares the lists of several ranks; [`rank_calls`] returns the calls by which
//! one list meets those of the other ranks. [`same_operations`] compares two accepted lists, such
//! as those before and after a pass.
//!
//! # No deadlock
//! A list is in program order, and streams receive their instructions in that order. Every
//! constraint that an engine obeys points backwards in it: a stream's FIFO, the operand edges
//! inside a pool, a wait and its point or record (property 4), a fence and everything before it, an
//! allocation and the earlier owners of its placement. A `StreamWait` has a point on two streams,
//! but one index. So the first instruction of the list that has not completed waits for nothing: it
//! runs, and there is no cycle. Critical sections add no constraint beyond those of their operands,
//! because no section begins on a tensor that another section holds.
//!
//! # Algorithm
//! The walk computes, in list order, a vector clock for every point at which a stream's knowledge
//! grows:
//!
//! - An instruction of an in-order stream knows all earlier instructions of its stream. To know the
//!   point (q, n) is to know what q's last instruction up to n knew *when it ran*, never what q
//!   learned later.
//! - An event stands for its record's point. A wait for the event adds what that point adds.
//! - A barrier knows all earlier instructions, and all later instructions know it. All later
//!   instructions know what the host has observed.
//! - Inside a pool only operands order: the engine derives those edges, and the knowledge of the
//!   earlier instruction flows along them. To other streams, (P, n) is all of P up to n. A wait on
//!   a pool binds to the pool's next instruction that is not a wait; the whole pool knows barriers
//!   and host observations alone. Memory is not an operand: memory used inside a pool is free, also
//!   for the same pool, only where the point is known.
//! - An allocation is a write ordered after its stream's instructions so far. On a pool it knows
//!   the fences alone.
//!
//! For each storage and footprint (the bytes of a strided view) the walk keeps the last write, and
//! the newest read of each stream since then: a clock that covers those covers all earlier uses.
//! For each arena it keeps the newest owner of every byte. It skips SoftSyncStream, which is an
//! annotation.
//!
//! The check is conservative in two cases: inside a pool, an order by operands does not count as an
//! order of memory; and views with different strides whose overlap is not decided in 256 steps
//! count as overlapping. Time and memory are near-linear in the list. Clocks share equal branches,
//! and are kept as long as a wait may name their point.
//!
//! # Needed waits
//! A wait is needed if the list without it is rejected. One walk decides all waits: a clock also
//! holds, for each stream, what would be known without each wait that the entry depends on. A join
//! takes the maximum in each of these cases, so a second path to the same knowledge removes the
//! dependence. Every comparison of two uses then names the waits that it depends on. An entry has
//! at most about as many such waits as there are streams: a path that returns to a stream does not
//! depend on what lies between. A wait whose point or event another wait names is needed for that
//! wait. One kind is not decided by clocks: a StreamWait whose record consumes a pool's pending
//! waits. For those, the list without the wait is walked.
//!
//! # What is not proven
//! Accesses are the ones that the list states. Whether an op's kernel honours them is a matter of
//! its schema, which whoever runs the list compares. A list does not hold the sizes of arenas: the
//! planner ensures that the memory exists. The instructions of an executable are checked with its
//! list.
//!
//! # Independence
//! This crate uses neither the builder nor its frontiers nor the planner. Both sides read the same
//! master table of instructions, and share nothing else.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `check` | the walk over the list |
//! | `rules` | the facts of the master table about each kind |
//! | `clock` | persistent vector clocks, with and without each wait |
//! | `streams`, `history` | each stream's knowledge, now and at earlier points |
//! | `footprint` | the bytes of strided views, and their overlap |
//! | `storage` | the uses that later uses must be ordered after |
//! | `needs` | which waits are needed |
//! | `liveness` | the live tensors, and the storage of each |
//! | `memory` | the owners of an arena's bytes |
//! | `regions` | critical sections |
//! | `cycle` | the cycle that an unending wait is part of |
//! | [`violation`], `verdict` | the rules that a list can violate; the result |
//! | `ranks` | whether the ranks of a program meet |
//! | `repair` | the wait that would order two uses |
//! | `same` | whether two lists compute the same operations on the same data |
#![deny(missing_docs)]

mod check;
mod clock;
mod cycle;
mod footprint;
mod history;
mod liveness;
mod memory;
mod needs;
mod ranks;
mod regions;
mod repair;
mod rules;
mod same;
mod storage;
mod streams;
mod verdict;
pub mod violation;

use millstream_instructions::{CheckedList, InstructionList};

pub use check::MOST_VIOLATIONS;
use check::Mode;
pub use ranks::{
    CommunicatorRules, RankSite, RankViolation, RanksVerdict, rank_calls, verify_ranks,
};
pub use repair::{Repair, repair};
pub use same::{Difference, same_operations, same_when_folded};
pub use verdict::{Reason, Verdict, Wait};
pub use violation::Violation;

/// The options of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether instructions may name host callbacks. A list read from text may not: the functions
    /// are in the table of the machine that made it.
    pub callbacks: bool,
}

/// Accepts a list that violates no rule. Rejects host callbacks.
///
/// # Errors
/// The violations, in list order, at most [`MOST_VIOLATIONS`].
pub fn check(list: InstructionList) -> Result<CheckedList, Vec<Violation>> {
    check_with(list, CheckOptions::default())
}

/// Accepts a list as [`check`] does, with options.
///
/// # Errors
/// The violations, in list order, at most [`MOST_VIOLATIONS`].
pub fn check_with(
    list: InstructionList,
    options: CheckOptions,
) -> Result<CheckedList, Vec<Violation>> {
    let found = violations_with(&list, options);
    if !found.is_empty() {
        return Err(found);
    }
    // SAFETY: the walk has visited every instruction of this list and found no violation. So the
    // conditions of `assume_checked` hold:
    // - conflicting uses are ordered: each was compared with the storage's last write and the reads
    //   since, which stand for all earlier uses, as happening-before is transitive (`Walk::work`);
    // - each use is between its tensor's beginning and release, checked at each use (`Walk::live`);
    // - placements do not overlap live ones, and the new owner of a placement knows the last uses
    //   by earlier owners (`Walk::assign_memory`);
    // - every wait follows its record or its point (`Walk::wait`).
    Ok(unsafe { CheckedList::assume_checked(list) })
}

/// Returns a list's violations in list order, at most [`MOST_VIOLATIONS`]. A host callback is one.
pub fn violations(list: &InstructionList) -> Vec<Violation> {
    violations_with(list, CheckOptions::default())
}

/// Returns a list's violations as [`violations`] does, with options.
pub fn violations_with(list: &InstructionList, options: CheckOptions) -> Vec<Violation> {
    let callbacks = options.callbacks;
    let mode = Mode { callbacks, bytes: false, needs: false, threads: 0 };
    check::walk(list, mode).violations
}

/// Verifies a list byte by byte, and determines which of its waits are needed. A host callback
/// counts as the accesses of its operands.
pub fn verify(list: &InstructionList) -> Verdict {
    verify_beside_threads(list, 0)
}

/// Verifies a list as [`verify`] does. Its first `threads` streams are threads of a host, which
/// order what they share by means that no list shows, such as locks: two uses by them are no race.
/// What a thread knows of the other streams stays its own.
pub fn verify_beside_threads(list: &InstructionList, threads: usize) -> Verdict {
    check::walk(list, Mode { callbacks: true, bytes: true, needs: true, threads })
}
