//! Reads a profile from columns, and checks it.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;

use crate::model::{NONE, Profile, Wait};

use super::rows::{Cell, Row};
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

    fn u32(&self, name: &str) -> Result<Vec<u32>, ReadError> {
        let bytes = self.bytes(name, "u32", 4)?;
        let (all, _) = bytes.as_chunks::<4>();
        Ok(all.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect())
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

    /// Returns the rows of a table.
    fn rows<R: Row>(&self) -> Result<Vec<R>, ReadError> {
        let mut rows = None;
        for (name, cell) in R::COLUMNS {
            match cell {
                Cell::U8(_, set) => fill(&mut rows, self.bytes(name, "u8", 1)?, set)?,
                Cell::Newer(_, set)
                    if self.pieces.iter().all(|(of, _)| !of.contains_key(*name)) =>
                {
                    rows.iter_mut().flatten().for_each(|row| set(row, NONE));
                }
                Cell::U32(_, set) | Cell::Newer(_, set) => fill(&mut rows, self.u32(name)?, set)?,
                Cell::F64(_, set) => fill(&mut rows, self.f64(name)?, set)?,
            }
        }
        Ok(rows.unwrap_or_default())
    }

    /// Returns the waits with their tensors.
    fn waits(&self) -> Result<Vec<Wait>, ReadError> {
        let mut waits = Some(self.rows::<Wait>()?);
        let mut tensors = self.u32("waitTensors")?.into_iter();
        let mut fits = true;
        fill(&mut waits, self.u32("waitTensorCount")?, |wait, count| {
            fits &= count as usize <= tensors.len();
            wait.tensors = tensors.by_ref().take(count as usize).collect();
        })?;
        match fits {
            true => Ok(waits.unwrap_or_default()),
            false => Err("a wait names too many tensors".to_owned()),
        }
    }
}

/// Puts the numbers of a column into its table, which the first column begins.
fn fill<R: Row, T>(
    rows: &mut Option<Vec<R>>,
    values: Vec<T>,
    mut set: impl FnMut(&mut R, T),
) -> Result<(), ReadError> {
    let new = || std::iter::repeat_with(R::default).take(values.len()).collect();
    let rows = rows.get_or_insert_with(new);
    if rows.len() != values.len() {
        return Err("columns that belong together differ in length".to_owned());
    }
    rows.iter_mut().zip(values).for_each(|(row, value)| set(row, value));
    Ok(())
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
    let (header, bytes): (Header<Profile>, _) = unpacked(first.as_ref(), &mut room)?;
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
    let mut profile = Profile {
        instructions: columns.rows()?,
        operands: columns.rows()?,
        waits: columns.waits()?,
        storages: columns.rows()?,
        ..header.profile
    };
    check(&mut profile)?;
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

/// Checks that every position is that of something.
fn check(profile: &mut Profile) -> Result<(), ReadError> {
    // In the order of the values of `Of`.
    let known = [
        ("the instruction", profile.instructions.len()),
        ("the stream", profile.streams.len()),
        ("the name", profile.names.len()),
        ("the place", profile.places.len()),
        ("the arguments", profile.arguments.len()),
        ("the tensor", profile.tensors.len()),
        ("the storage", profile.storages.len()),
        ("the arena", profile.arenas.len()),
    ];
    let mut wrong = None;
    profile.each_position(&mut |of, position| {
        let (what, count) = known[of as usize];
        if *position != NONE && *position as usize >= count {
            wrong.get_or_insert_with(|| {
                format!("the profile names {what} {position}, and has {count}")
            });
        }
    });
    let mut ranges = profile.instructions.iter().map(|i| i.operands);
    let is_wrong = |[from, to]: &[u32; 2]| from > to || *to as usize > profile.operands.len();
    if let Some([from, to]) = ranges.find(is_wrong) {
        wrong.get_or_insert_with(|| format!("the profile names the operands {from} to {to}"));
    }
    if profile.operands.iter().any(|operand| operand.tensor == NONE)
        || profile.tensors.iter().any(|tensor| tensor.storage == NONE)
    {
        wrong.get_or_insert_with(|| "an operand of the profile has no tensor".to_owned());
    }
    wrong.map_or(Ok(()), Err)
}
