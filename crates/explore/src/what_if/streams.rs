//! Calls moved to other streams: by a rule, in turn, or by the assigner.

use std::collections::HashMap;

use millstream_profile::Profile;
use millstream_profile::model::{Instruction, NONE, Role, Source, Stream};
use millstream_runner::Assigner;
use millstream_trace::assignment::Target as Named;
use millstream_types::nearest::did_you_mean;
use millstream_types::{StreamKey, StreamType};

use super::change::Changes;
use super::costs::Costs;
use super::spread::Calls;
use super::waits::rebuilt;

/// Returns the profile with its calls on other streams, or with another number of workers.
pub(super) fn moved(
    profile: &Profile,
    mut costs: Costs,
    changes: &Changes,
) -> Result<(Profile, Costs), String> {
    if profile.is_inline {
        let message = "the inline driver has run the program, whose streams have no workers: \
                       record it with --driver threaded";
        return Err(message.to_owned());
    }
    costs.release(profile);
    let mut made = profile.clone();
    if let Some(threads) = changes.threads {
        if profile.source == Source::Imported {
            return Err("the number of threads: the profile is not of a machine of ours".into());
        }
        made.host_workers = threads;
    }
    if changes.compute_streams.is_some() || changes.assignment.is_some() {
        let of_call = streams_of_calls(&mut made, &costs, changes)?;
        let is_step = |k: usize| {
            let Instruction { parent, stream, .. } = made.instructions[k];
            parent != NONE && stream != NONE && !made.is_part(k)
        };
        if (0..made.instructions.len()).any(is_step) {
            let remark = "an executable is compiled for its streams: predicted is one that is \
                          compiled for these, with the same calls and its tensors in the same \
                          memory";
            made.remarks.push(remark.to_owned());
        }
        (made, costs) = rebuilt(&made, &costs, &of_call);
    }
    share_workers(&mut made);
    Ok((made, costs))
}

/// Gives the host's streams their workers, in the order of their first instructions, and those of
/// executables their tapes.
fn share_workers(profile: &mut Profile) {
    let workers = profile.host_workers;
    if workers == 0 {
        return;
    }
    let mut next = 0;
    // The worker of a list's first tape, and how many of its streams have one.
    let mut lists: HashMap<String, (u32, u32)> = HashMap::new();
    let mut tapes: HashMap<(String, u32), u32> = HashMap::new();
    let mut is_open = vec![false; profile.streams.len()];
    for k in 0..profile.instructions.len() {
        let Instruction { stream, .. } = profile.instructions[k];
        if stream == NONE || profile.is_part(k) {
            continue;
        }
        let root = profile.instructions[profile.root_of(k as u32) as usize].stream;
        // A launch runs its first tape on its own worker.
        for stream in [root as usize, stream as usize] {
            let first = profile.streams.get(root as usize).and_then(|own| own.worker).unwrap_or(0);
            let Some(decl) = profile.streams.get_mut(stream) else { continue };
            // Streams of other devices have no worker, whatever they are given here.
            let is_known = std::mem::replace(&mut is_open[stream], true);
            if is_known || decl.pool || !decl.device.starts_with("cpu:") {
                continue;
            }
            let list = decl.key_and_list().1.to_owned();
            if list.is_empty() {
                decl.worker = Some(next % workers);
                next += 1;
                continue;
            }
            let (first, opened) = lists.entry(list.clone()).or_insert((first, 0));
            let number = tapes.len() as u32;
            decl.tape = Some(*tapes.entry((list, *opened % workers)).or_insert(number));
            decl.worker = Some((*first + *opened) % workers);
            *opened += 1;
        }
    }
}

/// Returns the key of a stream of ours. A stream within an executable has the list's name behind
/// it.
pub(super) fn key(stream: &Stream) -> Option<StreamKey> {
    let key = stream.key();
    let end = key.match_indices(' ').nth(2).map_or(key.len(), |(at, _)| at);
    key[..end].parse().ok()
}

/// The numbers of streams, by their keys and by a stream of the same list.
type Numbers = HashMap<(StreamKey, u32), u32>;

