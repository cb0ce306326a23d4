//! Offsets in arenas for all storages and workspaces of a finished list.
//!
//! Greedy by size: Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference",
//! 2020, section 5.2, as in TensorFlow Lite's `greedy_by_size`. The largest owner is placed first;
//! each goes to the smallest gap between those owners that it may not share bytes with, and above
//! them if no gap holds it. The paper's lifetimes are intervals of a sequence. Here they are parts
//! of a partial order: two owners may share bytes only if the list orders all uses of one before
//! the beginning of the other.

use std::cmp::Reverse;

use smallvec::SmallVec;

use millstream_types::StreamId;

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
    /// The stream that it begins on.
    pub(super) on: StreamId,
    /// The last points of all streams where it begins.
    pub(super) tails: Frontier,
    /// The points that are known to have passed where it begins.
    pub(super) known: Frontier,
    /// The index of its release; none if it is never released.
    pub(super) end: Option<usize>,
    /// The points of its last uses.
    pub(super) uses: Frontier,
}

impl Owner {
    /// Returns the index of its release; the end of time if it is never released.
    fn end(&self) -> usize {
        self.end.unwrap_or(usize::MAX)
    }
}

/// Returns the bytes that a request takes. Those of a foreign list may end past all memory, where
/// no machine has any: the sum then stays at the largest number.
const fn rounded(bytes: u64) -> u64 {
    match bytes.checked_next_multiple_of(GRANULARITY) {
        Some(bytes) => bytes,
        // A foreign list may say so; such memory is refused where it is reserved.
        None => u64::MAX,
    }
}

/// The number of conflicts that are examined for a list of few owners, and for each owner of a list
/// of many. A list whose owners nearly all live at once has the square of their number, and little
/// to share.
const MOST_CONFLICTS: (usize, usize) = (32 << 20, 64);

/// Returns an offset for each owner. The owners are in the order of their instructions. Returns
/// none if that would take more than [`MOST_CONFLICTS`].
pub(super) fn offsets(owners: &[Owner], streams: usize) -> Option<Vec<u64>> {
    let conflicts = Conflicts::of(owners, streams);
    let mut order: Vec<usize> = (0..owners.len()).filter(|&k| owners[k].bytes > 0).collect();
    order.sort_by_key(|&k| (Reverse(rounded(owners[k].bytes)), k));
    let mut offsets = vec![0; owners.len()];
    let mut is_placed = vec![false; owners.len()];
    // The placed owners that one is in conflict with: where each lies, and its number.
    let mut found: Vec<(u64, usize)> = Vec::new();
    let mut left = MOST_CONFLICTS.0.max(MOST_CONFLICTS.1 * owners.len());
    for k in order {
        let (arena, want) = (owners[k].arena, rounded(owners[k].bytes));
        found.clear();
        let mut examined = 0;
        conflicts.each(k, |other| {
            examined += 1;
            if is_placed[other] && owners[other].arena == arena {
                found.push((offsets[other], other));
            }
        });
        left = left.checked_sub(examined)?;
        found.sort_unstable();
        let (mut end, mut best) = (0, None::<(u64, u64)>);
        for &(at, other) in &found {
            if at > end && at - end >= want && best.is_none_or(|(gap, _)| at - end < gap) {
                best = Some((at - end, end));
            }
            end = end.max(at.saturating_add(rounded(owners[other].bytes)));
        }
        offsets[k] = best.map_or(end, |(_, at)| at);
        is_placed[k] = true;
    }
    Some(offsets)
}

/// The last end of each range of owners, as a binary tree: the children of node `n` are nodes `2n`
/// and `2n + 1`, and the leaves are the owners.
struct Ends {
    last: Vec<usize>,
    leaves: usize,
}

impl Ends {
    fn of(owners: &[Owner]) -> Ends {
        let leaves = owners.len().next_power_of_two();
        let mut last = vec![0; 2 * leaves];
        owners.iter().enumerate().for_each(|(k, owner)| last[leaves + k] = owner.end());
        (1..leaves).rev().for_each(|n| last[n] = last[2 * n].max(last[2 * n + 1]));
        Ends { last, leaves }
    }

    /// Calls `found` with each of the first `count` owners that ends at `instruction` or later.
    fn each(&self, count: usize, instruction: usize, found: &mut impl FnMut(usize)) {
        // The nodes to be examined, each with its first owner and the number of its owners.
        let mut open: SmallVec<[(usize, usize, usize); 32]> = SmallVec::new();
        open.push((1, 0, self.leaves));
        while let Some((node, first, owners)) = open.pop() {
            if first >= count || self.last[node] < instruction {
                continue;
            }
            if owners == 1 {
                found(first);
                continue;
            }
            let half = owners / 2;
            open.push((2 * node + 1, first + half, half));
            open.push((2 * node, first, half));
        }
    }
}

/// The pairs of owners that may not share bytes. They are many, and found from a few sorted tables.
struct Conflicts<'a> {
    owners: &'a [Owner],
    streams: usize,
    /// For each owner and stream, the last point that is known where the owner begins.
    known: Vec<u64>,
    ends: Ends,
    /// For each stream, the owners that begin on it.
    begun: Vec<Vec<usize>>,
    /// For each stream, the owners that it uses, by the number of the last use.
    used: Vec<Vec<(u64, usize)>>,
}

