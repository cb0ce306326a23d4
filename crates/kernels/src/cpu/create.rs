//! Kernels of the creation ops.

use anyhow::Result;
use millstream_ops::args::Scalar;

use super::Kernel;
use super::element::{Element, from_scalar};
use super::indexed::in_chunks;
use super::strided::{CHUNK, Sequence};
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[("arange", arange), ("scrub", scrub)];

fn scrub(ctx: &KernelCtx<'_>) -> Result<()> {
    let (bytes, count) = ctx.workspace();
    // SAFETY: the workspace is `count` bytes long and used by this call alone while it runs.
    unsafe { bytes.write_bytes(0xff, count) };
    Ok(())
}

/// Computes every number from its index, so that rounding errors do not accumulate.
fn arange(ctx: &KernelCtx<'_>) -> Result<()> {
    let number =
        |name, default| anyhow::Ok(Scalar::of(ctx.attrs(), name)?.unwrap_or(Scalar::Int(default)));
    let (start, step) = (number("start", 0)?, number("step", 1)?);
    if ctx.operand(0)?.dtype.is_float() {
        let (start, step) = (from_scalar::<f64>(start), from_scalar::<f64>(step));
        fill_by_index(ctx, |k| start + k as f64 * step)
    } else {
        let (start, step) = (from_scalar::<i64>(start), from_scalar::<i64>(step));
        fill_by_index(ctx, |k| start.wrapping_add((k as i64).wrapping_mul(step)))
    }
}

/// Sets every element of the only operand to a function of its index.
fn fill_by_index<T: Element>(
    ctx: &KernelCtx<'_>,
    f: impl Fn(usize) -> T + Sync + Send,
) -> Result<()> {
    let out = ctx.operand(0)?;
    let count = out.numel();
    // SAFETY: the call's output; blocks of it are disjoint.
    let out = unsafe { Sequence::new(out) };
    in_chunks(
        ctx,
        count,
        || [T::ZERO; CHUNK],
        |buffer, at, part| {
            let part = &mut buffer[..part];
            for (k, v) in part.iter_mut().enumerate() {
                *v = f(at + k);
            }
            out.store(at, part);
        },
    );
    Ok(())
}
