//! Ops that copy parts of tensors and set values, and do nothing else: `cat`, `stack`, `repeat`,
//! `constant_pad_nd`, and the gradients of views. Where the parts lie is the same for every kind of
//! device; what copies and sets is told by [`Hands`].

use anyhow::{Context, Result, ensure};
use millstream_ops::args::{Scalar, dimension};
use millstream_ops::concat::is_skipped;
use millstream_ops::rearrange::pads;
use millstream_ops::views::{diagonal, narrow, select, slice};
use millstream_types::{Dims, Layout};

use crate::context::{KernelCtx, RawTensor};
use crate::cpu::memory::{layout, view};

/// What copies and sets. Both are given views of the call's operands, the one that is written of its
/// output, which shares no memory with the other.
pub(crate) struct Hands {
    /// Copies the elements of the first, broadcast, to all of the second, and converts them.
    pub(crate) copy: fn(&KernelCtx<'_>, RawTensor<'_>, RawTensor<'_>) -> Result<()>,
    /// Sets all elements.
    pub(crate) set: fn(&KernelCtx<'_>, RawTensor<'_>, Scalar) -> Result<()>,
}

/// An op's name and its kernel, given hands.
type Parts = (&'static str, fn(&KernelCtx<'_>, &Hands) -> Result<()>);

pub(crate) const KERNELS: &[Parts] = &[
    ("cat", cat),
    ("stack", stack),
    ("repeat", repeat),
    ("constant_pad_nd", pad),
    ("select_backward", select_backward),
    ("slice_backward", slice_backward),
    ("diagonal_backward", diagonal_backward),
];

/// The number of the result, which is the last operand.
fn last(ctx: &KernelCtx<'_>) -> Result<usize> {
    ctx.operands().checked_sub(1).context("no operands: schema and kernel disagree")
}

/// `cat(tensors...; dim)`.
fn cat(ctx: &KernelCtx<'_>, hands: &Hands) -> Result<()> {
    let count = last(ctx)?;
    let out = ctx.operand(count)?;
    let dim = dimension(ctx.attrs().int("dim")?.unwrap_or(0), out.shape.len())?;
    let whole = layout(&out)?;
    let mut start = 0;
    for number in 0..count {
        let x = ctx.operand(number)?;
        if is_skipped(x.shape) {
            continue;
        }
        let agree = x.shape.len() == out.shape.len() && start + x.shape[dim] <= out.shape[dim];
        ensure!(agree, "{x:?} at {start} of {out:?}: schema and kernel disagree");
        let place = narrow(&whole, dim, start, x.shape[dim])?;
        (hands.copy)(ctx, x, view(&out, &place))?;
        start += x.shape[dim];
    }
    Ok(())
}

/// `stack(tensors...; dim)`.
fn stack(ctx: &KernelCtx<'_>, hands: &Hands) -> Result<()> {
    let count = last(ctx)?;
    let out = ctx.operand(count)?;
    let dim = dimension(ctx.attrs().int("dim")?.unwrap_or(0), out.shape.len())?;
    let whole = layout(&out)?;
    for number in 0..count {
        let place = select("stack", &whole, dim, number as i64)?;
        (hands.copy)(ctx, ctx.operand(number)?, view(&out, &place))?;
    }
    Ok(())
}

/// `repeat(x; repeats)`: each dimension of the result is cut in two, the repeats and the elements;
/// along the repeats x does not step.
fn repeat(ctx: &KernelCtx<'_>, hands: &Hands) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let added = out.shape.len().checked_sub(x.shape.len());
    let added = added.with_context(|| format!("{x:?} to {out:?}: schema and kernel disagree"))?;
    if out.numel() == 0 {
        return Ok(());
    }
    let mut cut = [Dims::new(), Dims::new(), Dims::new(), Dims::new()];
    let [from, steps, to, strides] = &mut cut;
    for (k, (&length, &stride)) in out.shape.iter().zip(out.strides).enumerate() {
        let (own, step) = k.checked_sub(added).map_or((1, 0), |k| (x.shape[k], x.strides[k]));
        from.extend([1, own]);
        steps.extend([0, step]);
        to.extend([length / own, own]);
        strides.extend([stride * own, stride]);
    }
    let x = RawTensor { shape: from, strides: steps, ..x };
    (hands.copy)(ctx, x, RawTensor { shape: to, strides, ..out })
}

/// `constant_pad_nd(x; pad, value)`: all is set to the value, then what stays is copied.
fn pad(ctx: &KernelCtx<'_>, hands: &Hands) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let pad = ctx.attrs().ints("pad")?.context("pad: expected, and not given")?;
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
        (hands.set)(ctx, out, value)?;
    }
    (hands.copy)(ctx, view(&x, &from), view(&out, &to))
}

/// Zeros, but for the gradient where `looks` says that the view looks in the result.
fn put(
    ctx: &KernelCtx<'_>,
    hands: &Hands,
    looks: impl FnOnce(&Layout) -> millstream_types::Result<Layout>,
) -> Result<()> {
    let (grad, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let seen = looks(&layout(&out)?)?;
    (hands.set)(ctx, out, Scalar::Int(0))?;
    (hands.copy)(ctx, grad, view(&out, &seen))
}

/// The argument `dim`.
fn dim(ctx: &KernelCtx<'_>) -> Result<usize> {
    let dim = ctx.attrs().int("dim")?.context("dim: expected, and not given")?;
    Ok(dimension(dim, ctx.operand(1)?.shape.len())?)
}

/// `select_backward(grad; input_sizes, dim, index)`.
fn select_backward(ctx: &KernelCtx<'_>, hands: &Hands) -> Result<()> {
    let dim = dim(ctx)?;
    let index = ctx.attrs().int("index")?.context("index: expected, and not given")?;
    put(ctx, hands, |whole| select("select_backward", whole, dim, index))
}

/// `slice_backward(grad; input_sizes, dim, start, end, step)`.
fn slice_backward(ctx: &KernelCtx<'_>, hands: &Hands) -> Result<()> {
    let dim = dim(ctx)?;
    let bounds = (ctx.attrs().int("start")?, ctx.attrs().int("end")?);
    let step = ctx.attrs().int("step")?.unwrap_or(1);
    put(ctx, hands, |whole| slice("slice_backward", whole, dim, bounds, step))
}

/// `diagonal_backward(grad; input_sizes, offset, dim1, dim2)`.
fn diagonal_backward(ctx: &KernelCtx<'_>, hands: &Hands) -> Result<()> {
    let offset = ctx.attrs().int("offset")?.unwrap_or(0);
    let dim1 = ctx.attrs().int("dim1")?.unwrap_or(0);
    let dim2 = ctx.attrs().int("dim2")?.unwrap_or(1);
    put(ctx, hands, |whole| diagonal("diagonal_backward", whole, offset, dim1, dim2))
}