impl<'a> Conflicts<'a> {
    fn of(owners: &'a [Owner], streams: usize) -> Conflicts<'a> {
        let mut known = vec![0; owners.len() * streams];
        let mut begun = vec![Vec::new(); streams];
        let mut used = vec![Vec::new(); streams];
        for (k, owner) in owners.iter().enumerate() {
            owner.known.iter().for_each(|p| known[k * streams + p.stream.index()] = p.seq);
            begun[owner.on.index()].push(k);
            owner.uses.iter().for_each(|p| used[p.stream.index()].push((p.seq, k)));
        }
        used.iter_mut().for_each(|used| used.sort_unstable());
        Conflicts { owners, streams, known, ends: Ends::of(owners), begun, used }
    }

    /// Calls `found` with each owner that may not share bytes with `k`, with some of them twice.
    fn each(&self, k: usize, mut found: impl FnMut(usize)) {
        let owner = &self.owners[k];
        // Those that live where it begins, and those that begin while it lives.
        self.ends.each(k, owner.instruction, &mut found);
        let until = self.owners.partition_point(|other| other.instruction <= owner.end());
        (k + 1..until).for_each(&mut found);
        // Those that end before it begins, with a use that is not known there.
        for (stream, used) in self.used.iter().enumerate() {
            let known = self.known[k * self.streams + stream];
            let tail = owner.tails.get(StreamId(stream as u16));
            let from = used.partition_point(|(seq, _)| *seq <= known);
            let open = used[from..].iter().take_while(|(seq, _)| *seq <= tail);
            open.filter(|(_, a)| *a < k).for_each(|(_, a)| found(*a));
        }
        // Those that begin after its end and do not know one of its uses. What the owners on one
        // stream know grows.
        for point in owner.uses.iter() {
            for begun in &self.begun {
                let from = begun.partition_point(|b| *b < until);
                let knows =
                    |b: &usize| self.known[*b * self.streams + point.stream.index()] >= point.seq;
                let open = begun[from..].partition_point(|b| !knows(b));
                begun[from..from + open].iter().for_each(|b| found(*b));
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_types::Point;
    use proptest::prelude::*;

    const STREAMS: usize = 3;

    /// Returns owners as an emission makes them: what is known on a stream grows with the list.
    fn owners() -> impl Strategy<Value = Vec<Owner>> {
        let event = (0..STREAMS, 1u64..5, 0..STREAMS, any::<bool>(), 0usize..9);
        proptest::collection::vec(event, 1..60).prop_map(|events| {
            let mut clocks = [[0u64; STREAMS]; STREAMS];
            let mut owners: Vec<Owner> = Vec::new();
            let frontier = |clock: &[u64; STREAMS]| -> Frontier {
                let points = (0..).zip(clock).map(|(s, seq)| Point::new(StreamId(s), *seq));
                points.collect()
            };
            for (instruction, (s, size, q, waits, ends)) in events.into_iter().enumerate() {
                clocks[s][s] += 1;
                if waits {
                    let other = clocks[q];
                    for (own, seq) in clocks[s].iter_mut().zip(other) {
                        *own = seq.max(*own);
                    }
                }
                let mut tails = [0; STREAMS];
                (0..STREAMS).for_each(|s| tails[s] = clocks[s][s]);
                // The owner that ends here was used here, if it lives.
                if let Some(ended) = owners.len().checked_sub(ends + 1).map(|k| &mut owners[k])
                    && ended.end.is_none()
                {
                    ended.end = Some(instruction);
                    ended.uses.add(Point::new(StreamId(s as u16), clocks[s][s]));
                }
                owners.push(Owner {
                    instruction,
                    arena: ArenaId(0),
                    bytes: size * 400,
                    on: StreamId(s as u16),
                    tails: frontier(&tails),
                    known: frontier(&clocks[s]),
                    end: None,
                    uses: [Point::new(StreamId(s as u16), clocks[s][s])].into_iter().collect(),
                });
            }
            owners
        })
    }

    fn is_over_at(a: &Owner, b: &Owner) -> bool {
        a.end() < b.instruction && a.uses.iter().all(|p| b.known.covers(p))
    }

    /// A list of a great many owners that all live at once is left to the online planner.
    #[test]
    fn too_many_conflicts_are_not_examined() {
        let owner = |instruction: usize| Owner {
            instruction,
            arena: ArenaId(0),
            bytes: 400,
            on: StreamId(0),
            tails: Frontier::new(),
            known: Frontier::new(),
            end: None,
            uses: Frontier::new(),
        };
        let owners = |count: usize| -> Vec<Owner> { (0..count).map(owner).collect() };
        let few = offsets(&owners(3000), 1).unwrap();
        assert_eq!(few.iter().max(), Some(&(2999 * GRANULARITY)));
        assert_eq!(offsets(&owners(8000), 1), None);
        // Each is over before the next but one.
        let ended = |(k, owner): (usize, Owner)| Owner { end: Some(k + 1), ..owner };
        let many: Vec<Owner> = owners(200_000).into_iter().enumerate().map(ended).collect();
        assert_eq!(offsets(&many, 1).unwrap().iter().max(), Some(&GRANULARITY));
    }

    proptest! {
        #[test]
        fn owners_that_are_not_ordered_share_no_bytes(owners in owners()) {
            let conflicts = Conflicts::of(&owners, STREAMS);
            for (k, owner) in owners.iter().enumerate() {
                let mut found = Vec::new();
                conflicts.each(k, |other| found.push(other));
                found.sort_unstable();
                found.dedup();
                let clashes = |o: &Owner| !is_over_at(o, owner) && !is_over_at(owner, o);
                let all = 0..owners.len();
                let expected: Vec<usize> =
                    all.filter(|&o| o != k && clashes(&owners[o])).collect();
                prop_assert_eq!(&found, &expected);
            }
            let offsets = offsets(&owners, STREAMS).unwrap();
            for (k, owner) in owners.iter().enumerate() {
                conflicts.each(k, |other| {
                    let apart = offsets[k] + owner.bytes <= offsets[other]
                        || offsets[other] + owners[other].bytes <= offsets[k];
                    assert!(apart, "{k} and {other}");
                });
            }
        }
    }
}
