//! The text form of instructions and lists. Printing and parsing are exact inverses.
//!
//! An instruction is one line: its kind, its fields in the order of the master table, and after a
//! `#` its origin. A list starts with a header of streams, arenas and external tensors. Sequence
//! numbers are written out, so that deleting a line does not change the meaning of the others.
//! Blank lines and lines that start with `#` are ignored.

pub mod field;
mod list;

use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use millstream_ops::OpRegistry;
use millstream_types::nearest::nearest;
use millstream_types::text::Cursor;
use millstream_types::{OpId, Origin};
use rustc_hash::FxHashMap;

use crate::table::{Body, Instruction, Kind};

pub use millstream_types::text::TextError;

pub use list::{is_list, parse_list, parse_list_with_lines, print_list};

/// The names behind the op ids of a list. Clones share them.
#[derive(Clone, Debug)]
pub struct OpNames(Names);

#[derive(Clone, Debug)]
enum Names {
    /// The names of all ops of a registry, by their ids there.
    Registry(Arc<OpRegistry>),
    Own(Arc<Table>),
}

#[derive(Clone, Debug, Default)]
struct Table {
    names: Vec<Arc<str>>,
    // The first id of each name, so that a text with many ops is read in linear time.
    ids: FxHashMap<Arc<str>, OpId>,
}

impl Table {
    fn add(&mut self, name: Arc<str>) -> OpId {
        let id = OpId(self.names.len() as u32);
        self.names.push(name.clone());
        *self.ids.entry(name).or_insert(id)
    }
}

impl<'a> FromIterator<&'a str> for Table {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> Table {
        let mut table = Table::default();
        for name in names {
            table.add(name.into());
        }
        table
    }
}

impl Default for OpNames {
    fn default() -> OpNames {
        OpNames(Names::Own(Arc::default()))
    }
}

impl OpNames {
    /// Returns a table without names.
    pub fn new() -> OpNames {
        OpNames::default()
    }

    /// Returns the names of a registry's ops, by their ids there. It takes no memory of its own.
    pub const fn of(ops: Arc<OpRegistry>) -> OpNames {
        OpNames(Names::Registry(ops))
    }

    /// Returns the id of `name`, which is added if it is new.
    pub fn id(&mut self, name: &str) -> OpId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let mut table = match std::mem::take(self).0 {
            Names::Own(table) => table,
            Names::Registry(ops) => Arc::new(ops.iter().map(|op| op.name()).collect()),
        };
        let id = Arc::make_mut(&mut table).add(name.into());
        *self = OpNames(Names::Own(table));
        id
    }

    /// Returns the first id of `name`, if there is one.
    pub fn find(&self, name: &str) -> Option<OpId> {
        match &self.0 {
            Names::Registry(ops) => ops.find(name),
            Names::Own(table) => table.ids.get(name).copied(),
        }
    }

    /// Returns the name of `op`, if it has one.
    pub fn get(&self, op: OpId) -> Option<&str> {
        match &self.0 {
            Names::Registry(ops) => ops.get(op).map(|op| op.name()),
            Names::Own(table) => table.names.get(op.index()).map(|name| &**name),
        }
    }

    /// Returns the name of `op`, or `?`.
    pub fn name(&self, op: OpId) -> &str {
        self.get(op).unwrap_or("?")
    }

    /// Returns the names, by id.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..).map_while(|op| self.get(OpId(op)))
    }
}

impl PartialEq for OpNames {
    fn eq(&self, other: &OpNames) -> bool {
        match (&self.0, &other.0) {
            (Names::Registry(one), Names::Registry(other)) if Arc::ptr_eq(one, other) => true,
            (Names::Own(one), Names::Own(other)) => one.names == other.names,
            _ => self.iter().eq(other.iter()),
        }
    }
}

impl Eq for OpNames {}

impl<'a> FromIterator<&'a str> for OpNames {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> OpNames {
        OpNames(Names::Own(Arc::new(names.into_iter().collect())))
    }
}

/// Writes an instruction on one line, without the line's end.
pub fn print_instruction(instruction: &Instruction, ops: &OpNames) -> String {
    let mut out = String::from(instruction.body.kind().name());
    instruction.body.print_fields(&mut out, ops);
    if !instruction.origin.is_unknown() {
        let place = instruction.origin.to_string();
        out.push_str(" # ");
        if is_plain_place(&place) {
            out.push_str(&place);
        } else {
            let _ = write!(out, "{place:?}");
        }
    }
    out
}

/// Whether an origin reads back as it is. Any other is written in quotes.
fn is_plain_place(place: &str) -> bool {
    !place.is_empty()
        && place.trim() == place
        && !place.starts_with('"')
        && !place.contains(char::is_control)
}

/// Reads the text after a `#`. People write there too, so a text that is not in quotes is taken
/// verbatim.
fn parse_place(text: &str) -> Origin {
    let mut cursor = Cursor::new(text, 0);
    if text.is_empty() {
        return Origin::Unknown;
    }
    let quoted = cursor.quoted().ok().filter(|_| cursor.peek().is_none());
    Origin::Text(Arc::new(quoted.unwrap_or_else(|| text.to_owned())))
}

/// Reads an instruction from one line. `line` is the line's number, for errors.
///
/// # Errors
/// The text is not an instruction. The error names the column and the text expected there.
pub fn parse_instruction(
    text: &str,
    line: usize,
    ops: &mut OpNames,
) -> Result<Instruction, TextError> {
    instruction_at(&mut Cursor::new(text, line), ops)
}

/// Reads the instruction that the rest of a line is.
fn instruction_at(cursor: &mut Cursor<'_>, ops: &mut OpNames) -> Result<Instruction, TextError> {
    let start = cursor.clone();
    let word = cursor.word("an instruction")?;
    let Some(&kind) = Kind::ALL.iter().find(|k| k.name() == word) else {
        let near = nearest(word, Kind::ALL.iter().map(|k| k.name()));
        let hint = near.map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
        return Err(start.error(format!("unknown instruction '{word}'{hint}")));
    };
    let body = Body::parse_fields(kind, cursor, ops)?;
    let origin = cursor.comment()?.map_or(Origin::Unknown, parse_place);
    Ok(Instruction { body, origin })
}

/// An instruction with the names of its ops, for display.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a>(pub &'a Instruction, pub &'a OpNames);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print_instruction(self.0, self.1))
    }
}