/// Returns the number of a stream of the list that another stream is of. It is added if the profile
/// does not have it.
fn stream_number(all: &mut Vec<Stream>, known: &mut Numbers, key: &StreamKey, of: u32) -> u32 {
    *known.entry((key.clone(), of)).or_insert_with(|| {
        let name = format!("{key}{}", all[of as usize].key_and_list().1);
        let known = all.iter().position(|stream| stream.key() == name);
        known.unwrap_or_else(|| {
            let device = key.device.to_string();
            all.push(Stream { name, device, ..Stream::default() });
            all.len() - 1
        }) as u32
    })
}

/// Returns the line or node of a place: `step.json:12`, `et.json node 12`.
pub(super) fn number(place: &str) -> u32 {
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
    let is_call = |i: &Instruction| i.role == Role::Work && is_compute(i.stream);
    if profile.streams.iter().any(|stream| stream.rank > 0) {
        return Err(
            "the profile is of several ranks, and how long they wait for each other is part \
                    of the times of their collectives, so other streams cannot be predicted: \
                    record a run of a single one"
                .to_owned(),
        );
    }
    let of_launch: Vec<u32> =
        (0..profile.instructions.len()).map(|k| own_launch(profile, k)).collect();
    let calls = profile.instructions.iter().filter(|i| is_call(i));
    let Some(first) = calls.clone().next() else {
        let message = "the profile has no calls on compute streams of ours, which could go to \
                       others";
        let launches = profile.instructions.iter().any(|i| i.role == Role::Launch);
        let why = "; it has the launches of executables as one instruction each, as a device runs \
                   their graphs";
        return Err(format!("{message}{}", if launches { why } else { "" }));
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
    let mut numbers = Numbers::default();
    if let Some(count) = changes.compute_streams {
        let calls = Calls { profile, costs, of_launch: &of_launch, is_call: &is_call };
        let chosen = match changes.assigner {
            Assigner::Auto => calls.assigned(&device, count as usize),
            Assigner::RoundRobin => calls.in_turn(count),
        };
        for (k, stream) in chosen {
            let key = StreamKey::compute(device.clone(), stream);
            streams[k] = stream_number(&mut profile.streams, &mut numbers, &key, streams[k]);
        }
    }
    if let Some(assignment) = &changes.assignment {
        let targets = assignment.rules().iter().map(|rule| match rule.target() {
            Named::Compute(index) => Ok(StreamKey::compute(device.clone(), *index)),
            Named::Named(name) => named(profile, assignment, name, &device)
                .map_err(|message| rule.error(message).to_string()),
        });
        let targets = targets.collect::<Result<Vec<StreamKey>, String>>()?;
        let mut is_used = false;
        for (instruction, stream) in profile.instructions.iter().zip(&mut streams) {
            let name = profile.name_of(instruction);
            let place = number(profile.place_of(instruction));
            let rule = assignment.rules().iter().rposition(|rule| rule.holds(name, place));
            if let Some(rule) = rule.filter(|_| is_call(instruction) && name != "SyncRead") {
                let (all, of) = (&mut profile.streams, instruction.stream);
                *stream = stream_number(all, &mut numbers, &targets[rule], of);
                is_used = true;
            }
        }
        // A rule may be for a view, or for a call that the recorded run has not made.
        if !is_used {
            return Err(format!("{}: no rule holds for a call of the profile", assignment.file()));
        }
    }
    reads_follow_writers(profile, &is_call, &mut streams);
    Ok(streams)
}

/// Returns the launch that an instruction is a step of, or [`NONE`]. A part of one is none of ours.
fn own_launch(profile: &Profile, instruction: usize) -> u32 {
    match profile.is_part(instruction) {
        true => NONE,
        false => profile.instructions[instruction].parent,
    }
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
    // The stream of the last write of each storage, and the launch that it is in.
    let mut writer: HashMap<u32, (u32, u32)> = HashMap::new();
    for (k, instruction) in profile.instructions.iter().enumerate().filter(|(_, i)| is_call(i)) {
        let launch = own_launch(profile, k);
        if profile.name_of(instruction) != "SyncRead" {
            for operand in profile.operands_of(instruction).iter().filter(|o| o.writes) {
                let storage = profile.tensors[operand.tensor as usize].storage;
                writer.insert(storage, (streams[k], launch));
            }
        } else if let Some((stream, of)) = writer.get(&storage(profile, instruction))
            && *of == launch
        {
            streams[k] = *stream;
        }
    }
}
