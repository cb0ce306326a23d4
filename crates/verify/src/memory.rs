//! Ownership of an arena's bytes.

use std::collections::BTreeMap;

use millstream_instructions::Placement;

use crate::storage::Use;

/// Offsets of placements are multiples of this many bytes.
pub(crate) const ALIGNMENT: u64 = 512;

/// The owner of some bytes.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// The storage of this number, live or released.
    Storage(usize),
    /// An instruction's workspace, whose ownership ends with the instruction.
    Workspace(Use),
}

#[derive(Clone, Debug)]
pub(crate) struct Region {
    end: u64,
    pub(crate) generation: u64,
    pub(crate) owner: Owner,
}

/// The newest owner of every byte of one arena that was ever placed.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    // By first byte. Regions are disjoint.
    regions: BTreeMap<u64, Region>,
}

impl Arena {
    /// Assigns a placement to a new owner and returns the earlier owners of its bytes. The new
    /// owner is ordered after them, so an order after the new owner implies one after them: the
    /// placement's bytes forget them. Returns `None` if the end of the placement exceeds 64 bits.
    pub(crate) fn assign(&mut self, place: &Placement, owner: Owner) -> Option<Vec<Region>> {
        let (start, end) = (place.offset, place.offset.checked_add(place.size)?);
        if start == end {
            return Some(Vec::new());
        }
        let mut before = Vec::new();
        let first = self.regions.range(..=start).next_back().filter(|(_, r)| r.end > start);
        let from = first.map_or(start, |(&from, _)| from);
        let touched: Vec<u64> = self.regions.range(from..end).map(|(&at, _)| at).collect();
        for at in touched {
            let Some(region) = self.regions.remove(&at) else { continue };
            if at < start {
                self.regions.insert(at, Region { end: start, ..region.clone() });
            }
            if region.end > end {
                self.regions.insert(end, region.clone());
            }
            before.push(region);
        }
        self.regions.insert(start, Region { end, generation: place.generation, owner });
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_instructions::ArenaId;
    use proptest::prelude::*;

    fn place(offset: u64, size: u64) -> Placement {
        Placement { arena: ArenaId(0), offset, size, generation: 0 }
    }

    fn number(region: &Region) -> usize {
        match region.owner {
            Owner::Storage(n) => n,
            Owner::Workspace(_) => usize::MAX,
        }
    }

    proptest! {
        #[test]
        fn every_byte_remembers_its_newest_owner(
            places in proptest::collection::vec((0u64..40, 0u64..20), 0..30),
        ) {
            let mut arena = Arena::default();
            let mut bytes = [None; 64];
            for (n, &(offset, size)) in places.iter().enumerate() {
                let before = arena.assign(&place(offset, size), Owner::Storage(n)).unwrap();
                let mine = &mut bytes[offset as usize..(offset + size) as usize];
                let mut expected: Vec<usize> = mine.iter().flatten().copied().collect();
                let mut got: Vec<usize> = before.iter().map(number).collect();
                for owners in [&mut expected, &mut got] {
                    owners.sort_unstable();
                    owners.dedup();
                }
                prop_assert_eq!(got, expected);
                mine.fill(Some(n));
            }
        }
    }

    #[test]
    fn a_place_past_the_end_of_numbers_is_none() {
        assert!(Arena::default().assign(&place(u64::MAX, 2), Owner::Storage(0)).is_none());
        assert!(
            Arena::default().assign(&place(u64::MAX, 0), Owner::Storage(0)).unwrap().is_empty()
        );
    }
}
