//! Ops built from copies and fills alone: `cat`, `stack`, `repeat`, `constant_pad_nd`, and the
//! gradients of views. This module computes the views; each kind of device supplies the
//! [`CopyPrimitives`] that copy and fill them.

use anyhow::{Context, Result, ensure};
use millstream_ops::args::{Scalar, dimension};
use millstream_ops::concat::is_skipped;
use millstream_ops::rearrange::pads;
use millstream_ops::views::{diagonal, narrow, select, slice};
use millstream_types::{Dims, Layout};

use crate::context::{KernelCtx, RawTensor};
use crate::cpu::memory::{layout, view};

/// The copy and the fill of one kind of device. Both receive views of the call's operands. The
/// written view belongs to the call's output, which shares no memory with the read one.
pub(crate) struct CopyPrimitives {
    /// Broadcasts the first tensor to the second, converts its elements, and writes them there.
    pub(crate) copy: fn(&KernelCtx<'_>, RawTensor<'_>, RawTensor<'_>) -> Result<()>,
    /// Sets all elements to a value.
    pub(crate) fill: fn(&KernelCtx<'_>, RawTensor<'_>, Scalar) -> Result<()>,
}

/// An op's name, and its kernel over the primitives of a device.
type DataMovementKernel = (&'static str, fn(&KernelCtx<'_>, &CopyPrimitives) -> Result<()>);

pub(crate) const KERNELS: &[DataMovementKernel] = &[
    ("cat", cat),
    ("stack", stack),
    ("repeat", repeat),
    ("constant_pad_nd", pad),
    ("select_backward", select_backward),
    ("slice_backward", slice_backward),
    ("diagonal_backward", diagonal_backward),
];

/// Returns the operand number of the result, which is the last operand.
fn result_index(ctx: &KernelCtx<'_>) -> Result<usize> {
    ctx.operands().checked_sub(1).context("no operands: schema and kernel disagree")
}

/// Returns the tensor that an op changes, and the number of its inputs. In place that is the first
/// operand; else it is the result, to which the first operand is copied.
pub(crate) fn changed<'a>(
    ctx: &KernelCtx<'a>,
    in_place: bool,
    primitives: &CopyPrimitives,
) -> Result<(RawTensor<'a>, usize)> {
    if in_place {
        return Ok((ctx.operand(0)?, ctx.operands()));
    }
    let count = result_index(ctx)?;
    let out = ctx.operand(count)?;
    (primitives.copy)(ctx, ctx.operand(0)?, out)?;
    Ok((out, count))
}

/// Returns the argument `dim`, which must be given, as one of `rank` dimensions.
pub(crate) fn required_dim(ctx: &KernelCtx<'_>, rank: usize) -> Result<usize> {
    let dim = ctx.attrs().int("dim")?.context("dim: missing; this argument is required")?;
    Ok(dimension(dim, rank)?)
}

/// `cat(tensors...; dim)`.
fn cat(ctx: &KernelCtx<'_>, primitives: &CopyPrimitives) -> Result<()> {
    let count = result_index(ctx)?;
    let out = ctx.operand(count)?;
    let dim = dimension(ctx.attrs().int("dim")?.unwrap_or(0), out.shape.len())?;
    let whole = layout(&out)?;
    let mut start = 0;
    for index in 0..count {
        let x = ctx.operand(index)?;
        if is_skipped(x.shape) {
            continue;
        }
        let agree = x.shape.len() == out.shape.len() && start + x.shape[dim] <= out.shape[dim];
        ensure!(agree, "{x:?} at {start} of {out:?}: schema and kernel disagree");
        let slot = narrow(&whole, dim, start, x.shape[dim])?;
        (primitives.copy)(ctx, x, view(&out, &slot))?;
        start += x.shape[dim];
    }
    Ok(())
}

/// `stack(tensors...; dim)`.
fn stack(ctx: &KernelCtx<'_>, primitives: &CopyPrimitives) -> Result<()> {
    let count = result_index(ctx)?;
    let out = ctx.operand(count)?;
    let dim = dimension(ctx.attrs().int("dim")?.unwrap_or(0), out.shape.len())?;
    let whole = layout(&out)?;
    for index in 0..count {
        let slot = select("stack", &whole, dim, index as i64)?;
        (primitives.copy)(ctx, ctx.operand(index)?, view(&out, &slot))?;
    }
    Ok(())
}

