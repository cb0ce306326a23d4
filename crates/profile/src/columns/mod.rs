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
//!
//! A page carries the same columns in several pieces, so that it decodes only those of the range
//! that somebody looks at. The first piece has the header and the storages; each further one has
//! [`PART`] instructions with their operands and waits. Pieces behind one another are the columns
//! of the whole profile, and positions are those in the whole.

mod pieces;
mod read;
mod rows;
mod write;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::Parts;
use crate::repeats::Repeat;

pub use pieces::{PART, write_for_page};
pub use read::{ReadError, read, read_pieces};
pub use write::write;

/// The version of the form.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Header<P> {
    version: u32,
    #[serde(flatten)]
    profile: P,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parts: Vec<Part>,
    /// The times of the program and of the reads of its outputs, for the scripts of a page.
    #[serde(default, skip_deserializing)]
    program: Parts,
    /// What repeats, for the scripts of a page.
    #[serde(default, skip_serializing_if = "Option::is_none", skip_deserializing)]
    repeats: Option<Vec<Repeat>>,
    /// The titles of the families of work, for the scripts of a page.
    #[serde(default, skip_serializing_if = "Vec::is_empty", skip_deserializing)]
    families: Vec<&'static str>,
    columns: BTreeMap<String, Place>,
}

/// What the first piece of a page states about another one.
#[derive(Serialize, Deserialize)]
struct Part {
    instructions: usize,
    operands: usize,
    /// The times of its instructions: the first begin and the last end.
    begin: u64,
    end: u64,
}

/// The header of every piece but the first.
#[derive(Serialize, Deserialize)]
struct PartHeader {
    columns: BTreeMap<String, Place>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Place {
    #[serde(rename = "type")]
    ty: String,
    at: usize,
    count: usize,
}

#[cfg(test)]
mod tests {
    use super::pieces::write_in_parts;
    use super::{read, read_pieces, write};
    use crate::model::{
        Instruction, NONE, Operand, Profile, Role, Storage, Stream, Tensor, Times, Wait,
    };

    /// A stream that waits for another one at every second step; each step uses one tensor.
    fn profile(count: u32) -> Profile {
        let one = |k: u32| Instruction {
            role: if k % 2 == 1 { Role::Wait } else { Role::Work },
            stream: k % 2,
            seq: u64::from(k / 2) + 1,
            place: NONE,
            times: Some(Times { ready: k.into(), start: k.into(), end: u64::from(k) + 1 }),
            operands: [k, k + 1],
            arguments: k.is_multiple_of(4).then_some(0),
            parent: NONE,
            ..Instruction::default()
        };
        let wait = |k: u32| Wait {
            waiter: k,
            until: k - 1,
            user: NONE,
            covered_by: NONE,
            tensors: vec![0],
            ..Wait::default()
        };
        let operand = |k: u32| Operand { tensor: 0, reads: k.is_multiple_of(3), writes: true };
        let storage =
            Storage { allocated: NONE, released: NONE, last_use: NONE, ..Storage::default() };
        Profile {
            streams: vec![Stream::default(); 2],
            arenas: vec!["cpu:0".to_owned()],
            names: vec!["op".to_owned()],
            arguments: vec!["dim=0".to_owned()],
            tensors: vec![Tensor::default()],
            storages: vec![storage],
            instructions: (0..count).map(one).collect(),
            operands: (0..count).map(operand).collect(),
            waits: (1..count).step_by(2).map(wait).collect(),
            total: count.into(),
            ..Profile::default()
        }
    }

    #[test]
    fn pieces_are_the_whole_profile() {
        for count in [0, 1, 9, 10, 11, 25] {
            let profile = profile(count);
            let pieces = write_in_parts(&profile, 10);
            assert_eq!(pieces.len(), 1 + (count as usize).div_ceil(10).max(1));
            assert_eq!(read_pieces(&pieces).unwrap(), profile);
            assert_eq!(read(&write(&profile)).unwrap(), profile);
        }
    }

    #[test]
    fn a_missing_piece_is_noticed() {
        let mut pieces = write_in_parts(&profile(25), 10);
        pieces.pop();
        let error = read_pieces(&pieces).unwrap_err();
        assert_eq!(error, "the profile has 2 of its 3 parts");
        let none: [&[u8]; 0] = [];
        assert_eq!(read_pieces(none).unwrap_err(), "the profile ends too early");
    }
}
