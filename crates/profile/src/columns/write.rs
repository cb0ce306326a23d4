//! Writes a profile as columns.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::model::{NONE, Profile};
use crate::order::{Order, Segment, critical_path};
use crate::{lanes, memory};

use super::{Header, Place, VERSION};

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
    write_with(profile, Columns::default())
}

/// Writes a profile with columns that follow from it, for the scripts of a page: lanes, memory and
/// the critical path. [`read`](super::read) passes over them.
pub fn write_for_page(profile: &Profile) -> Vec<u8> {
    let mut columns = Columns::default();
    columns.u32("lane", lanes::of(profile).into_iter());
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
    let path = critical_path(profile, &Order::of(profile));
    let of = |segment: &Segment| match *segment {
        Segment::Runs(k) => (0, k),
        Segment::Gap { before } => (1, before),
        Segment::Submits { before } => (2, before),
        Segment::Resumes { after } => (3, after),
    };
    columns.u8("pathKind", path.iter().map(|part| of(&part.segment).0));
    columns.u32("pathInstruction", path.iter().map(|part| of(&part.segment).1));
    columns.f64("pathStart", path.iter().map(|part| number(part.start)));
    columns.f64("pathEnd", path.iter().map(|part| number(part.end)));
    write_with(profile, columns)
}

fn write_with(profile: &Profile, mut columns: Columns) -> Vec<u8> {
    let all = || profile.instructions.iter();
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
    columns.u32("operandsFrom", all().map(|i| i.operands[0]));
    columns.u32("operandsTo", all().map(|i| i.operands[1]));
    columns.u32("parent", all().map(|i| i.parent));
    columns.u32("submitter", all().map(|i| i.submitter.unwrap_or(NONE)));
    let operands = || profile.operands.iter();
    columns.u32("operandTensor", operands().map(|o| o.tensor));
    columns.u8("operandAccess", operands().map(|o| u8::from(o.reads) | u8::from(o.writes) << 1));
    let waits = || profile.waits.iter();
    columns.u32("waitWaiter", waits().map(|w| w.waiter));
    columns.u32("waitUntil", waits().map(|w| w.until));
    columns.u32("waitUser", waits().map(|w| w.user));
    columns.u8("waitResolution", waits().map(|w| w.resolution as u8));
    columns.u32("waitCoveredBy", waits().map(|w| w.covered_by));
    columns.u32("waitTensorCount", waits().map(|w| w.tensors.len() as u32));
    let tensors: Vec<u32> = waits().flat_map(|w| w.tensors.iter().copied()).collect();
    columns.u32("waitTensors", tensors.into_iter());
    let storages = || profile.storages.iter();
    columns.u32("storageArena", storages().map(|s| s.arena));
    columns.f64("storageOffset", storages().map(|s| number(s.offset)));
    columns.f64("storageSize", storages().map(|s| number(s.size)));
    columns.f64("storageGeneration", storages().map(|s| number(s.generation)));
    columns.u32("storageTensor", storages().map(|s| s.tensor));
    columns.u32("storageAllocated", storages().map(|s| s.allocated));
    columns.u32("storageReleased", storages().map(|s| s.released));
    columns.u32("storageLastUse", storages().map(|s| s.last_use));
    let header = Header {
        version: VERSION,
        title: profile.title.clone(),
        source: profile.source,
        remarks: profile.remarks.clone(),
        streams: profile.streams.clone(),
        arenas: profile.arenas.clone(),
        names: profile.names.clone(),
        places: profile.places.clone(),
        tensors: profile.tensors.clone(),
        ranges: profile.ranges.clone(),
        pauses: profile.pauses.clone(),
        total: profile.total,
        host_workers: profile.host_workers,
        columns: columns.places,
    };
    // Strings and numbers always have a form in JSON, and a buffer takes everything.
    let mut header = serde_json::to_vec(&header).unwrap_or_default();
    header.resize((header.len() + 4).next_multiple_of(8) - 4, b' ');
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let _ = encoder.write_all(&(header.len() as u32).to_le_bytes());
    let _ = encoder.write_all(&header);
    let _ = encoder.write_all(&columns.bytes);
    encoder.finish().unwrap_or_default()
}
