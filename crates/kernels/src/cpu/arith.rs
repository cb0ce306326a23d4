//! Kernels of the elementwise arithmetic ops.

use anyhow::{Result, ensure};
use millstream_ops::args::Scalar;
use millstream_ops::promote::result_dtype;
use millstream_types::DType;

use super::copy::convert;
use super::element::{Element, dispatch, from_scalar};
use super::memory::{Temporary, is_same, may_overlap};
use super::number::Number;
use super::strided::{BLOCK, CHUNK, Loop};
use super::walk::Order;
use crate::context::{KernelCtx, RawTensor};

/// Computes `out = f(x, y)` in `T`, to which both are converted and from which the result is.
fn binary<T: Number>(ctx: &KernelCtx<'_>, all: &Loop<3>, f: impl Fn(T, T) -> T + Sync + Send) {
    let buffers = |_| ([T::ZERO; CHUNK], [T::ZERO; CHUNK]);
    all.for_each(ctx, BLOCK, buffers, |(xs, ys), [x, y, out]| {
        for at in (0..out.len()).step_by(CHUNK) {
            let count = CHUNK.min(out.len() - at);
            let (xs, ys) = (&mut xs[..count], &mut ys[..count]);
            x.load(at, xs);
            y.load(at, ys);
            for (x, &y) in xs.iter_mut().zip(ys.iter()) {
                *x = f(*x, y);
            }
            out.store(at, xs);
        }
    });
}

fn common(x: &RawTensor<'_>, y: &RawTensor<'_>) -> DType {
    result_dtype((x.dtype, x.shape.len()), (y.dtype, y.shape.len()))
}

/// `out = x + alpha · y`, the sign of alpha changed if `negate`.
///
/// # Safety
/// All are operands of the call or memory that it alone uses, valid and aligned. `out` names no
/// element twice, and each of `x` and `y` is `out` itself or does not overlap it.
unsafe fn add_scaled(
    ctx: &KernelCtx<'_>,
    [x, y, out]: [RawTensor<'_>; 3],
    negate: bool,
) -> Result<()> {
    let given = Scalar::of(ctx.attrs(), "alpha")?.unwrap_or(Scalar::Int(1));
    // x - alpha · y is x + (-alpha) · y to the last bit, in floats as in wrapping integers.
    let alpha = match given {
        Scalar::Int(v) if negate => Scalar::Int(v.wrapping_neg()),
        Scalar::Float(v) if negate => Scalar::Float(-v),
        other => other,
    };
    // SAFETY: the caller's promise.
    let all = unsafe { Loop::new(out.shape, [x, y, out], Order::Any) }?;
    dispatch!(common(&x, &y), T => {
        let alpha = from_scalar::<<T as Number>::Wide>(alpha);
        binary::<T>(ctx, &all, move |x, y| {
            T::narrow(T::plus(x.widen(), T::times(alpha, y.widen())))
        });
    });
    Ok(())
}

/// `add(x, y; alpha)`.
pub(crate) fn add(ctx: &KernelCtx<'_>) -> Result<()> {
    // SAFETY: operands of the call, of which the last is its output.
    unsafe { add_scaled(ctx, [ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?], false) }
}

/// `sub(x, y; alpha)`.
pub(crate) fn sub(ctx: &KernelCtx<'_>) -> Result<()> {
    // SAFETY: as for `add`.
    unsafe { add_scaled(ctx, [ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?], true) }
}

/// `mul(x, y)`.
pub(crate) fn mul(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, y, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    // SAFETY: as for `add`.
    let all = unsafe { Loop::new(out.shape, [x, y, out], Order::Any) }?;
    dispatch!(common(&x, &y), T => {
        binary::<T>(ctx, &all, |x, y| T::narrow(T::times(x.widen(), y.widen())));
    });
    Ok(())
}

/// `add_(x, y; alpha)`: y counts as read in full before x is written. Only here is it known
/// whether the two share memory.
pub(crate) fn add_in_place(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, y) = (ctx.operand(0)?, ctx.operand(1)?);
    if is_same(&x, &y) || !may_overlap(&x, &y) {
        // SAFETY: operands of the call; the schema refuses an x that names an element twice, and
        // y is x itself or apart from it.
        return unsafe { add_scaled(ctx, [x, y, x], false) };
    }
    let mut copy = Temporary::new(y.dtype, y.shape)?;
    let copy = copy.tensor();
    // SAFETY: the copy is memory of its own; x as above.
    unsafe {
        convert(ctx, y, copy)?;
        add_scaled(ctx, [x, copy, x], false)
    }
}

/// `relu(x)`.
pub(crate) fn relu(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    ensure!(x.shape == out.shape, "{x:?} to {out:?}: schema and kernel disagree");
    // SAFETY: operands of the call, of which the last is its output.
    let both = unsafe { Loop::new(out.shape, [x, out], Order::Any) }?;
    dispatch!(out.dtype, T => {
        both.for_each(ctx, BLOCK, |_| [T::ZERO; CHUNK], |buffer, [x, out]| {
            for at in (0..out.len()).step_by(CHUNK) {
                let part = &mut buffer[..CHUNK.min(out.len() - at)];
                x.load(at, part);
                part.iter_mut().for_each(|v| *v = v.relu());
                out.store(at, part);
            }
        });
    });
    Ok(())
}
