//! Kernels of `index_select` and `index_add`: an index for each slice of a dimension.

use anyhow::{Result, ensure};
use millstream_ops::args::Scalar;
use millstream_types::DType;

use super::{check, distances, has_wide_sums, with_wide};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::copy::copy_if_overlapping;
use crate::cpu::copy_primitives::COPY_PRIMITIVES;
use crate::cpu::element::{Element, dispatch, from_scalar};
use crate::cpu::indexed::{Axis, IndexedElements, even, gather, step};
use crate::cpu::memory::{Temporary, at_least_1d};
use crate::cpu::number::Number;
use crate::cpu::strided::{CHUNK, Sequence};
use crate::data_movement::{changed, required_dim};

/// Returns the axes of the indexed slices of `x`.
fn axes(ctx: &KernelCtx<'_>, x: &RawTensor<'_>, index: &RawTensor<'_>) -> Result<Vec<Axis>> {
    let dim = required_dim(ctx, x.shape.len())?;
    check(ctx, index, x.shape[dim], false)?;
    let axis = |(k, &length): (usize, &usize)| match k == dim {
        true => Ok(Axis::Table(distances(index, length, step(x, k))?)),
        false => Ok(even(x, k, length)),
    };
    x.shape.iter().enumerate().map(axis).collect()
}

/// `index_select(x, index; dim)`.
pub(super) fn index_select(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, index, out) = (at_least_1d(&ctx.operand(0)?), ctx.operand(1)?, ctx.operand(2)?);
    let axes = axes(ctx, &x, &index)?;
    // SAFETY: operands of the call, the last its output; the index is checked.
    unsafe { gather(ctx, x, axes, out) }
}

/// Adds alpha · source to the indexed slices of `x`.
fn add(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    index: RawTensor<'_>,
    source: RawTensor<'_>,
) -> Result<()> {
    ensure!(x.dtype == source.dtype, "{source:?} to {x:?}: schema and kernel disagree");
    let x = at_least_1d(&x);
    let axes = axes(ctx, &x, &index)?;
    let mut copy = copy_if_overlapping(ctx, &x, &source)?;
    let source = copy.as_mut().map_or(source, Temporary::tensor);
    let alpha = Scalar::of(ctx.attrs(), "alpha")?.unwrap_or(Scalar::Int(1));
    // SAFETY: operands of the call, or memory that the copy owns; the index is checked. The schema
    // refuses an x that overlaps itself, and everything runs on this thread.
    let (to, from) = unsafe { (IndexedElements::new(x, axes), Sequence::new(source)) };
    let count = source.numel();
    ensure!(count == to.count(), "{source:?} to {x:?}: schema and kernel disagree");
    dispatch!(x.dtype, T => {
        let alpha = from_scalar::<<T as Number>::Wide>(alpha);
        let mut buffer = [<T as Element>::ZERO; CHUNK];
        for at in (0..count).step_by(CHUNK) {
            let buffer = &mut buffer[..CHUNK.min(count - at)];
            from.load(at, buffer);
            to.update(at, buffer, |x: T, y: T| {
                T::narrow(T::plus(x.widen(), T::times(alpha, y.widen())))
            });
        }
    });
    Ok(())
}

/// `index_add(x, index, source; dim, alpha)`, and in place. As in PyTorch, sums of 16-bit floats
/// are rounded once where the call equals a `scatter_add`: with several dimensions and without a
/// factor. Otherwise each addition rounds.
pub(super) fn index_add(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let (x, _) = changed(ctx, in_place, &COPY_PRIMITIVES)?;
    let (index, source) = (ctx.operand(1)?, ctx.operand(2)?);
    if !is_scatter_add(ctx, &x)? || !has_wide_sums(x.dtype) {
        return add(ctx, x, index, source);
    }
    // SAFETY: operands of the call; the schema refuses an x that overlaps itself.
    unsafe { with_wide(ctx, DType::F32, x, source, |sums, source| add(ctx, sums, index, source)) }
}

/// Returns whether PyTorch computes an `index_add` as a `scatter_add`.
pub(crate) fn is_scatter_add(ctx: &KernelCtx<'_>, x: &RawTensor<'_>) -> Result<bool> {
    let factor = Scalar::of(ctx.attrs(), "alpha")?.map_or(1.0, from_scalar::<f64>);
    Ok(x.shape.len() > 1 && factor == 1.0)
}
