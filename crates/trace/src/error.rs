//! The error of this crate, with its span in the trace.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use millstream_types::Error;

use crate::source::{Source, Span};

/// A result whose error is [`TraceError`] by default.
pub type Result<T, E = TraceError> = std::result::Result<T, E>;

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file cannot be read, or its content is invalid.
    Input,
    /// The file is valid, but its data does not fit in this computer's memory.
    Memory,
}

/// An error in a trace, with its span.
#[derive(Clone)]
pub struct TraceError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    file: String,
    span: Option<Span>,
    message: String,
    help: Option<String>,
    excerpt: Option<Excerpt>,
    /// Further errors of the same file.
    others: Vec<TraceError>,
}

/// The most errors that one load reports: behind so many, they are mostly one mistake.
pub const MAX_ERRORS: usize = 20;

/// The source line of an error, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line without its line break; of a long line, the part around the error.
    pub text: String,
    /// The number of the line.
    pub line: u32,
    /// The bytes of [`Excerpt::text`] that the error is about, clamped to its end.
    pub span: Range<usize>,
}

impl TraceError {
    /// Returns an error about a whole file: it cannot be read, or it is not text.
    pub fn of_file(file: impl Into<String>, message: impl Into<String>) -> TraceError {
        TraceError(Box::new(Inner {
            kind: ErrorKind::Input,
            file: file.into(),
            span: None,
            message: message.into(),
            help: None,
            excerpt: None,
            others: Vec::new(),
        }))
    }

    /// Returns an error at a span of a trace: a line and column, or a node.
    pub fn at(source: &Source, span: Span, message: impl Into<String>) -> TraceError {
        let message = message.into();
        if let Some(node) = source.node(&span) {
            return TraceError::of_file(source.name(), format!("{node}: {message}"));
        }
        let line = source.line_around(&span);
        let highlighted = span.offset.clamp(line.start, line.end) - line.start
            ..span.range().end.clamp(line.start, line.end) - line.start;
        let text = source.text()[line].to_owned();
        let mut error = TraceError::of_file(source.name(), message);
        error.0.span = Some(span);
        error.0.excerpt = Some(Excerpt { text, line: span.line, span: highlighted });
        error
    }

    /// Returns errors of one file as one, in the order of the file; none if there is no error.
    pub fn several(errors: Vec<TraceError>) -> Option<TraceError> {
        let mut all: Vec<TraceError> = errors.into_iter().flat_map(TraceError::all).collect();
        all.sort_by_key(|error| error.0.span.map_or(0, |span| span.offset));
        let mut all = all.into_iter();
        let mut first = all.next()?;
        first.0.others = all.collect();
        Some(first)
    }

    /// Returns the error and the further ones of its file, each by itself.
    pub fn all(mut self) -> Vec<TraceError> {
        let mut all = std::mem::take(&mut self.0.others);
        all.insert(0, self);
        all
    }

    /// Returns the further errors of the same file.
    pub fn others(&self) -> &[TraceError] {
        &self.0.others
    }

    /// Returns the error at another span of its file.
    #[must_use]
    pub fn moved(mut self, source: &Source, span: Span) -> TraceError {
        let placed = TraceError::at(source, span, std::mem::take(&mut self.0.message));
        TraceError(Box::new(Inner { help: self.0.help, others: self.0.others, ..*placed.0 }))
    }

    /// Returns the error with a suggestion of what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> TraceError {
        self.0.help = Some(help.into());
        self
    }

    /// Returns the error with the name that the user probably meant, if there is one.
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

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the file's name as the user gave it.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// Returns the span in the file; `None` if the error is about the whole file or about a node.
    pub fn span(&self) -> Option<Span> {
        self.0.span
    }

    /// Returns the message: the invalid value and the expectation.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns a suggestion, such as the nearest name to a misspelt one.
    pub fn hint(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// Returns the source line of the error.
    pub fn excerpt(&self) -> Option<&Excerpt> {
        self.0.excerpt.as_ref()
    }
}

impl fmt::Display for TraceError {
    /// Writes `file:line:column: message; hint`, a line for each error of the file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.file)?;
        if let Some(span) = self.0.span {
            write!(f, ":{span}")?;
        }
        write!(f, ": {}", self.0.message)?;
        self.0.help.as_ref().map_or(Ok(()), |help| write!(f, "; {help}"))?;
        self.0.others.iter().try_for_each(|other| write!(f, "\n{other}"))
    }
}

impl fmt::Debug for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceError({self})")
    }
}

impl std::error::Error for TraceError {}

/// A span together with its source, for errors that are found after loading.
#[derive(Clone, Debug)]
pub struct Site {
    pub(crate) source: Arc<Source>,
    pub(crate) span: Span,
}

impl Site {
    /// Returns the source.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// Returns the span.
    pub fn span(&self) -> Span {
        self.span
    }

    /// Returns an error at this span.
    pub fn error(&self, message: impl Into<String>) -> TraceError {
        TraceError::at(&self.source, self.span, message)
    }

    /// Converts an error of another crate of the workspace to one at this span.
    pub fn wrap(&self, error: &Error) -> TraceError {
        wrap(&self.source, self.span, error)
    }
}

pub(crate) fn wrap(source: &Source, span: Span, error: &Error) -> TraceError {
    match error.without_place() {
        Error::Unknown { what, name, help } => {
            let unknown = TraceError::at(source, span, format!("unknown {what} '{name}'"));
            help.iter().fold(unknown, TraceError::help)
        }
        other => TraceError::at(source, span, other.to_string()),
    }
}
