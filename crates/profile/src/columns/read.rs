//! Reads a profile from columns, and checks it.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

use crate::model::{
    Instruction, NONE, Operand, Outcome, Profile, Resolution, Role, Storage, Times, Wait,
};

use super::{Header, PartHeader, Place, VERSION};

/// The most bytes that a file may hold once it is decompressed.
const LIMIT: u64 = 2 << 30;

/// A file that is no profile, with the reason.
pub type ReadError = String;

/// The columns of each piece.
struct Reading {
    pieces: Vec<(BTreeMap<String, Place>, Vec<u8>)>,
}

impl Reading {
    /// Returns the bytes of a column: those of all pieces that have it, one behind the other.
    fn bytes(&self, name: &str, ty: &str, size: usize) -> Result<Vec<u8>, ReadError> {
        let mut all = None;
        for (places, bytes) in &self.pieces {
            let Some(place) = places.get(name).filter(|place| place.ty == ty) else { continue };
            let range = place.count.checked_mul(size).and_then(|n| n.checked_add(place.at));
            let own = range.and_then(|end| bytes.get(place.at..end));
            let own = own.ok_or_else(|| format!("the column {name} lies outside of the file"))?;
            all.get_or_insert_with(Vec::new).extend_from_slice(own);
        }
        all.ok_or_else(|| format!("the column {name} of {ty} is missing"))
    }

    fn u8(&self, name: &str) -> Result<Vec<u8>, ReadError> {
        self.bytes(name, "u8", 1)
    }

    fn u32(&self, name: &str) -> Result<Vec<u32>, ReadError> {
        let bytes = self.bytes(name, "u32", 4)?;
        let (all, _) = bytes.as_chunks::<4>();
        Ok(all.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
    }

    /// Returns a column that files of earlier versions lack.
    fn newer_u32(&self, name: &str, count: usize) -> Result<Vec<u32>, ReadError> {
        match self.pieces.iter().any(|(places, _)| places.contains_key(name)) {
            true => self.u32(name),
            false => Ok(vec![NONE; count]),
        }
    }

    /// Returns whole numbers; none for those below 0.
    fn f64(&self, name: &str) -> Result<Vec<Option<u64>>, ReadError> {
        let bytes = self.bytes(name, "f64", 8)?;
        let (all, _) = bytes.as_chunks::<8>();
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
    read_pieces([bytes])
}

/// Reads a profile in pieces, as a page has it.
///
/// # Errors
/// The bytes are no profile, or are damaged.
pub fn read_pieces<B: AsRef<[u8]>>(
    pieces: impl IntoIterator<Item = B>,
) -> Result<Profile, ReadError> {
    let mut room = LIMIT;
    let mut pieces = pieces.into_iter();
    let first = pieces.next().ok_or("the profile ends too early")?;
    let (header, bytes): (Header, _) = unpacked(first.as_ref(), &mut room)?;
    if header.version != VERSION {
        let version = header.version;
        return Err(format!("the profile has version {version}, and this is for {VERSION}"));
    }
    let mut columns = Reading { pieces: vec![(header.columns, bytes)] };
    for piece in pieces {
        let (header, bytes): (PartHeader, _) = unpacked(piece.as_ref(), &mut room)?;
        columns.pieces.push((header.columns, bytes));
    }
    if !header.parts.is_empty() && header.parts.len() + 1 != columns.pieces.len() {
        let (has, parts) = (columns.pieces.len() - 1, header.parts.len());
        return Err(format!("the profile has {has} of its {parts} parts"));
    }
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
        arguments: header.arguments,
        tensors: header.tensors,
        ranges: header.ranges,
        pauses: header.pauses,
        total: header.total,
        host_workers: header.host_workers,
        is_inline: header.is_inline,
        handoff: header.handoff,
        runs: header.runs,
        peak: header.peak,
        recorded: header.recorded,
    };
    check(&profile)?;
    Ok(profile)
}

/// Returns the header of a piece and the bytes behind it. `room` is how many bytes there may be.
fn unpacked<T: DeserializeOwned>(bytes: &[u8], room: &mut u64) -> Result<(T, Vec<u8>), ReadError> {
    let mut content = Vec::new();
    GzDecoder::new(bytes)
        .take(*room)
        .read_to_end(&mut content)
        .map_err(|e| format!("the profile cannot be decompressed: {e}"))?;
    *room = room.saturating_sub(content.len() as u64);
    let short = || "the profile ends too early".to_owned();
    let (length, rest) = content.split_first_chunk::<4>().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let (header, _) = rest.split_at_checked(length).ok_or_else(short)?;
    let header =
        serde_json::from_slice(header).map_err(|e| format!("the profile's header: {e}"))?;
    let columns = content.split_off(4 + length);
    Ok((header, columns))
}

fn instructions(columns: &Reading) -> Result<Vec<Instruction>, ReadError> {
    let (name, role) = (columns.u32("name")?, columns.u8("role")?);
    let (stream, seq) = (columns.u32("stream")?, columns.f64("seq")?);
    let (place, issued) = (columns.u32("place")?, columns.f64("issued")?);
    let (ready, start) = (columns.f64("ready")?, columns.f64("start")?);
    let (end, outcome) = (columns.f64("end")?, columns.u8("outcome")?);
    let (from, to) = (columns.u32("operandsFrom")?, columns.u32("operandsTo")?);
    let parent = columns.u32("parent")?;
    let submitter = columns.newer_u32("submitter", name.len())?;
    let arguments = columns.newer_u32("argument", name.len())?;
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
        submitter.len(),
        arguments.len(),
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
            arguments: Some(arguments[k]).filter(|k| *k != NONE),
            parent: parent[k],
            submitter: Some(submitter[k]).filter(|k| *k != NONE),
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

fn operands(columns: &Reading) -> Result<Vec<Operand>, ReadError> {
    let (tensor, access) = (columns.u32("operandTensor")?, columns.u8("operandAccess")?);
    same(&[tensor.len(), access.len()])?;
    let one = |(tensor, access): (&u32, &u8)| Operand {
        tensor: *tensor,
        reads: access & 1 != 0,
        writes: access & 2 != 0,
    };
    Ok(tensor.iter().zip(&access).map(one).collect())
}

fn waits(columns: &Reading) -> Result<Vec<Wait>, ReadError> {
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

fn storages(columns: &Reading) -> Result<Vec<Storage>, ReadError> {
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
        let arguments = instruction.arguments.unwrap_or(NONE);
        within("the arguments", arguments, profile.arguments.len())?;
        within("the instruction", instruction.parent, count)?;
        within("the instruction", instruction.submitter.unwrap_or(NONE), count)?;
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
