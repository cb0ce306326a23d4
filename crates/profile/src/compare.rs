//! The difference between two profiles: what became faster, which waits came or went, where the
//! programs first differ.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use millstream_terminal::table::new_table;
use serde::Serialize;

use crate::model::{NONE, Profile, Role, Source};
use crate::spread::Spread;
use crate::summary::{self, Show, bare_name, time};

/// The time of the instructions of one name in two profiles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpChange {
    /// Their name, without PyTorch's namespace `aten::`.
    pub name: String,
    /// How many there are in each.
    pub count: [usize; 2],
    /// Their time in each; of several runs the median.
    pub time: [u64; 2],
    /// Whether the difference may be noise; none if one of the two has no repeats.
    pub is_noise: Option<bool>,
}

/// A wait that only one of two profiles has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct OneWait {
    /// What waits: its name, stream and place.
    pub user: String,
    /// What is waited for: its name and stream.
    pub until: String,
}

/// The first instruction in which two programs differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FirstDifference {
    /// Its number among the instructions that work.
    pub number: usize,
    /// The instruction in each, with its place; none where the program has ended.
    pub instructions: [Option<String>; 2],
}

/// The difference between two profiles. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The time of each, with its spread over the repeats.
    pub total: [Spread; 2],
    /// Whether the times of both were measured, each of which may have been another one.
    pub is_measured: bool,
    /// The ops, the largest change first.
    pub ops: Vec<OpChange>,
    /// The waits of the second one that the first one lacks, and how many of each.
    pub came: Vec<(OneWait, usize)>,
    /// The waits of the first one that the second one lacks, and how many of each.
    pub went: Vec<(OneWait, usize)>,
    /// Where the programs first differ; none if they do the same on the same streams.
    pub first: Option<FirstDifference>,
}

/// Compares two profiles.
pub fn compare(a: &Profile, b: &Profile) -> Comparison {
    let (came, went) = wait_changes(a, b);
    Comparison {
        total: [a.spread(), b.spread()],
        is_measured: [a, b].iter().all(|profile| profile.source == Source::Measured),
        ops: op_changes(a, b),
        came,
        went,
        first: first_difference(a, b),
    }
}

fn op_changes(a: &Profile, b: &Profile) -> Vec<OpChange> {
    let mut all: BTreeMap<String, OpChange> = BTreeMap::new();
    for (side, profile) in [a, b].into_iter().enumerate() {
        for op in summary::ops(profile) {
            let name = bare_name(&op.name).to_owned();
            let change = all.entry(name.clone()).or_insert_with(|| OpChange {
                name,
                count: [0; 2],
                time: [0; 2],
                is_noise: None,
            });
            // One profile may have both names.
            change.count[side] += op.count;
            change.time[side] += op.total;
        }
    }
    let mut all: Vec<OpChange> = all.into_values().collect();
    for op in &mut all {
        let spreads = [a, b].map(|profile| {
            let of_name = profile.runs.ops.iter().find(|(name, _)| bare_name(name) == op.name);
            of_name.and_then(|(_, times)| Spread::of(times.iter().copied()))
        });
        for (time, spread) in op.time.iter_mut().zip(&spreads) {
            *time = spread.map_or(*time, |spread| spread.median);
        }
        op.is_noise = match spreads {
            [Some(a), Some(b)] => noise(&[a, b]),
            _ => None,
        };
    }
    all.sort_by_key(|op| std::cmp::Reverse(op.time[0].abs_diff(op.time[1])));
    all
}

/// Returns whether the difference of two medians may be noise; none without repeats of both.
fn noise([a, b]: &[Spread; 2]) -> Option<bool> {
    (a.count > 1 && b.count > 1).then(|| a.overlaps(b))
}

type Counted = Vec<(OneWait, usize)>;

fn wait_changes(a: &Profile, b: &Profile) -> (Counted, Counted) {
    let count = |profile: &Profile| {
        let names = summary::ShortNames::of(profile);
        let mut counts: BTreeMap<OneWait, i64> = BTreeMap::new();
        for wait in profile.waits.iter().filter(|w| !w.resolution.is_elided()) {
            let Some(user) = profile.instructions.get(wait.user as usize) else { continue };
            let Some(until) = source(profile, wait.until) else { continue };
            let describe = |k: u32| {
                let instruction = &profile.instructions[k as usize];
                let stream = stream_name(profile, instruction.stream);
                format!("{} on {stream}", bare_name(profile.name_of(instruction)))
            };
            let place = names.place(profile.place_of(user));
            let user = format!("{} at {place}", describe(wait.user));
            *counts.entry(OneWait { user, until: describe(until) }).or_default() += 1;
        }
        counts
    };
    let mut difference = count(b);
    for (wait, count) in count(a) {
        *difference.entry(wait).or_default() -= count;
    }
    let of = |sign: i64| {
        let some = difference.iter().filter(move |(_, count)| **count * sign > 0);
        some.map(|(wait, count)| (wait.clone(), count.unsigned_abs() as usize)).collect()
    };
    (of(1), of(-1))
}

/// Returns the name of a stream. A program has the same streams whether it is replayed or not.
fn stream_name(profile: &Profile, stream: u32) -> String {
    let Some(stream) = profile.streams.get(stream as usize) else { return "?".to_owned() };
    match stream.key_and_list().1 {
        "" => stream.name.clone(),
        list => stream.name.replacen(list, "", 1),
    }
}

