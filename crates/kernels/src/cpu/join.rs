//! Kernels of `cat`, `stack` and `repeat`: each tensor is copied to its part of the result.

use anyhow::{Context, Result, ensure};
use millstream_ops::args::dimension;
use millstream_ops::join::is_skipped;
use millstream_ops::views::{part, select};
use millstream_types::Dims;

use super::Kernel;
use super::copy::convert;
use super::memory::{layout, view};
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[("cat", cat), ("stack", stack), ("repeat", repeat)];

/// The number of the result, which is the last operand.
fn last(ctx: &KernelCtx<'_>) -> Result<usize> {
    ctx.operands().checked_sub(1).context("no operands: schema and kernel disagree")
}

/// `cat(tensors...; dim)`.
fn cat(ctx: &KernelCtx<'_>) -> Result<()> {
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
        let place = part(&whole, dim, start, x.shape[dim])?;
        // SAFETY: operands of the call, of which the last is its output.
        unsafe { convert(ctx, x, view(&out, &place)) }?;
        start += x.shape[dim];
    }
    Ok(())
}

/// `stack(tensors...; dim)`.
fn stack(ctx: &KernelCtx<'_>) -> Result<()> {
    let count = last(ctx)?;
    let out = ctx.operand(count)?;
    let dim = dimension(ctx.attrs().int("dim")?.unwrap_or(0), out.shape.len())?;
    let whole = layout(&out)?;
    for number in 0..count {
        let place = select("stack", &whole, dim, number as i64)?;
        // SAFETY: operands of the call, of which the last is its output.
        unsafe { convert(ctx, ctx.operand(number)?, view(&out, &place)) }?;
    }
    Ok(())
}

/// `repeat(x; repeats)`: each dimension of the result is cut in two, the repeats and the elements;
/// along the repeats x does not step.
fn repeat(ctx: &KernelCtx<'_>) -> Result<()> {
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
    // SAFETY: operands of the call under another shape; the second is its output.
    unsafe { convert(ctx, x, RawTensor { shape: to, strides, ..out }) }
}
