//! Calls that a run repeats, which a traced function or an executable would replay at a fraction of
//! the cost.
//!
//! A call is a token: its op, its place, its stream, and its operands' shapes. What no capture
//! holds stands between calls and is in no round: reads, functions of the program, launches,
//! sections, barriers, and waits of the host. Arguments are compared afterwards, so that a call
//! whose arguments alone differ is named, and does not hide the loop around it. In a trace each
//! call has a place of its own, which says nothing; places are then left out.
//!
//! The idea is Apophenia's (R. Yadav et al., "Automatic Tracing in Task-Based Runtime Systems",
//! ASPLOS 2025), which replays what it finds; here the program is advised.

mod search;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::interned::Interned;
use crate::model::{Instruction, NONE, Profile, Role, Source};

use search::Round;

/// The fewest rounds that are worth a capture, which the first one pays for.
const LEAST_ROUNDS: usize = 3;

/// A repeat has at least this share of the calls around it: one in so many.
const LEAST_SHARE: usize = 50;

/// The most repeats that are reported.
const MOST: usize = 64;

/// Calls that a run repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Repeat {
    /// How many calls a round has, views included.
    pub calls: usize,
    /// How many rounds there are.
    pub rounds: usize,
    /// The first and the last call of the first round, as positions of instructions.
    pub first: [u32; 2],
    /// How many repeats lie around it. Its rounds are parts of the first round of the last repeat
    /// before it that has a smaller depth.
    pub depth: usize,
    /// How many calls there are around it: those of the run, or of a round of the repeat around it.
    pub around: usize,
    /// The calls whose arguments differ between rounds: each call of the first round, and that of
    /// the first round that differs.
    pub differing: Vec<[u32; 2]>,
}

/// Returns what a run repeats, those repeats first that have the most calls, and behind each those
/// within its first round. The run of another program has none: its calls are not ours to replay.
pub fn of(profile: &Profile) -> Vec<Repeat> {
    if profile.source == Source::Imported {
        return Vec::new();
    }
    let (tokens, at) = tokens(profile);
    let calls = at.iter().filter(|k| **k != NONE).count();
    let mut found = search::rounds(&tokens);
    found.retain(|round| round.starts.len() >= LEAST_ROUNDS);
    found.sort_by_key(|round| std::cmp::Reverse(round.length * round.starts.len()));
    let all = nested(found, calls).into_iter().map(|Nested { round, depth, around }| Repeat {
        calls: round.length,
        rounds: round.starts.len(),
        first: [at[round.starts[0]], at[round.starts[0] + round.length - 1]],
        depth,
        around,
        differing: differing(profile, &round, &at),
    });
    all.collect()
}

/// A round with what lies around it.
struct Nested {
    round: Round,
    depth: usize,
    around: usize,
}

/// Puts each repeat behind the one within whose first round it lies, with its depth. `found` has
/// those with the most calls first. Leaves out small ones, and pieces of longer rounds.
fn nested(found: Vec<Round>, calls: usize) -> Vec<Nested> {
    let mut kept: Vec<Nested> = Vec::new();
    for round in found {
        let has = |outer: &Round, start: usize| {
            let begin = outer.starts[0];
            begin <= start && start + round.length <= begin + outer.length
        };
        // The innermost one around its first round.
        let outer = kept.iter().rposition(|outer| has(&outer.round, round.starts[0]));
        let (at, depth, around) = match outer {
            None => (kept.len(), 0, calls),
            Some(k) => {
                let Nested { round: outer, depth, .. } = &kept[k];
                if round.starts.iter().all(|start| has(outer, *start)) {
                    let rest = kept[k + 1..].iter().take_while(|other| other.depth > *depth);
                    (k + 1 + rest.count(), depth + 1, outer.length)
                } else if round.starts.len() > outer.starts.len() {
                    (kept.len(), 0, calls)
                } else {
                    // A piece, which occurs elsewhere too, and not more often.
                    continue;
                }
            }
        };
        if round.length * round.starts.len() * LEAST_SHARE >= around {
            kept.insert(at, Nested { round, depth, around });
        }
        if kept.len() == MOST {
            break;
        }
    }
    kept
}

/// Returns the calls of a round whose arguments differ in another one.
fn differing(profile: &Profile, round: &Round, at: &[u32]) -> Vec<[u32; 2]> {
    let arguments = |k: usize| profile.instructions[at[k] as usize].arguments;
    let first = round.starts[0];
    let differs = |k: usize| {
        let mut others = round.starts.iter().map(|start| start + k);
        let other = others.find(|other| arguments(*other) != arguments(first + k))?;
        Some([at[first + k], at[other]])
    };
    (0..round.length).filter_map(differs).collect()
}

/// What stands between calls.
enum Item {
    /// A call.
    Call,
    /// Something that no capture holds.
    Break,
    /// Something that follows from the calls.
    Nothing,
}

fn item(instruction: &Instruction) -> Item {
    match instruction.role {
        Role::Work if instruction.arguments.is_some() => Item::Call,
        Role::View => Item::Call,
        Role::Work | Role::Launch | Role::Order | Role::Fence | Role::Observe => Item::Break,
        Role::Wait | Role::Record | Role::Allocate | Role::Release => Item::Nothing,
    }
}

/// Returns a token for each call, and for what stands between calls one that occurs once; beside
/// them the positions of the calls.
fn tokens(profile: &Profile) -> (Vec<u32>, Vec<u32>) {
    let own = profile.instructions.iter().enumerate().filter(|(_, i)| i.parent == NONE);
    let is_call = |i: &Instruction| matches!(item(i), Item::Call);
    let places = own.clone().filter(|(_, i)| is_call(i)).map(|(_, i)| i.place);
    let distinct = places.clone().collect::<HashSet<u32>>().len();
    let has_loops = places.count() >= 2 * distinct;
    let (mut specs, mut texts) = (Interned::default(), Vec::new());
    let specs: Vec<u32> =
        profile.tensors.iter().map(|t| specs.number_of(&t.spec, &mut texts)).collect();
    let rank_of = |i: &Instruction| profile.streams.get(i.stream as usize).map(|s| s.rank);
    let mut known: HashMap<Vec<u32>, u32> = HashMap::new();
    let (mut tokens, mut at, mut next, mut rank) = (Vec::new(), Vec::new(), 0, None);
    let mut key = Vec::new();
    for (k, instruction) in own {
        // One rank's calls follow those of another one.
        let own_rank = rank_of(instruction).or(rank);
        let is_break = match item(instruction) {
            Item::Call => own_rank != rank,
            Item::Break => true,
            Item::Nothing => false,
        };
        if is_break {
            tokens.push(next);
            at.push(NONE);
            next += 1;
        }
        rank = own_rank;
        if !is_call(instruction) {
            continue;
        }
        key.clear();
        let place = if has_loops { instruction.place } else { NONE };
        key.extend([instruction.name, instruction.stream, place]);
        key.extend(profile.operands_of(instruction).iter().flat_map(|operand| {
            let access = u32::from(operand.reads) | u32::from(operand.writes) << 1;
            [specs.get(operand.tensor as usize).copied().unwrap_or(NONE), access]
        }));
        let token = match known.get(&key) {
            Some(&token) => token,
            None => {
                known.insert(key.clone(), next);
                next += 1;
                next - 1
            }
        };
        tokens.push(token);
        at.push(k as u32);
    }
    (tokens, at)
}
