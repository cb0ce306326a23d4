//! Origins: the source line, or the place in a trace, that an instruction came from.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A trace file that instructions came from.
///
/// ```
/// # use millstream_types::*;
/// let file = SourceFile { name: "model.json".to_owned(), unit: "node" };
/// assert_eq!(Origin::Trace(file.into(), 12).to_string(), "model.json node 12");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceFile {
    /// The file's name as the user gave it.
    pub name: String,
    /// The unit that positions in the file count: `line` of a text, or `node` of a recorded trace.
    pub unit: &'static str,
}

/// The origin of an instruction.
///
/// ```
/// # use millstream_types::*;
/// let line = Origin::Text("program.txt:7".to_owned().into());
/// assert_eq!(line.to_string(), "program.txt:7");
/// ```
#[derive(Clone, Debug, Default)]
pub enum Origin {
    /// The origin is not known.
    #[default]
    Unknown,
    /// A call in a Rust program.
    Code(&'static Location<'static>),
    /// A line or node of a trace file.
    Trace(Arc<SourceFile>, u32),
    /// An origin parsed from a list's text.
    Text(Arc<String>),
    /// A call that a pass makes again; the origin is that of the first one.
    Again(Arc<Origin>),
}

impl Origin {
    /// Returns the source location of the caller.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Origin::caller().to_string().contains(".rs:"));
    /// ```
    #[track_caller]
    pub fn caller() -> Origin {
        Origin::Code(Location::caller())
    }

    /// Returns the origin of the call that this one repeats; itself if it repeats none.
    ///
    /// ```
    /// # use millstream_types::*;
    /// let line = Origin::Text("program.txt:7".to_owned().into());
    /// let again = Origin::Again(line.clone().into());
    /// assert_eq!(again.to_string(), "again program.txt:7");
    /// assert_eq!(again.first(), &line);
    /// ```
    pub fn first(&self) -> &Origin {
        match self {
            Origin::Again(first) => first.first(),
            _ => self,
        }
    }

    /// Returns whether the origin is not known.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Origin::default().is_unknown() && !Origin::caller().is_unknown());
    /// ```
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Origin::Unknown)
    }
}

impl PartialEq for Origin {
    /// Compares the printed forms, so that an origin equals itself after printing and parsing.
    fn eq(&self, other: &Origin) -> bool {
        match (self, other) {
            (Origin::Unknown, Origin::Unknown) => true,
            (Origin::Unknown, _) | (_, Origin::Unknown) => false,
            (Origin::Trace(a, k), Origin::Trace(b, l)) if Arc::ptr_eq(a, b) => k == l,
            (Origin::Code(a), Origin::Code(b)) => a.line() == b.line() && a.file() == b.file(),
            _ => self.to_string() == other.to_string(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Unknown => f.write_str("an unknown origin"),
            Origin::Code(location) => write!(f, "{}:{}", location.file(), location.line()),
            Origin::Trace(file, number) if file.unit == "line" => {
                write!(f, "{}:{number}", file.name)
            }
            Origin::Trace(file, number) => write!(f, "{} {} {number}", file.name, file.unit),
            Origin::Text(text) => f.write_str(text),
            Origin::Again(first) => write!(f, "again {first}"),
        }
    }
}
