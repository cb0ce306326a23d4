//! Reductions.
//!
//! `sum(x; dim, keepdim=false, dtype)` adds over the dimensions `dim`, or over all of them. Bool
//! and integers are added as i64 unless `dtype` says otherwise; floats keep their dtype, f16 and
//! bf16 being added in f32. With `dtype`, elements are converted first. A sum of nothing is 0.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.sum.html>.

use millstream_types::{Attrs, DType, Dims, Error, Result, TensorSpec};

use crate::args::dimension;
use crate::def::{Def, arg};
use crate::schema::{CallSpec, Signature};

/// The elements of a sum that are added as one part; longer sums keep one partial result for each
/// part in the workspace.
pub const SUM_PART: usize = 1 << 14;

/// Which dimensions a sum of `rank` dimensions is over: those of `dim`, all if it is not there or
/// empty.
///
/// # Errors
/// A dimension that is not there, or is named twice.
pub fn reduced(attrs: &Attrs, rank: usize) -> Result<Dims> {
    let mut dims = Dims::new();
    for dim in attrs.ints("dim")?.unwrap_or_default() {
        let at = dimension(dim, rank)?;
        if dims.contains(&at) {
            let message = format!("{dim}: named more than once");
            return Err(Error::Invalid { what: "dimension", message });
        }
        dims.push(at);
    }
    if dims.is_empty() {
        dims = (0..rank).collect();
    }
    // A tensor of no dimensions may be asked for its dimension 0, which is not there to reduce.
    dims.retain(|d| *d < rank);
    dims.sort_unstable();
    Ok(dims)
}

pub(crate) const SUM: Def = Def {
    name: "sum",
    summary: "the sum over some or all dimensions, in an order fixed by the shape",
    inputs: &[arg("x", "any shape")],
    attrs: &[
        arg("dim", "a dimension or a list of them, negative from the end; all unless given"),
        arg("keepdim", "keep reduced dimensions with length 1; false unless given"),
        arg("dtype", "convert to this dtype first; i64 for bool and integers unless given"),
    ],
    rule,
};

fn rule(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    let dims = reduced(call.attrs, x.layout.rank())?;
    let keep = call.attrs.bool("keepdim")?.unwrap_or(false);
    let dtype = match call.attrs.dtype("dtype")? {
        Some(dtype) => dtype,
        None if x.dtype.is_float() => x.dtype,
        None => DType::I64,
    };
    let mut shape = Dims::new();
    for (k, &length) in x.shape().iter().enumerate() {
        match dims.contains(&k) {
            false => shape.push(length),
            true if keep => shape.push(1),
            true => {}
        }
    }
    let output = TensorSpec::contiguous(dtype, &shape)?;
    // With no elements there are no parts; otherwise there are at most as many as elements.
    let parts = match x.numel() {
        0 => 0,
        _ => dims.iter().map(|&d| x.shape()[d]).product::<usize>().div_ceil(SUM_PART),
    };
    let workspace = if parts > 1 { (output.numel() * parts + 1) * size_of::<u64>() } else { 0 };
    Ok(Signature { workspace, ..Signature::reads(1, output) })
}
