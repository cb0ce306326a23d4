//! Who holds memory, and when.

use std::collections::BTreeMap;

use crate::model::{NONE, Profile, Storage};

/// The time during which a storage's bytes are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The storage.
    pub storage: u32,
    /// When it was allocated: when the host submitted the allocation.
    pub begin: u64,
    /// When its last use had completed and it was released. The end of the run for a storage that
    /// is never released.
    pub end: u64,
}

/// Returns the times during which the storages of an arena are taken, in the order of their begin.
pub fn held(profile: &Profile, arena: u32) -> Vec<Held> {
    let mut last_use: Vec<u64> = vec![0; profile.storages.len()];
    let mut first_use: Vec<u64> = vec![u64::MAX; profile.storages.len()];
    for (_, instruction, times) in profile.shown() {
        for operand in profile.operands_of(instruction) {
            let storage = profile.tensors[operand.tensor as usize].storage as usize;
            last_use[storage] = last_use[storage].max(times.end);
            first_use[storage] = first_use[storage].min(times.start);
        }
    }
    let submitted = |instruction: u32| {
        let instruction = profile.instructions.get(instruction as usize)?;
        instruction.issued.or_else(|| instruction.times.map(|t| t.start))
    };
    let one = |(k, storage): (usize, &Storage)| {
        let is_workspace = storage.tensor == NONE;
        let (begin, end) = if is_workspace {
            let times = profile.instructions.get(storage.allocated as usize)?.times?;
            (times.start, times.end)
        } else {
            // A prediction has no time of submission: the first use stands for the allocation.
            let begin = match storage.allocated {
                NONE => 0,
                allocated => submitted(allocated).unwrap_or(first_use[k]),
            };
            let end = match storage.released {
                NONE => profile.total,
                released => submitted(released).unwrap_or(0).max(last_use[k]),
            };
            (begin, end)
        };
        (begin != u64::MAX).then_some(Held { storage: k as u32, begin, end: end.max(begin) })
    };
    let storages = profile.storages.iter().enumerate().filter(|(_, s)| s.arena == arena);
    let mut held: Vec<Held> = storages.filter_map(one).collect();
    held.sort_by_key(|held| (held.begin, held.storage));
    held
}

/// The memory of an arena from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The moment.
    pub at: u64,
    /// The bytes that are taken.
    pub bytes: u64,
    /// The end of the highest taken byte: what the arena needs at least.
    pub extent: u64,
}

impl Level {
    /// Returns the part of the extent that is not taken, from 0 to 1.
    pub fn fragmentation(&self) -> f64 {
        match self.extent {
            0 => 0.0,
            extent => 1.0 - self.bytes.min(extent) as f64 / extent as f64,
        }
    }
}

/// Returns the memory of an arena over time: one level for each moment at which it changes.
pub fn curve(profile: &Profile, held: &[Held]) -> Vec<Level> {
    let mut changes: Vec<(u64, bool, u32)> = Vec::with_capacity(held.len() * 2);
    for one in held {
        changes.push((one.begin, true, one.storage));
        changes.push((one.end, false, one.storage));
    }
    // What ends at a moment makes room for what begins there.
    changes.sort_unstable();
    let mut ends: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut levels, mut bytes) = (Vec::new(), 0);
    for (k, &(at, begins, storage)) in changes.iter().enumerate() {
        let Storage { offset, size, .. } = profile.storages[storage as usize];
        let end = offset.checked_add(size);
        if begins {
            bytes += size;
            if let Some(end) = end {
                *ends.entry(end).or_default() += 1;
            }
        } else {
            bytes -= size;
            if let Some(end) = end
                && let Some(count) = ends.get_mut(&end)
            {
                *count -= 1;
                if *count == 0 {
                    ends.remove(&end);
                }
            }
        }
        if changes.get(k + 1).is_none_or(|(next, ..)| *next > at) {
            let extent = ends.last_key_value().map_or(0, |(end, _)| *end).max(bytes);
            levels.push(Level { at, bytes, extent });
        }
    }
    levels
}

/// Returns the level of the highest use, the first of these.
pub fn peak(levels: &[Level]) -> Option<Level> {
    levels.iter().copied().reduce(|best, level| if level.bytes > best.bytes { level } else { best })
}

/// Returns the storages that are taken at a moment, the largest first.
pub fn holders(profile: &Profile, held: &[Held], at: u64) -> Vec<u32> {
    let taken = held.iter().filter(|held| held.begin <= at && at < held.end.max(held.begin + 1));
    let mut taken: Vec<u32> = taken.map(|held| held.storage).collect();
    taken.sort_by_key(|&k| (std::cmp::Reverse(profile.storages[k as usize].size), k));
    taken
}

/// Returns the storage whose bytes a storage takes over: the last one before it on some of its
/// bytes.
pub fn reused(profile: &Profile, storage: u32) -> Option<u32> {
    let own = &profile.storages[storage as usize];
    let end = own.offset.checked_add(own.size)?;
    let earlier = profile.storages[..storage as usize].iter().enumerate().rev();
    let mut overlapping = earlier.filter(|(_, other)| {
        let other_end = other.offset.checked_add(other.size);
        other.arena == own.arena
            && other_end.is_some_and(|other_end| other.offset < end && own.offset < other_end)
    });
    overlapping.next().map(|(k, _)| k as u32)
}
