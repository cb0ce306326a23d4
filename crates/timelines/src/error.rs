//! Errors of the readers: which file, where in it, what was wrong, and what to do.

use std::fmt;
use std::io;
use std::path::Path;

/// A file that is no timeline, or a damaged one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineError {
    /// The file.
    pub file: String,
    /// The place in the file, such as `event 12` or `the table NVTX_EVENTS`; empty for the whole.
    pub at: String,
    /// What is wrong, and what was expected.
    pub message: String,
    /// What to do about it; empty if the message says it.
    pub help: String,
}

/// The result of a reader.
pub type Result<T> = std::result::Result<T, TimelineError>;

impl TimelineError {
    /// Returns an error about a whole file.
    pub fn of_file(file: &Path, message: impl Into<String>) -> TimelineError {
        TimelineError {
            file: file.display().to_string(),
            at: String::new(),
            message: message.into(),
            help: String::new(),
        }
    }

    /// Returns the error with what kept the file from being read to its end.
    pub(crate) fn unreadable(self, error: &io::Error) -> TimelineError {
        let message = format!("it cannot be read to its end: {error}");
        TimelineError { message, ..self }
    }

    /// Adds the place in the file.
    #[must_use]
    pub fn at(mut self, at: impl Into<String>) -> TimelineError {
        self.at = at.into();
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> TimelineError {
        self.help = help.into();
        self
    }
}

impl fmt::Display for TimelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        f.write_str(&self.message)?;
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        Ok(())
    }
}

impl std::error::Error for TimelineError {}
