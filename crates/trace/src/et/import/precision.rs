//! The precision of tensors: the coarsest dtype on the way from the inputs determines how far a
//! result may differ from PyTorch's. Under autocast, an output of f32 can depend on bf16.

use std::io::Read;

use millstream_types::{Access, DType};

use super::{Import, Val};
use crate::compare::Tolerance;
use crate::data::Data;
use crate::number::read_float;

/// Returns the dtype whose elements may differ more.
fn coarser(a: DType, b: DType) -> DType {
    if Tolerance::of(b).0 > Tolerance::of(a).0 { b } else { a }
}

impl Import<'_> {
    /// Notes the precision of what a call writes: that of its operands, or of the results' dtype.
    pub(super) fn track_precision(&mut self, operands: &[(Val, Access)], results: &[Val]) {
        let reads = operands.iter().filter(|(_, access)| access.reads());
        let read = reads.map(|(val, _)| self.storage(*val).coarsest).fold(DType::Bool, coarser);
        let written = operands.iter().filter(|(_, access)| access.writes()).map(|(val, _)| *val);
        for val in written.chain(results.iter().copied()) {
            let tensor = &self.tensors[val.0];
            let storage = &mut self.storages[tensor.storage.0];
            let made = coarser(read, tensor.spec.dtype);
            storage.coarsest = coarser(storage.coarsest, made);
        }
    }

    /// Returns the tolerance of an output of a dtype, where the recording states none: that of
    /// PyTorch's `assert_close` for the coarsest dtype, of f32 100 times as much relative to the
    /// element, since programs are longer than one op. A 16-bit sum whose terms cancel is as far
    /// off as a greater one: the absolute tolerance is relative to the greatest element.
    pub(super) fn tolerance_of(
        &self,
        val: Val,
        dtype: DType,
        expected: Option<&Data>,
    ) -> Tolerance {
        let coarsest = coarser(self.storage(val).coarsest, dtype);
        let (rtol, atol) = match (coarsest, Tolerance::of(coarsest)) {
            (DType::F32 | DType::C64, (_, atol)) => (1e-4, atol),
            (DType::F16 | DType::BF16, (rtol, atol)) => {
                (rtol, atol.max(rtol * expected.map_or(0.0, greatest)))
            }
            (_, bounds) => bounds,
        };
        Tolerance { rtol: Some(rtol), atol: Some(atol) }
    }
}

/// Returns the greatest magnitude of finite elements in a file; 0 if it cannot be read, which the
/// comparison reports.
fn greatest(expected: &Data) -> f64 {
    let Data::File(sidecar) = expected else { return 0.0 };
    let (mut bytes, dtype) = (Vec::new(), sidecar.dtype());
    if !dtype.is_float() || sidecar.open().and_then(|mut f| f.read_to_end(&mut bytes)).is_err() {
        return 0.0;
    }
    let elements = bytes.chunks_exact(dtype.size()).map(|b| read_float(b, dtype).abs());
    elements.filter(|v| v.is_finite()).fold(0.0, f64::max)
}
