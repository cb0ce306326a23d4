//! The precision of tensors: the coarsest dtype on the way from the inputs determines how far a
//! result may differ from PyTorch's. Under autocast, an output of f32 can depend on bf16.

use millstream_types::{Access, DType};

use super::{Import, Val};
use crate::compare::Tolerance;

/// Returns the dtype whose elements may differ more.
fn coarser(a: DType, b: DType) -> DType {
    if Tolerance::of(b).0 > Tolerance::of(a).0 { b } else { a }
}

impl Import<'_> {
    /// Notes the precision of what a call writes: that of its operands, or of the results' dtype.
    pub(super) fn track_precision(&mut self, operands: &[(Val, Access)], results: &[Val]) {
        let reads = operands.iter().filter(|(_, access)| access.reads());
        let read = reads.map(|(val, _)| self.coarsest(*val)).fold(DType::Bool, coarser);
        let written = operands.iter().filter(|(_, access)| access.writes()).map(|(val, _)| *val);
        for val in written.chain(results.iter().copied()) {
            let tensor = &self.tensors[val.0];
            let storage = &mut self.storages[tensor.storage.0];
            let made = coarser(read, tensor.spec.dtype);
            storage.coarsest = coarser(storage.coarsest, made);
        }
    }

    fn coarsest(&self, val: Val) -> DType {
        self.storages[self.tensors[val.0].storage.0].coarsest
    }

    /// Returns the tolerance of an output of a dtype, where the recording states none.
    pub(super) fn tolerance_of(&self, val: Val, dtype: DType) -> Tolerance {
        let (rtol, atol) = Tolerance::of(coarser(self.coarsest(val), dtype));
        Tolerance { rtol: Some(rtol), atol: Some(atol) }
    }
}
