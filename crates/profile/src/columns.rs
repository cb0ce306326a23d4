//! A profile as a file: a header in JSON and columns of numbers, compressed.
//!
//! The page (`page`) and the Perfetto file (`perfetto`) carry the same bytes, so that a profile is
//! written in one way.
//!
//! # Form
//! After decompression (gzip): four bytes, little-endian, with the length of the header; the header
//! in JSON; then the columns, each at a multiple of eight bytes behind the header's end. The header
//! names each column with its type (`u8`, `u32`, `f64`), its place and its count. All numbers are
//! little-endian. Times are nanoseconds; a time that does not exist is -1, a position that does not
//! exist [`NONE`].

use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::model::{
    Instruction, NONE, Operand, Outcome, Pause, Profile, Range, Resolution, Role, Source, Storage,
    Stream, Tensor, Times, Wait,
};

use crate::order::{Order, Segment, critical_path};
use crate::{lanes, memory};

/// The version of the form.
const VERSION: u32 = 1;

/// The most bytes that a file may hold once it is decompressed.
const LIMIT: u64 = 8 << 30;

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    title: String,
    source: Source,
    remarks: Vec<String>,
    streams: Vec<Stream>,
    arenas: Vec<String>,
    names: Vec<String>,
    places: Vec<String>,
    tensors: Vec<Tensor>,
    ranges: Vec<Range>,
    pauses: Vec<Pause>,
    total: u64,
    columns: BTreeMap<String, Place>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Place {
    #[serde(rename = "type")]
    ty: String,
    at: usize,
    count: usize,
}

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
/// the critical path. [`read`] passes over them.
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

/// A file that is no profile, with the reason.
pub type ReadError = String;

struct Reading<'a> {
    places: &'a BTreeMap<String, Place>,
    bytes: &'a [u8],
}

