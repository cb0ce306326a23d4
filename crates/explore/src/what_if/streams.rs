//! Calls moved to other streams: by a rule, in turn, or by the assigner.

use std::collections::{BTreeMap, HashMap, HashSet};

use millstream_instructions::assigner::{LastUses, Place, Platform, Target, Task, assign_in_order};
use millstream_instructions::passes::CoreCosts;
use millstream_profile::Profile;
use millstream_profile::model::{Instruction, NONE, Role, Source, Stream};
use millstream_runner::Assigner;
use millstream_trace::assignment::Target as Named;
use millstream_types::nearest::did_you_mean;
use millstream_types::{StreamKey, StreamType};

use super::change::Changes;
use super::costs::{Cause, Cost, Costs};
use super::waits::Rebuilding;

/// Returns the profile with its calls on other streams, or with another number of workers.
pub(super) fn moved(
    profile: &Profile,
    mut costs: Costs,
    changes: &Changes,
) -> Result<(Profile, Costs), String> {
    costs.instructions.iter_mut().for_each(Cost::release);
    let mut made = profile.clone();
    if let Some(threads) = changes.threads {
        if profile.source == Source::Imported {
            return Err("the number of threads: the profile is not of a machine of ours".into());
        }
        made.host_workers = threads;
    }
    let of_call = match (changes.compute_streams, &changes.assignment) {
        (None, None) => {
            share_workers(&mut made);
            return Ok((made, costs));
        }
        _ => streams_of_calls(&mut made, &costs, changes)?,
    };
    let (mut made, costs) = Rebuilding::new(&made, of_call).run(costs);
    share_workers(&mut made);
    Ok((made, costs))
}

/// Gives the host's streams their workers, in the order of their first instructions.
fn share_workers(profile: &mut Profile) {
    if profile.host_workers == 0 {
        return;
    }
    let mut next = 0;
    let mut is_open = vec![false; profile.streams.len()];
    let own = profile.instructions.iter().filter(|i| i.stream != NONE && i.parent == NONE);
    for stream in own.map(|i| i.stream as usize) {
        let decl = &mut profile.streams[stream];
        if std::mem::replace(&mut is_open[stream], true) || decl.pool {
            continue;
        }
        // Streams of other devices have no worker, whatever they are given here.
        if decl.device.starts_with("cpu:") {
            decl.worker = Some(next % profile.host_workers);
            next += 1;
        }
    }
}

/// Returns the key of a stream of ours.
fn key(stream: &Stream) -> Option<StreamKey> {
    let mut words = stream.key().split(' ');
    let device = words.next()?.parse().ok()?;
    let (ty, index) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(StreamKey::new(device, ty, index))
}

/// Returns the number of a stream, which is added if the profile does not have it.
fn stream_number(profile: &mut Profile, key: &StreamKey) -> u32 {
    let name = key.to_string();
    let known = profile.streams.iter().position(|stream| stream.key() == name);
    known.unwrap_or_else(|| {
        let device = key.device.to_string();
        profile.streams.push(Stream { name, device, ..Stream::default() });
        profile.streams.len() - 1
    }) as u32
}

/// Returns the line or node of a place: `step.json:12`, `et.json node 12`.
fn number(place: &str) -> u32 {
    let digits = place.rfind([':', ' ']).map_or(place, |at| &place[at + 1..]);
    digits.parse().unwrap_or(0)
}

