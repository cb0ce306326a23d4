//! The tensor given for a formal, compared with the recorded one.

use std::ops::Range;

use millstream_instructions::builder::LaunchOperand;
use millstream_types::nearest::did_you_mean;
use millstream_types::{DeviceId, Error, Result, TensorSpec};

use crate::tapes::tape::{Formal, FormalKind, Program};

impl Program {
    /// Returns the position of an input or output that a launch can give a tensor for.
    pub fn formal(&self, kind: FormalKind, name: &str) -> Result<usize> {
        let formals = self.formals.iter().enumerate().filter(|(_, f)| f.kind == kind);
        let found = match kind {
            // An output may be known by another name than the storage that holds it.
            FormalKind::Output => {
                let output = self.outputs.iter().find(|o| o.name == name);
                let whole = output.filter(|o| o.spec == self.formals[o.formal].spec);
                whole.map(|o| o.formal).filter(|k| self.formals[*k].kind == kind)
            }
            FormalKind::Input | FormalKind::Bound => {
                formals.clone().find(|(k, _)| self.name(*k) == name).map(|(k, _)| k)
            }
        };
        found.ok_or_else(|| {
            let what = if kind == FormalKind::Output { "output" } else { "input" };
            let help = did_you_mean(name, formals.map(|(k, _)| self.name(k)));
            Error::Unknown { what, name: name.to_owned(), help }
        })
    }

    /// Returns the name of a formal.
    pub fn name(&self, formal: usize) -> &str {
        &self.list.externals[formal].name
    }

    /// Returns the device that a formal was recorded on. Compilation has found its arena declared.
    pub fn device(&self, formal: usize) -> &DeviceId {
        &self.list.arenas[self.list.externals[formal].arena.index()]
    }

    /// Returns the operand of a launch that makes a new tensor for a formal.
    pub fn fresh(&self, formal: usize) -> LaunchOperand<'_> {
        let bytes = self.list.externals[formal].bytes;
        LaunchOperand::Fresh(self.device(formal), &self.formals[formal].spec, bytes)
    }

    /// Checks that a tensor is what was recorded for a formal.
    pub fn check(&self, formal: usize, given: &TensorSpec, device: &DeviceId) -> Result<()> {
        let (spec, recorded) = (&self.formals[formal].spec, self.device(formal));
        let is_same = given.dtype == spec.dtype
            && given.shape() == spec.shape()
            && given.layout.strides() == spec.layout.strides();
        if is_same && device == recorded {
            return Ok(());
        }
        let name = self.name(formal);
        let message = format!(
            "{name:?} was recorded as {spec} on {recorded}, and is given as {given} on {device}"
        );
        Err(Error::Invalid { what: "launch", message })
    }

    /// Returns the error of a launch without a tensor for a formal.
    pub fn missing(&self, formal: usize) -> Error {
        let message = format!("input {:?} is not given", self.name(formal));
        Error::Invalid { what: "launch", message }
    }

    /// Gives a launch the tensor of a formal.
    ///
    /// # Errors
    /// There is no formal of this kind and name, or it has a tensor.
    pub fn give<T>(
        &self,
        given: &mut [Option<T>],
        (kind, name): (FormalKind, &str),
        tensor: T,
    ) -> Result<()> {
        let formal = self.formal(kind, name)?;
        if given[formal].is_some() {
            let what = if kind == FormalKind::Output { "output" } else { "input" };
            let message = format!("{what} {:?} is given twice", self.name(formal));
            return Err(Error::Invalid { what: "launch", message });
        }
        given[formal] = Some(tensor);
        Ok(())
    }

    /// Returns the bytes that a launch uses of a storage of `bytes` bytes, in which the tensor of a
    /// formal has this description.
    ///
    /// # Errors
    /// Views of the list reach past the storage.
    pub fn extent(&self, formal: usize, given: &TensorSpec, bytes: u64) -> Result<Range<u64>> {
        let Formal { spec, begin, end, .. } = &self.formals[formal];
        if begin >= end {
            return Ok(0..0);
        }
        let size = spec.dtype.size() as u64;
        let (declared, actual) = (spec.layout.offset(), given.layout.offset());
        let moved = |byte: u64| {
            let moved = (byte + actual as u64 * size).checked_sub(declared as u64 * size);
            moved.filter(|byte| *byte <= bytes)
        };
        match (moved(*begin), moved(*end)) {
            (Some(begin), Some(end)) => Ok(begin..end),
            _ => {
                let (name, recorded) = (self.name(formal), self.list.externals[formal].bytes);
                let message = format!(
                    "{name:?}: the list uses views of it within {recorded} bytes, and {given} lies \
                     in a storage of {bytes} bytes"
                );
                Err(Error::Invalid { what: "launch", message })
            }
        }
    }
}
