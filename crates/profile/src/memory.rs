//! Who holds memory, and when.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::model::{NONE, Profile, Storage};

/// The time during which a storage counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The storage.
    pub storage: u32,
    /// When its first use began; 0 for a storage from before the run.
    pub begin: u64,
    /// When its last use ended; the end of the run for a storage that is never released.
    pub end: u64,
}

/// Returns the times during which the storages of an arena are held, in the order of their begin.
///
/// A storage is held from its first use to its last, in the times of execution, as the streams have
/// them. The program holds it from the submission of its allocation to that of its release, often
/// long before: the peak that a run reports is that of the program's order.
pub fn held(profile: &Profile, arena: u32) -> Vec<Held> {
    let mut uses: Vec<[u64; 2]> = vec![[u64::MAX, 0]; profile.storages.len()];
    for (_, instruction, times) in profile.shown() {
        for operand in profile.operands_of(instruction) {
            let storage = profile.tensors[operand.tensor as usize].storage as usize;
            let [first, last] = uses[storage];
            uses[storage] = [first.min(times.start), last.max(times.end)];
        }
    }
    let of_workspace = |k: u32| {
        let times = profile.instructions.get(k as usize)?.times?;
        Some([times.start, times.end])
    };
    let one = |(k, storage): (usize, &Storage)| {
        let Storage { allocated, released, .. } = *storage;
        let [first, last] = match storage.tensor {
            NONE => of_workspace(allocated)?,
            _ => uses[k],
        };
        let begin = if allocated == NONE { 0 } else { first };
        let end = if released == NONE { profile.total } else { last };
        let end = end.max(begin.saturating_add(1));
        (begin != u64::MAX).then_some(Held { storage: k as u32, begin, end })
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

/// A storage begins or ends. What ends at a moment makes room for what begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    at: u64,
    begins: bool,
    storage: u32,
}

/// Returns the memory of an arena over time: the highest level of each moment at which it changes,
/// and the one after it.
pub fn curve(profile: &Profile, held: &[Held]) -> Vec<Level> {
    let both = |&Held { storage, begin, end }: &Held| {
        [(begin, true), (end, false)].map(|(at, begins)| Change { at, begins, storage })
    };
    let mut changes: Vec<Change> = held.iter().flat_map(both).collect();
    changes.sort_unstable();
    let mut taken: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut levels, mut bytes) = (Vec::new(), 0);
    let mut highest: Option<Level> = None;
    for (k, &Change { at, begins, storage }) in changes.iter().enumerate() {
        let Storage { offset, size, .. } = profile.storages[storage as usize];
        let end = offset.checked_add(size);
        if begins {
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

/// Returns the most bytes of an arena that the program holds at once: from an allocation to the
/// release, in the order of the program, which is the peak that a run reports. None for a
/// prediction and for the memory of an executable, which is planned.
pub fn most_held(profile: &Profile, arena: u32) -> Option<u64> {
    let mut changes: Vec<(u32, bool, u64)> = Vec::new();
    for storage in profile.storages.iter().filter(|storage| storage.arena == arena) {
        let begins = profile.instructions.get(storage.allocated as usize);
        if begins.is_some_and(|i| i.issued.is_none() || i.parent != NONE) {
            return None;
        }
        // What is there before comes first. A workspace begins and ends with its instruction.
        let at = |k: u32| if k == NONE { 0 } else { k + 1 };
        changes.push((at(storage.allocated), false, storage.size));
        if storage.released != NONE {
            changes.push((at(storage.released), true, storage.size));
        }
    }
    changes.sort_unstable();
    let (mut held, mut most) = (0, 0);
    for (_, ends, size) in changes {
        held = if ends { held - size } else { held + size };
        most = most.max(held);
    }
    Some(most)
}

/// The memory of an arena when most of it is in use.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak<'a> {
    /// The arena's name.
    pub arena: &'a str,
    /// What is in use.
    pub level: Level,
    /// The most bytes that the program holds at once; see [`most_held`].
    pub most_held: Option<u64>,
    /// What holds memory at the peak, the largest first.
    pub holders: Vec<Holder<'a>>,
}

/// A storage at a peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holder<'a> {
    /// The tensor that it was made for, or `workspace`.
    pub tensor: &'a str,
    /// The tensor's dtype and shape.
    pub spec: &'a str,
    /// The bytes.
    pub bytes: u64,
    /// The place that made it; none if it was there before the run.
    pub made_at: Option<&'a str>,
}

/// Returns the peaks of all arenas that are used.
pub fn peaks(profile: &Profile) -> Vec<Peak<'_>> {
    let arenas = (0..).zip(&profile.arenas);
    let peaks = arenas.filter_map(|(arena, name)| {
        let held = held(profile, arena);
        let level = peak(&curve(profile, &held)).filter(|peak| peak.bytes > 0)?;
        let holders = holders(profile, &held, level.at).into_iter().map(|k| {
            let storage = &profile.storages[k as usize];
            let tensor = profile.tensors.get(storage.tensor as usize);
            let [tensor, spec] = tensor.map_or(["workspace", ""], |t| [&t.name, &t.spec]);
            let made = profile.instructions.get(storage.allocated as usize);
            let made_at = made.map(|made| profile.place_of(made));
            Holder { tensor, spec, bytes: storage.size, made_at }
        });
        let (holders, most_held) = (holders.collect(), most_held(profile, arena));
        Some(Peak { arena: name, level, most_held, holders })
    });
    peaks.collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Instruction, Operand, Stream, Tensor, Times};

    /// Two calls that are submitted at once and run one after the other, the second in new memory.
    #[test]
    fn memory_is_in_use_when_calls_run_and_held_from_their_submission() {
        let call = |k: u32| Instruction {
            issued: Some(u64::from(k)),
            times: Some(Times {
                ready: 0,
                start: 10 + u64::from(k) * 10,
                end: 20 + u64::from(k) * 10,
            }),
            operands: [k, k + 1],
            parent: NONE,
            ..Instruction::default()
        };
        let release = Instruction { issued: Some(2), stream: NONE, parent: NONE, ..call(9) };
        let storage = |k: u32| Storage {
            arena: 0,
            size: 8,
            offset: u64::from(k) * 8,
            tensor: k,
            allocated: k,
            released: 2,
            ..Storage::default()
        };
        let profile = Profile {
            streams: vec![Stream::default()],
            tensors: [0, 1].map(|storage| Tensor { storage, ..Tensor::default() }).to_vec(),
            storages: [0, 1].map(storage).to_vec(),
            instructions: vec![call(0), call(1), Instruction { times: None, ..release }],
            operands: [0, 1].map(|tensor| Operand { tensor, reads: false, writes: true }).to_vec(),
            total: 40,
            ..Profile::default()
        };
        let held = held(&profile, 0);
        assert_eq!(
            held.iter().map(|h| [h.begin, h.end]).collect::<Vec<[u64; 2]>>(),
            [[10, 20], [20, 30]]
        );
        let levels = curve(&profile, &held);
        assert_eq!(levels.iter().map(|level| level.bytes).max(), Some(8));
        assert_eq!(most_held(&profile, 0), Some(16));
    }
}
