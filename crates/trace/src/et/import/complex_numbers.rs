//! Numbers among arguments that are complex. A trace does not record their values;
//! `consts.json` has them as tensors.

use millstream_types::{DType, TensorSpec};

use super::{Import, Lowered, Refusal, Val};
use crate::data::Data;
use crate::et::sidecar_notes::Const;
use crate::et::value::{self, Arg, Recorded};

impl Import<'_> {
    /// Returns whether consts.json has a complex number for an argument.
    pub(crate) fn is_complex_number(&self, arg: usize, given: &Recorded) -> bool {
        let known = self.notes.consts.get(&(self.node, arg));
        given.dtype == DType::C128
            && given.shape.is_empty()
            && matches!(known, Some(Const::Tensor(_)))
    }

    /// Returns a tensor of no dimensions with the complex number that an argument is, of the dtype
    /// that it has beside the others: c128 alone and beside f64 and c128, else c64.
    pub(crate) fn complex_number(&mut self, arg: usize, args: &[Arg]) -> Lowered<Val> {
        let others = args.iter().enumerate().filter(|(k, _)| *k != arg).map(|(_, arg)| arg.clone());
        let others: Vec<Arg> = others.collect();
        let mut seen = Vec::new();
        value::tensors(&others, &mut seen);
        let number = self.complex_constant(arg)?;
        if seen.is_empty() || seen.iter().any(|other| other.dtype.part() == DType::F64) {
            return Ok(number);
        }
        self.cast(number, DType::C64)
    }

    /// Returns a tensor of no dimensions with the complex number that an argument is, in c128.
    pub(crate) fn complex_constant(&mut self, arg: usize) -> Lowered<Val> {
        let Some(Const::Tensor(sidecar)) = self.notes.consts.get(&(self.node, arg)).cloned() else {
            return Err(Refusal::Wrong(format!(
                "argument {arg} is a complex number that the trace lost: expected it in consts.json"
            )));
        };
        let sidecar = sidecar.expected_as(DType::C128);
        let spec = TensorSpec::contiguous(DType::C128, &[])?;
        if (sidecar.dtype(), sidecar.shape()) != (spec.dtype, spec.shape()) {
            return Err(Refusal::Wrong(format!(
                "argument {arg} is a complex number, and consts.json has {}{:?} for it",
                sidecar.dtype(),
                sidecar.shape()
            )));
        }
        Ok(self.constant(spec, Data::File(sidecar)))
    }
}
