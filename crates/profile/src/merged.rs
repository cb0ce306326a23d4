//! Several ranks in one profile.

use std::collections::HashMap;

use crate::model::{NONE, Profile, Runs};

/// Returns one profile of several ranks' profiles, each with the time at which it began. The
/// streams, arenas and ranges of a rank have its number in their names.
pub fn merged(title: &str, ranks: Vec<(u64, Profile)>) -> Profile {
    let began = ranks.iter().map(|(began, _)| *began).min().unwrap_or(0);
    let mut all = Profile { title: title.to_owned(), ..Profile::default() };
    let mut interned = [HashMap::new(), HashMap::new(), HashMap::new()];
    for (rank, (own_begin, profile)) in (0..).zip(ranks) {
        let later = own_begin - began;
        let is_first = rank == 0;
        all.source = profile.source;
        all.host_workers = all.host_workers.max(profile.host_workers);
        all.is_inline = profile.is_inline;
        all.handoff = all.handoff.or(profile.handoff);
        merge_runs(&mut all.runs, profile.runs);
        all.total = all.total.max(profile.total + later);
        let of_rank = |remark: &String| format!("rank {rank}: {remark}");
        all.remarks.extend(profile.remarks.iter().map(of_rank));
        let [streams, arenas, tensors, storages, operands] = [
            all.streams.len(),
            all.arenas.len(),
            all.tensors.len(),
            all.storages.len(),
            all.operands.len(),
        ]
        .map(|count| count as u32);
        let tapes = all.streams.iter().filter_map(|s| s.tape).max().map_or(0, |max| max + 1);
        let workers = all.streams.iter().filter_map(|s| s.worker).max().map_or(0, |max| max + 1);
        let threads = all.ranges.iter().map(|r| r.thread + 1).max().unwrap_or(0);
        all.streams.extend(profile.streams.into_iter().map(|mut stream| {
            stream.name = format!("rank {rank}: {}", stream.name);
            stream.worker = stream.worker.map(|worker| worker + workers);
            stream.tape = stream.tape.map(|tape| tape + tapes);
            stream.rank = rank;
            stream
        }));
        all.arenas.extend(profile.arenas.iter().map(of_rank));
        all.tensors.extend(profile.tensors.into_iter().map(|mut tensor| {
            tensor.storage = moved(tensor.storage, storages);
            tensor
        }));
        all.operands.extend(profile.operands.into_iter().map(|mut operand| {
            operand.tensor += tensors;
            operand
        }));
        let before = all.instructions.len() as u32;
        let at = |k: u32| moved(k, before);
        let mut name = |kind: usize, own: u32, from: &[String], to: &mut Vec<String>| {
            let Some(text) = from.get(own as usize) else { return NONE };
            *interned[kind].entry(text.clone()).or_insert_with(|| {
                to.push(text.clone());
                to.len() as u32 - 1
            })
        };
        for mut instruction in profile.instructions {
            instruction.name = name(0, instruction.name, &profile.names, &mut all.names);
            instruction.place = name(1, instruction.place, &profile.places, &mut all.places);
            instruction.arguments = instruction
                .arguments
                .map(|own| name(2, own, &profile.arguments, &mut all.arguments));
            instruction.stream = moved(instruction.stream, streams);
            instruction.operands = instruction.operands.map(|operand| operand + operands);
            instruction.issued = instruction.issued.map(|issued| issued + later);
            instruction.times = instruction.times.map(|mut times| {
                times.ready += later;
                times.start += later;
                times.end += later;
                times
            });
            instruction.parent = at(instruction.parent);
            all.instructions.push(instruction);
        }
        all.storages.extend(profile.storages.into_iter().map(|mut storage| {
            storage.arena = moved(storage.arena, arenas);
            storage.tensor = moved(storage.tensor, tensors);
            storage.allocated = at(storage.allocated);
            storage.released = at(storage.released);
            storage.last_use = at(storage.last_use);
            storage
        }));
        all.waits.extend(profile.waits.into_iter().map(|mut wait| {
            wait.waiter = at(wait.waiter);
            wait.until = at(wait.until);
            wait.user = at(wait.user);
            wait.covered_by = at(wait.covered_by);
            wait.tensors.iter_mut().for_each(|tensor| *tensor += tensors);
            wait
        }));
        all.ranges.extend(profile.ranges.into_iter().map(|mut range| {
            range.name = if is_first { range.name } else { of_rank(&range.name) };
            range.thread += threads;
            range.begin += later;
            range.end += later;
            range
        }));
        all.pauses.extend(profile.pauses.into_iter().map(|mut pause| {
            pause.until = at(pause.until);
            pause.rank = rank;
            pause.begin += later;
            pause.end += later;
            pause
        }));
    }
    all
}

/// Returns a position behind so many others.
const fn moved(own: u32, by: u32) -> u32 {
    if own == NONE { NONE } else { own + by }
}

/// Adds the runs of a rank. All ranks have the times of the program's runs.
fn merge_runs(all: &mut Runs, own: Runs) {
    let missing = own.totals.len().saturating_sub(all.totals.len());
    all.totals.extend(std::iter::repeat_n(0, missing));
    all.totals.iter_mut().zip(own.totals).for_each(|(all, own)| *all = own.max(*all));
    for (name, times) in own.ops {
        let all = all.ops.entry(name).or_insert_with(|| vec![0; times.len()]);
        all.iter_mut().zip(times).for_each(|(all, own)| *all += own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Instruction, Role, Stream, Times, Wait};

    fn rank(end: u64) -> Profile {
        let times = Some(Times { ready: 1, start: 1, end });
        let plain = Instruction { parent: NONE, place: NONE, ..Instruction::default() };
        Profile {
            streams: vec![Stream { name: "s".to_owned(), ..Stream::default() }],
            names: vec!["a".to_owned()],
            instructions: vec![
                Instruction { times, parent: 1, ..plain.clone() },
                Instruction { times, role: Role::Launch, ..plain.clone() },
                Instruction { times, seq: 2, ..plain },
            ],
            waits: vec![Wait { waiter: 2, until: 1, user: 2, covered_by: NONE, ..Wait::default() }],
            total: end,
            ..Profile::default()
        }
    }

    #[test]
    fn ranks_stand_beside_one_another() {
        let all = merged("both", vec![(100, rank(10)), (105, rank(20))]);
        let names: Vec<&str> = all.streams.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["rank 0: s", "rank 1: s"]);
        assert_eq!((all.total, all.names.len(), all.instructions.len()), (25, 1, 6));
        let ends: Vec<u64> = all.instructions.iter().map(|i| i.times.unwrap().end).collect();
        assert_eq!(ends, [10, 10, 10, 25, 25, 25]);
        let parents: Vec<u32> = all.instructions.iter().map(|i| i.parent).collect();
        assert_eq!(parents, [1, NONE, NONE, 4, NONE, NONE]);
        let wait = &all.waits[1];
        assert_eq!((wait.waiter, wait.until, wait.user), (5, 4, 5));
    }
}
