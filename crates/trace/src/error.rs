//! What is wrong with a trace, and where.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_types::Error;

use crate::source::{Place, Source};

/// A result with this crate's error.
pub type Result<T, E = TraceError> = std::result::Result<T, E>;

/// Who or what is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file: it cannot be read, or what it says is wrong.
    Input,
    /// The machine: the file is right, and its data does not fit in memory.
    Memory,
}

/// An error in a trace, with its place.
#[derive(Clone)]
pub struct TraceError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    file: String,
    place: Option<Place>,
    message: String,
    help: Option<String>,
    excerpt: Option<Excerpt>,
}

/// The line that an error is in, for showing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line, without its end; of a long one, the part around the error.
    pub text: String,
    /// The number of that line.
    pub line: u32,
    /// The bytes of [`Excerpt::text`] that are meant; at most to its end.
    pub span: Range<usize>,
}

impl TraceError {
    /// An error about a file as a whole: it cannot be read, or it is not text.
    pub fn of_file(file: impl Into<String>, message: impl Into<String>) -> TraceError {
        TraceError(Box::new(Inner {
            kind: ErrorKind::Input,
            file: file.into(),
            place: None,
            message: message.into(),
            help: None,
            excerpt: None,
        }))
    }

    /// An error at a place of a trace: a line and column, or a node.
    pub fn at(source: &Source, place: Place, message: impl Into<String>) -> TraceError {
        let message = message.into();
        if let Some(node) = source.node(&place) {
            return TraceError::of_file(source.name(), format!("{node}: {message}"));
        }
        let line = source.line_around(&place);
        let span = place.offset.clamp(line.start, line.end) - line.start
            ..place.range().end.clamp(line.start, line.end) - line.start;
        let text = source.text()[line].to_owned();
        let mut error = TraceError::of_file(source.name(), message);
        error.0.place = Some(place);
        error.0.excerpt = Some(Excerpt { text, line: place.line, span });
        error
    }

    /// With a hint at what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> TraceError {
        self.0.help = Some(help.into());
        self
    }

    /// With the name that was probably meant, if there is one.
    #[must_use]
    pub fn meant(self, nearest: Option<String>) -> TraceError {
        match nearest {
            Some(name) => self.help(format!("did you mean '{name}'?")),
            None => self,
        }
    }

    #[must_use]
    pub(crate) fn of_memory(mut self) -> TraceError {
        self.0.kind = ErrorKind::Memory;
        self
    }

    /// Who or what is at fault.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file's name as the user gave it.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// Where in the file; none if the file as a whole is meant.
    pub fn place(&self) -> Option<Place> {
        self.0.place
    }

    /// What is wrong and what was expected.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What may help, such as the nearest name to a misspelt one.
    pub fn hint(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// The line that the error is in.
    pub fn excerpt(&self) -> Option<&Excerpt> {
        self.0.excerpt.as_ref()
    }
}

impl fmt::Display for TraceError {
    /// `file:line:column: message; hint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.file)?;
        if let Some(place) = self.0.place {
            write!(f, ":{place}")?;
        }
        write!(f, ": {}", self.0.message)?;
        self.0.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))
    }
}

impl fmt::Debug for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceError({self})")
    }
}

impl std::error::Error for TraceError {}

/// A place together with the file that it is in, for errors that are found later.
#[derive(Clone, Debug)]
pub struct Site {
    pub(crate) source: Arc<Source>,
    pub(crate) place: Place,
}

impl Site {
    /// The file.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The place.
    pub fn place(&self) -> Place {
        self.place
    }

    /// An error at this place.
    pub fn error(&self, message: impl Into<String>) -> TraceError {
        TraceError::at(&self.source, self.place, message)
    }

    /// An error of another crate of the workspace, at this place.
    pub fn wrap(&self, error: &Error) -> TraceError {
        wrap(&self.source, self.place, error)
    }
}

pub(crate) fn wrap(source: &Source, place: Place, error: &Error) -> TraceError {
    match error.without_place() {
        Error::Unknown { what, name, nearest } => {
            TraceError::at(source, place, format!("unknown {what} '{name}'")).meant(nearest.clone())
        }
        other => TraceError::at(source, place, other.to_string()),
    }
}
