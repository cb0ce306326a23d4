//! Writes a profile as columns.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::model::{Instruction, NONE, Operand, Profile, Wait};

use super::{Header, Place, VERSION};

/// The columns so far.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) places: BTreeMap<String, Place>,
    pub(super) bytes: Vec<u8>,
}

impl Columns {
    fn add(&mut self, name: &str, ty: &str, count: usize, bytes: impl Iterator<Item = u8>) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.bytes.len();
        self.bytes.extend(bytes);
        self.places.insert(name.to_owned(), Place { ty: ty.to_owned(), at, count });
    }

    pub(super) fn u8(&mut self, name: &str, values: impl ExactSizeIterator<Item = u8>) {
        self.add(name, "u8", values.len(), values);
    }

    pub(super) fn u32(&mut self, name: &str, values: impl ExactSizeIterator<Item = u32>) {
        self.add(name, "u32", values.len(), values.flat_map(u32::to_le_bytes));
    }

    pub(super) fn f64(&mut self, name: &str, values: impl ExactSizeIterator<Item = f64>) {
        self.add(name, "f64", values.len(), values.flat_map(f64::to_le_bytes));
    }
}

/// Returns a number as JavaScript holds it: every whole number up to 2^53 is exact.
pub(super) fn number(value: u64) -> f64 {
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

pub(super) fn instructions(
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

pub(super) fn operands(columns: &mut Columns, all: &[Operand]) {
    let access = |o: &Operand| u8::from(o.reads) | u8::from(o.writes) << 1;
    columns.u32("operandTensor", all.iter().map(|o| o.tensor));
    columns.u8("operandAccess", all.iter().map(access));
}

pub(super) fn waits<'a>(
    columns: &mut Columns,
    all: impl ExactSizeIterator<Item = &'a Wait> + Clone,
) {
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

pub(super) fn storages(columns: &mut Columns, profile: &Profile) {
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

pub(super) fn header(profile: &Profile, columns: BTreeMap<String, Place>) -> Header {
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
        is_inline: profile.is_inline,
        handoff: profile.handoff,
        runs: profile.runs.clone(),
        peak: profile.peak,
        recorded: profile.recorded.clone(),
        parts: Vec::new(),
        program: profile.parts(),
        repeats: None,
        families: Vec::new(),
        columns,
    }
}

/// Returns the compressed bytes of a header and the columns behind it.
pub(super) fn piece(header: &impl Serialize, columns: &[u8]) -> Vec<u8> {
    // Strings and numbers always have a form in JSON, and a buffer takes everything.
    let mut header = serde_json::to_vec(header).unwrap_or_default();
    header.resize((header.len() + 4).next_multiple_of(8) - 4, b' ');
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let _ = encoder.write_all(&(header.len() as u32).to_le_bytes());
    let _ = encoder.write_all(&header);
    let _ = encoder.write_all(columns);
    encoder.finish().unwrap_or_default()
}
