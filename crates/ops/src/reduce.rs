//! Reductions.
//!
//! | op | result | dtype of the result |
//! |---|---|---|
//! | `sum`, `prod` | the sum, the product; 0, 1 if empty | i64 for bool, integers; or `dtype` |
//! | `mean` | the sum divided by the number of elements | floats only; or `dtype` |
//! | `any`, `all` | whether any, whether every element is nonzero | bool; u8 for u8 |
//! | `count_nonzero` | the number of nonzero elements | i64 |
//! | `hash_tensor` | the bits of all elements, combined by exclusive or | u64 |
//! | `std`, `var` | deviation and variance, with `correction=1` | floats only |
//! | `linalg_vector_norm` | the vector norm of order `ord=2` | floats only; or `dtype` |
//! | `logsumexp` | the logarithm of the sum of exponentials | f32 for bool and integers |
//!
//! All reduce the dimensions `dim`, by default all of them, and drop them unless `keepdim` is true
//! (`count_nonzero` always drops them). With `dtype`, elements are converted first. `std` and `var`
//! divide by the number of elements minus `correction`. The norm of order p is the p-th root of the
//! sum of the p-th powers of magnitudes. f16 and bf16 are computed in f32; `std`, `var`,
//! `linalg_vector_norm` and `logsumexp` in f64. A hash combines the bits of floats as f64, and
//! those of integers as numbers of 64 bits; without elements it is 0.
//!
//! Sources: the pages of `torch` and `torch.linalg`, such as
//! <https://docs.pytorch.org/docs/stable/generated/torch.sum.html>.

use millstream_types::{Attrs, DType, Dims, Error, Result, TensorSpec};

use crate::args::{Scalar, dimension};
use crate::def::{Def, arg};
use crate::elementwise::refuse;
use crate::promotion::floating;
use crate::schema::{ArgDoc, CallSpec, Signature};

/// The number of elements that a reduction combines as one part. Longer reductions keep a partial
/// result for each part in the workspace.
pub const SUM_PART: usize = 1 << 14;

/// Returns the reduced dimensions of a tensor of `rank` dimensions: those of `dim`, or all if it is
/// absent or empty.
///
/// # Errors
/// Fails if a dimension is out of range or given twice.
pub fn reduced(attrs: &Attrs, rank: usize) -> Result<Dims> {
    let mut dims = Dims::new();
    for dim in attrs.ints("dim")?.unwrap_or_default() {
        let at = dimension(dim, rank)?;
        if dims.contains(&at) {
            let message = format!("{dim}: given more than once");
            return Err(Error::Invalid { what: "dimension", message });
        }
        dims.push(at);
    }
    if dims.is_empty() {
        dims = (0..rank).collect();
    }
    // A tensor without dimensions accepts dimension 0, but has nothing to reduce.
    dims.retain(|d| *d < rank);
    dims.sort_unstable();
    Ok(dims)
}

/// Returns the signature of a reduction of the first tensor over `dims` to a new one of this dtype.
/// A partial result takes `words` words of the workspace.
pub(crate) fn reduction(
    call: CallSpec<'_>,
    dims: &[usize],
    dtype: DType,
    words: usize,
) -> Result<Signature> {
    let x = &call.inputs[0];
    let keep = call.attrs.bool("keepdim")?.unwrap_or(false);
    let mut shape = Dims::new();
    for (k, &length) in x.shape().iter().enumerate() {
        match dims.contains(&k) {
            false => shape.push(length),
            true if keep => shape.push(1),
            true => {}
        }
    }
    let output = TensorSpec::contiguous(dtype, &shape)?;
    // Without elements there are no parts; otherwise there are at most as many parts as elements.
    let parts = match x.numel() {
        0 => 0,
        _ => dims.iter().map(|&d| x.shape()[d]).product::<usize>().div_ceil(SUM_PART),
    };
    // One more word, for the alignment.
    let count = if parts > 1 { output.numel() * parts * words + 1 } else { 0 };
    Ok(Signature { workspace: count * size_of::<u64>(), ..Signature::reads(1, output) })
}

const X: &[ArgDoc] = &[arg("x", "any shape")];
pub(crate) const DIM: ArgDoc =
    arg("dim", "the dimension or dimensions, negative from the end").ints().or("all");
pub(crate) const KEEPDIM: ArgDoc =
    arg("keepdim", "keep reduced dimensions with length 1").flag().or("false");
const CONVERTED: ArgDoc =
    arg("dtype", "convert to this dtype first").dtype().or("i64 for bool and integers");
const CONVERTED_FLOAT: ArgDoc =
    arg("dtype", "convert to this float dtype first").dtype().optional();
const MODE: ArgDoc = arg("mode", "0").int().ignored();
const CORRECTION: ArgDoc =
    arg("correction", "subtracted from the number of elements in the divisor").number().or("1");
