//! What is given for a formal, compared with what was recorded.

use std::ops::Range;

use millstream_types::nearest::did_you_mean;
use millstream_types::{DeviceId, Error, Result, TensorSpec};

use super::tape::{Formal, FormalKind, Program};

impl Program {
    /// Returns the position of an input or output that a launch can give a tensor for.
    pub(super) fn formal(&self, kind: FormalKind, name: &str) -> Result<usize> {
        let formals = self.formals.iter().enumerate().filter(|(_, f)| f.kind == kind);
        let found = match kind {
            // An output may be known by another name than the storage that holds it.
            FormalKind::Output => {
                let output = self.outputs.iter().find(|o| o.name == name);
                let whole = output.filter(|o| o.spec == self.formals[o.formal].spec);
                whole.map(|o| o.formal).filter(|k| self.formals[*k].kind == kind)
            }
            FormalKind::Input | FormalKind::Bound => {
                formals.clone().find(|(_, f)| f.name == name).map(|(k, _)| k)
            }
        };
        found.ok_or_else(|| {
            let what = if kind == FormalKind::Output { "output" } else { "input" };
            let help = did_you_mean(name, formals.map(|(_, f)| f.name.as_str()));
            Error::Unknown { what, name: name.to_owned(), help }
        })
    }
}

impl Formal {
    /// Checks that a tensor is what was recorded for the formal.
    pub(super) fn check(&self, given: &TensorSpec, device: &DeviceId) -> Result<()> {
        let is_same = given.dtype == self.spec.dtype
            && given.shape() == self.spec.shape()
            && given.layout.strides() == self.spec.layout.strides();
        if is_same && *device == self.device {
            return Ok(());
        }
        let name = &self.name;
        let message = format!(
            "{name:?} was recorded as {} on {}, and is given as {given} on {device}",
            self.spec, self.device
        );
        Err(Error::Invalid { what: "launch", message })
    }

    /// Returns the error of a launch without a tensor for the formal.
    pub(super) fn missing(&self) -> Error {
        let message = format!("input {:?} is not given", self.name);
        Error::Invalid { what: "launch", message }
    }

    /// Returns the error of a launch with two tensors for the formal.
    pub(super) fn given_twice(&self) -> Error {
        let what = if self.kind == FormalKind::Output { "output" } else { "input" };
        let message = format!("{what} {:?} is given twice", self.name);
        Error::Invalid { what: "launch", message }
    }

    /// Returns the bytes that a launch uses of a storage of `bytes` bytes, in which the tensor has
    /// this description.
    ///
    /// # Errors
    /// Views of the list reach past the storage.
    pub(super) fn extent(&self, given: &TensorSpec, bytes: u64) -> Result<Range<u64>> {
        if self.begin >= self.end {
            return Ok(0..0);
        }
        let size = self.spec.dtype.size() as u64;
        let (declared, actual) = (self.spec.layout.offset(), given.layout.offset());
        let moved = |byte: u64| {
            let moved = (byte + actual as u64 * size).checked_sub(declared as u64 * size);
            moved.filter(|byte| *byte <= bytes)
        };
        match (moved(self.begin), moved(self.end)) {
            (Some(begin), Some(end)) => Ok(begin..end),
            _ => {
                let (name, recorded) = (&self.name, self.bytes);
                let message = format!(
                    "{name:?}: the list uses views of it within {recorded} bytes, and {given} lies \
                     in a storage of {bytes} bytes"
                );
                Err(Error::Invalid { what: "launch", message })
            }
        }
    }
}
