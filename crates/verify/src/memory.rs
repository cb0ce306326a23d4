//! Who owns which bytes of an arena.

use std::collections::BTreeMap;

use millstream_instructions::Placement;

use crate::storage::Use;

/// Offsets of placements are multiples of this many bytes.
pub(crate) const ALIGNMENT: u64 = 512;

/// The owner of some bytes.
#[derive(Clone, Debug)]
pub(crate) enum Owner {
    /// The storage of this number, dead or alive.
    Storage(usize),
    /// An instruction's workspace, over with the instruction.
    Workspace(Use),
}

#[derive(Clone, Debug)]
pub(crate) struct Region {
    end: u64,
    pub(crate) generation: u64,
    pub(crate) owner: Owner,
}

/// The newest owner of every byte of one arena that ever had one.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    // By first byte. Regions do not overlap.
    regions: BTreeMap<u64, Region>,
}

impl Arena {
    /// Gives a place to a new owner and returns who owned any of it before. A new owner comes
    /// after the earlier ones, so that whoever comes after it comes after them: they are forgotten
    /// as far as the place reaches. `None` if the place ends past what 64 bits can count.
    pub(crate) fn give(&mut self, place: &Placement, owner: Owner) -> Option<Vec<Region>> {
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
                let before = arena.give(&place(offset, size), Owner::Storage(n)).unwrap();
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
        assert!(Arena::default().give(&place(u64::MAX, 2), Owner::Storage(0)).is_none());
        assert!(Arena::default().give(&place(u64::MAX, 0), Owner::Storage(0)).unwrap().is_empty());
    }
}
