//! What is given for a formal, compared with what was recorded.

use std::ops::Range;

use millstream_types::{DeviceId, Error, Result, TensorSpec};

use super::tape::Formal;

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
