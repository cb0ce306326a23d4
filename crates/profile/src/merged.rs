//! Several ranks in one profile.

use crate::interned::Interned;
use crate::model::{NONE, Of, Profile, Runs, Times};

/// Returns one profile of several ranks' profiles, each with the time at which it began. The
/// streams, arenas and ranges of a rank have its number in their names.
pub fn merged(title: &str, ranks: Vec<(u64, Profile)>) -> Profile {
    let began = ranks.iter().map(|(began, _)| *began).min().unwrap_or(0);
    let mut all = Profile { title: title.to_owned(), ..Profile::default() };
    let mut interned: [Interned<String>; 3] = Default::default();
    for (rank, (own_begin, mut profile)) in (0..).zip(ranks) {
        let later = own_begin - began;
        let is_first = rank == 0;
        all.source = profile.source;
        all.host_workers = all.host_workers.max(profile.host_workers);
        all.is_inline = profile.is_inline;
        all.handoff = all.handoff.or(profile.handoff);
        merge_runs(&mut all.runs, std::mem::take(&mut profile.runs));
        all.total = all.total.max(profile.total + later);
        let of_rank = |remark: &String| format!("rank {rank}: {remark}");
        all.remarks.extend(profile.remarks.iter().map(of_rank));
        let mut numbers = |kind: usize, own: &mut Vec<String>, all: &mut Vec<String>| {
            let own = std::mem::take(own).into_iter();
            own.map(|text| interned[kind].number(text, all)).collect::<Vec<u32>>()
        };
        let names = numbers(0, &mut profile.names, &mut all.names);
        let places = numbers(1, &mut profile.places, &mut all.places);
        let arguments = numbers(2, &mut profile.arguments, &mut all.arguments);
        let named = |all: &[u32], own: u32| all.get(own as usize).copied().unwrap_or(NONE);
        profile.each_position(&mut |of, k| {
            *k = match of {
                Of::Names => named(&names, *k),
                Of::Places => named(&places, *k),
                Of::Arguments => named(&arguments, *k),
                Of::Instructions => moved(*k, all.instructions.len()),
                Of::Streams => moved(*k, all.streams.len()),
                Of::Tensors => moved(*k, all.tensors.len()),
                Of::Storages => moved(*k, all.storages.len()),
                Of::Arenas => moved(*k, all.arenas.len()),
            };
        });
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
        let operands = all.operands.len() as u32;
        all.instructions.extend(profile.instructions.into_iter().map(|mut instruction| {
            instruction.operands = instruction.operands.map(|operand| operand + operands);
            instruction.issued = instruction.issued.map(|issued| issued + later);
            instruction.times = instruction.times.map(|Times { ready, start, end }| {
                let [ready, start, end] = [ready, start, end].map(|at| at + later);
                Times { ready, start, end }
            });
            instruction
        }));
        all.arenas.extend(profile.arenas.iter().map(of_rank));
        all.tensors.extend(profile.tensors);
        all.operands.extend(profile.operands);
        all.storages.extend(profile.storages);
        all.waits.extend(profile.waits);
        all.ranges.extend(profile.ranges.into_iter().map(|mut range| {
            range.name = if is_first { range.name } else { of_rank(&range.name) };
            range.thread += threads;
            range.begin += later;
            range.end += later;
            range
        }));
        all.pauses.extend(profile.pauses.into_iter().map(|mut pause| {
            pause.rank = rank;
            pause.begin += later;
            pause.end += later;
            pause
        }));
    }
    all
}

/// Returns a position behind so many others.
const fn moved(own: u32, by: usize) -> u32 {
    if own == NONE { NONE } else { own + by as u32 }
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
    use crate::model::{Instruction, Role, Stream, Wait};

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
