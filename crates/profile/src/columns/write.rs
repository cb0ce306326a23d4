//! Writes a profile as columns.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::model::{Instruction, NONE, Operand, Profile, Role, Wait};
use crate::order::{Order, Segment, critical_path};
use crate::{lanes, memory, repeats};

use super::{Header, Part, PartHeader, Place, VERSION};

/// The most instructions of a piece of a page.
pub const PART: usize = 1 << 16;

/// The steps of the time in the overview of a page.
const BUCKETS: usize = 1000;

#[derive(Default)]
struct Columns {
    places: BTreeMap<String, Place>,
    bytes: Vec<u8>,
}

impl Columns {
    fn add(&mut self, name: &str, ty: &str, count: usize, bytes: impl Iterator<Item = u8>) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len();
        self.bytes.extend(bytes);
        self.places.insert(name.to_owned(), Place { ty: ty.to_owned(), at, count });
    }

    fn u8(&mut self, name: &str, values: impl ExactSizeIterator<Item = u8>) {
        self.add(name, "u8", values.len(), values);
    }

    fn u32(&mut self, name: &str, values: impl ExactSizeIterator<Item = u32>) {
        self.add(name, "u32", values.len(), values.flat_map(u32::to_le_bytes));
    }

    fn f64(&mut self, name: &str, values: impl ExactSizeIterator<Item = f64>) {
        self.add(name, "f64", values.len(), values.flat_map(f64::to_le_bytes));
    }
}

/// Returns a number as JavaScript holds it: every whole number up to 2^53 is exact.
fn number(value: u64) -> f64 {
    if value == u64::MAX { -1.0 } else { value as f64 }
}

fn time(time: Option<u64>) -> f64 {
    time.map_or(-1.0, number)
}

/// Writes a profile.
pub fn write(profile: &Profile) -> Vec<u8> {
    let mut columns = Columns::default();
    let ranges = profile.instructions.iter().map(|i| i.operands);
    instructions(&mut columns, &profile.instructions, ranges);
    operands(&mut columns, &profile.operands);
    waits(&mut columns, profile.waits.iter());
    storages(&mut columns, profile);
    piece(&header(profile, columns.places), &columns.bytes)
}

/// Writes a profile in pieces, with columns that follow from it, for the scripts of a page: lanes,
/// memory, the critical path, what repeats, and an overview if there is more than one part.
/// [`read_pieces`](super::read_pieces) passes over them.
pub fn write_for_page(profile: &Profile) -> Vec<Vec<u8>> {
    write_in_parts(profile, PART)
}

