//! Cumulative sums and products, maxima and minima.
//!
//! `cumsum(x; dim, dtype)` and `cumprod(x; dim, dtype)` replace every element by the sum or product
//! of the elements along `dim` up to and including it. Bool and integers give i64 unless `dtype` is
//! given; with it, elements are converted first. Floats are accumulated in f64, in order.
//! `cummax(x; dim)` and `cummin(x; dim)` return the extrema so far, and the last index of each. NaN
//! takes precedence. `logcumsumexp(x; dim)` returns the logarithms of sums of exponentials.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.cumsum.html>.

use millstream_types::{DType, Result, TensorSpec};

use crate::args::{dimension, required};
use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const X: &[ArgDoc] = &[arg("x", "any shape")];
const ATTRS: &[ArgDoc] = &[
    arg("dim", "the dimension, negative from the end").int(),
    arg("dtype", "convert to this dtype first").dtype().or("i64 for bool and integers"),
];

const DIM: &[ArgDoc] = &[ATTRS[0]];

const fn op(name: &'static str, summary: &'static str) -> Def {
    Def::new(name, summary, X, ATTRS, rule)
}

pub(crate) const OPS: &[Def] = &[
    op("cumsum", "the cumulative sums along a dimension").complex(),
    op("cumprod", "the cumulative products along a dimension").complex(),
    Def {
        name: "logcumsumexp",
        summary: "the logarithms of the cumulative sums of exponentials along a dimension",
        attrs: DIM,
        rule: logarithms,
        ..op("", "").complex()
    },
];

/// Ops that the host computes for every device.
pub(crate) const EXTREMA: &[Def] = &[
    extremum("cummax", "the cumulative maxima along a dimension, and their indices"),
    extremum("cummin", "the cumulative minima along a dimension, and their indices"),
];

const fn extremum(name: &'static str, summary: &'static str) -> Def {
    Def { attrs: DIM, rule: extrema, ..op(name, summary) }
}

/// Checks the dimension of a scan.
fn check_dim(call: CallSpec<'_>) -> Result<()> {
    dimension(required("dim", call.attrs.int("dim")?)?, call.inputs[0].layout.rank()).map(drop)
}

fn logarithms(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    check_dim(call)?;
    match x.dtype.is_inexact() {
        true => Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?)),
        false => refuse("dtype", format!("expected floats, got {}", x.brief())),
    }
}

fn extrema(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    check_dim(call)?;
    let mut signature = Signature::reads(1, TensorSpec::contiguous(x.dtype, x.shape())?);
    let indices = TensorSpec::contiguous(DType::I64, x.shape())?;
    signature.outputs.push(OutputSpec::Fresh(indices));
    Ok(signature)
}

fn rule(call: CallSpec<'_>) -> Result<Signature> {
    let x = &call.inputs[0];
    dimension(required("dim", call.attrs.int("dim")?)?, x.layout.rank())?;
    let dtype = match call.attrs.dtype("dtype")? {
        Some(DType::Bool) => return refuse("dtype", "expected numbers, got bool"),
        Some(dtype) => dtype,
        None if x.dtype.is_inexact() => x.dtype,
        None => DType::I64,
    };
    Ok(Signature::reads(1, TensorSpec::contiguous(dtype, x.shape())?))
}
