//! Where an instruction came from.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// A trace file that instructions came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceFile {
    /// The name as the user gave it.
    pub name: String,
    /// What positions in it count: lines of text, or nodes of a recorded trace.
    pub unit: &'static str,
}

/// The place that an instruction came from.
#[derive(Clone, Debug, Default)]
pub enum Origin {
    /// Nowhere that is known.
    #[default]
    Unknown,
    /// A call in a Rust program.
    Code(&'static Location<'static>),
    /// A line or node of a trace file.
    Trace(Arc<SourceFile>, u32),
    /// A place read back from a list's text.
    Text(Arc<String>),
}

impl Origin {
    /// The place of the caller.
    #[track_caller]
    pub fn caller() -> Origin {
        Origin::Code(Location::caller())
    }

    /// Whether nothing is known.
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Origin::Unknown)
    }
}

impl PartialEq for Origin {
    /// Two origins are the same if they read the same: a place survives printing and parsing.
    fn eq(&self, other: &Origin) -> bool {
        match (self, other) {
            (Origin::Unknown, Origin::Unknown) => true,
            (Origin::Unknown, _) | (_, Origin::Unknown) => false,
            _ => self.to_string() == other.to_string(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Unknown => f.write_str("an unknown place"),
            Origin::Code(at) => write!(f, "{}:{}", at.file(), at.line()),
            Origin::Trace(file, at) if file.unit == "line" => write!(f, "{}:{at}", file.name),
            Origin::Trace(file, at) => write!(f, "{} {} {at}", file.name, file.unit),
            Origin::Text(place) => f.write_str(place),
        }
    }
}
