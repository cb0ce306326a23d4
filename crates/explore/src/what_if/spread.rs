//! The stream of each call, where calls are spread over several: in turn, or by the assigner.

use std::collections::{BTreeMap, HashMap, HashSet};

use millstream_instructions::assigner::{LastUses, Place, Platform, Target, Task, assign_in_order};
use millstream_instructions::passes::CoreCosts;
use millstream_profile::Profile;
use millstream_profile::model::{Instruction, NONE, Role};
use millstream_types::{DeviceId, StreamType};

use super::costs::{Cause, Costs};
use super::streams::{key, number};

/// The calls of a profile.
pub(super) struct Calls<'a> {
    pub(super) profile: &'a Profile,
    pub(super) costs: &'a Costs,
    /// The launch that each instruction is a step of, or [`NONE`].
    pub(super) of_launch: &'a [u32],
    /// Whether an instruction is a call that may go to another stream, or a read by the host.
    pub(super) is_call: &'a dyn Fn(&Instruction) -> bool,
}

/// The time from which a call of the host counts as split over all cores, in nanoseconds: kernels
/// split what moves more than 256 KiB.
const SPLIT: u64 = 11_000;

impl Calls<'_> {
    /// Returns the stream of each call by its turn. An executable took its turns when it was
    /// recorded.
    pub(super) fn in_turn(&self, count: u32) -> Vec<(usize, u32)> {
        let profile = self.profile;
        let mut chosen = Vec::new();
        let mut turns: HashMap<u32, u32> = HashMap::new();
        let mut view = None;
        for k in program_order(profile) {
            // A call takes a turn, whether it computes or makes views of one tensor.
            let instruction = &profile.instructions[k];
            let of = |i: &Instruction| (i.place, profile.operands_of(i).first().map(|o| o.tensor));
            let is_call = (self.is_call)(instruction);
            let is_view = instruction.role == Role::View;
            let begins_view = is_view && view != Some(of(instruction));
            view = is_view.then(|| of(instruction)).or(view.filter(|_| !is_call));
            let turn = turns.entry(self.of_launch[k]).or_default();
            if is_call && profile.name_of(instruction) != "SyncRead" {
                chosen.push((k, *turn % count));
                *turn += 1;
            } else if begins_view {
                *turn += 1;
            }
        }
        chosen
    }

    /// Returns the stream of each call by the assigner, with the measured times. All launches of an
    /// executable have the streams of the first.
    pub(super) fn assigned(&self, device: &DeviceId, count: usize) -> Vec<(usize, u32)> {
        let profile = self.profile;
        // More of the host's streams than workers would take turns.
        let workers = match profile.host_workers {
            0 => count,
            workers if device.is_host() => count.min(workers as usize),
            _ => count,
        };
        let mut scopes: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (k, launch) in self.of_launch.iter().enumerate() {
            scopes.entry(*launch).or_default().push(k);
        }
        let mut of_list: HashMap<&str, Vec<u32>> = HashMap::new();
        let mut chosen = Vec::new();
        for (launch, members) in scopes {
            let mut own = self.scope(&members, launch != NONE, (device, workers));
            own.sort_unstable();
            let list = match own.first() {
                Some((k, _)) if launch != NONE => {
                    let stream = profile.instructions[*k].stream;
                    profile.streams[stream as usize].key_and_list().1
                }
                _ => "",
            };
            if !list.is_empty() {
                let first = of_list.entry(list);
                let first = first.or_insert_with(|| own.iter().map(|(_, s)| *s).collect());
                own.iter_mut().zip(first).for_each(|((_, own), first)| *own = *first);
            }
            chosen.extend(own);
        }
        chosen
    }

    /// Returns the streams of the calls of the program, or of a launch. The calls of one statement
    /// stay together, as an assignment cannot part them.
    fn scope(
        &self,
        instructions: &[usize],
        is_launch: bool,
        (device, count): (&DeviceId, usize),
    ) -> Vec<(usize, u32)> {
        let Calls { profile, costs, .. } = *self;
        let (mut tasks, mut members): (Vec<Task>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        let mut uses = LastUses::default();
        let places: HashSet<u32> = profile.instructions.iter().map(|i| i.place).collect();
        let mut last = None;
        for &k in instructions {
            let instruction = &profile.instructions[k];
            let works = matches!(instruction.role, Role::Work | Role::Launch);
            if instruction.stream == NONE || profile.is_part(k) || !works {
                continue;
            }
            let place = match ((self.is_call)(instruction), profile.name_of(instruction)) {
                (true, "SyncRead") => Place::Host,
                (true, _) => Place::Group(0),
                (false, _) => Place::Stream(instruction.stream as usize),
            };
            let is_statement = is_of_trace(profile.place_of(instruction)) && places.len() > 2;
            let is_apart = place == Place::Group(0) && is_statement;
            let statement = is_apart.then_some(instruction.place);
            if statement.is_none() || statement != last {
                tasks.push(Task::nothing(place));
                members.push(Vec::new());
            }
            last = statement;
            let number = tasks.len() - 1;
            let mut before = Vec::new();
            for operand in profile.operands_of(instruction) {
                let storage = profile.tensors[operand.tensor as usize].storage as usize;
                before.extend(uses.note(storage, operand.writes, number));
            }
            let takes = costs.instructions[k].takes;
            let task = &mut tasks[number];
            task.time += takes;
            task.work += match place {
                Place::Group(_) if device.is_host() && takes >= SPLIT => takes * count as u64,
                Place::Group(_) if device.is_host() => takes,
                _ => 0,
            };
            *task = std::mem::replace(task, Task::nothing(place)).after(before, number);
            members[number].push(k);
        }
        let expected = match (device.is_host(), is_launch) {
            (true, false) => CoreCosts::EAGER,
            (true, true) => CoreCosts::COMPILED,
            (false, _) => CoreCosts::GPU,
        };
        let measured = u64::try_from(costs.usual()[Cause::Wait as usize]).unwrap_or(0);
        let wait = measured.max(expected.hand_over);
        let platform = match is_launch {
            true => Platform::compiled(count, wait),
            false => Platform::eager(count, wait),
        };
        let made = assign_in_order(&tasks, &[count], platform);
        let chosen = made.tasks.iter().filter_map(|task| match task.target {
            Target::Group(_, stream) => Some((task.task, stream as u32)),
            Target::Stream(_) | Target::Other => None,
        });
        chosen.flat_map(|(task, stream)| members[task].iter().map(move |k| (*k, stream))).collect()
    }
}

