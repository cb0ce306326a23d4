//! Rearrangements and triangles: `flip`, `roll`, `triu`, `tril`.

use std::ffi::CString;

use anyhow::{Context, Result, ensure};
use millstream_ops::args::dimension;
use millstream_ops::rearrange::roll_start;

use super::native;
use super::strided::{StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use crate::context::KernelCtx;

pub(super) const KERNELS: &[super::Kernel] = &[
    ("flip", flip),
    ("roll", roll),
    ("triu", |ctx| triangle(ctx, true)),
    ("triu_", |ctx| triangle(ctx, true)),
    ("tril", |ctx| triangle(ctx, false)),
    ("tril_", |ctx| triangle(ctx, false)),
];

const REARRANGE: KernelTemplate = template!("rearrange");
const TRIANGLE: KernelTemplate = template!("triangle");

pub(super) fn sources() -> Vec<(String, CString)> {
    [REARRANGE.sized_sources(), TRIANGLE.sized_sources()].concat()
}

/// Rotates or reverses x. Along dimension k the result starts with element `starts[k]` of x; a
/// negative start reverses the dimension. `shift` rotates all elements as one row.
fn rearrange(ctx: &KernelCtx<'_>, shift: usize, starts: &[i64]) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let agree = x.shape == out.shape && x.dtype == out.dtype;
    ensure!(agree, "{x:?} to {out:?}: schema and kernel disagree");
    let integers: Vec<i64> = [shift as i64].into_iter().chain(starts.iter().copied()).collect();
    let args = StridedArgs::new(
        out.shape,
        StridedArgs::KEEP_DIMENSIONS,
        &[StridedOperand::new(x), StridedOperand::new(out)],
    )?;
    // SAFETY: the kernel writes the call's output and reads its input.
    unsafe { REARRANGE.launch_sized(native(ctx)?, out.dtype, args.integers(&integers)?) }
}

/// `flip(x; dims)`.
fn flip(ctx: &KernelCtx<'_>) -> Result<()> {
    let rank = ctx.operand(0)?.shape.len();
    let mut starts = vec![0; rank];
    for dim in ctx.attrs().ints("dims")?.unwrap_or_default() {
        if let Some(start) = starts.get_mut(dimension(dim, rank)?) {
            *start = -1;
        }
    }
    rearrange(ctx, 0, &starts)
}

/// `roll(x; shifts, dims)`.
fn roll(ctx: &KernelCtx<'_>) -> Result<()> {
    let x = ctx.operand(0)?;
    let shifts =
        ctx.attrs().ints("shifts")?.context("shifts: missing; this argument is required")?;
    let dims = ctx.attrs().ints("dims")?.unwrap_or_default();
    let mut starts = vec![0; x.shape.len()];
    if dims.is_empty() {
        let shift = shifts.first().map_or(0, |&shift| roll_start(x.numel(), shift));
        return rearrange(ctx, shift, &starts);
    }
    for (&dim, &shift) in dims.iter().zip(&shifts) {
        let dim = dimension(dim, x.shape.len())?;
        let length = x.shape[dim];
        starts[dim] = ((starts[dim] as usize + roll_start(length, shift)) % length.max(1)) as i64;
    }
    rearrange(ctx, 0, &starts)
}

/// `triu(x; diagonal)`, `tril`, and both in place. The result is the last operand; it may be x.
fn triangle(ctx: &KernelCtx<'_>, above: bool) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(ctx.operands() - 1)?);
    let diagonal = ctx.attrs().int("diagonal")?.unwrap_or(0);
    let &[.., rows, columns] = x.shape else {
        anyhow::bail!("{x:?} is not a matrix: schema and kernel disagree");
    };
    ensure!(x.shape == out.shape, "{x:?} to {out:?}: schema and kernel disagree");
    let integers = [rows as i64, columns as i64, diagonal, i64::from(above)];
    let args = StridedArgs::new(out.shape, 0, &[StridedOperand::new(x), StridedOperand::new(out)])?
        .integers(&integers)?;
    // SAFETY: the kernel writes the call's output and reads its input. If both are the same tensor,
    // a thread reads each element before it writes it.
    unsafe { TRIANGLE.launch_sized(native(ctx)?, out.dtype, args) }
}
