//! Checks of instruction lists: what is shown of a list before it runs.
//!
//! # What is shown
//! [`check`] reads a list once and takes it or refuses it. A list that it takes has these
//! properties, whatever the devices' timing:
//!
//! 1. *No race.* Of every two uses of one storage, one of which writes, one happens before the
//!    other.
//! 2. *Life.* A tensor is used between its beginning and its release, and lies within its storage.
//! 3. *Memory.* A place has one owner at a time. It is given to the next only where all uses by the
//!    earlier ones are known to be over.
//! 4. *Waits.* Every wait by an event stands behind that event's record, and waits for the record
//!    it says. Every wait for a point waits for one that stands earlier in the list.
//! 5. *Regions.* What a critical section holds no other section holds, and each one ends.
//! 6. *References.* Streams, arenas and ops are declared; instructions stand on streams whose type
//!    can run them; sequence numbers count up.
//!
//! A list that it refuses comes back as [`Violation`]s: both instructions of a conflict, with their
//! indices and lines, and the wait that would order them.
//!
//! # Two entrances
//! [`check`] is the gate for lists that are to run. It tells storages apart and not bytes: two uses of
//! disjoint parts of one storage count as a conflict. A kernel may copy a whole storage to a device
//! and back, and the engine orders and poisons by storages. [`verify`] runs nothing and tells bytes
//! apart: a [`Verdict`] says what is wrong, byte by byte, how many pairs were compared, and which
//! waits are needed. Whatever `check` takes, `verify` proves.
//!
//! # No deadlock
//! The list's order is the program's: streams are given their instructions in it. Every constraint
//! that an engine obeys points backwards in that order: a stream's FIFO, the operand edges inside a
//! pool, a wait and its point or record (property 4), a fence and all before it, an allocation and
//! the earlier owners of its place. A `StreamWait` stands on two streams, but at one index. So the
//! first instruction of the list that has not completed has nothing left to wait for: it runs, and
//! there is no cycle. Critical sections add no constraint beyond their operands', as none is begun
//! on what another one holds.
//!
//! # How
//! A vector clock per place where a stream learned something, computed in list order:
//!
//! - An instruction of an in-order stream knows all before it on its stream. Knowing the point
//!   (q, n) is knowing what q's last instruction up to n knew *when it ran*, never what q learned
//!   later.
//! - An event is its record's point; a wait for it brings what that point brings.
//! - A barrier knows all before it; all later instructions know it. What the host has observed, all
//!   later instructions know.
//! - Inside a pool only operands order: the engine derives those edges, and what the earlier
//!   instruction knew flows along them. To others, (P, n) is all of P up to n. A wait on a pool
//!   binds to the pool's next instruction that is no wait; only barriers and host observations are
//!   known to the whole pool. Memory is no operand: a place used inside a pool is free for the same
//!   pool, too, only where the point is known.
//! - An allocation is a write that stands after what its stream was given so far. On a pool it
//!   knows no more than the fences.
//!
//! Per storage and footprint (the bytes of a strided view) the last write is kept, and since then the
//! newest read of each stream: whoever knows those knows all earlier uses. Per arena the newest owner
//! of every byte is kept. SoftSyncStream is an annotation and is passed over.
//!
//! The check is conservative in two places: inside a pool an order that follows from operands is not
//! taken as an order of memory, and views whose strides differ and whose overlap is not found out in
//! 256 steps count as overlapping. Time and memory are near-linear in the list; clocks share what
//! they have in common, and are kept for as long as a wait may ask.
//!
//! # Which waits are needed
//! A wait is needed if the list without it is refused. One walk finds this out for all waits: a clock
//! also says, of each stream, what would be known without each of the waits that the knowledge is
//! owed to. A join takes the larger of both in each of these worlds, so that a second way to the same
//! knowledge strikes the wait off. Every comparison of two uses then names the waits that it rests on
//! alone. An entry has at most about as many such waits as there are streams: a way that comes back
//! to a stream owes nothing to what lies between. A wait whose place or event another one names is
//! needed for that. One kind escapes: a StreamWait whose record takes up what a pool has waited for;
//! of those the list without it is walked.
//!
//! # What is not shown
//! The accesses are those that the list writes down. Whether an op's kernel does what its line says
//! is a matter of its schema, which whoever runs the list compares. Sizes of arenas are not in a
//! list: that the memory is there is the planner's matter. What a stored list's instructions do is
//! that list's own check.
//!
//! # Independence
//! Nothing here uses the builder, its frontiers or the planner. What the two agree on they agree on
//! by reading the same master table of instructions.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | `check` | the walk over the list |
//! | `rules` | what the master table says of each kind |
//! | `clock` | vector clocks with shared branches, also as they were without a wait |
//! | `streams`, `history` | what each stream knows; what it knew at earlier places |
//! | `footprint` | the bytes of strided views, and whether they overlap |
//! | `storage` | the uses that later ones must come after |
//! | `needs` | which waits are needed |
//! | `life` | which tensors live, and in which storage |
//! | `memory` | who owns which bytes |
//! | `regions` | critical sections |
//! | `cycle` | why a wait never ends |
//! | [`violation`], `verdict` | what can be wrong; what is found out |
//! | `repair` | the wait that would order two uses |
#![deny(missing_docs)]

