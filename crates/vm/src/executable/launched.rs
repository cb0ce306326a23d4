//! Launches that were made.

use std::fmt;
use std::sync::Arc;

use millstream_types::nearest::did_you_mean;
use millstream_types::{Error, ReadId, Result};

use crate::api::handle::{Completion, Tensor};
use crate::emission::origin;

use super::run::Run;

/// A launch that was made: its completion, and its results.
pub struct Launched {
    pub(super) run: Arc<Run>,
    pub(super) completion: Completion,
    pub(super) outputs: Vec<Tensor>,
}

impl Launched {
    /// Returns the tensor of an output. It may not be computed yet; its uses wait for it.
    ///
    /// # Errors
    /// The executable has no output of this name.
    pub fn output(&self, name: &str) -> Result<&Tensor> {
        let outputs = &self.run.program.outputs;
        let found = outputs.iter().position(|o| o.name == name);
        found.map(|k| &self.outputs[k]).ok_or_else(|| Error::Unknown {
            what: "output",
            name: name.to_owned(),
            help: did_you_mean(name, outputs.iter().map(|o| o.name.as_str())),
        })
    }

    /// Returns the tensors of all outputs, in the order in which they were recorded.
    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    /// Returns the tensors of all outputs, in the order in which they were recorded.
    pub(crate) fn into_outputs(self) -> Vec<Tensor> {
        self.outputs
    }

    /// Returns the completion of the launch, to be awaited as a future or later.
    pub const fn completion(&self) -> &Completion {
        &self.completion
    }

    /// Blocks until the launch has completed.
    ///
    /// # Errors
    /// As [`Completion::wait`].
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        self.completion.wait_at(None, origin::caller())
    }

    /// Takes the bytes of a host read of the list; none if the launch has not reached it, or they
    /// were taken.
    ///
    /// # Errors
    /// The list has no such read; or the failure of the read, or of what it reads.
    pub fn take_read(&self, read: ReadId) -> Result<Option<Vec<u8>>> {
        let found = self.run.program.reads.iter().position(|r| *r == read);
        let unknown = || Error::Unknown { what: "read", name: read.to_string(), help: None };
        self.run.take_read(found.ok_or_else(unknown)?).transpose()
    }
}

impl fmt::Debug for Launched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launched")
            .field("completion", &self.completion)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}
