//! Kernels of the reductions to sums, products, means, norms and booleans.

use anyhow::Result;
use millstream_ops::reduce::reduced;

use super::Kernel;
use super::compute::Compute;
use super::element::{Bool, Element, compute, float};
use super::pairwise::interleaved;
use super::reduction::{Reduction, reduce_to};
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[
    ("sum", sum),
    ("prod", prod),
    ("mean", mean),
    ("any", |ctx| counted(ctx, |count, _| i64::from(count > 0))),
    ("all", |ctx| counted(ctx, |count, length| i64::from(count == length))),
    ("count_nonzero", |ctx| counted(ctx, |count, _| count)),
    ("var", |ctx| variance(ctx, |variance| variance)),
    ("std", |ctx| variance(ctx, f64::sqrt)),
    ("linalg_vector_norm", norm),
    ("logsumexp", logsumexp),
];

/// Returns the number of elements that each result reduces.
fn length(ctx: &KernelCtx<'_>) -> Result<usize> {
    let x = ctx.operand(0)?;
    Ok(reduced(ctx.attrs(), x.shape.len())?.iter().map(|&d| x.shape[d]).product())
}

fn added<T: Compute>(values: &[T], _: usize) -> T {
    interleaved(values, T::ZERO, T::plus, T::plus)
}

fn sum(ctx: &KernelCtx<'_>) -> Result<()> {
    let dtype = ctx.operand(1)?.dtype;
    compute!(dtype, T => {
        let reduction = Reduction { empty: T::ZERO, leaf: &added::<T>, join: &T::plus };
        reduce_to(ctx, dtype, &reduction, &|total: T| total)
    })
}

fn mean(ctx: &KernelCtx<'_>) -> Result<()> {
    let (dtype, length) = (ctx.operand(1)?.dtype, length(ctx)?);
    float!(dtype, T => {
        let reduction = Reduction { empty: T::ZERO, leaf: &added::<T>, join: &T::plus };
        reduce_to(ctx, dtype, &reduction, &|total: T| total / length as T)
    })
}

fn prod(ctx: &KernelCtx<'_>) -> Result<()> {
    let dtype = ctx.operand(1)?.dtype;
    compute!(dtype, T => {
        let leaf = |values: &[T], _: usize| interleaved(values, T::ONE, T::times, T::times);
        let reduction = Reduction { empty: T::ONE, leaf: &leaf, join: &T::times };
        reduce_to(ctx, dtype, &reduction, &|total: T| total)
    })
}

/// Runs a reduction that depends on the number of nonzero elements and on the number of all.
fn counted(ctx: &KernelCtx<'_>, finish: fn(i64, i64) -> i64) -> Result<()> {
    let length = length(ctx)? as i64;
    let leaf = |values: &[Bool], _: usize| values.iter().map(|v| i64::from(v.get())).sum();
    let reduction = Reduction { empty: 0, leaf: &leaf, join: &|a: i64, b: i64| a + b };
    reduce_to(ctx, Bool::DTYPE, &reduction, &|count| finish(count, length))
}

/// Reduces to the number, the mean, and the sum of squared differences from the mean. A leaf is
/// read twice.
///
/// Source of the combination: T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a
/// pairwise algorithm for computing sample variances", Stanford STAN-CS-79-773 (1979), equation
/// 2.1.
fn variance(ctx: &KernelCtx<'_>, finish: fn(f64) -> f64) -> Result<()> {
    let correction = ctx.attrs().float("correction")?.unwrap_or(1.0);
    let leaf = |values: &[f64], _: usize| {
        let count = values.len() as f64;
        let mean = interleaved(values, 0.0, |s, v| s + v, |a, b| a + b) / count;
        let squares = interleaved(values, 0.0, |s, v| s + (v - mean) * (v - mean), |a, b| a + b);
        [count, mean, squares]
    };
    let join = |a: [f64; 3], b: [f64; 3]| {
        let (count, apart) = (a[0] + b[0], b[1] - a[1]);
        let mean = a[1] + apart * b[0] / count;
        [count, mean, a[2] + b[2] + apart * apart * a[0] * b[0] / count]
    };
    let reduction = Reduction { empty: [0.0; 3], leaf: &leaf, join: &join };
    reduce_to(ctx, ctx.operand(0)?.dtype, &reduction, &|[count, _, squares]: [f64; 3]| {
        finish(squares / (count - correction).max(0.0))
    })
}