pub(super) fn write_in_parts(profile: &Profile, size: usize) -> Vec<Vec<u8>> {
    let count = profile.instructions.len();
    let lanes = lanes::of(profile);
    let path = critical_path(profile, &Order::of(profile));
    let parts = count.div_ceil(size).max(1);
    let part_of = |k: u32| if (k as usize) < count { k as usize / size } else { 0 };
    let mut waits_of: Vec<Vec<&Wait>> = vec![Vec::new(); parts];
    for wait in &profile.waits {
        let known = [wait.waiter, wait.user, wait.until].into_iter().find(|k| *k != NONE);
        waits_of[known.map_or(0, part_of)].push(wait);
    }
    let mut path_of: Vec<Vec<(u8, u32, [u64; 2])>> = vec![Vec::new(); parts];
    for segment in &path {
        let (kind, k) = match segment.segment {
            Segment::Runs(k) => (0, k),
            Segment::Gap { before } => (1, before),
            Segment::Submits { before } => (2, before),
            Segment::Resumes { after } => (3, after),
        };
        path_of[part_of(k)].push((kind, k, [segment.start, segment.end]));
    }
    let mut stated = Vec::new();
    let mut pieces = vec![Vec::new()];
    let mut written = 0;
    for part in 0..parts {
        let own = part * size..count.min((part + 1) * size);
        let all = &profile.instructions[own.clone()];
        // In the order of the instructions, so that a part has its operands together.
        let used: Vec<Operand> = all.iter().flat_map(|i| profile.operands_of(i)).copied().collect();
        let first = written;
        let ranges = all.iter().map(|i| {
            let from = written;
            written += profile.operands_of(i).len() as u32;
            [from, written]
        });
        let ranges: Vec<[u32; 2]> = ranges.collect();
        let mut columns = Columns::default();
        instructions(&mut columns, all, ranges.into_iter());
        columns.u32("lane", lanes[own].iter().copied());
        operands(&mut columns, &used);
        waits(&mut columns, waits_of[part].iter().copied());
        let path = || path_of[part].iter();
        columns.u8("pathKind", path().map(|part| part.0));
        columns.u32("pathInstruction", path().map(|part| part.1));
        columns.f64("pathStart", path().map(|part| number(part.2[0])));
        columns.f64("pathEnd", path().map(|part| number(part.2[1])));
        let times = || all.iter().filter(|i| i.is_shown()).filter_map(|i| i.times);
        stated.push(Part {
            instructions: all.len(),
            operands: (written - first) as usize,
            begin: times().map(|t| t.start).min().unwrap_or(0),
            end: times().map(|t| t.end).max().unwrap_or(0),
        });
        pieces.push(piece(&PartHeader { columns: columns.places }, &columns.bytes));
    }
    let mut columns = Columns::default();
    storages(&mut columns, profile);
    memory_over_time(&mut columns, profile);
    if parts > 1 {
        columns.u8("overview", overview(profile).into_iter());
    }
    let repeats = Some(repeats::of(profile));
    let header = Header { parts: stated, repeats, ..header(profile, columns.places) };
    pieces[0] = piece(&header, &columns.bytes);
    pieces
}

/// Returns for each stream and each step of the time how busy it is, from 0 to 255.
fn overview(profile: &Profile) -> Vec<u8> {
    let step = (profile.total as f64 / BUCKETS as f64).max(1.0);
    let mut busy = vec![0.0; profile.streams.len() * BUCKETS];
    for (_, instruction, times) in profile.shown() {
        if matches!(instruction.role, Role::Wait | Role::Fence) {
            continue;
        }
        let own = &mut busy[instruction.stream as usize * BUCKETS..][..BUCKETS];
        let (start, end) = (times.start as f64, times.end as f64);
        let first = ((start / step) as usize).min(BUCKETS - 1);
        let last = ((end / step) as usize).min(BUCKETS - 1);
        for (k, bucket) in own.iter_mut().enumerate().take(last + 1).skip(first) {
            let begin = k as f64 * step;
            *bucket += (end.min(begin + step) - start.max(begin)).max(0.0);
        }
    }
    busy.iter().map(|busy| (busy / step * 255.0).ceil().min(255.0) as u8).collect()
}

fn memory_over_time(columns: &mut Columns, profile: &Profile) {
    let mut held = vec![[-1.0; 2]; profile.storages.len()];
    let mut levels = Vec::new();
    let mut counts = Vec::new();
    for arena in 0..profile.arenas.len() as u32 {
        let own = memory::held(profile, arena);
        for one in &own {
            held[one.storage as usize] = [number(one.begin), number(one.end)];
        }
        let made = memory::curve(profile, &own);
        counts.push(made.len() as u32);
        levels.extend(made);
    }
    columns.f64("heldBegin", held.iter().map(|held| held[0]));
    columns.f64("heldEnd", held.iter().map(|held| held[1]));
    columns.u32("levelCount", counts.into_iter());
    columns.f64("levelAt", levels.iter().map(|level| number(level.at)));
    columns.f64("levelBytes", levels.iter().map(|level| number(level.bytes)));
    columns.f64("levelExtent", levels.iter().map(|level| number(level.extent)));
}

