//! Writes a profile as columns.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use crate::model::{Profile, Wait};

use super::rows::{Cell, Row};
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

    /// Adds the columns of a table.
    pub(super) fn rows<'a, R: Row>(&mut self, rows: impl ExactSizeIterator<Item = &'a R> + Clone) {
        for (name, cell) in R::COLUMNS {
            let rows = rows.clone();
            match cell {
                Cell::U8(get, _) => self.u8(name, rows.map(get)),
                Cell::U32(get, _) | Cell::Newer(get, _) => self.u32(name, rows.map(get)),
                Cell::F64(get, _) => {
                    self.f64(name, rows.map(|row| get(row).map_or(-1.0, number)));
                }
            }
        }
    }

    /// Adds the columns of waits.
    pub(super) fn waits<'a>(&mut self, all: impl ExactSizeIterator<Item = &'a Wait> + Clone) {
        self.rows(all.clone());
        self.u32("waitTensorCount", all.clone().map(|w| w.tensors.len() as u32));
        let tensors: Vec<u32> = all.flat_map(|w| w.tensors.iter().copied()).collect();
        self.u32("waitTensors", tensors.into_iter());
    }
}

/// Returns a number as JavaScript holds it: every whole number up to 2^53 is exact.
pub(super) fn number(value: u64) -> f64 {
    if value == u64::MAX { -1.0 } else { value as f64 }
}

/// Writes a profile.
pub fn write(profile: &Profile) -> Vec<u8> {
    let mut columns = Columns::default();
    columns.rows(profile.instructions.iter());
    columns.rows(profile.operands.iter());
    columns.waits(profile.waits.iter());
    columns.rows(profile.storages.iter());
    piece(&header(profile, columns.places), &columns.bytes)
}

pub(super) fn header(profile: &Profile, columns: BTreeMap<String, Place>) -> Header<&Profile> {
    let (program, families) = (profile.parts(), Vec::new());
    Header {
        version: VERSION,
        profile,
        parts: Vec::new(),
        program,
        repeats: None,
        families,
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