/// `repeat(x; repeats)`: splits each dimension of the result into the repeats and the elements. The
/// stride of x along the repeats is 0.
fn repeat(ctx: &KernelCtx<'_>, primitives: &CopyPrimitives) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let added = out.shape.len().checked_sub(x.shape.len());
    let added = added.with_context(|| format!("{x:?} to {out:?}: schema and kernel disagree"))?;
    if out.numel() == 0 {
        return Ok(());
    }
    let mut split = [Dims::new(), Dims::new(), Dims::new(), Dims::new()];
    let [from, from_strides, to, to_strides] = &mut split;
    for (k, (&length, &stride)) in out.shape.iter().zip(out.strides).enumerate() {
        let (own, step) = k.checked_sub(added).map_or((1, 0), |k| (x.shape[k], x.strides[k]));
        from.extend([1, own]);
        from_strides.extend([0, step]);
        to.extend([length / own, own]);
        to_strides.extend([stride * own, stride]);
    }
    let x = RawTensor { shape: from, strides: from_strides, ..x };
    (primitives.copy)(ctx, x, RawTensor { shape: to, strides: to_strides, ..out })
}

/// `constant_pad_nd(x; pad, value)`: fills the result with the value, then copies the part of x
/// that remains.
fn pad(ctx: &KernelCtx<'_>, primitives: &CopyPrimitives) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let pad = ctx.attrs().ints("pad")?.context("pad: missing; this argument is required")?;
    let value = Scalar::of(ctx.attrs(), "value")?.unwrap_or(Scalar::Int(0));
    let pads = pads("constant_pad_nd", x.shape, &pad)?;
    let agree = pads.iter().map(|p| p.shape).eq(out.shape.iter().copied());
    ensure!(agree, "{x:?} to {out:?}: schema and kernel disagree");
    let (mut from, mut to) = (layout(&x)?, layout(&out)?);
    for (k, p) in pads.iter().enumerate() {
        from = narrow(&from, k, p.start, p.kept)?;
        to = narrow(&to, k, p.before, p.kept)?;
    }
    if to.numel() < out.numel() {
        (primitives.fill)(ctx, out, value)?;
    }
    (primitives.copy)(ctx, view(&x, &from), view(&out, &to))
}

/// Fills the result with zeros and copies the gradient to the part of it that `view_of` selects.
fn place_gradient(
    ctx: &KernelCtx<'_>,
    primitives: &CopyPrimitives,
    view_of: impl FnOnce(&Layout) -> millstream_types::Result<Layout>,
) -> Result<()> {
    let (grad, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let selected = view_of(&layout(&out)?)?;
    (primitives.fill)(ctx, out, Scalar::Int(0))?;
    (primitives.copy)(ctx, grad, view(&out, &selected))
}

/// `select_backward(grad; input_sizes, dim, index)`.
fn select_backward(ctx: &KernelCtx<'_>, primitives: &CopyPrimitives) -> Result<()> {
    let dim = required_dim(ctx, ctx.operand(1)?.shape.len())?;
    let index = ctx.attrs().int("index")?.context("index: missing; this argument is required")?;
    place_gradient(ctx, primitives, |whole| select("select_backward", whole, dim, index))
}

/// `slice_backward(grad; input_sizes, dim, start, end, step)`.
fn slice_backward(ctx: &KernelCtx<'_>, primitives: &CopyPrimitives) -> Result<()> {
    let dim = required_dim(ctx, ctx.operand(1)?.shape.len())?;
    let bounds = (ctx.attrs().int("start")?, ctx.attrs().int("end")?);
    let step = ctx.attrs().int("step")?.unwrap_or(1);
    place_gradient(ctx, primitives, |whole| slice("slice_backward", whole, dim, bounds, step))
}

/// `diagonal_backward(grad; input_sizes, offset, dim1, dim2)`.
fn diagonal_backward(ctx: &KernelCtx<'_>, primitives: &CopyPrimitives) -> Result<()> {
    let offset = ctx.attrs().int("offset")?.unwrap_or(0);
    let dim1 = ctx.attrs().int("dim1")?.unwrap_or(0);
    let dim2 = ctx.attrs().int("dim2")?.unwrap_or(1);
    place_gradient(ctx, primitives, |whole| {
        diagonal("diagonal_backward", whole, offset, dim1, dim2)
    })
}
