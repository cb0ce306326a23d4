//! Concatenation, stacking and tiling.
//!
//! | op | result |
//! |---|---|
//! | `cat(tensors...; dim=0)` | the tensors along an existing dimension |
//! | `stack(tensors...; dim=0)` | the tensors along a new dimension |
//! | `repeat(x; repeats)` | x tiled along each dimension |
//!
//! `cat` and `stack` convert to the common dtype. `cat` skips tensors of shape `[0]`, whatever the
//! rank of the others is; PyTorch keeps this for backward compatibility.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.cat.html>.

use millstream_types::{DType, Dims, Layout, Result, TensorSpec};

use crate::args::{dimension, required};
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::promotion::promote;
use crate::schema::{CallSpec, Signature};

pub(crate) const OPS: &[Def] = &[CAT, STACK, REPEAT];

const CAT: Def = Def::new(
    "cat",
    "the tensors concatenated along a dimension",
    &[arg("tensors", "one or more, of equal shapes except along dim")],
    &[arg("dim", "the dimension").int().or("0")],
    cat,
)
.many(1)
.complex()
.unsigned();

/// Returns whether `cat` skips a tensor of this shape.
pub fn is_skipped(shape: &[usize]) -> bool {
    shape == [0]
}

fn cat(call: CallSpec<'_>) -> Result<Signature> {
    if let Some(x) = call.inputs.iter().find(|x| x.layout.rank() == 0) {
        return Err(refused("cat", format!("expected one or more dimensions, got {}", x.brief())));
    }
    let dim = call.attrs.int("dim")?.unwrap_or(0);
    let first = call.inputs.iter().find(|x| !is_skipped(x.shape())).unwrap_or(&call.inputs[0]);
    let dim = dimension(dim, first.layout.rank())?;
    let mut shape = Dims::from_slice(first.shape());
    shape[dim] = 0;
    for x in call.inputs.iter().filter(|x| !is_skipped(x.shape())) {
        let fits = x.layout.rank() == shape.len()
            && (0..shape.len()).all(|k| k == dim || x.shape()[k] == shape[k]);
        if !fits {
            let message = format!(
                "expected equal shapes except along dimension {dim}, got {} beside {}",
                x.brief(),
                first.brief()
            );
            return Err(refused("cat", message));
        }
        shape[dim] = shape[dim].saturating_add(x.shape()[dim]);
    }
    let layout = layouts::joined(call.inputs.iter().map(|x| &x.layout), &shape)?;
    let spec = TensorSpec::new(promoted(call.inputs)?, layout)?;
    Ok(Signature::reads(call.inputs.len(), spec))
}

/// Returns the common dtype. All tensors count alike, since none is without dimensions or all are.
fn promoted(inputs: &[TensorSpec]) -> Result<DType> {
    inputs.iter().skip(1).try_fold(inputs[0].dtype, |dtype, x| promote(dtype, x.dtype))
}

const STACK: Def = Def::new(
    "stack",
    "the tensors concatenated along a new dimension",
    &[arg("tensors", "one or more, of equal shapes")],
    &[arg("dim", "the position of the new dimension in the result").int().or("0")],
    stack,
)
.many(1)
.complex()
.unsigned();

fn stack(call: CallSpec<'_>) -> Result<Signature> {
    let first = &call.inputs[0];
    if let Some(x) = call.inputs.iter().find(|x| x.shape() != first.shape()) {
        let message = format!("expected one shape, got {} and {}", first.brief(), x.brief());
        return Err(refused("stack", message));
    }
    let rank = first.layout.rank();
    let dim = dimension(call.attrs.int("dim")?.unwrap_or(0), rank + 1)?;
    let count = call.inputs.len();
    let mut shape = Dims::from_slice(first.shape());
    shape.insert(dim, count);
    let mut layout = Layout::contiguous(&shape)?;
    if dim < rank {
        // As in PyTorch, `stack` is a concatenation along the existing dimension, which is then
        // split.
        let mut long = Dims::from_slice(first.shape());
        long[dim] = long[dim].saturating_mul(count);
        let whole = layouts::joined(call.inputs.iter().map(|x| &x.layout), &long)?;
        if !whole.is_contiguous() {
            let mut strides = Dims::from_slice(whole.strides());
            strides.insert(dim, strides[dim] * first.shape()[dim]);
            layout = Layout::strided(&shape, &strides, 0)?;
        }
    }
    Ok(Signature::reads(count, TensorSpec::new(promoted(call.inputs)?, layout)?))
}

const REPEAT: Def = Def::new(
    "repeat",
    "x tiled along each dimension",
    &[arg("x", "any shape")],
    &[arg("repeats", "the number of repetitions for each dimension; new dimensions come first")
        .ints()],
    |call| {
        let x = &call.inputs[0];
        let repeats = required("repeats", call.attrs.ints("repeats")?)?;
        let Some(added) = repeats.len().checked_sub(x.layout.rank()) else {
            let message = format!(
                "repeats: expected one for each dimension of {}, got {repeats:?}",
                x.brief()
            );
            return Err(refused("repeat", message));
        };
        let mut shape = Dims::new();
        for (k, &times) in repeats.iter().enumerate() {
            let times = usize::try_from(times).map_err(|_| {
                refused("repeat", format!("repeats: expected 0 or more, got {times}"))
            })?;
            let length = k.checked_sub(added).map_or(1, |k| x.shape()[k]);
            shape.push(length.saturating_mul(times));
        }
        Ok(Signature::reads(1, TensorSpec::contiguous(x.dtype, &shape)?))
    },
)
.complex()
.unsigned();
