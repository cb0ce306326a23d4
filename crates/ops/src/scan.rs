//! Cumulative sums and products.
//!
//! `cumsum(x; dim, dtype)` and `cumprod(x; dim, dtype)` replace every element by the sum or product
//! of the elements along `dim` up to and including it. Bool and integers give i64 unless `dtype` is
//! given; with it, elements are converted first. Floats are accumulated in f64, in order.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.cumsum.html>.

use millstream_types::{DType, Result, TensorSpec};

use crate::args::{dimension, required};
use crate::def::{Arity, Def, arg};
use crate::elementwise::refuse;
use crate::schema::{ArgDoc, CallSpec, Signature};

const X: &[ArgDoc] = &[arg("x", "any shape")];
const ATTRS: &[ArgDoc] = &[
    arg("dim", "the dimension, negative from the end").int(),
    arg("dtype", "convert to this dtype first").dtype().or("i64 for bool and integers"),
];

const fn op(name: &'static str, summary: &'static str) -> Def {
    Def { name, summary, inputs: X, attrs: ATTRS, arity: Arity::Listed, rule }
}

pub(crate) const OPS: &[Def] = &[
    op("cumsum", "the cumulative sums along a dimension"),
    op("cumprod", "the cumulative products along a dimension"),
];

fn rule(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    dimension(required("dim", call.attrs.int("dim")?)?, x.layout.rank())?;
    let dtype = match call.attrs.dtype("dtype")? {
        Some(DType::Bool) => return refuse("dtype", "expected numbers, got bool"),
        Some(dtype) => dtype,
        None if x.dtype.is_float() => x.dtype,
        None => DType::I64,
    };
    Ok(Signature::reads(1, TensorSpec::contiguous(dtype, x.shape())?))
}