fn instructions(
    columns: &mut Columns,
    all: &[Instruction],
    operands: impl ExactSizeIterator<Item = [u32; 2]> + Clone,
) {
    let all = || all.iter();
    columns.u32("name", all().map(|i| i.name));
    columns.u8("role", all().map(|i| i.role as u8));
    columns.u32("stream", all().map(|i| i.stream));
    columns.f64("seq", all().map(|i| number(i.seq)));
    columns.u32("place", all().map(|i| i.place));
    columns.f64("issued", all().map(|i| time(i.issued)));
    columns.f64("ready", all().map(|i| time(i.times.map(|t| t.ready))));
    columns.f64("start", all().map(|i| time(i.times.map(|t| t.start))));
    columns.f64("end", all().map(|i| time(i.times.map(|t| t.end))));
    columns.u8("outcome", all().map(|i| i.outcome as u8));
    columns.u32("operandsFrom", operands.clone().map(|range| range[0]));
    columns.u32("operandsTo", operands.map(|range| range[1]));
    columns.u32("parent", all().map(|i| i.parent));
    columns.u32("submitter", all().map(|i| i.submitter.unwrap_or(NONE)));
    columns.u32("argument", all().map(|i| i.arguments.unwrap_or(NONE)));
}

fn operands(columns: &mut Columns, all: &[Operand]) {
    let access = |o: &Operand| u8::from(o.reads) | u8::from(o.writes) << 1;
    columns.u32("operandTensor", all.iter().map(|o| o.tensor));
    columns.u8("operandAccess", all.iter().map(access));
}

fn waits<'a>(columns: &mut Columns, all: impl ExactSizeIterator<Item = &'a Wait> + Clone) {
    let waits = || all.clone();
    columns.u32("waitWaiter", waits().map(|w| w.waiter));
    columns.u32("waitUntil", waits().map(|w| w.until));
    columns.u32("waitUser", waits().map(|w| w.user));
    columns.u8("waitResolution", waits().map(|w| w.resolution as u8));
    columns.u32("waitCoveredBy", waits().map(|w| w.covered_by));
    columns.u32("waitTensorCount", waits().map(|w| w.tensors.len() as u32));
    let tensors: Vec<u32> = waits().flat_map(|w| w.tensors.iter().copied()).collect();
    columns.u32("waitTensors", tensors.into_iter());
}

fn storages(columns: &mut Columns, profile: &Profile) {
    let storages = || profile.storages.iter();
    columns.u32("storageArena", storages().map(|s| s.arena));
    columns.f64("storageOffset", storages().map(|s| number(s.offset)));
    columns.f64("storageSize", storages().map(|s| number(s.size)));
    columns.f64("storageGeneration", storages().map(|s| number(s.generation)));
    columns.u32("storageTensor", storages().map(|s| s.tensor));
    columns.u32("storageAllocated", storages().map(|s| s.allocated));
    columns.u32("storageReleased", storages().map(|s| s.released));
    columns.u32("storageLastUse", storages().map(|s| s.last_use));
}

fn header(profile: &Profile, columns: BTreeMap<String, Place>) -> Header {
    Header {
        version: VERSION,
        title: profile.title.clone(),
        source: profile.source,
        remarks: profile.remarks.clone(),
        streams: profile.streams.clone(),
        arenas: profile.arenas.clone(),
        names: profile.names.clone(),
        places: profile.places.clone(),
        arguments: profile.arguments.clone(),
        tensors: profile.tensors.clone(),
        ranges: profile.ranges.clone(),
        pauses: profile.pauses.clone(),
        total: profile.total,
        host_workers: profile.host_workers,
        handoff: profile.handoff,
        runs: profile.runs.clone(),
        parts: Vec::new(),
        repeats: None,
        columns,
    }
}

/// Returns the compressed bytes of a header and the columns behind it.
fn piece(header: &impl Serialize, columns: &[u8]) -> Vec<u8> {
    // Strings and numbers always have a form in JSON, and a buffer takes everything.
    let mut header = serde_json::to_vec(header).unwrap_or_default();
    header.resize((header.len() + 4).next_multiple_of(8) - 4, b' ');
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let _ = encoder.write_all(&(header.len() as u32).to_le_bytes());
    let _ = encoder.write_all(&header);
    let _ = encoder.write_all(columns);
    encoder.finish().unwrap_or_default()
}
