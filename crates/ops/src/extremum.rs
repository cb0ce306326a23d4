//! Maxima and minima, and their indices.
//!
//! | op | results |
//! |---|---|
//! | `amax(x; dim, keepdim)`, `amin` | the extremum over some or all dimensions |
//! | `max(x; dim, keepdim)`, `min` | the extremum; with `dim`, extrema and their indices |
//! | `argmax(x; dim, keepdim)`, `argmin` | the index along `dim`, or in row-major order of all |
//!
//! NaN takes precedence over every number. Among equal elements the first index is returned. An
//! empty set has no extremum, so reduced dimensions must not be empty.
//!
//! Source: the ops of the same names in <https://docs.pytorch.org/docs/stable/torch.html>.

use millstream_types::{DType, Dims, Result, TensorSpec};

use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::reduce::{DIM, KEEPDIM, reduced, reduction};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const ONE_DIM: ArgDoc = arg("dim", "the dimension, negative from the end").int().or("all");

/// Without `dim`, the argument is refused.
const KEEP_ONE: ArgDoc = arg("keepdim", "with dim alone: keep it with length 1")
    .flag()
    .or("false, and none without dim");

const X: &[ArgDoc] = &[arg("x", "any shape")];

const fn op(
    name: &'static str,
    summary: &'static str,
    attrs: &'static [ArgDoc],
    rule: fn(CallSpec<'_>) -> Result<Signature>,
) -> Def {
    Def::new(name, summary, X, attrs, rule)
}

pub(crate) const OPS: &[Def] = &[
    op("amax", "the maximum over some or all dimensions", &[DIM, KEEPDIM], values),
    op("amin", "the minimum over some or all dimensions", &[DIM, KEEPDIM], values),
    op("max", "the maximum; along a dimension, also its index", &[ONE_DIM, KEEP_ONE], both),
    op("min", "the minimum; along a dimension, also its index", &[ONE_DIM, KEEP_ONE], both),
    op("argmax", "the index of the maximum", &[ONE_DIM, KEEPDIM], indices),
    op("argmin", "the index of the minimum", &[ONE_DIM, KEEPDIM], indices),
];

/// Returns the reduced dimensions and checks that none is empty.
fn dims(call: CallSpec<'_>) -> Result<Dims> {
    let x = &call.inputs[0];
    let dims = reduced(call.attrs, x.layout.rank())?;
    match dims.iter().find(|&&d| x.shape()[d] == 0) {
        Some(d) => {
            refuse("shape", format!("expected elements along dimension {d}, got {}", x.brief()))
        }
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
            return refuse("argument", "keepdim: expected only together with dim");
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

fn indices(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    if x.dtype == DType::Bool {
        return refuse("dtype", format!("expected numbers, got {}", x.brief()));
    }
    call.attrs.int("dim")?;
    reduction(call, &dims(call)?, DType::I64, 2)
}
