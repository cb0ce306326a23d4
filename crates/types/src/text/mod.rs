//! The text form that instruction lists and the programs of fused ops share: a cursor over a line,
//! syntax errors, and named arguments.

mod attrs;
mod cursor;

pub use attrs::{parse_attrs, parse_number, print_attrs};
pub use cursor::Cursor;

/// A syntax error in the text of an instruction or a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The message: the text found, and the text expected.
    pub message: String,
}

/// Returns whether `name` can be written without quotes.
pub fn is_word(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | ':');
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(fits)
}