/// Returns the instruction that a wait is for: a record stands for the work before it.
fn source(profile: &Profile, until: u32) -> Option<u32> {
    let instruction = profile.instructions.get(until as usize)?;
    if instruction.role != Role::Record {
        return Some(until);
    }
    let earlier = profile.instructions[..until as usize].iter().enumerate().rev();
    let mut own = earlier.filter(|(_, i)| i.stream == instruction.stream && i.role == Role::Work);
    Some(own.next().map_or(until, |(k, _)| k as u32))
}

/// Returns the instructions that work, in program order, each as a line without ids.
fn works(profile: &Profile) -> impl Iterator<Item = (String, usize)> {
    let works = profile.instructions.iter().enumerate();
    let works =
        works.filter(|(k, i)| i.role == Role::Work && i.stream != NONE && !profile.is_part(*k));
    works.map(|(k, instruction)| {
        let spec = |o: &crate::model::Operand| profile.tensors[o.tensor as usize].spec.clone();
        let operands: Vec<String> = profile.operands_of(instruction).iter().map(spec).collect();
        let name = bare_name(profile.name_of(instruction));
        let stream = stream_name(profile, instruction.stream);
        (format!("{name} ({}) on {stream}", operands.join(", ")), k)
    })
}

fn first_difference(a: &Profile, b: &Profile) -> Option<FirstDifference> {
    let (mut left, mut right) = (works(a), works(b));
    let mut number = 0;
    loop {
        let pair = (left.next(), right.next());
        match &pair {
            (None, None) => return None,
            (Some((one, _)), Some((other, _))) if one == other => number += 1,
            _ => {
                let describe = |found: Option<(String, usize)>, profile: &Profile| {
                    let (text, k) = found?;
                    let place = profile.place_of(&profile.instructions[k]);
                    Some(if place.is_empty() { text } else { format!("{text} at {place}") })
                };
                let instructions = [describe(pair.0, a), describe(pair.1, b)];
                return Some(FirstDifference { number, instructions });
            }
        }
    }
}

/// Returns a change in percent of the first time.
fn percent([a, b]: [u64; 2]) -> String {
    match a {
        0 => "new".to_owned(),
        _ => format!("{:+.1} %", (b as f64 - a as f64) * 100.0 / a as f64),
    }
}

fn signed([a, b]: [u64; 2]) -> String {
    format!("{}{}", if b < a { "-" } else { "+" }, time(a.abs_diff(b)))
}

/// Prints a comparison. `names` are the names of the two sides.
///
/// # Errors
/// `out` fails.
pub fn write(
    comparison: &Comparison,
    names: [&str; 2],
    show: Show,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "A: {}\nB: {}", names[0], names[1])?;
    let medians = comparison.total.map(|spread| spread.median);
    let [a, b] = medians;
    if (a == 0) != (b == 0) {
        let which = if a == 0 { "A" } else { "B" };
        writeln!(out, "times are not compared: {which} has none")?;
    } else if a > 0 {
        let [from, to] = comparison.total;
        writeln!(out, "time: {from} to {to} ({})", percent(medians))?;
        match noise(&comparison.total) {
            Some(true) => writeln!(out, "the difference may be noise: the middle halves overlap")?,
            Some(false) => {}
            None if !comparison.is_measured => {}
            None => writeln!(out, "of single runs; with --repeat, noise is told from change")?,
        }
        let header =
            ["op", ">calls A", ">calls B", ">time A", ">time B", ">change", ">in %", "noise?"];
        let mut table = new_table(show.terminal, &header);
        for op in comparison.ops.iter().take(show.rows) {
            table.add_row([
                op.name.clone(),
                op.count[0].to_string(),
                op.count[1].to_string(),
                time(op.time[0]),
                time(op.time[1]),
                signed(op.time),
                percent(op.time),
                match op.is_noise {
                    Some(true) => "maybe".to_owned(),
                    Some(false) => "no".to_owned(),
                    None => String::new(),
                },
            ]);
        }
        writeln!(out, "{table}")?;
    }
    let changes = [("only in A", &comparison.went), ("only in B", &comparison.came)];
    let mut table = new_table(show.terminal, &["wait", "waits for", "by", ">count"]);
    let mut count = HashMap::new();
    for (which, waits) in changes {
        count.insert(which, waits.iter().map(|(_, count)| count).sum::<usize>());
        for (wait, count) in waits.iter().take(show.rows) {
            let (until, user) = (wait.until.clone(), wait.user.clone());
            table.add_row([which.to_owned(), until, user, count.to_string()]);
        }
    }
    match count.values().sum::<usize>() {
        0 => writeln!(out, "the same waits")?,
        _ => {
            writeln!(
                out,
                "waits: {} only in A, {} only in B",
                count["only in A"], count["only in B"]
            )?;
            writeln!(out, "{table}")?;
        }
    }
    match &comparison.first {
        None => writeln!(out, "the same instructions on the same streams"),
        Some(FirstDifference { number, instructions }) => {
            writeln!(out, "the programs differ from call {number} on:")?;
            for (side, instruction) in ["A", "B"].into_iter().zip(instructions) {
                writeln!(out, "  {side}: {}", instruction.as_deref().unwrap_or("has ended"))?;
            }
            Ok(())
        }
    }
}
