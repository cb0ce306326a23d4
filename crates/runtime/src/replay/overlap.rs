//! Formals of a launch that share memory.

use std::ops::Range;

use millstream_types::StorageId;

/// The bytes that a list uses of the tensor given for a formal.
#[derive(Debug)]
pub struct Extent {
    /// The formal's number.
    pub formal: usize,
    /// The storage that holds it.
    pub storage: StorageId,
    /// Its bytes within the storage.
    pub bytes: Range<u64>,
    /// Whether the list writes it.
    pub is_written: bool,
    /// Whether the tensor was bound. What was bound was compared when it was.
    pub is_bound: bool,
}

impl Extent {
    /// Whether two extents of one storage may not share bytes.
    const fn excludes(&self, other: &Extent) -> bool {
        (self.is_written || other.is_written) && !(self.is_bound && other.is_bound)
    }
}

/// Returns two formals that share bytes and may not, the smaller number first. Sorts the extents,
/// and compares each with the earlier one of each class that reaches furthest.
pub fn conflict(extents: &mut [Extent]) -> Option<(usize, usize)> {
    extents.sort_unstable_by_key(|extent| (extent.storage, extent.bytes.start));
    let mut furthest: [Option<&Extent>; 4] = [None; 4];
    for extent in extents.iter().filter(|extent| !extent.bytes.is_empty()) {
        let of_storage = |other: &&&Extent| other.storage == extent.storage;
        for before in furthest.iter().flatten().filter(of_storage) {
            if extent.bytes.start < before.bytes.end && extent.excludes(before) {
                let (a, b) = (before.formal, extent.formal);
                return Some((a.min(b), a.max(b)));
            }
        }
        let class = usize::from(extent.is_written) << 1 | usize::from(extent.is_bound);
        let reaches =
            |other: &Extent| other.storage == extent.storage && other.bytes.end >= extent.bytes.end;
        if !furthest[class].is_some_and(reaches) {
            furthest[class] = Some(extent);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with the comparison of all pairs.
    #[test]
    fn conflicts_are_those_of_all_pairs() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut found = 0;
        for _ in 0..20_000 {
            let count = 1 + random(6) as usize;
            let mut extents: Vec<Extent> = (0..count)
                .map(|formal| {
                    let start = random(20);
                    Extent {
                        formal,
                        storage: StorageId(random(2) as u32),
                        bytes: start..start + random(8),
                        is_written: random(3) == 0,
                        is_bound: random(2) == 0,
                    }
                })
                .collect();
            let overlap = |a: &Extent, b: &Extent| {
                a.storage == b.storage
                    && a.bytes.start.max(b.bytes.start) < a.bytes.end.min(b.bytes.end)
                    && (a.is_written || b.is_written)
                    && !(a.is_bound && b.is_bound)
            };
            let pairs = |extents: &[Extent]| -> Vec<(usize, usize)> {
                let all = extents.iter().flat_map(|a| extents.iter().map(move |b| (a, b)));
                let all = all.filter(|(a, b)| a.formal < b.formal && overlap(a, b));
                all.map(|(a, b)| (a.formal, b.formal)).collect()
            };
            let expected = pairs(&extents);
            match conflict(&mut extents) {
                Some(pair) => assert!(expected.contains(&pair), "{pair:?}: {extents:?}"),
                None => assert!(expected.is_empty(), "{expected:?}: {extents:?}"),
            }
            found += usize::from(!expected.is_empty());
        }
        assert!(found > 1000);
    }
}