/// Returns the stream of each instruction.
fn streams_of_calls(
    profile: &mut Profile,
    costs: &Costs,
    changes: &Changes,
) -> Result<Vec<u32>, String> {
    let keys: Vec<Option<StreamKey>> = profile.streams.iter().map(key).collect();
    let is_compute = |stream: u32| {
        let key = keys.get(stream as usize).and_then(Option::as_ref);
        key.is_some_and(|key| key.ty == StreamType::COMPUTE)
    };
    let is_call =
        |i: &Instruction| i.role == Role::Work && is_compute(i.stream) && i.parent == NONE;
    if profile.streams.iter().any(|stream| stream.rank > 0) {
        return Err(
            "the profile is of several ranks, and how long they wait for each other is part \
                    of the times of their collectives, so other streams cannot be predicted: \
                    record a run of a single one"
                .to_owned(),
        );
    }
    let calls = profile.instructions.iter().filter(|i| is_call(i));
    let Some(first) = calls.clone().next() else {
        return Err(
            "the profile has no calls on compute streams of ours, which could go to others"
                .to_owned(),
        );
    };
    if calls.clone().all(|i| profile.operands_of(i).is_empty()) {
        return Err(
            "the profile does not know which tensors its calls use, so the waits of other \
                    streams cannot be found"
                .to_owned(),
        );
    }
    let device = keys[first.stream as usize].as_ref().map(|key| key.device.clone());
    let Some(device) = device else { return Err("the calls' device is not known".to_owned()) };
    let mut streams: Vec<u32> = profile.instructions.iter().map(|i| i.stream).collect();
    if let Some(count) = changes.compute_streams {
        let of_turn: Vec<u32> = (0..count)
            .map(|k| stream_number(profile, &StreamKey::compute(device.clone(), k)))
            .collect();
        let chosen = match changes.assigner {
            Assigner::Auto => {
                // More of the host's streams than workers would take turns.
                let workers = match profile.host_workers {
                    0 => usize::MAX,
                    workers if device.is_host() => workers as usize,
                    _ => usize::MAX,
                };
                assigned(profile, costs, &is_call, of_turn.len().min(workers))
            }
            Assigner::RoundRobin => in_turn(profile, &is_call, of_turn.len()),
        };
        for (k, stream) in chosen {
            streams[k] = of_turn[stream];
        }
    }
    if let Some(assignment) = &changes.assignment {
        let mut targets = Vec::new();
        for rule in assignment.rules() {
            let key = match rule.target() {
                Named::Compute(index) => StreamKey::compute(device.clone(), *index),
                Named::Named(name) => named(profile, assignment, name, &device)
                    .map_err(|message| rule.error(message).to_string())?,
            };
            targets.push((stream_number(profile, &key), false));
        }
        for (k, instruction) in profile.instructions.iter().enumerate() {
            if !is_call(instruction) || profile.name_of(instruction) == "SyncRead" {
                continue;
            }
            let place = number(profile.place_of(instruction));
            let name = profile.name_of(instruction);
            for (rule, (stream, is_used)) in assignment.rules().iter().zip(&mut targets) {
                if rule.holds(name, place) {
                    streams[k] = *stream;
                    *is_used = true;
                }
            }
        }
        // A rule may be for a view, or for a call that the recorded run has not made.
        if targets.iter().all(|(_, is_used)| !is_used) {
            return Err(format!("{}: no rule holds for a call of the profile", assignment.file()));
        }
    }
    reads_follow_writers(profile, &is_call, &mut streams);
    Ok(streams)
}

/// Returns the stream of each call by its turn.
fn in_turn(
    profile: &Profile,
    is_call: &dyn Fn(&Instruction) -> bool,
    count: usize,
) -> Vec<(usize, usize)> {
    let (mut turn, mut chosen) = (0, Vec::new());
    let mut view: Option<(u32, u32)> = None;
    for (k, instruction) in profile.instructions.iter().enumerate() {
        // A call takes a turn, whether it computes or makes views of one tensor.
        let of = |i: &Instruction| (i.place, storage(profile, i));
        let is_view = instruction.role == Role::View;
        let begins_view = is_view && view != Some(of(instruction));
        view = is_view.then(|| of(instruction)).or(view.filter(|_| !is_call(instruction)));
        if is_call(instruction) && profile.name_of(instruction) != "SyncRead" {
            chosen.push((k, turn % count));
            turn += 1;
        } else if begins_view {
            turn += 1;
        }
    }
    chosen
}

/// The time from which a call of the host counts as split over all cores, in nanoseconds: kernels
/// split what moves more than 256 KiB.
const SPLIT: u64 = 11_000;

