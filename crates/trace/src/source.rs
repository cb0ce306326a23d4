//! The text of a trace, and spans in it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use millstream_types::SourceFile;

/// The text of one trace file, shared by everything that has spans in it.
pub struct Source {
    name: String,
    text: String,
    /// The line and column at every multiple of [`CHECKPOINT_BYTES`], once a span is asked for: of
    /// a recorded trace only the place of an error is.
    checkpoints: OnceLock<Vec<Position>>,
    /// The nodes' names, if this is a recorded trace. Its spans stand for nodes: the line of a span
    /// is the id of a node.
    nodes: Option<HashMap<u32, Arc<str>>>,
}

/// The line and column of a byte.
#[derive(Clone, Copy)]
struct Position {
    line: u32,
    column: u32,
}

/// The distance of checkpoints. It bounds the cost of a span, however long the file or its lines.
const CHECKPOINT_BYTES: usize = 256;

/// A range of bytes in a trace file, with the line and column of its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte, counted from the start of the text.
    pub offset: usize,
    /// The number of bytes.
    pub len: usize,
    /// The line of the first byte; the first line is 1.
    pub line: u32,
    /// The column of the first byte, in characters; the first column is 1.
    pub column: u32,
}

impl Span {
    /// Returns the range of bytes.
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.len
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl Source {
    pub(crate) fn new(name: String, text: String) -> Source {
        Source { name, text, checkpoints: OnceLock::new(), nodes: None }
    }

    fn checkpoints(&self) -> &[Position] {
        self.checkpoints.get_or_init(|| {
            let mut checkpoints = vec![Position { line: 1, column: 1 }];
            for chunk in self.text.as_bytes().chunks(CHECKPOINT_BYTES) {
                checkpoints.extend(checkpoints.last().map(|last| last.after(chunk)));
            }
            checkpoints
        })
    }

    /// Returns the source of a recorded trace, whose spans stand for nodes.
    pub(crate) fn of_nodes(name: String, nodes: HashMap<u32, Arc<str>>) -> Source {
        Source { nodes: Some(nodes), ..Source::new(name, String::new()) }
    }

    /// Returns the name of the node that a span stands for, if this is a recorded trace.
    pub(crate) fn node(&self, span: &Span) -> Option<String> {
        let nodes = self.nodes.as_ref()?;
        Some(match nodes.get(&span.line) {
            Some(name) => format!("node {} ({name})", span.line),
            None => format!("node {}", span.line),
        })
    }

    /// Returns the file for the origins of instructions.
    pub fn file(&self) -> SourceFile {
        let unit = if self.nodes.is_some() { "node" } else { "line" };
        SourceFile { name: self.name.clone(), unit }
    }

    /// Returns the file's name as the user gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the span of these bytes, clamped to the text and extended to whole characters.
    pub fn span(&self, range: Range<usize>) -> Span {
        let boundary = |offset: &usize| self.text.is_char_boundary(*offset);
        let offset = (0..=range.start.min(self.text.len())).rev().find(boundary).unwrap_or(0);
        let end = (range.end.max(offset)..self.text.len()).find(boundary);
        let len = end.unwrap_or(self.text.len()) - offset;
        let from = offset - offset % CHECKPOINT_BYTES;
        let Position { line, column } = self.checkpoints()[offset / CHECKPOINT_BYTES]
            .after(&self.text.as_bytes()[from..offset]);
        Span { offset, len, line, column }
    }

    /// Returns the bytes of the line that a span begins in, without the line break. A long line is
    /// cut to the part around the start of the span.
    pub(crate) fn line_around(&self, span: &Span) -> Range<usize> {
        const MAX_CONTEXT: usize = 160;
        let bytes = self.text.as_bytes();
        let (low, high) = (span.offset.saturating_sub(MAX_CONTEXT), span.offset + MAX_CONTEXT);
        let high = high.min(bytes.len());
        let start = bytes[low..span.offset].iter().rposition(|&b| b == b'\n');
        let end = bytes[span.offset..high].iter().position(|&b| b == b'\n');
        let mut start = start.map_or(low, |n| low + n + 1);
        let mut end = end.map_or(high, |n| span.offset + n);
        while !self.text.is_char_boundary(start) {
            start += 1;
        }
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        start.min(end)..end
    }
}

impl Position {
    /// Returns the position after these bytes, which may end within a character.
    fn after(self, bytes: &[u8]) -> Position {
        let newlines = bytes.iter().filter(|&&b| b == b'\n').count();
        let last = match newlines {
            0 => bytes,
            _ => bytes.rsplit(|&b| b == b'\n').next().unwrap_or(bytes),
        };
        // The continuation bytes of UTF-8 do not count.
        let characters = last.iter().filter(|&&b| b & 0xC0 != 0x80).count() as u32;
        let before = if newlines == 0 { self.column } else { 1 };
        Position { line: self.line + newlines as u32, column: before + characters }
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
    fn spans_are_exact_near_and_far_from_a_checkpoint() {
        let text = "é".repeat(3000) + "\n" + &"ab\n".repeat(4000) + &"x".repeat(9000);
        let source = Source::new("t".to_owned(), text.clone());
        let (mut line, mut column) = (1, 1);
        for (offset, c) in text.char_indices() {
            let span = source.span(offset..offset + 1);
            assert_eq!((span.line, span.column), (line, column), "at {offset}");
            if c == '\n' {
                (line, column) = (line + 1, 1);
            } else {
                column += 1;
            }
        }
        let end = source.span(text.len() + 5..text.len() + 9);
        assert_eq!((end.offset, end.len, end.line, end.column), (text.len(), 0, line, column));
    }
}
