//! The order of a profile's instructions: what each comes after, and the critical path.

use std::collections::HashMap;

use crate::model::{NONE, Profile, Role, Times};

/// Why an instruction comes after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It follows on the same stream.
    Stream,
    /// Its stream waits for it.
    Wait,
    /// A barrier stands between, or it is the barrier.
    Fence,
    /// The host waited for it before it submitted.
    Host,
    /// Both use a storage, on a pool.
    Data,
}

/// What each instruction comes after, by position.
#[derive(Clone, Debug, Default)]
pub struct Order {
    first: Vec<u32>,
    edges: Vec<(u32, Reason)>,
}

/// The uses of a storage since its last write.
#[derive(Default)]
struct Uses {
    write: Option<u32>,
    reads: Vec<u32>,
}

impl Order {
    /// Returns the order of a profile's instructions. Steps of launches are left out: a launch is
    /// one instruction.
    pub fn of(profile: &Profile) -> Order {
        let mut order = Order::default();
        let mut last: Vec<u32> = vec![NONE; profile.streams.len()];
        let mut gate: Vec<u32> = vec![NONE; profile.streams.len()];
        let mut observed: HashMap<u32, Vec<u32>> = HashMap::new();
        let ranks: Vec<u32> = profile.streams.iter().map(|stream| stream.rank).collect();
        let mut uses: HashMap<u32, Uses> = HashMap::new();
        let mut waits: Vec<Vec<u32>> = vec![Vec::new(); profile.instructions.len()];
        for wait in &profile.waits {
            if !wait.resolution.is_elided() && wait.until != NONE && wait.waiter != NONE {
                waits[wait.waiter as usize].push(wait.until);
            }
        }
        for (k, instruction) in profile.instructions.iter().enumerate() {
            order.first.push(order.edges.len() as u32);
            let own = k as u32;
            if instruction.role == Role::Observe {
                let until = std::mem::take(&mut waits[k]);
                let first = until.first().map(|&until| profile.instructions[until as usize].stream);
                let rank = first.and_then(|stream| ranks.get(stream as usize)).copied();
                observed.insert(rank.unwrap_or(0), until);
                continue;
            }
            if instruction.stream == NONE || instruction.parent != NONE {
                continue;
            }
            let stream = instruction.stream as usize;
            let pool = profile.streams[stream].pool;
            let mut add = |earlier: u32, reason| {
                if earlier != NONE {
                    order.edges.push((earlier, reason));
                }
            };
            waits[k].iter().for_each(|&until| add(until, Reason::Wait));
            if !pool {
                add(last[stream], Reason::Stream);
            }
            add(gate[stream], Reason::Fence);
            let rank = ranks[stream];
            let awaited = observed.get(&rank).into_iter().flatten();
            awaited.for_each(|&until| add(until, Reason::Host));
            if instruction.role == Role::Fence {
                let own = last.iter().zip(&ranks).filter(|(_, of)| **of == rank);
                own.for_each(|(&tail, _)| add(tail, Reason::Fence));
            }
            for operand in profile.operands_of(instruction) {
                let storage = profile.tensors[operand.tensor as usize].storage;
                let uses = uses.entry(storage).or_default();
                if pool {
                    add(uses.write.unwrap_or(NONE), Reason::Data);
                    if operand.writes {
                        uses.reads.iter().for_each(|&read| add(read, Reason::Data));
                    }
                }
                if operand.writes {
                    *uses = Uses { write: Some(own), reads: Vec::new() };
                } else {
                    uses.reads.push(own);
                }
            }
            if instruction.role == Role::Fence {
                let all = gate.iter_mut().zip(&ranks).filter(|(_, of)| **of == rank);
                all.for_each(|(gate, _)| *gate = own);
            } else if pool && matches!(instruction.role, Role::Wait) {
                gate[stream] = own;
            } else {
                gate[stream] = NONE;
            }
            last[stream] = own;
        }
        order.first.push(order.edges.len() as u32);
        order
    }

    /// Returns what an instruction comes after.
    pub fn before(&self, instruction: usize) -> &[(u32, Reason)] {
        let range = self.first.get(instruction).zip(self.first.get(instruction + 1));
        range.map_or(&[], |(from, to)| &self.edges[*from as usize..*to as usize])
    }
}

/// A part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// An instruction runs.
    Runs(u32),
    /// Nothing runs: the time between an instruction and the next one on the path, which is spent
    /// on the way to the worker or the device.
    Gap {
        /// The instruction that is about to run.
        before: u32,
    },
    /// The program has not submitted the next instruction yet.
    Submits {
        /// The instruction that it is about to submit.
        before: u32,
    },
    /// The program has waited for an instruction, which has completed, and does not go on yet.
    Resumes {
        /// The instruction that it has waited for.
        after: u32,
    },
}

