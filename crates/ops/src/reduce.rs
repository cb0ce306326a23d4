//! Reductions.
//!
//! | op | result | dtype of the result |
//! |---|---|---|
//! | `sum`, `prod` | the sum, the product; of nothing 0 and 1 | i64 for bool and integers; or `dtype` |
//! | `mean` | the sum divided by the number of elements | floats only; or `dtype` |
//! | `any`, `all` | whether one, whether every element is not zero | bool; u8 for u8 |
//! | `count_nonzero` | how many are not zero | i64 |
//! | `std`, `var` | with `correction=1`: deviation and variance, divided by the number less that | floats only |
//! | `linalg_vector_norm` | with `ord=2`: the root of the sum of the magnitudes' powers | floats only; or `dtype` |
//! | `logsumexp` | the logarithm of the sum of e to the power of x | f32 for bool and integers |
//!
//! All are over the dimensions `dim`, or over all of them, and drop these unless `keepdim`
//! (`count_nonzero` drops them always). With `dtype`, elements are converted first. f16 and bf16
//! are computed in f32; `std`, `var`, `linalg_vector_norm` and `logsumexp` in f64.
//!
//! Sources: the pages of `torch` and `torch.linalg`, such as
//! <https://docs.pytorch.org/docs/stable/generated/torch.sum.html>.

use millstream_types::{Attrs, DType, Dims, Error, Result, TensorSpec};

use crate::args::{Scalar, dimension};
use crate::def::{Arity, Def, arg};
use crate::elementwise::refuse;
use crate::promote::floating;
use crate::schema::{ArgDoc, CallSpec, Signature};

/// The elements of a sum that are added as one part; longer sums keep one partial result for each
/// part in the workspace. So do other reductions.
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

/// A reduction of the first tensor over `dims` to a new one of this dtype; `words` is how many words
/// a partial result takes.
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
    // With no elements there are no parts; otherwise there are at most as many as elements.
    let parts = match x.numel() {
        0 => 0,
        _ => dims.iter().map(|&d| x.shape()[d]).product::<usize>().div_ceil(SUM_PART),
    };
    // One more, to align them.
    let count = if parts > 1 { output.numel() * parts * words + 1 } else { 0 };
    Ok(Signature { workspace: count * size_of::<u64>(), ..Signature::reads(1, output) })
}

const X: &[ArgDoc] = &[arg("x", "any shape")];
pub(crate) const DIM: ArgDoc =
    arg("dim", "a dimension or a list of them, negative from the end; all unless given");
pub(crate) const KEEPDIM: ArgDoc =
    arg("keepdim", "keep reduced dimensions with length 1; false unless given");
const CONVERTED: ArgDoc =
    arg("dtype", "convert to this dtype first; i64 for bool and integers unless given");
const CONVERTED_FLOAT: ArgDoc = arg("dtype", "convert to this dtype of floats first");
const CORRECTION: ArgDoc =
    arg("correction", "what the number of elements is lessened by; 1 unless given");
const ORD: ArgDoc =
    arg("ord", "the power, or an infinity for the greatest or least; 2 unless given");

/// Writes the table, one op a row: name, summary, arguments, words of a partial result, and the
/// rule that checks the arguments and gives the result's dtype.
macro_rules! reductions {
    ($(($name:literal, $summary:literal, $attrs:expr, $words:literal, $dtype:expr);)*) => {
        pub(crate) const OPS: &[Def] = &[$(Def {
            name: $name,
            summary: $summary,
            inputs: X,
            attrs: $attrs,
            arity: Arity::Listed,
            rule: |call| {
                let dims = reduced(call.attrs, call.inputs[0].layout.rank())?;
                reduction(call, &dims, $dtype(call)?, $words)
            },
        }),*];
    };
}

reductions! {
    ("sum", "the sum over some or all dimensions, in an order fixed by the shape",
     &[DIM, KEEPDIM, CONVERTED], 1, total);
    ("prod", "the product over some or all dimensions", &[DIM, KEEPDIM, CONVERTED], 1, total);
    ("mean", "the mean over some or all dimensions", &[DIM, KEEPDIM, CONVERTED_FLOAT], 1, mean);
    ("any", "whether any element is not zero", &[DIM, KEEPDIM], 1, truth);
    ("all", "whether every element is not zero", &[DIM, KEEPDIM], 1, truth);
    ("count_nonzero", "the number of elements that are not zero", &[DIM], 1, |_| Ok(DType::I64));
    ("std", "the standard deviation over some or all dimensions", &[DIM, CORRECTION, KEEPDIM], 3,
     spread);
    ("var", "the variance over some or all dimensions", &[DIM, CORRECTION, KEEPDIM], 3, spread);
    ("linalg_vector_norm", "the norm over some or all dimensions", &[ORD, DIM, KEEPDIM,
     CONVERTED_FLOAT], 1, norm);
    ("logsumexp", "the logarithm of the sum of exponentials", &[DIM, KEEPDIM], 2,
     |call: CallSpec<'_>| Ok(floating(call.inputs[0].dtype)));
}

fn total(call: CallSpec<'_>) -> Result<DType> {
    Ok(match call.attrs.dtype("dtype")? {
        Some(dtype) => dtype,
        None if call.inputs[0].dtype.is_float() => call.inputs[0].dtype,
        None => DType::I64,
    })
}

fn mean(call: CallSpec<'_>) -> Result<DType> {
    let dtype = call.attrs.dtype("dtype")?.unwrap_or(call.inputs[0].dtype);
    floats(dtype, &call.inputs[0])
}

fn floats(dtype: DType, x: &TensorSpec) -> Result<DType> {
    match dtype.is_float() {
        true => Ok(dtype),
        false => refuse("dtype", format!("expected floats, got {dtype} for {}", x.brief())),
    }
}

fn truth(call: CallSpec<'_>) -> Result<DType> {
    Ok(if call.inputs[0].dtype == DType::U8 { DType::U8 } else { DType::Bool })
}

fn spread(call: CallSpec<'_>) -> Result<DType> {
    call.attrs.float("correction")?;
    floats(call.inputs[0].dtype, &call.inputs[0])
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
    if x.dtype.promote(dtype) != dtype {
        return refuse("dtype", format!("dtype: {dtype} is narrower than {}", x.brief()));
    }
    let dims = reduced(call.attrs, x.layout.rank())?;
    let nothing = dims.iter().any(|&d| x.shape()[d] == 0);
    if nothing && (ord < 0.0 || ord == f64::INFINITY) {
        return refuse("shape", format!("{} has no elements for ord {ord:?}", x.brief()));
    }
    floats(dtype, x)
}
