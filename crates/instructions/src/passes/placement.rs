//! Offsets in arenas for all storages and workspaces of a finished list.
//!
//! Two owners may share bytes only if the list orders all uses of one before the beginning of the
//! other. That is a partial order; on one stream it is a sequence.

use std::collections::BTreeMap;

use millstream_types::StreamId;

use crate::frontier::Frontier;
use crate::instruction::Placement;
use crate::list::InstructionList;
use crate::passes::offsets::{self, Buffers, Effort, Offsets};
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
/// no machine has any: the result then is the largest number.
pub(super) const fn rounded(bytes: u64) -> u64 {
    match bytes.checked_next_multiple_of(GRANULARITY) {
        Some(bytes) => bytes,
        // A foreign list may say so; such memory is refused where it is reserved.
        None => u64::MAX,
    }
}

/// Returns an offset for each owner. The owners are in the order of their instructions. Returns
/// none if so many live at once that it would take too long.
pub(super) fn offsets(owners: &[Owner], streams: usize, effort: Effort) -> Option<Vec<u64>> {
    let mut all = vec![0; owners.len()];
    for (_, members, planned) in plans(owners, streams, effort)? {
        for (k, at) in members.into_iter().zip(planned.offsets) {
            all[k] = at;
        }
    }
    Some(all)
}

/// Returns the owners of each arena that have bytes, with their offsets; none as [`offsets`].
pub(super) fn plans(
    owners: &[Owner],
    streams: usize,
    effort: Effort,
) -> Option<Vec<(ArenaId, Vec<usize>, Offsets)>> {
    let mut arenas: BTreeMap<ArenaId, Vec<usize>> = BTreeMap::new();
    for (k, owner) in owners.iter().enumerate().filter(|(_, owner)| owner.bytes > 0) {
        arenas.entry(owner.arena).or_default().push(k);
    }
    let plan = |(arena, members): (ArenaId, Vec<usize>)| {
        let planned = offsets::plan_buffers(&buffers(owners, &members, streams), effort)?;
        Some((arena, members, planned))
    };
    arenas.into_iter().map(plan).collect()
}

/// Returns some of the owners as buffers: a lane is a stream that they begin on.
fn buffers(owners: &[Owner], members: &[usize], streams: usize) -> Buffers {
    let of: Vec<(u64, usize)> =
        members.iter().map(|&k| (rounded(owners[k].bytes), owners[k].on.index())).collect();
    Buffers::new(&of, streams, |k, lane| {
        let owner = &owners[members[k]];
        // What is known where the owners of a stream begin grows.
        lane.partition_point(|&later| {
            let later = &owners[members[later as usize]];
            later.instruction <= owner.end() || !owner.uses.iter().all(|p| later.known.covers(p))
        })
    })
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
            known: Frontier::new(),
            end: None,
            uses: Frontier::new(),
        };
        let owners = |count: usize| -> Vec<Owner> { (0..count).map(owner).collect() };
        let placed = |owners: &[Owner]| {
            let offsets = offsets(owners, 1, Effort::Usual)?;
            offsets.into_iter().max()
        };
        assert_eq!(placed(&owners(3000)), Some(2999 * GRANULARITY));
        assert_eq!(placed(&owners(8000)), None);
        // Each is over before the next but one.
        let ended = |(k, owner): (usize, Owner)| Owner { end: Some(k + 1), ..owner };
        let many: Vec<Owner> = owners(200_000).into_iter().enumerate().map(ended).collect();
        assert_eq!(placed(&many), Some(GRANULARITY));
    }

    proptest! {
        #[test]
        fn owners_that_are_not_ordered_share_no_bytes(owners in owners()) {
            let members: Vec<usize> = (0..owners.len()).filter(|&k| owners[k].bytes > 0).collect();
            let offsets = offsets(&owners, STREAMS, Effort::Usual).unwrap();
            for (&a, &b) in members.iter().flat_map(|a| members.iter().map(move |b| (a, b))) {
                if a < b && !is_over_at(&owners[a], &owners[b]) {
                    let apart = offsets[a] + owners[a].bytes <= offsets[b]
                        || offsets[b] + owners[b].bytes <= offsets[a];
                    prop_assert!(apart, "{a} and {b}");
                }
            }
        }
    }
}
