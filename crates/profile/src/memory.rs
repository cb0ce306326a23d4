//! Who holds memory, and when.

use std::collections::BTreeMap;

use crate::model::{NONE, Profile, Storage};

/// The time during which a storage counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The storage.
    pub storage: u32,
    /// When it was allocated: when the host submitted the allocation.
    pub begin: u64,
    /// When it was released: when the host submitted the release. The end of the run for a storage
    /// that is never released.
    pub end: u64,
}

/// Returns the times during which the storages of an arena are held, in the order of their begin.
///
/// A program holds memory from the submission of its allocation to that of its release, in program
/// order. So the highest level is the peak that a run reports, however long its instructions take.
/// Predictions have no times of submission, and the memory of an executable is planned: there a
/// storage is held from its first use to its last.
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
    let submitted = |k: u32| submitted(profile, k);
    let times = |k: u32| profile.instructions.get(k as usize).and_then(|i| i.times);
    let one = |(k, storage): (usize, &Storage)| {
        let Storage { allocated, released, .. } = *storage;
        let is_workspace = storage.tensor == NONE;
        let begin = match (allocated, submitted(allocated)) {
            (NONE, _) => 0,
            (_, Some(at)) => at,
            (_, None) if is_workspace => times(allocated)?.start,
            (_, None) => times(allocated).map_or(first_use[k], |times| times.start),
        };
        let end = match (released, submitted(released)) {
            (NONE, _) => profile.total,
            (_, Some(at)) => at,
            (_, None) if is_workspace => times(released)?.end,
            (_, None) => times(released).map_or(0, |times| times.start).max(last_use[k]),
        };
        let end = end.max(begin.saturating_add(1));
        (begin != u64::MAX).then_some(Held { storage: k as u32, begin, end })
    };
    let storages = profile.storages.iter().enumerate().filter(|(_, s)| s.arena == arena);
    let mut held: Vec<Held> = storages.filter_map(one).collect();
    held.sort_by_key(|held| (held.begin, held.storage));
    held
}

/// Returns when the program submitted an instruction by itself.
fn submitted(profile: &Profile, k: u32) -> Option<u64> {
    let instruction = profile.instructions.get(k as usize);
    instruction.filter(|instruction| instruction.parent == NONE)?.issued
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

/// A storage begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    at: u64,
    /// Orders the changes of one moment: the position of the instruction, from 1. Without times of
    /// submission, what ends at a moment makes room for what begins there.
    position: u32,
    ends: bool,
    storage: u32,
}

/// Returns the changes of an arena's memory, in order.
fn changes(profile: &Profile, held: &[Held]) -> Vec<Change> {
    let position = |k: u32| submitted(profile, k).map(|_| k + 1);
    let mut changes = Vec::with_capacity(held.len() * 2);
    for &Held { storage, begin, end } in held {
        let of = &profile.storages[storage as usize];
        let first = match of.allocated {
            NONE => 0,
            allocated => position(allocated).unwrap_or(NONE),
        };
        let (end, last) = match of.released {
            NONE => (end, NONE),
            // A workspace ends with its instruction.
            released if released == of.allocated && first != NONE => (begin, first),
            released => (end, position(released).unwrap_or(0)),
        };
        changes.push(Change { at: begin, position: first, ends: false, storage });
        changes.push(Change { at: end, position: last, ends: true, storage });
    }
    changes.sort_unstable();
    changes
}

/// Returns the memory of an arena over time: the highest level of each moment at which it changes,
/// and the one after it.
pub fn curve(profile: &Profile, held: &[Held]) -> Vec<Level> {
    let changes = changes(profile, held);
    let mut taken: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut levels, mut bytes) = (Vec::new(), 0);
    let mut highest: Option<Level> = None;
    for (k, &Change { at, ends, storage, .. }) in changes.iter().enumerate() {
        let Storage { offset, size, .. } = profile.storages[storage as usize];
        let end = offset.checked_add(size);
        if !ends {
            bytes += size;
            if let Some(end) = end {
                *taken.entry(end).or_default() += 1;
            }
        } else {
            bytes -= size;
            if let Some(end) = end
                && let Some(count) = taken.get_mut(&end)
            {
                *count -= 1;
                if *count == 0 {
                    taken.remove(&end);
                }
            }
        }
        let extent = taken.last_key_value().map_or(0, |(end, _)| *end).max(bytes);
        let level = Level { at, bytes, extent };
        let most = *highest.get_or_insert(level);
        highest = Some(if level.bytes > most.bytes { level } else { most });
        let next = changes.get(k + 1).map_or(u64::MAX, |next| next.at);
        if next == at {
            continue;
        }
        let most = highest.take().unwrap_or(level);
        // What a moment ends at is its level, unless it was higher for an instruction.
        levels.push(most);
        if most != level && next > at + 1 {
            levels.push(Level { at: at + 1, ..level });
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