/// Returns the stream of each call by the assigner, with the measured times. The calls of one
/// statement stay together, as an assignment cannot part them.
fn assigned(
    profile: &Profile,
    costs: &Costs,
    is_call: &dyn Fn(&Instruction) -> bool,
    count: usize,
) -> Vec<(usize, usize)> {
    let (mut tasks, mut members): (Vec<Task>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    let mut uses = LastUses::default();
    let places: HashSet<u32> = profile.instructions.iter().map(|i| i.place).collect();
    let mut last = None;
    for (k, instruction) in profile.instructions.iter().enumerate() {
        let is_other = matches!(instruction.role, Role::Work | Role::Launch);
        if instruction.stream == NONE || instruction.parent != NONE || !is_other {
            continue;
        }
        let place = match (is_call(instruction), profile.name_of(instruction)) {
            (true, "SyncRead") => Place::Host,
            (true, _) => Place::Group(0),
            (false, _) => Place::Stream(instruction.stream as usize),
        };
        let statement = (place == Place::Group(0) && places.len() > 2).then_some(instruction.place);
        if statement.is_none() || statement != last {
            tasks.push(Task { time: 0, work: 0, before: Vec::new(), place });
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
        let is_host = profile.streams[instruction.stream as usize].device.starts_with("cpu:");
        let task = &mut tasks[number];
        task.time += takes;
        task.work += match place {
            Place::Group(_) if is_host && takes >= SPLIT => takes * count as u64,
            Place::Group(_) if is_host => takes,
            _ => 0,
        };
        *task = task.clone().after(before, number);
        members[number].push(k);
    }
    let is_host = profile.streams.iter().any(|stream| stream.device.starts_with("cpu:"));
    let least = if is_host { CoreCosts::EAGER } else { CoreCosts::GPU }.hand_over;
    let wait = u64::try_from(costs.typical.of(Cause::Wait)).unwrap_or(0).max(least);
    let made = assign_in_order(&tasks, &[count], Platform::eager(count, wait));
    let chosen = made.tasks.iter().filter_map(|task| match task.target {
        Target::Group(_, stream) => Some((task.task, stream)),
        Target::Stream(_) | Target::Other => None,
    });
    chosen.flat_map(|(task, stream)| members[task].iter().map(move |k| (*k, stream))).collect()
}

/// Returns the streams of a profile's calls as an assignment, which `millstream run --assign` takes:
/// a rule for each line or node, and for each op of it if its calls run on several streams.
///
/// # Errors
/// No call has a line or node.
pub fn streams_as_assignment(profile: &Profile) -> Result<String, String> {
    let mut of_place: BTreeMap<u32, Vec<(&str, u32)>> = BTreeMap::new();
    for instruction in &profile.instructions {
        let key = profile.streams.get(instruction.stream as usize).and_then(key);
        let Some(key) = key.filter(|key| key.ty == StreamType::COMPUTE) else { continue };
        let place = number(profile.place_of(instruction));
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
        return Err("no call of the profile has a line or node, which rules need".to_owned());
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

fn storage(profile: &Profile, instruction: &Instruction) -> u32 {
    let operand = profile.operands_of(instruction).first();
    operand.map_or(NONE, |o| profile.tensors[o.tensor as usize].storage)
}

/// Returns the stream that an assignment names: one of its own, or one of the profile.
fn named(
    profile: &Profile,
    assignment: &millstream_trace::Assignment,
    name: &str,
    device: &millstream_types::DeviceId,
) -> Result<StreamKey, String> {
    if let Some(stream) = assignment.streams().iter().find(|stream| stream.name == name) {
        let device = stream.device.clone().unwrap_or_else(|| device.clone());
        let taken = |index: u32| {
            let name = StreamKey::new(device.clone(), stream.ty, index).to_string();
            profile.streams.iter().any(|stream| stream.key() == name)
        };
        let index = stream.index.unwrap_or_else(|| (0..).find(|k| !taken(*k)).unwrap_or(0));
        return Ok(StreamKey::new(device, stream.ty, index));
    }
    let known = profile.streams.iter().find(|s| s.own_name() == Some(name) || s.key() == name);
    known.and_then(key).ok_or_else(|| {
        let names = profile.streams.iter().map(|s| s.own_name().unwrap_or(s.key()));
        let help = did_you_mean(name, names);
        let help = help.map(|help| format!("; {help}")).unwrap_or_default();
        format!("unknown stream '{name}'{help}")
    })
}

/// A read by the host runs on the stream of the last write.
fn reads_follow_writers(
    profile: &Profile,
    is_call: &dyn Fn(&Instruction) -> bool,
    streams: &mut [u32],
) {
    let mut writer: HashMap<u32, u32> = HashMap::new();
    for (k, instruction) in profile.instructions.iter().enumerate() {
        if !is_call(instruction) {
            continue;
        }
        if profile.name_of(instruction) == "SyncRead" {
            if let Some(&written) = writer.get(&storage(profile, instruction)) {
                streams[k] = written;
            }
            continue;
        }
        for operand in profile.operands_of(instruction).iter().filter(|o| o.writes) {
            writer.insert(profile.tensors[operand.tensor as usize].storage, streams[k]);
        }
    }
}