mod check;
mod clock;
mod cycle;
mod footprint;
mod history;
mod life;
mod memory;
mod needs;
mod regions;
mod repair;
mod rules;
mod storage;
mod streams;
mod verdict;
pub mod violation;

use millstream_instructions::{CheckedList, InstructionList};

pub use check::MOST_VIOLATIONS;
use check::Mode;
pub use repair::{Repair, repair};
pub use verdict::{Reason, Verdict, Wait};
pub use violation::Violation;

/// What a list may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether instructions may name host callbacks. A list read from text may not: the functions
    /// are in the table of the machine that made it.
    pub callbacks: bool,
}

/// Takes a list that keeps all rules, or says what is wrong with it. Host callbacks are refused.
///
/// # Errors
/// The rules that it breaks, in list order, at most [`MOST_VIOLATIONS`].
pub fn check(list: InstructionList) -> Result<CheckedList, Vec<Violation>> {
    check_with(list, CheckOptions::default())
}

/// As [`check`], with options.
///
/// # Errors
/// The rules that it breaks, in list order, at most [`MOST_VIOLATIONS`].
pub fn check_with(
    list: InstructionList,
    options: CheckOptions,
) -> Result<CheckedList, Vec<Violation>> {
    let found = violations_with(&list, options);
    if !found.is_empty() {
        return Err(found);
    }
    // SAFETY: the walk has seen every instruction of this very list and found nothing. So, of what
    // `assume_checked` asks:
    // - conflicting uses are ordered: each was compared with the storage's last write and the reads
    //   since, which stand for all earlier uses, as happening-before is transitive (`Walk::work`);
    // - each use lies within its tensor's life, which was looked up at each use (`Walk::live`);
    // - placements do not overlap live ones, and earlier owners' last uses are known where the
    //   place is given out again (`Walk::give`);
    // - every wait stands behind its record or its point (`Walk::wait`).
    Ok(unsafe { CheckedList::assume_checked(list) })
}

/// What is wrong with a list, in list order, at most [`MOST_VIOLATIONS`]. Host callbacks count.
pub fn violations(list: &InstructionList) -> Vec<Violation> {
    violations_with(list, CheckOptions::default())
}

/// As [`violations`], with options.
pub fn violations_with(list: &InstructionList, options: CheckOptions) -> Vec<Violation> {
    let mode = Mode { callbacks: options.callbacks, bytes: false, needs: false };
    check::walk(list, mode).violations
}

/// Finds out whether a list keeps all rules, byte by byte, and which of its waits are needed. Host
/// callbacks count as what their operands say.
pub fn verify(list: &InstructionList) -> Verdict {
    check::walk(list, Mode { callbacks: true, bytes: true, needs: true })
}