impl<'a> Reading<'a> {
    fn bytes(&self, name: &str, ty: &str, size: usize) -> Result<&'a [u8], ReadError> {
        let place = self.places.get(name).filter(|place| place.ty == ty);
        let place = place.ok_or_else(|| format!("the column {name} of {ty} is missing"))?;
        let range = place.count.checked_mul(size).and_then(|n| n.checked_add(place.at));
        let bytes = range.and_then(|end| self.bytes.get(place.at..end));
        bytes.ok_or_else(|| format!("the column {name} lies outside of the file"))
    }

    fn u8(&self, name: &str) -> Result<Vec<u8>, ReadError> {
        Ok(self.bytes(name, "u8", 1)?.to_vec())
    }

    fn u32(&self, name: &str) -> Result<Vec<u32>, ReadError> {
        let (all, _) = self.bytes(name, "u32", 4)?.as_chunks::<4>();
        Ok(all.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    /// Returns whole numbers; none for those below 0.
    fn f64(&self, name: &str) -> Result<Vec<Option<u64>>, ReadError> {
        let (all, _) = self.bytes(name, "f64", 8)?.as_chunks::<8>();
        let number = |bytes: &[u8; 8]| {
            let value = f64::from_le_bytes(*bytes);
            (value >= 0.0).then_some(value as u64)
        };
        Ok(all.iter().map(number).collect())
    }
}

/// Reads a profile.
///
/// # Errors
/// The bytes are no profile, or are damaged.
pub fn read(bytes: &[u8]) -> Result<Profile, ReadError> {
    let mut content = Vec::new();
    let decoder = GzDecoder::new(bytes);
    decoder
        .take(LIMIT)
        .read_to_end(&mut content)
        .map_err(|e| format!("the profile cannot be decompressed: {e}"))?;
    let short = || "the profile ends too early".to_owned();
    let (length, rest) = content.split_first_chunk::<4>().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (header, columns) = rest.split_at_checked(length).ok_or_else(short)?;
    let header: Header =
        serde_json::from_slice(header).map_err(|e| format!("the profile's header: {e}"))?;
    if header.version != VERSION {
        let version = header.version;
        return Err(format!("the profile has version {version}, and this is for {VERSION}"));
    }
    let columns = Reading { places: &header.columns, bytes: columns };
    let profile = Profile {
        instructions: instructions(&columns)?,
        operands: operands(&columns)?,
        waits: waits(&columns)?,
        storages: storages(&columns)?,
        title: header.title,
        source: header.source,
        remarks: header.remarks,
        streams: header.streams,
        arenas: header.arenas,
        names: header.names,
        places: header.places,
        tensors: header.tensors,
        ranges: header.ranges,
        pauses: header.pauses,
        total: header.total,
    };
    check(&profile)?;
    Ok(profile)
}

fn instructions(columns: &Reading<'_>) -> Result<Vec<Instruction>, ReadError> {
    let (name, role) = (columns.u32("name")?, columns.u8("role")?);
    let (stream, seq) = (columns.u32("stream")?, columns.f64("seq")?);
    let (place, issued) = (columns.u32("place")?, columns.f64("issued")?);
    let (ready, start) = (columns.f64("ready")?, columns.f64("start")?);
    let (end, outcome) = (columns.f64("end")?, columns.u8("outcome")?);
    let (from, to) = (columns.u32("operandsFrom")?, columns.u32("operandsTo")?);
    let parent = columns.u32("parent")?;
    same(&[
        name.len(),
        role.len(),
        stream.len(),
        seq.len(),
        place.len(),
        issued.len(),
        ready.len(),
        start.len(),
        end.len(),
        outcome.len(),
        from.len(),
        to.len(),
        parent.len(),
    ])?;
    let one = |k: usize| {
        let times = match (ready[k], start[k], end[k]) {
            (Some(ready), Some(start), Some(end)) => {
                Some(Times { ready, start, end: end.max(start) })
            }
            _ => None,
        };
        Instruction {
            name: name[k],
            role: Role::ALL.get(usize::from(role[k])).copied().unwrap_or_default(),
            stream: stream[k],
            seq: seq[k].unwrap_or(0),
            place: place[k],
            issued: issued[k],
            times,
            outcome: match outcome[k] {
                1 => Outcome::Failed,
                2 => Outcome::Skipped,
                _ => Outcome::Completed,
            },
            operands: [from[k], to[k]],
            parent: parent[k],
        }
    };
    Ok((0..name.len()).map(one).collect())
}

fn same(counts: &[usize]) -> Result<(), ReadError> {
    match counts.iter().all(|count| *count == counts[0]) {
        true => Ok(()),
        false => Err("columns that belong together differ in length".to_owned()),
    }
}

fn operands(columns: &Reading<'_>) -> Result<Vec<Operand>, ReadError> {
    let (tensor, access) = (columns.u32("operandTensor")?, columns.u8("operandAccess")?);
    same(&[tensor.len(), access.len()])?;
    let one = |(tensor, access): (&u32, &u8)| Operand {
        tensor: *tensor,
        reads: access & 1 != 0,
        writes: access & 2 != 0,
    };
    Ok(tensor.iter().zip(&access).map(one).collect())
}

fn waits(columns: &Reading<'_>) -> Result<Vec<Wait>, ReadError> {
    let (waiter, until) = (columns.u32("waitWaiter")?, columns.u32("waitUntil")?);
    let (user, resolution) = (columns.u32("waitUser")?, columns.u8("waitResolution")?);
    let (covered_by, counts) = (columns.u32("waitCoveredBy")?, columns.u32("waitTensorCount")?);
    let tensors = columns.u32("waitTensors")?;
    let lengths = [waiter.len(), until.len(), user.len(), resolution.len(), covered_by.len()];
    same(&lengths)?;
    same(&[waiter.len(), counts.len()])?;
    let mut from = 0usize;
    let one = |k: usize| {
        let to = from.saturating_add(counts[k] as usize);
        let own =
            tensors.get(from..to).ok_or_else(|| "a wait names too many tensors".to_owned())?;
        from = to;
        Ok(Wait {
            waiter: waiter[k],
            until: until[k],
            user: user[k],
            resolution: Resolution::ALL
                .get(usize::from(resolution[k]))
                .copied()
                .unwrap_or_default(),
            covered_by: covered_by[k],
            tensors: own.to_vec(),
        })
    };
    (0..waiter.len()).map(one).collect()
}

fn storages(columns: &Reading<'_>) -> Result<Vec<Storage>, ReadError> {
    let (arena, offset) = (columns.u32("storageArena")?, columns.f64("storageOffset")?);
    let (size, generation) = (columns.f64("storageSize")?, columns.f64("storageGeneration")?);
    let (tensor, allocated) = (columns.u32("storageTensor")?, columns.u32("storageAllocated")?);
    let (released, last) = (columns.u32("storageReleased")?, columns.u32("storageLastUse")?);
    same(&[arena.len(), offset.len(), size.len(), generation.len(), tensor.len()])?;
    same(&[arena.len(), allocated.len(), released.len(), last.len()])?;
    let one = |k: usize| Storage {
        arena: arena[k],
        offset: offset[k].unwrap_or(u64::MAX),
        size: size[k].unwrap_or(0),
        generation: generation[k].unwrap_or(0),
        tensor: tensor[k],
        allocated: allocated[k],
        released: released[k],
        last_use: last[k],
    };
    Ok((0..arena.len()).map(one).collect())
}

/// Checks that every position is that of something.
fn check(profile: &Profile) -> Result<(), ReadError> {
    let within = |what: &str, position: u32, count: usize| match position {
        NONE => Ok(()),
        _ if (position as usize) < count => Ok(()),
        _ => Err(format!("the profile names {what} {position}, and has {count}")),
    };
    let count = profile.instructions.len();
    for instruction in &profile.instructions {
        within("the name", instruction.name, profile.names.len())?;
        within("the stream", instruction.stream, profile.streams.len())?;
        within("the place", instruction.place, profile.places.len())?;
        within("the instruction", instruction.parent, count)?;
        let [from, to] = instruction.operands;
        if from > to || to as usize > profile.operands.len() {
            return Err(format!("the profile names the operands {from} to {to}"));
        }
    }
    for operand in &profile.operands {
        let tensor = operand.tensor as usize;
        if tensor >= profile.tensors.len() {
            return Err(format!("the profile names the tensor {tensor}"));
        }
    }
    for wait in &profile.waits {
        for instruction in [wait.waiter, wait.until, wait.user, wait.covered_by] {
            within("the instruction", instruction, count)?;
        }
        wait.tensors.iter().try_for_each(|&t| within("the tensor", t, profile.tensors.len()))?;
    }
    for tensor in &profile.tensors {
        if tensor.storage as usize >= profile.storages.len() {
            return Err(format!("the profile names the storage {}", tensor.storage));
        }
    }
    profile.pauses.iter().try_for_each(|p| within("the instruction", p.until, count))?;
    for storage in &profile.storages {
        within("the arena", storage.arena, profile.arenas.len())?;
        within("the tensor", storage.tensor, profile.tensors.len())?;
        for instruction in [storage.allocated, storage.released, storage.last_use] {
            within("the instruction", instruction, count)?;
        }
    }
    Ok(())
}
