//! Kernels of the ops in `millstream_ops::softmax`, by line.

use anyhow::{Context, Result};
use millstream_ops::args::dimension;

use super::Kernel;
use super::function::{LANES, two};
use super::lines::Lines;
use super::pairwise::pairwise_sum;
use super::real::{Real, reals};
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[
    ("_softmax", softmax),
    ("_log_softmax", log_softmax),
    ("_softmax_backward_data", softmax_backward),
    ("_log_softmax_backward_data", log_softmax_backward),
];

fn lines(ctx: &KernelCtx<'_>, shape: &[usize]) -> Result<Lines> {
    let dim = ctx.attrs().int("dim")?.context("dim: missing; this argument is required")?;
    Ok(Lines::new(shape, dimension(dim, shape.len())?))
}

/// Replaces each value by the exponential of its difference from the maximum; returns the maximum
/// and the sum.
pub(crate) fn exponentials<T: Real>(line: &mut [T]) -> (T, T) {
    let greatest = greatest(line);
    two(|x: T, y: T| (x - y).exp()).replace(line, greatest);
    (greatest, pairwise_sum(line))
}

/// Returns the greatest value; NaN if one is NaN.
fn greatest<T: Real>(line: &[T]) -> T {
    let (blocks, rest) = line.as_chunks::<LANES>();
    let mut lanes = [-T::INFINITY; LANES];
    for block in blocks {
        for (m, &v) in lanes.iter_mut().zip(block) {
            *m = v.greater(*m);
        }
    }
    rest.iter().chain(&lanes).fold(-T::INFINITY, |m, &v| v.greater(m))
}

/// `_softmax(x; dim, half_to_float)`.
fn softmax(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let lines = lines(ctx, x.shape)?;
    // SAFETY: operands of the call; the last is its output.
    reals!(x.dtype, T => unsafe {
        lines.map(ctx, [x], out, |[x]: [&mut [T]; 1]| {
            let (_, sum) = exponentials(x);
            x.iter_mut().for_each(|v| *v /= sum);
        })
    })
}

/// `_log_softmax(x; dim, half_to_float)`.
fn log_softmax(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let lines = lines(ctx, x.shape)?;
    // SAFETY: as for `softmax`. The second buffer of x holds the exponentials.
    reals!(x.dtype, T => unsafe {
        lines.map(ctx, [x, x], out, |[x, spare]: [&mut [T]; 2]| {
            let (greatest, sum) = exponentials(spare);
            let log = sum.ln();
            x.iter_mut().for_each(|v| *v = *v - greatest - log);
        })
    })
}

/// `_softmax_backward_data(grad, output; dim, input_dtype)`.
fn softmax_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, y, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let lines = lines(ctx, y.shape)?;
    // SAFETY: as for `softmax`.
    reals!(y.dtype, T => unsafe {
        lines.map(ctx, [grad, y], out, |[grad, y]: [&mut [T]; 2]| {
            grad.iter_mut().zip(&*y).for_each(|(g, &y)| *g *= y);
            let sum = pairwise_sum(grad);
            grad.iter_mut().zip(&*y).for_each(|(g, &y)| *g -= y * sum);
        })
    })
}

/// `_log_softmax_backward_data(grad, output; dim, input_dtype)`.
fn log_softmax_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, y, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let lines = lines(ctx, y.shape)?;
    // SAFETY: as for `softmax`.
    reals!(y.dtype, T => unsafe {
        lines.map(ctx, [grad, y], out, |[grad, y]: [&mut [T]; 2]| {
            let sum = pairwise_sum(grad);
            grad.iter_mut().zip(&*y).for_each(|(g, &y)| *g -= y.exp() * sum);
        })
    })
}
