//! A trace's text, and places in it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_types::SourceFile;

/// The text of one trace file, kept as long as anything may point into it.
pub struct Source {
    name: String,
    text: String,
    marks: Vec<Mark>,
    /// Of a recorded trace the nodes' names; its places are nodes, and their line is the id.
    nodes: Option<HashMap<u32, Arc<str>>>,
}

/// What is known at a multiple of [`STEP`] bytes, so that no place costs more than one step to
/// find, however long the file or its lines.
#[derive(Clone, Copy)]
struct Mark {
    line: u32,
    column: u32,
}

const STEP: usize = 256;

/// A place in a trace file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The first byte, from the start of the text.
    pub offset: usize,
    /// How many bytes are meant.
    pub len: usize,
    /// The line of the first byte; the first line is 1.
    pub line: u32,
    /// The column of the first byte in characters; the first is 1.
    pub column: u32,
}

impl Place {
    /// The bytes meant.
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl Source {
    pub(crate) fn new(name: String, text: String) -> Source {
        let mut marks = Vec::new();
        let mut at = Mark { line: 1, column: 1 };
        for chunk in text.as_bytes().chunks(STEP) {
            marks.push(at);
            at = at.after(chunk);
        }
        marks.push(at);
        Source { name, text, marks, nodes: None }
    }

    /// A recorded trace, whose places are nodes.
    pub(crate) fn of_nodes(name: String, nodes: HashMap<u32, Arc<str>>) -> Source {
        Source { nodes: Some(nodes), ..Source::new(name, String::new()) }
    }

    /// The name of the node that a place is, if places are nodes.
    pub(crate) fn node(&self, place: &Place) -> Option<String> {
        let nodes = self.nodes.as_ref()?;
        Some(match nodes.get(&place.line) {
            Some(name) => format!("node {} ({name})", place.line),
            None => format!("node {}", place.line),
        })
    }

    /// The file as instructions name where they come from.
    pub fn file(&self) -> SourceFile {
        let unit = if self.nodes.is_some() { "node" } else { "line" };
        SourceFile { name: self.name.clone(), unit }
    }

    /// The file's name as the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The place of these bytes. What lies past the end is cut off, and characters are whole.
    pub fn place(&self, range: Range<usize>) -> Place {
        let boundary = |at: &usize| self.text.is_char_boundary(*at);
        let offset = (0..=range.start.min(self.text.len())).rev().find(boundary).unwrap_or(0);
        let end = (range.end.max(offset)..self.text.len()).find(boundary);
        let len = end.unwrap_or(self.text.len()) - offset;
        let from = offset - offset % STEP;
        let Mark { line, column } =
            self.marks[offset / STEP].after(&self.text.as_bytes()[from..offset]);
        Place { offset, len, line, column }
    }

    /// The bytes of the line that a place begins in, without its end. A long line is cut to what
    /// lies around the place.
    pub(crate) fn line_around(&self, place: &Place) -> Range<usize> {
        const MOST: usize = 160;
        let bytes = self.text.as_bytes();
        let (low, high) = (place.offset.saturating_sub(MOST), place.offset + MOST);
        let high = high.min(bytes.len());
        let start = bytes[low..place.offset].iter().rposition(|&b| b == b'\n');
        let end = bytes[place.offset..high].iter().position(|&b| b == b'\n');
        let mut start = start.map_or(low, |n| low + n + 1);
        let mut end = end.map_or(high, |n| place.offset + n);
        while !self.text.is_char_boundary(start) {
            start += 1;
        }
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        start.min(end)..end
    }
}

impl Mark {
    /// The mark after these bytes, which may end within a character.
    fn after(self, bytes: &[u8]) -> Mark {
        let newlines = bytes.iter().filter(|&&b| b == b'\n').count();
        let last = match newlines {
            0 => bytes,
            _ => bytes.rsplit(|&b| b == b'\n').next().unwrap_or(bytes),
        };
        // Bytes that continue a character do not count.
        let characters = last.iter().filter(|&&b| b & 0xC0 != 0x80).count() as u32;
        let before = if newlines == 0 { self.column } else { 1 };
        Mark { line: self.line + newlines as u32, column: before + characters }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({}, {} bytes)", self.name, self.text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_same_near_and_far_from_a_mark() {
        let text = "é".repeat(3000) + "\n" + &"ab\n".repeat(4000) + &"x".repeat(9000);
        let source = Source::new("t".to_owned(), text.clone());
        let (mut line, mut column) = (1, 1);
        for (offset, c) in text.char_indices() {
            let place = source.place(offset..offset + 1);
            assert_eq!((place.line, place.column), (line, column), "at {offset}");
            if c == '\n' {
                (line, column) = (line + 1, 1);
            } else {
                column += 1;
            }
        }
        let end = source.place(text.len() + 5..text.len() + 9);
        assert_eq!((end.offset, end.len, end.line, end.column), (text.len(), 0, line, column));
    }
}
