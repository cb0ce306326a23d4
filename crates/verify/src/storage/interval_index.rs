//! An index over the footprints of one storage, for storages with many of them.
//!
//! A footprint's key is the smallest power of two that is at least its length (the size class),
//! then its first byte. A footprint that overlaps a range begins at most its size class before the
//! range. A search therefore scans one key range for each size class, and false candidates lie near
//! the range.

use std::collections::BTreeSet;

use millstream_types::Access;

use crate::footprint::Footprint;
use crate::storage::{Newest, Use};

/// The size class as an exponent, the first byte, the number of the group.
type Key = (u32, u64, usize);

#[derive(Debug, Default)]
pub(crate) struct IntervalIndex {
    intervals: BTreeSet<Key>,
    writes: Newest,
    all: Newest,
}

fn key(footprint: &Footprint, group: usize) -> Key {
    let length = footprint.end() - footprint.start();
    let class = length.checked_next_power_of_two().map_or(u64::BITS, u64::trailing_zeros);
    (class, footprint.start(), group)
}

impl IntervalIndex {
    /// Returns the newest uses of any bytes that a use with this access could conflict with.
    pub(crate) fn newest(&self, access: Access) -> &Newest {
        if access.writes() { &self.all } else { &self.writes }
    }

    /// Records a use of any of the groups.
    pub(crate) fn record_use(&mut self, new: &Use) {
        if new.access.writes() {
            self.writes.record(new.clone());
        }
        self.all.record(new.clone());
    }

    /// Inserts a group.
    pub(crate) fn insert(&mut self, footprint: &Footprint, group: usize) {
        self.intervals.insert(key(footprint, group));
    }

    /// Removes a group.
    pub(crate) fn remove(&mut self, footprint: &Footprint, group: usize) {
        self.intervals.remove(&key(footprint, group));
    }

    /// Changes the number of a group.
    pub(crate) fn renumber(&mut self, footprint: &Footprint, from: usize, to: usize) {
        self.remove(footprint, from);
        self.insert(footprint, to);
    }

    /// Returns the groups whose first byte and size class equal those of `footprint`.
    pub(crate) fn with_bounds_like(&self, footprint: &Footprint) -> impl Iterator<Item = usize> {
        let (from, to) = (key(footprint, 0), key(footprint, usize::MAX));
        self.intervals.range(from..=to).map(|&(.., group)| group)
    }

    /// Returns the groups that may overlap a footprint.
    pub(crate) fn candidates(&self, footprint: &Footprint) -> impl Iterator<Item = usize> {
        let (start, end) = (footprint.start(), footprint.end());
        let mut next = self.intervals.first().map(|&(class, ..)| class);
        let classes = std::iter::from_fn(move || {
            let class = next?;
            next = self.intervals.range((class + 1, 0, 0)..).next().map(|&(class, ..)| class);
            Some(class)
        });
        classes.flat_map(move |class| {
            let longest = 1u64.checked_shl(class).unwrap_or(u64::MAX);
            let from = (class, start.saturating_sub(longest), 0);
            let to = (class, end.max(start), 0);
            self.intervals.range(from..to).map(|&(.., group)| group)
        })
    }
}
