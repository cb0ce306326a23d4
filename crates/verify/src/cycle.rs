//! The cycle that an unending wait is part of.
//!
//! The walk rejects every wait for a later instruction. This module determines whether the awaited
//! instruction is ordered, by its own stream and its own waits, after the wait.

use millstream_instructions::InstructionList;
use millstream_types::{Point, StreamId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Returns the path from the instruction at `until` to the wait at `index`, where each instruction
/// waits for the next. Returns an empty path if there is none.
pub(crate) fn cycle(list: &InstructionList, index: usize, until: Point) -> Vec<usize> {
    let mut places: FxHashMap<StreamId, Vec<(u64, usize)>> = FxHashMap::default();
    for (k, instruction) in list.instructions.iter().enumerate() {
        if let Some(at) = instruction.body.at() {
            places.entry(at.stream).or_default().push((at.seq, k));
        }
        if let Some(record) = instruction.body.second_point() {
            places.entry(record.stream).or_default().push((record.seq, k));
        }
    }
    for taken in places.values_mut() {
        taken.sort_unstable();
    }
    // The instruction at a point, or else the first one after it.
    let at = |point: Point| {
        let taken = places.get(&point.stream)?;
        let next = taken.partition_point(|&(seq, _)| seq < point.seq);
        taken.get(next).map(|&(_, k)| k)
    };
    let before = |point: Point| {
        let taken = places.get(&point.stream)?;
        let next = taken.partition_point(|&(seq, _)| seq < point.seq);
        next.checked_sub(1).map(|last| taken[last].1)
    };
    let Some(start) = at(until) else { return Vec::new() };
    let mut from: FxHashMap<usize, usize> = FxHashMap::default();
    let (mut seen, mut open) = (FxHashSet::from_iter([start]), vec![start]);
    while let Some(k) = open.pop() {
        if k == index {
            let mut way = vec![k];
            while let Some(&last) = way.last().and_then(|k| from.get(k)) {
                way.push(last);
            }
            way.reverse();
            return way;
        }
        let body = &list.instructions[k].body;
        let waits = body.until().and_then(at);
        for next in body.at().and_then(before).into_iter().chain(waits) {
            if seen.insert(next) {
                from.insert(next, k);
                open.push(next);
            }
        }
    }
    Vec::new()
}
