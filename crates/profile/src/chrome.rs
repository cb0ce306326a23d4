//! A profile in the Trace Event Format of chrome://tracing, which Perfetto opens too.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::model::{NONE, Profile, Role};
use crate::{lanes, memory};

/// Returns a time in microseconds, the unit of the format.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Writes the events, one a line.
///
/// # Errors
/// `out` fails.
pub fn write(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    let mut first = true;
    let mut event = |event: Value| -> io::Result<()> {
        let comma = if std::mem::take(&mut first) { "\n" } else { ",\n" };
        write!(out, "{comma}{event}")
    };
    let lanes = lanes::of(profile);
    let tid = |stream: u32, lane: u32| u64::from(stream) * 4096 + u64::from(lane);
    for (k, (stream, lanes)) in profile.streams.iter().zip(lanes::counts(profile)).enumerate() {
        for lane in 0..lanes {
            let name = match lane {
                0 => stream.name.clone(),
                lane => format!("{} lane {}", stream.name, lane + 1),
            };
            let (tid, args) = (tid(k as u32, lane), json!({ "name": name }));
            event(json!({ "name": "thread_name", "ph": "M", "pid": 0, "tid": tid, "args": args }))?;
            let args = json!({ "sort_index": tid });
            let name = "thread_sort_index";
            event(json!({ "name": name, "ph": "M", "pid": 0, "tid": tid, "args": args }))?;
        }
    }
    for (k, instruction, times) in profile.shown() {
        let mut args = json!({ "instruction": k });
        if !profile.place_of(instruction).is_empty() {
            args["place"] = profile.place_of(instruction).into();
        }
        if instruction.operands[0] < instruction.operands[1] {
            args["operands"] = profile.shapes_of(instruction).into();
        }
        if let Some(issued) = instruction.issued {
            args["issued_us"] = us(issued).into();
        }
        let category = if instruction.role == Role::Wait { "wait" } else { "work" };
        event(json!({
            "name": profile.name_of(instruction), "cat": category, "ph": "X", "pid": 0,
            "tid": tid(instruction.stream, lanes[k]), "ts": us(times.start),
            "dur": us(times.end - times.start), "args": args,
        }))?;
    }
    for (flow, wait) in profile.waits.iter().enumerate() {
        if wait.until == NONE || wait.waiter == NONE || wait.resolution.is_elided() {
            continue;
        }
        let ends = [(wait.until, "s"), (wait.waiter, "f")];
        let shown = |k: u32| {
            profile.instructions[k as usize]
                .times
                .filter(|_| profile.instructions[k as usize].is_shown())
        };
        let (Some(from), Some(_)) = (shown(wait.until), shown(wait.waiter)) else { continue };
        for (k, phase) in ends {
            let instruction = &profile.instructions[k as usize];
            let at = instruction.times.map_or(from.end, |times| times.end);
            event(json!({
                "name": "wait", "cat": "wait", "ph": phase, "bp": "e", "id": flow, "pid": 0,
                "tid": tid(instruction.stream, lanes[k as usize]), "ts": us(at),
            }))?;
        }
    }
    for range in &profile.ranges {
        event(json!({
            "name": range.name, "cat": "program", "ph": "X", "pid": 1, "tid": range.thread,
            "ts": us(range.begin), "dur": us(range.end - range.begin),
        }))?;
    }
    for pause in &profile.pauses {
        event(json!({
            "name": pause.reason, "cat": "program", "ph": "X", "pid": 1, "tid": 99,
            "ts": us(pause.begin), "dur": us(pause.end - pause.begin),
        }))?;
    }
    for (arena, name) in profile.arenas.iter().enumerate() {
        let held = memory::held(profile, arena as u32);
        for level in memory::curve(profile, &held) {
            let args = json!({ "bytes": level.bytes });
            let name = format!("memory of {name}");
            event(json!({ "name": name, "ph": "C", "pid": 0, "ts": us(level.at), "args": args }))?;
        }
    }
    out.write_all(b"\n]}\n")
}
