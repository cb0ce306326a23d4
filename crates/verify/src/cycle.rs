//! Why a wait never ends: the way from what it waits for back to itself.
//!
//! A wait for what stands later in the list is refused in any case. This says whether there is a
//! cycle: whether what is waited for comes, by its own stream and its own waits, after the wait.

use std::collections::{HashMap, HashSet};

use millstream_instructions::InstructionList;
use millstream_types::{Point, StreamId};

/// The instructions from the one that takes `until`, each of which waits for the next, up to the
/// wait at `index`. Nothing if there is no such way.
pub(crate) fn cycle(list: &InstructionList, index: usize, until: Point) -> Vec<usize> {
    let mut places: HashMap<StreamId, Vec<(u64, usize)>> = HashMap::new();
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
    // Whoever takes a place, or the first place after it.
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
    let mut from: HashMap<usize, usize> = HashMap::new();
    let (mut seen, mut open) = (HashSet::from([start]), vec![start]);
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