const ORD: ArgDoc =
    arg("ord", "the order of the norm, or an infinity for the maximum or minimum").number().or("2");

/// Defines the table, one row for each op: name, summary, arguments, words of a partial result, and
/// the rule that checks the arguments and returns the dtype of the result.
macro_rules! reductions {
    ($(($name:literal, $summary:literal, $attrs:expr, $words:literal, $dtype:expr)
        $($more:ident)*;)*) => {
        pub(crate) const OPS: &[Def] = &[$(Def::new($name, $summary, X, $attrs, |call| {
                let x = &call.inputs[0];
                let dims = reduced(call.attrs, x.layout.rank())?;
                let dtype = $dtype(call)?;
                // A complex partial result has a word for each part.
                let complex = x.dtype.is_complex() || dtype.is_complex();
                reduction(call, &dims, dtype, $words + usize::from(complex))
            }) $(.$more())*),*];
    };
}

reductions! {
    ("sum", "the sum over some or all dimensions, in an order fixed by the shape",
     &[DIM, KEEPDIM, CONVERTED], 1, total) complex;
    ("prod", "the product over some or all dimensions", &[DIM, KEEPDIM, CONVERTED], 1,
     total) complex;
    ("mean", "the mean over some or all dimensions", &[DIM, KEEPDIM, CONVERTED_FLOAT], 1,
     mean) complex;
    ("any", "whether any element is nonzero", &[DIM, KEEPDIM], 1, truth) complex;
    ("all", "whether every element is nonzero", &[DIM, KEEPDIM], 1, truth) complex;
    ("count_nonzero", "the number of nonzero elements", &[DIM], 1, |_| Ok(DType::I64)) complex;
    ("hash_tensor", "the bits of all elements as numbers of 64 bits, combined by exclusive or",
     &[DIM, KEEPDIM, MODE], 1, hash) unsigned;
    ("std", "the standard deviation over some or all dimensions", &[DIM, CORRECTION, KEEPDIM], 3,
     variance) complex;
    ("var", "the variance over some or all dimensions", &[DIM, CORRECTION, KEEPDIM], 3,
     variance) complex;
    ("linalg_vector_norm", "the vector norm over some or all dimensions", &[ORD, DIM, KEEPDIM,
     CONVERTED_FLOAT], 1, norm) complex;
    ("logsumexp", "the logarithm of the sum of exponentials", &[DIM, KEEPDIM], 2,
     |call: CallSpec<'_>| Ok(floating(call.inputs[0].dtype))) complex;
}

fn total(call: CallSpec<'_>) -> Result<DType> {
    Ok(match call.attrs.dtype("dtype")? {
        Some(dtype) => dtype,
        None if call.inputs[0].dtype.is_inexact() => call.inputs[0].dtype,
        None => DType::I64,
    })
}

fn mean(call: CallSpec<'_>) -> Result<DType> {
    let dtype = call.attrs.dtype("dtype")?.unwrap_or(call.inputs[0].dtype);
    floats(dtype, &call.inputs[0])
}

fn floats(dtype: DType, x: &TensorSpec) -> Result<DType> {
    match dtype.is_inexact() {
        true => Ok(dtype),
        false => refuse("dtype", format!("expected floats, got {dtype} for {}", x.brief())),
    }
}

fn truth(call: CallSpec<'_>) -> Result<DType> {
    Ok(if call.inputs[0].dtype == DType::U8 { DType::U8 } else { DType::Bool })
}

fn hash(call: CallSpec<'_>) -> Result<DType> {
    match call.attrs.int("mode")?.unwrap_or(0) {
        0 => Ok(DType::U64),
        other => refuse("argument", format!("mode: expected 0, got {other}")),
    }
}

fn variance(call: CallSpec<'_>) -> Result<DType> {
    call.attrs.float("correction")?;
    Ok(floats(call.inputs[0].dtype, &call.inputs[0])?.part())
}

fn norm(call: CallSpec<'_>) -> Result<DType> {
    let x = &call.inputs[0];
    let ord = match Scalar::of(call.attrs, "ord")? {
        Some(Scalar::Bool(v)) => {
            return refuse("argument", format!("ord: expected a number, got {v}"));
        }
        _ => call.attrs.float("ord")?.unwrap_or(2.0),
    };
    floats(x.dtype, x)?;
    let dtype = call.attrs.dtype("dtype")?.unwrap_or(x.dtype);
    if x.dtype.promote(dtype) != Some(dtype) {
        return refuse(
            "dtype",
            format!("expected a dtype no narrower than that of {}, got {dtype}", x.brief()),
        );
    }
    let dims = reduced(call.attrs, x.layout.rank())?;
    let nothing = dims.iter().any(|&d| x.shape()[d] == 0);
    if nothing && (ord < 0.0 || ord == f64::INFINITY) {
        return refuse("shape", format!("expected elements for ord {ord:?}, got {}", x.brief()));
    }
    Ok(floats(dtype, x)?.part())
}
