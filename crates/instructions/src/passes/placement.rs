//! Offsets in arenas for all storages and workspaces of a finished list.
//!
//! Greedy by size: Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference",
//! 2020, section 5.2, as in TensorFlow Lite's `greedy_by_size`. The largest owner is placed first;
//! each goes to the smallest gap between those owners that it may not share bytes with, and above
//! them if no gap holds it. The paper's lifetimes are intervals of a sequence. Here they are parts
//! of a partial order: two owners may share bytes only if the list orders all uses of one before
//! the beginning of the other.

use std::cmp::Reverse;

use millstream_types::Point;

use crate::frontier::Frontier;
use crate::instruction::Placement;
use crate::list::InstructionList;
use crate::planner::{ArenaId, GRANULARITY};

/// A storage or a workspace: memory, and the part of the list's order in which it is used.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// The index of the instruction that holds its placement.
    pub(super) instruction: usize,
    pub(super) arena: ArenaId,
    /// Its requested bytes.
    pub(super) bytes: u64,
    /// The points that are known to have passed where it begins.
    pub(super) known: Frontier,
    /// The index of its release; none if it is never released.
    pub(super) end: Option<usize>,
    /// The points of its last uses.
    pub(super) uses: Frontier,
}

/// The fields of an owner that comparisons read, as plain numbers.
struct Dense<'a> {
    begin: usize,
    end: usize,
    uses: Vec<Point>,
    /// By stream.
    known: Vec<u64>,
    owner: &'a Owner,
}

impl Dense<'_> {
    /// Whether all uses of this owner come before the beginning of the other one.
    fn is_over_at(&self, other: &Dense<'_>) -> bool {
        self.end < other.begin && self.uses.iter().all(|p| other.known[p.stream.index()] >= p.seq)
    }

    fn may_share(&self, other: &Dense<'_>) -> bool {
        self.is_over_at(other) || other.is_over_at(self)
    }
}

/// Returns the bytes that a request takes.
const fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(GRANULARITY)
}

/// Returns an offset for each owner.
pub(super) fn offsets(owners: &[Owner], streams: usize) -> Vec<u64> {
    let dense: Vec<Dense<'_>> = owners
        .iter()
        .map(|owner| {
            let mut known = vec![0; streams];
            owner.known.iter().for_each(|p| known[p.stream.index()] = p.seq);
            Dense {
                begin: owner.instruction,
                end: owner.end.unwrap_or(usize::MAX),
                uses: owner.uses.iter().collect(),
                known,
                owner,
            }
        })
        .collect();
    let mut order: Vec<usize> = (0..owners.len()).filter(|&k| owners[k].bytes > 0).collect();
    order.sort_by_key(|&k| (Reverse(rounded(owners[k].bytes)), owners[k].instruction));
    let mut offsets = vec![0; owners.len()];
    // The placed owners of each arena, in the order of their offsets.
    let mut placed: Vec<Vec<usize>> = Vec::new();
    for k in order {
        let (arena, want) = (owners[k].arena.index(), rounded(owners[k].bytes));
        if placed.len() <= arena {
            placed.resize(arena + 1, Vec::new());
        }
        let (mut end, mut best) = (0, None::<(u64, u64)>);
        for &other in &placed[arena] {
            let at = offsets[other];
            // Neither a gap nor a higher end can come from bytes below the end so far.
            let top = at + rounded(dense[other].owner.bytes);
            if top <= end || dense[k].may_share(&dense[other]) {
                continue;
            }
            if at > end && at - end >= want && best.is_none_or(|(gap, _)| at - end < gap) {
                best = Some((at - end, end));
            }
            end = top;
        }
        offsets[k] = best.map_or(end, |(_, at)| at);
        let at = placed[arena].partition_point(|&other| offsets[other] <= offsets[k]);
        placed[arena].insert(at, k);
    }
    offsets
}

/// Returns the bytes that each arena of a list needs: the end of its highest placement, in the
/// planner's unit.
pub fn arena_bytes(list: &InstructionList) -> Vec<u64> {
    let mut bytes = vec![0; list.arenas.len()];
    for instruction in &list.instructions {
        if let Some(&Placement { arena, offset, size, .. }) = instruction.body.placement()
            && let Some(end) = bytes.get_mut(arena.index())
        {
            *end = rounded(offset.saturating_add(size)).max(*end);
        }
    }
    bytes
}
