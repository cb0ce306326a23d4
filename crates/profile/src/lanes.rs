//! Lanes of streams: instructions of one lane do not overlap.

use crate::model::Profile;

/// Returns the lane of each instruction on its stream, by position; 0 for those that a timeline
/// does not show.
pub fn of(profile: &Profile) -> Vec<u32> {
    let mut lanes = vec![0; profile.instructions.len()];
    let mut shown: Vec<_> =
        profile.shown().map(|(k, i, t)| (t.start, t.end, k, i.stream)).collect();
    shown.sort_unstable();
    // For each stream, the end of the last instruction of each lane.
    let mut ends: Vec<Vec<u64>> = vec![Vec::new(); profile.streams.len()];
    for (start, end, k, stream) in shown {
        let ends = &mut ends[stream as usize];
        let free = ends.iter().position(|end| *end <= start);
        let lane = free.unwrap_or(ends.len());
        match free {
            Some(lane) => ends[lane] = end,
            None => ends.push(end),
        }
        lanes[k] = lane as u32;
    }
    lanes
}

/// Returns how many lanes each stream has: at least one.
pub fn counts(profile: &Profile) -> Vec<u32> {
    let mut counts = vec![1; profile.streams.len()];
    for (lane, instruction) in of(profile).iter().zip(&profile.instructions) {
        if instruction.is_shown() {
            let count = &mut counts[instruction.stream as usize];
            *count = (*count).max(lane + 1);
        }
    }
    counts
}
