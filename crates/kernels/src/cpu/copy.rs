//! Kernels of `copy`, `clone`, `cast`, `copy_`, `fill`, and of a `reshape` that is not a view.

use anyhow::{Context, Result, ensure};
use millstream_ops::args::Scalar;
use millstream_types::Layout;

use super::Kernel;
use super::element::{Element, dispatch, from_scalar};
use super::memory::{Temporary, is_same, may_overlap};
use super::strided::{BLOCK, CHUNK, Loop, Sequence};
use super::traversal::Order;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[
    ("copy", copy),
    ("clone", copy),
    ("cast", copy),
    ("copy_", copy_in_place),
    ("fill", fill),
    ("reshape", reshape),
];

/// Converts every element of `from`, broadcast, into `to`. Elements of equal dtypes are copied bit
/// for bit.
///
/// # Safety
/// Both are operands of the call or memory that it alone uses, valid and aligned. `to` does not
/// overlap itself, and is `from` itself or does not overlap `from`.
pub(crate) unsafe fn convert(
    ctx: &KernelCtx<'_>,
    from: RawTensor<'_>,
    to: RawTensor<'_>,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let both = unsafe { Loop::new(to.shape, [from, to], Order::Any) }?;
    dispatch!(to.dtype, T => {
        let buffer = |_| [<T as Element>::ZERO; CHUNK];
        both.for_each(ctx, BLOCK, buffer, |buffer, [from, to]| {
            for at in (0..to.len()).step_by(CHUNK) {
                let part = &mut buffer[..CHUNK.min(to.len() - at)];
                from.load(at, part);
                to.store(at, part);
            }
        });
    });
    Ok(())
}

/// `copy(x)`, `clone(x)` and `cast(x; dtype)`: the dtype of the output decides the conversion.
fn copy(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    ensure!(x.shape == out.shape, "{x:?} to {out:?}: schema and kernel disagree");
    // SAFETY: operands of the call; the second is its output.
    unsafe { convert(ctx, x, out) }
}

/// `copy_(x, src)`: src is read in full before x is written.
fn copy_in_place(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, src) = (ctx.operand(0)?, ctx.operand(1)?);
    if is_same(&x, &src) {
        return Ok(());
    }
    let mut copy = copy_if_overlapping(ctx, &x, &src)?;
    let src = copy.as_mut().map_or(src, Temporary::tensor);
    // SAFETY: x is an operand of the call that does not overlap itself, as the schema checks; src
    // is an operand that does not overlap x, or memory that the copy owns.
    unsafe { convert(ctx, src, x) }
}

/// `reshape(x; shape)`: the same elements in row-major order.
fn reshape(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let count = out.numel();
    let agree = x.numel() == count && x.dtype == out.dtype;
    ensure!(agree, "{x:?} to {out:?}: schema and kernel disagree");
    // SAFETY: operands of the call; the second is its output, and blocks of it are disjoint.
    let (x, out_elements) = unsafe { (Sequence::new(x), Sequence::new(out)) };
    dispatch!(out.dtype, T => {
        ctx.for_each(count.div_ceil(BLOCK), |block| {
            let mut buffer = [<T as Element>::ZERO; CHUNK];
            let end = count.min((block + 1) * BLOCK);
            for at in (block * BLOCK..end).step_by(CHUNK) {
                let part = &mut buffer[..CHUNK.min(end - at)];
                x.load(at, part);
                out_elements.store(at, part);
            }
        });
    });
    Ok(())
}

/// Returns a copy of `source` if it overlaps `target`, which the caller writes while it reads
/// `source`.
pub(crate) fn copy_if_overlapping(
    ctx: &KernelCtx<'_>,
    target: &RawTensor<'_>,
    source: &RawTensor<'_>,
) -> Result<Option<Temporary>> {
    if !may_overlap(target, source) {
        return Ok(None);
    }
    let mut copy = Temporary::new(source.dtype, source.shape)?;
    // SAFETY: an operand of the call, only read here, and memory that the copy owns.
    unsafe { convert(ctx, *source, copy.tensor()) }?;
    Ok(Some(copy))
}

/// `fill(x; value)`, and `full`, whose only operand is its output.
pub(crate) fn fill(ctx: &KernelCtx<'_>) -> Result<()> {
    let value =
        Scalar::of(ctx.attrs(), "value")?.context("value: missing; this argument is required")?;
    // SAFETY: the only operand of the call.
    unsafe { set(ctx, ctx.operand(0)?, value) }
}

/// Sets every element of `x` to a value.
///
/// # Safety
/// `x` is an operand of the call or memory that it alone uses, valid and aligned.
pub(crate) unsafe fn set(ctx: &KernelCtx<'_>, x: RawTensor<'_>, value: Scalar) -> Result<()> {
    // Several indices may name one element of x; all of them store the same value. Dimensions of
    // stride 0 are reduced to one element, so that no two threads write it.
    let shape: Vec<usize> =
        x.shape.iter().zip(x.strides).map(|(&d, &s)| if s == 0 { d.min(1) } else { d }).collect();
    let x = RawTensor { shape: &shape, ..x };
    // SAFETY: guaranteed by the caller. Where x overlaps itself it is filled on one thread.
    let all = unsafe { Loop::new(&shape, [x], Order::Any) }?;
    let block = if overlaps_itself(&x) { usize::MAX } else { BLOCK };
    dispatch!(x.dtype, T => {
        let value = from_scalar::<T>(value);
        all.for_each(ctx, block, |_| [value; CHUNK], |values, [x]| {
            for at in (0..x.len()).step_by(CHUNK) {
                x.store(at, &values[..CHUNK.min(x.len() - at)]);
            }
        });
    });
    Ok(())
}

fn overlaps_itself(x: &RawTensor<'_>) -> bool {
    // An operand has a valid layout; for any other, one thread is the safe choice.
    Layout::strided(x.shape, x.strides, 0).map_or(true, |l| l.may_overlap_itself())
}