/// A part of the critical path, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnPath {
    /// What takes the time.
    pub segment: Segment,
    /// When it begins.
    pub start: u64,
    /// When it ends.
    pub end: u64,
}

/// Returns the critical path of a profile, from the start to the end: each part begins when the one
/// before it ends, so that the parts' times add up to the whole.
///
/// From the last instruction that ends, the path goes back to the one that ended last among those
/// that it comes after. Where that one had ended before the instruction was submitted, the program
/// itself is on the path.
pub fn critical_path(profile: &Profile, order: &Order) -> Vec<OnPath> {
    let timed = |k: u32| profile.instructions[k as usize].times;
    let ends = profile.shown().filter(|(_, i, _)| i.parent == NONE);
    let Some((last, ..)) = ends.max_by_key(|(_, _, times)| times.end) else { return Vec::new() };
    let mut ended_pauses: HashMap<u32, Vec<(u64, u32)>> = HashMap::new();
    for pause in profile.pauses.iter().filter(|p| p.until != NONE) {
        ended_pauses.entry(pause.rank).or_default().push((pause.end, pause.until));
    }
    ended_pauses.values_mut().for_each(|all| all.sort_unstable());
    let mut path = Vec::new();
    let mut push = |segment, start: u64, end: u64| {
        if end > start {
            path.push(OnPath { segment, start, end });
        }
    };
    let mut at = last as u32;
    let mut upto = timed(at).map_or(0, |t| t.end);
    while let Some(Times { ready, start, .. }) = timed(at) {
        let instruction = &profile.instructions[at as usize];
        let before = order.before(at as usize).iter().filter_map(|&(k, reason)| {
            let end = timed(k)?.end;
            // A later instruction may have been measured to end earlier.
            (k < at).then_some((end, k, reason))
        });
        let latest = before.max_by_key(|(end, k, _)| (*end, *k));
        let ended = latest.map_or(0, |(end, ..)| end);
        // A wait is over when what it waits for has ended: the rest is the way there and back.
        let begun = match instruction.role {
            Role::Wait | Role::Fence => start.max(ended),
            _ => start,
        }
        .min(upto);
        push(Segment::Runs(at), begun, upto);
        let issued = instruction.issued.unwrap_or(0);
        // A call that submits an instruction to an empty stream is on the path, with the delay
        // until the instruction begins. Source: Holistic Trace Analysis, "critical path".
        let submitter = instruction.submitter.filter(|&k| k < at);
        if let Some((k, call)) = submitter.and_then(|k| Some((k, timed(k)?)))
            && (latest.is_none() || call.start > ended)
        {
            let submitted = call.end.min(begun);
            push(Segment::Gap { before: at }, submitted, begun);
            (at, upto) = (k, submitted);
            continue;
        }
        let host = latest.is_none_or(|(_, _, reason)| reason == Reason::Host) || issued > ended;
        if host && instruction.issued.is_some() {
            let issued = issued.min(begun);
            push(Segment::Gap { before: at }, issued, begun);
            // The program goes on after its last wait.
            let rank = profile.streams[instruction.stream as usize].rank;
            let ended_pauses = ended_pauses.get(&rank).map_or(&[][..], |all| all);
            let waited = ended_pauses.partition_point(|(end, _)| *end <= issued);
            if let Some(&(resumed, until)) = ended_pauses[..waited].last()
                && let Some(end) = timed(until).map(|t| t.end).filter(|end| *end <= resumed)
                && until < at
            {
                push(Segment::Submits { before: at }, resumed, issued);
                push(Segment::Resumes { after: until }, end, resumed);
                (at, upto) = (until, end);
                continue;
            }
            // The program goes on when the last thing that it waited for has completed.
            let awaited = order.before(at as usize).iter();
            let awaited = awaited.filter(|(_, reason)| *reason == Reason::Host);
            let awaited = awaited.filter_map(|&(k, _)| Some((timed(k)?.end, k)));
            match awaited.filter(|(end, _)| *end <= issued).max() {
                Some((end, k)) => {
                    push(Segment::Submits { before: at }, end, issued);
                    (at, upto) = (k, end);
                }
                None => {
                    push(Segment::Submits { before: at }, 0, issued);
                    break;
                }
            }
            continue;
        }
        let Some((end, k, _)) = latest else {
            push(Segment::Gap { before: at }, 0, begun.min(ready.max(begun)));
            break;
        };
        push(Segment::Gap { before: at }, end.min(begun), begun);
        (at, upto) = (k, end.min(begun));
    }
    path.reverse();
    path
}
