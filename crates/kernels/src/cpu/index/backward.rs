//! Kernels of the gradients of views: zeros, but for where the view looks.

use anyhow::{Context, Result};
use millstream_ops::args::{Scalar, dimension};
use millstream_ops::views::{diagonal, select, slice};
use millstream_types::Layout;

use crate::context::KernelCtx;
use crate::cpu::copy::{convert, set};
use crate::cpu::memory::{layout, view};

/// Puts the gradient where `looks` says that the view looks in the result.
fn put(
    ctx: &KernelCtx<'_>,
    looks: impl FnOnce(&Layout) -> millstream_types::Result<Layout>,
) -> Result<()> {
    let (grad, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let seen = looks(&layout(&out)?)?;
    // SAFETY: operands of the call, of which the second is its output.
    unsafe {
        set(ctx, out, Scalar::Int(0))?;
        convert(ctx, grad, view(&out, &seen))
    }
}

/// The argument `dim`.
fn dim(ctx: &KernelCtx<'_>) -> Result<usize> {
    let dim = ctx.attrs().int("dim")?.context("dim: expected, and not given")?;
    Ok(dimension(dim, ctx.operand(1)?.shape.len())?)
}

/// `select_backward(grad; input_sizes, dim, index)`.
pub(super) fn select_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let dim = dim(ctx)?;
    let index = ctx.attrs().int("index")?.context("index: expected, and not given")?;
    put(ctx, |whole| select("select_backward", whole, dim, index))
}

/// `slice_backward(grad; input_sizes, dim, start, end, step)`.
pub(super) fn slice_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let dim = dim(ctx)?;
    let bounds = (ctx.attrs().int("start")?, ctx.attrs().int("end")?);
    let step = ctx.attrs().int("step")?.unwrap_or(1);
    put(ctx, |whole| slice("slice_backward", whole, dim, bounds, step))
}

/// `diagonal_backward(grad; input_sizes, offset, dim1, dim2)`.
pub(super) fn diagonal_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let offset = ctx.attrs().int("offset")?.unwrap_or(0);
    let dim1 = ctx.attrs().int("dim1")?.unwrap_or(0);
    let dim2 = ctx.attrs().int("dim2")?.unwrap_or(1);
    put(ctx, |whole| diagonal("diagonal_backward", whole, offset, dim1, dim2))
}
