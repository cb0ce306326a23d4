//! Kernels of flips, rolls and triangles.

use anyhow::{Context, Result, ensure};
use millstream_ops::args::dimension;
use millstream_ops::rearrange::roll_start;

use super::Kernel;
use super::element::{Element, moved};
use super::indexed::{Axis, even, gather, in_chunks, step};
use super::memory::bits;
use super::strided::{CHUNK, Sequence};
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[
    ("flip", flip),
    ("roll", roll),
    ("triu", triu),
    ("tril", tril),
    ("triu_", triu),
    ("tril_", tril),
];

/// Copies element `source(k, i)` of dimension `k` of x to element `i` of the result, in every
/// dimension; `None` keeps the order of the dimension.
fn rearrange(ctx: &KernelCtx<'_>, source: impl Fn(usize, usize) -> Option<usize>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let agree = x.shape == out.shape && x.dtype == out.dtype;
    ensure!(agree, "{x:?} to {out:?}: schema and kernel disagree");
    let axis = |(k, &length): (usize, &usize)| {
        let step = step(&x, k);
        let offsets: Option<Vec<usize>> = (0..length)
            .map(|i| Some(source(k, i).filter(|&i| i < length)?.wrapping_mul(step)))
            .collect();
        offsets.map_or_else(|| even(&x, k, length), Axis::Table)
    };
    // SAFETY: operands of the call, the second its output; the offsets are in range.
    unsafe { gather(ctx, x, x.shape.iter().enumerate().map(axis), out) }
}

/// `flip(x; dims)`.
fn flip(ctx: &KernelCtx<'_>) -> Result<()> {
    let shape = ctx.operand(0)?.shape;
    let dims = ctx.attrs().ints("dims")?.unwrap_or_default();
    let dims: Result<Vec<usize>> =
        dims.iter().map(|&dim| Ok(dimension(dim, shape.len())?)).collect();
    let dims = dims?;
    rearrange(ctx, |k, i| dims.contains(&k).then(|| shape[k] - 1 - i))
}

/// `roll(x; shifts, dims)`.
fn roll(ctx: &KernelCtx<'_>) -> Result<()> {
    let x = ctx.operand(0)?;
    let shifts =
        ctx.attrs().ints("shifts")?.context("shifts: missing; this argument is required")?;
    let dims = ctx.attrs().ints("dims")?.unwrap_or_default();
    if dims.is_empty() {
        return roll_as_row(ctx, roll_start(x.numel(), shifts[0]));
    }
    let mut starts = vec![0; x.shape.len()];
    for (&dim, &shift) in dims.iter().zip(&shifts) {
        let dim = dimension(dim, x.shape.len())?;
        starts[dim] = (starts[dim] + roll_start(x.shape[dim], shift)) % x.shape[dim].max(1);
    }
    rearrange(ctx, |k, i| (starts[k] > 0).then(|| (starts[k] + i) % x.shape[k]))
}

/// Copies the elements from number `start` on in row-major order, then the elements before it.
fn roll_as_row(ctx: &KernelCtx<'_>, start: usize) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    ensure!(x.shape == out.shape, "{x:?} to {out:?}: schema and kernel disagree");
    let count = x.numel();
    // SAFETY: operands of the call; the second is its output, and blocks of it are disjoint.
    let (from, to) = unsafe { (Sequence::new(bits(&x)), Sequence::new(bits(&out))) };
    moved!(x.dtype, T => {
        in_chunks(ctx, count, || [<T as Element>::ZERO; CHUNK], |buffer, at, part| {
            let buffer = &mut buffer[..part];
            let source = (start + at) % count;
            let (before, wrapped) = buffer.split_at_mut(buffer.len().min(count - source));
            from.load(source, before);
            from.load(0, wrapped);
            to.store(at, buffer);
        });
    });
    Ok(())
}

/// `triu(x; diagonal)` and `triu_`.
fn triu(ctx: &KernelCtx<'_>) -> Result<()> {
    triangle(ctx, |across, diagonal| across >= diagonal)
}

/// `tril(x; diagonal)` and `tril_`.
fn tril(ctx: &KernelCtx<'_>) -> Result<()> {
    triangle(ctx, |across, diagonal| across <= diagonal)
}

/// Keeps the elements of each matrix for which `keeps(column - row, diagonal)` is true and sets the
/// others to zero. The result is the last operand, which may be x itself.
fn triangle(ctx: &KernelCtx<'_>, keeps: impl Fn(i64, i64) -> bool + Sync + Send) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(ctx.operands() - 1)?);
    let diagonal = ctx.attrs().int("diagonal")?.unwrap_or(0);
    let &[.., rows, columns] = x.shape else {
        anyhow::bail!("{x:?}: no matrix: schema and kernel disagree");
    };
    ensure!(x.shape == out.shape, "{x:?} to {out:?}: schema and kernel disagree");
    let count = x.numel();
    // SAFETY: operands of the call; the last is its output, or x itself, which does not overlap
    // itself, as the schema checks. Blocks of it are disjoint.
    let (from, to) = unsafe { (Sequence::new(bits(&x)), Sequence::new(bits(&out))) };
    moved!(x.dtype, T => {
        in_chunks(ctx, count, || [<T as Element>::ZERO; CHUNK], |buffer, at, part| {
            let buffer = &mut buffer[..part];
            from.load(at, buffer);
            let (mut row, mut column) = (at / columns % rows, at % columns);
            for v in buffer.iter_mut() {
                if !keeps(column as i64 - row as i64, diagonal) {
                    *v = <T as Element>::ZERO;
                }
                column += 1;
                if column == columns {
                    (row, column) = ((row + 1) % rows, 0);
                }
            }
            to.store(at, buffer);
        });
    });
    Ok(())
}
