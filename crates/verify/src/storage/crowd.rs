//! Many footprints of one storage, found by where they lie.
//!
//! By the power of two that is at least its length, then by its first byte: what overlaps some bytes
//! begins at most that power before them. So each length costs one look, and what is found beyond
//! the answer lies near it.

use std::collections::BTreeSet;

use millstream_types::Access;

use crate::footprint::Footprint;
use crate::storage::{Newest, Use};

/// The power of two, the first byte, the group.
type Key = (u32, u64, usize);

#[derive(Debug, Default)]
pub(crate) struct Crowd {
    places: BTreeSet<Key>,
    writes: Newest,
    all: Newest,
}

fn key(footprint: &Footprint, group: usize) -> Key {
    let length = footprint.end() - footprint.start();
    let power = length.checked_next_power_of_two().map_or(u64::BITS, u64::trailing_zeros);
    (power, footprint.start(), group)
}

impl Crowd {
    /// The newest uses, of whatever bytes, that one of this access could conflict with.
    pub(crate) fn newest(&self, access: Access) -> &Newest {
        if access.writes() { &self.all } else { &self.writes }
    }

    pub(crate) fn note(&mut self, new: &Use) {
        if new.access.writes() {
            self.writes.note(new.clone());
        }
        self.all.note(new.clone());
    }

    pub(crate) fn add(&mut self, footprint: &Footprint, group: usize) {
        self.places.insert(key(footprint, group));
    }

    pub(crate) fn remove(&mut self, footprint: &Footprint, group: usize) {
        self.places.remove(&key(footprint, group));
    }

    /// A group has a new number.
    pub(crate) fn rename(&mut self, footprint: &Footprint, from: usize, to: usize) {
        self.remove(footprint, from);
        self.add(footprint, to);
    }

    /// The groups whose first byte and size of length are those of `footprint`.
    pub(crate) fn alike(&self, footprint: &Footprint) -> impl Iterator<Item = usize> {
        let (from, to) = (key(footprint, 0), key(footprint, usize::MAX));
        self.places.range(from..=to).map(|&(.., group)| group)
    }

    /// The groups that may overlap a footprint.
    pub(crate) fn near(&self, footprint: &Footprint) -> impl Iterator<Item = usize> {
        let (start, end) = (footprint.start(), footprint.end());
        let mut next = self.places.first().map(|&(power, ..)| power);
        let powers = std::iter::from_fn(move || {
            let power = next?;
            next = self.places.range((power + 1, 0, 0)..).next().map(|&(power, ..)| power);
            Some(power)
        });
        powers.flat_map(move |power| {
            let longest = 1u64.checked_shl(power).unwrap_or(u64::MAX);
            let from = (power, start.saturating_sub(longest), 0);
            let to = (power, end.max(start), 0);
            self.places.range(from..to).map(|&(.., group)| group)
        })
    }
}