/// Returns whether a place is one of a trace: a place in code ends with a line and a column.
fn is_of_trace(place: &str) -> bool {
    let end = place.rfind([':', ' ']).unwrap_or(0);
    !place[..end].ends_with(|c: char| c.is_ascii_digit())
}

/// Returns the positions of the instructions in the order of the program. The passes of an
/// executable have moved views; the places of a trace tell where they were.
fn program_order(profile: &Profile) -> Vec<usize> {
    let is_ordered = profile.places.iter().all(|place| is_of_trace(place));
    let place = |k: usize| {
        let instruction = &profile.instructions[k];
        let is_step = instruction.parent != NONE && is_ordered;
        if is_step { number(profile.place_of(instruction)) } else { 0 }
    };
    let mut all: Vec<usize> = (0..profile.instructions.len()).collect();
    all.sort_by_key(|&k| (profile.root_of(k as u32), place(k)));
    all
}

/// Returns the streams of a profile's calls as an assignment, which `millstream run --assign`
/// takes: a rule for each line or node, and for each op of it if its calls run on several streams.
///
/// # Errors
/// No call has a line or node of a trace.
pub fn streams_as_assignment(profile: &Profile) -> Result<String, String> {
    let mut of_place: BTreeMap<u32, Vec<(&str, u32)>> = BTreeMap::new();
    for instruction in &profile.instructions {
        let key = profile.streams.get(instruction.stream as usize).and_then(key);
        let Some(key) = key.filter(|key| key.ty == StreamType::COMPUTE && !key.is_created) else {
            continue;
        };
        let place = profile.place_of(instruction);
        let place = if is_of_trace(place) { number(place) } else { 0 };
        let name = profile.name_of(instruction);
        if place == 0 || instruction.role != Role::Work || name == "SyncRead" {
            continue;
        }
        let known = of_place.entry(place).or_default();
        if !known.contains(&(name, key.index)) {
            known.push((name, key.index));
        }
    }
    if of_place.is_empty() {
        return Err("no call of the profile has a line or node of a trace, which the rules of an assignment need".to_owned());
    }
    let rules = of_place.into_iter().flat_map(|(place, calls)| {
        let is_one = calls.iter().all(|(_, stream)| *stream == calls[0].1);
        let kept = if is_one { 1 } else { calls.len() };
        let rule = move |(name, stream): (&str, u32)| {
            (place, (!is_one).then(|| name.to_owned()), stream.into())
        };
        calls.into_iter().take(kept).map(rule).collect::<Vec<_>>()
    });
    Ok(millstream_trace::assignment::to_text([], rules))
}
