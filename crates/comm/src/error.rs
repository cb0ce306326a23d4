//! The error of communication.

use std::fmt::Display;
use std::sync::Arc;

/// Why ranks could not communicate, in words. All ranks of a call share the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CommError(Arc<str>);

impl CommError {
    /// Returns an error of these words.
    pub fn new(message: impl Display) -> CommError {
        CommError(message.to_string().into())
    }
}

impl From<millstream_types::Error> for CommError {
    fn from(error: millstream_types::Error) -> CommError {
        CommError::new(error)
    }
}