/// Computes in f64, in which no square of an f32 overflows.
fn norm(ctx: &KernelCtx<'_>) -> Result<()> {
    let ord = ctx.attrs().float("ord")?.unwrap_or(2.0);
    let dtype = ctx.operand(1)?.dtype;
    type Join = fn(f64, f64) -> f64;
    let with = |empty: f64, leaf: fn(&[f64], f64) -> f64, join: Join, root: fn(f64, f64) -> f64| {
        let leaf = |values: &[f64], _: usize| leaf(values, ord);
        let reduction = Reduction { empty, leaf: &leaf, join: &join };
        reduce_to(ctx, dtype, &reduction, &|total| root(total, ord))
    };
    let plus: Join = |a, b| a + b;
    if ord == 2.0 {
        with(
            0.0,
            |all, _| interleaved(all, 0.0, |s, v| s + v * v, |a, b| a + b),
            plus,
            |v, _| v.sqrt(),
        )
    } else if ord == 1.0 {
        with(0.0, |all, _| interleaved(all, 0.0, |s, v| s + v.abs(), |a, b| a + b), plus, |v, _| v)
    } else if ord == 0.0 {
        with(0.0, |all, _| all.iter().map(|v| f64::from_bool(*v != 0.0)).sum(), plus, |v, _| v)
    } else if ord == f64::INFINITY {
        let leaf = |all: &[f64], _| interleaved(all, 0.0, |s, v| v.abs().greater(s), f64::greater);
        with(0.0, leaf, f64::greater, |v, _| v)
    } else if ord == f64::NEG_INFINITY {
        let leaf =
            |all: &[f64], _| interleaved(all, f64::INFINITY, |s, v| v.abs().lesser(s), f64::lesser);
        with(f64::INFINITY, leaf, f64::lesser, |v, _| v)
    } else {
        let leaf =
            |all: &[f64], ord| interleaved(all, 0.0, |s, v| s + v.abs().powf(ord), |a, b| a + b);
        with(0.0, leaf, plus, |v, ord| v.powf(1.0 / ord))
    }
}

/// Reduces to the maximum and the sum of the exponentials of the differences from it, so that no
/// exponential overflows.
fn logsumexp(ctx: &KernelCtx<'_>) -> Result<()> {
    // An infinite maximum is not subtracted: infinity minus itself is NaN.
    let shift = |greatest: f64| if greatest.is_infinite() { 0.0 } else { greatest };
    let leaf = |values: &[f64], _: usize| {
        let greatest = interleaved(values, f64::LEAST, f64::greater, f64::greater);
        let shift = shift(greatest);
        let sum = interleaved(values, 0.0, |s, v| s + (v - shift).exp(), |a, b| a + b);
        (greatest, sum)
    };
    let join = |a: (f64, f64), b: (f64, f64)| {
        let greatest = a.0.greater(b.0);
        let part = |p: (f64, f64)| {
            if p.1 == 0.0 { 0.0 } else { p.1 * (shift(p.0) - shift(greatest)).exp() }
        };
        (greatest, part(a) + part(b))
    };
    let reduction = Reduction { empty: (f64::LEAST, 0.0), leaf: &leaf, join: &join };
    let dtype = ctx.operand(1)?.dtype;
    reduce_to(ctx, dtype, &reduction, &|(greatest, sum)| sum.ln() + shift(greatest))
}
