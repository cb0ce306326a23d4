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
//! exist `NONE`.

mod read;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{Pause, Range, Source, Stream, Tensor};

pub use read::{ReadError, read};
pub use write::{write, write_for_page};

/// The version of the form.
const VERSION: u32 = 1;

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
    #[serde(default)]
    host_workers: u32,
    columns: BTreeMap<String, Place>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Place {
    #[serde(rename = "type")]
    ty: String,
    at: usize,
    count: usize,
}
