//! The greatest and least elements, and where they are.
//!
//! | op | results |
//! |---|---|
//! | `amax(x; dim, keepdim)`, `amin` | the greatest, the least, over some or all dimensions |
//! | `max(x; dim, keepdim)`, `min` | without `dim` the same over all; with one `dim` the values, and their indices |
//! | `argmax(x; dim, keepdim)`, `argmin` | the index along `dim`, or among all elements in row-major order |
//!
//! A NaN is greater and less than everything. Of equal elements the first one's index counts.
//! Nothing has no greatest element, so that the dimensions reduced must not be empty.
//!
//! Source: the ops of the same names in <https://docs.pytorch.org/docs/stable/torch.html>.

use millstream_types::{DType, Dims, Result, TensorSpec};

use crate::def::{Arity, Def, arg};
use crate::elementwise::refuse;
use crate::reduce::{DIM, KEEPDIM, reduced, reduction};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const ONE_DIM: ArgDoc = arg("dim", "a dimension, negative from the end; all unless given");

const X: &[ArgDoc] = &[arg("x", "any shape")];

const fn op(
    name: &'static str,
    summary: &'static str,
    attrs: &'static [ArgDoc],
    rule: fn(CallSpec<'_>) -> Result<Signature>,
) -> Def {
    Def { name, summary, inputs: X, attrs, arity: Arity::Listed, rule }
}

pub(crate) const OPS: &[Def] = &[
    op("amax", "the greatest element over some or all dimensions", &[DIM, KEEPDIM], values),
    op("amin", "the least element over some or all dimensions", &[DIM, KEEPDIM], values),
    op("max", "the greatest element, with its index along a dimension", &[ONE_DIM, KEEPDIM], both),
    op("min", "the least element, with its index along a dimension", &[ONE_DIM, KEEPDIM], both),
    op("argmax", "the index of the greatest element", &[ONE_DIM, KEEPDIM], places),
    op("argmin", "the index of the least element", &[ONE_DIM, KEEPDIM], places),
];

/// The dimensions reduced, none of them empty.
fn dims(call: CallSpec<'_>) -> Result<Dims> {
    let x = &call.inputs[0];
    let dims = reduced(call.attrs, x.layout.rank())?;
    match dims.iter().find(|&&d| x.shape()[d] == 0) {
        Some(d) => refuse("shape", format!("dimension {d} of {} is empty", x.brief())),
        None => Ok(dims),
    }
}

fn values(call: CallSpec<'_>) -> Result<Signature> {
    reduction(call, &dims(call)?, call.inputs[0].dtype, 1)
}

fn both(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    if call.attrs.int("dim")?.is_none() {
        if call.attrs.get("keepdim").is_some() {
            return refuse("argument", "keepdim: expected together with dim");
        }
        return values(call);
    }
    let mut signature = reduction(call, &dims(call)?, x.dtype, 2)?;
    if let OutputSpec::Fresh(values) = &signature.outputs[0] {
        let indices = TensorSpec::contiguous(DType::I64, values.shape())?;
        signature.outputs.push(OutputSpec::Fresh(indices));
    }
    Ok(signature)
}

fn places(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    if x.dtype == DType::Bool {
        return refuse("dtype", format!("expected numbers, got {}", x.brief()));
    }
    call.attrs.int("dim")?;
    reduction(call, &dims(call)?, DType::I64, 2)
}
