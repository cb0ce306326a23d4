//! Kernels of the ops in `millstream_ops::softmax`, by line.

use anyhow::{Context, Result};
use millstream_ops::args::dimension;

use super::Kernel;
use super::function::LANES;
use super::lines::Lines;
use super::pairwise::sum_of;
use super::real::{Real, reals};
use super::vectorised::vectorised;
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[
    ("_softmax", softmax),
    ("_log_softmax", log_softmax),
    ("_softmax_backward_data", softmax_backward),
    ("_log_softmax_backward_data", log_softmax_backward),
];

/// The number of values of a long line that are compared at once: each comparison waits for the one
/// before it.
const ABREAST: usize = 64;

fn lines(ctx: &KernelCtx<'_>, shape: &[usize]) -> Result<Lines> {
    let dim = ctx.attrs().int("dim")?.context("dim: missing; this argument is required")?;
    Ok(Lines::new(shape, dimension(dim, shape.len())?))
}

vectorised! {
    fn softmax_line<T: Real>(x: &[T], out: &mut [T]) {
        let greatest = greatest(x);
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = (x - greatest).exp());
        let sum = sum_of([&*out], |[v]| v);
        out.iter_mut().for_each(|v| *v /= sum);
    }

    fn log_softmax_line<T: Real>(x: &[T], out: &mut [T]) {
        let greatest = greatest(x);
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = (x - greatest).exp());
        let log = sum_of([&*out], |[v]| v).ln();
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = x - greatest - log);
    }

    fn softmax_line_backward<T: Real>(grad: &[T], y: &[T], out: &mut [T]) {
        let sum = sum_of([grad, y], |[g, y]| g * y);
        for ((out, &g), &y) in out.iter_mut().zip(grad).zip(y) {
            *out = g * y - y * sum;
        }
    }

    fn log_softmax_line_backward<T: Real>(grad: &[T], y: &[T], out: &mut [T]) {
        let sum = sum_of([grad], |[v]| v);
        for ((out, &g), &y) in out.iter_mut().zip(grad).zip(y) {
            *out = g - y.exp() * sum;
        }
    }
}

/// Returns the greatest value; NaN if one is NaN.
#[inline(always)]
fn greatest<T: Real>(line: &[T]) -> T {
    match line.len() < 8 * ABREAST {
        true => greatest_of_lanes::<T, LANES>(line),
        false => greatest_of_lanes::<T, ABREAST>(line),
    }
}

#[inline(always)]
fn greatest_of_lanes<T: Real, const N: usize>(line: &[T]) -> T {
    let (blocks, rest) = line.as_chunks::<N>();
    let mut lanes = [-T::INFINITY; N];
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
    // SAFETY: operands of the call; the last is its output, which is new.
    reals!(x.dtype, T => unsafe {
        lines.map(ctx, [x], out, |[x]: [&[T]; 1], out| softmax_line(x, out))
    })
}

/// `_log_softmax(x; dim, half_to_float)`.
fn log_softmax(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let lines = lines(ctx, x.shape)?;
    // SAFETY: as for `softmax`.
    reals!(x.dtype, T => unsafe {
        lines.map(ctx, [x], out, |[x]: [&[T]; 1], out| log_softmax_line(x, out))
    })
}

/// `_softmax_backward_data(grad, output; dim, input_dtype)`.
fn softmax_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, y, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let lines = lines(ctx, y.shape)?;
    // SAFETY: as for `softmax`.
    reals!(y.dtype, T => unsafe {
        lines.map(ctx, [grad, y], out, |[grad, y]: [&[T]; 2], out| {
            softmax_line_backward(grad, y, out);
        })
    })
}

/// `_log_softmax_backward_data(grad, output; dim, input_dtype)`.
fn log_softmax_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, y, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let lines = lines(ctx, y.shape)?;
    // SAFETY: as for `softmax`.
    reals!(y.dtype, T => unsafe {
        lines.map(ctx, [grad, y], out, |[grad, y]: [&[T]; 2], out| {
            log_softmax_line_backward(grad, y, out);
        })
    })
}
