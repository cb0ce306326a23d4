//! Kernels of the ops in `millstream_ops::dropout`.

use anyhow::{Context, Result};

use super::Kernel;
use super::copy::convert;
use super::element::{Bool, Element};
use super::loops::Loop;
use super::real::reals;
use super::strided::{BLOCK, CHUNK};
use super::traversal::Order;
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] =
    &[("native_dropout", dropout), ("native_dropout_backward", backward)];

/// `native_dropout(x; p, train)`, which drops nothing.
fn dropout(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out, mask) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    // SAFETY: operands of the call; the last two are its outputs.
    let all = unsafe {
        convert(ctx, x, out)?;
        Loop::new(mask.shape, [mask], Order::Any)
    }?;
    all.for_each(
        ctx,
        BLOCK,
        |_| [Bool::new(true); CHUNK],
        |values, [mask]| {
            for at in (0..mask.len()).step_by(CHUNK) {
                mask.store(at, &values[..CHUNK.min(mask.len() - at)]);
            }
        },
    );
    Ok(())
}

/// `native_dropout_backward(grad, mask; scale)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, mask, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let scale = ctx.attrs().float("scale")?.context("scale: missing; this argument is required")?;
    // SAFETY: operands of the call; the last is its output.
    let all = unsafe { Loop::new(out.shape, [grad, mask, out], Order::Any) }?;
    reals!(out.dtype, T => {
        let buffers = |_| [[T::ZERO; CHUNK]; 2];
        all.for_each(ctx, BLOCK, buffers, |[values, kept], [grad, mask, out]| {
            for at in (0..out.len()).step_by(CHUNK) {
                let count = CHUNK.min(out.len() - at);
                grad.load(at, &mut values[..count]);
                mask.load(at, &mut kept[..count]);
                for (v, &kept) in values.iter_mut().zip(kept.iter()) {
                    *v = *v * kept * scale as T;
                }
                out.store(at, &values[..count]);
            }
        });
    });
    Ok(())
}
