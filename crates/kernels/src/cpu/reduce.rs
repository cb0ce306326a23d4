//! Kernels of the reductions to sums, products, means, norms and booleans.

use anyhow::Result;
use millstream_ops::reduce::reduced;

use millstream_types::element::C128;

use super::complex_functions::{exp, log};
use super::compute::Compute;
use super::element::{Bool, Element, compute};
use super::pairwise::interleaved;
use super::real::reals;
use super::reduction::{Columns, Reduction, reduce_to};
use super::vectorised::vectorised;
use super::{Kernel, Written};
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

/// The kernels that the host runs for every device.
pub(crate) const ON_HOST: &[(Kernel, Written)] = &[(("hash_tensor", hash), Written::Last(1))];

/// Returns the number of elements that each result reduces.
fn length(ctx: &KernelCtx<'_>) -> Result<usize> {
    let x = ctx.operand(0)?;
    Ok(reduced(ctx.attrs(), x.shape.len())?.iter().map(|&d| x.shape[d]).product())
}

vectorised! {
    fn added<T: Compute>(values: &[T], _first: usize) -> T {
        interleaved(values, T::ZERO, T::plus, T::plus)
    }

    fn add_to_each<T: Compute>(sums: &mut [T], values: &[T]) {
        sums.iter_mut().zip(values).for_each(|(sum, &v)| *sum = sum.plus(v));
    }

    fn square_sum<T: Compute>(values: &[T]) -> T {
        interleaved(values, T::ZERO, |sum, v| sum.plus(v.times(v)), T::plus)
    }
}

/// Returns the reduction to the sum.
fn addition<T: Compute>() -> Reduction<'static, T, T> {
    let columns = Some(Columns { add: add_to_each::<T>, join: add_to_each::<T> });
    Reduction { columns, ..Reduction::new(T::ZERO, &added::<T>, &T::plus) }
}

/// The parts of a complex number, as a partial result.
type Parts = [f64; 2];

fn parts(v: C128) -> Parts {
    [v.re, v.im]
}

/// Sums complex numbers in f64, and multiplies the sums by a factor.
fn complex_sum(ctx: &KernelCtx<'_>, factor: f64) -> Result<()> {
    let plus = |a: C128, b: C128| a + b;
    let leaf = |values: &[C128], _: usize| parts(interleaved(values, C128::ZERO, plus, plus));
    let join = |a: Parts, b: Parts| [a[0] + b[0], a[1] + b[1]];
    let reduction = Reduction::new([0.0; 2], &leaf, &join);
    let dtype = ctx.operand(1)?.dtype;
    reduce_to(ctx, dtype, &reduction, &|[re, im]: Parts| C128::new(re, im) * factor)
}

fn complex_product(ctx: &KernelCtx<'_>) -> Result<()> {
    let times = |a: C128, b: C128| a * b;
    let one = C128::new(1.0, 0.0);
    let leaf = |values: &[C128], _: usize| parts(interleaved(values, one, times, times));
    let join = |a: Parts, b: Parts| parts(C128::new(a[0], a[1]) * C128::new(b[0], b[1]));
    let reduction = Reduction::new([1.0, 0.0], &leaf, &join);
    let dtype = ctx.operand(1)?.dtype;
    reduce_to(ctx, dtype, &reduction, &|[re, im]: Parts| C128::new(re, im))
}

fn sum(ctx: &KernelCtx<'_>) -> Result<()> {
    let dtype = ctx.operand(1)?.dtype;
    if dtype.is_complex() {
        return complex_sum(ctx, 1.0);
    }
    compute!(dtype, T => {
        reduce_to(ctx, dtype, &addition::<T>(), &|total: T| total)
    })
}

fn mean(ctx: &KernelCtx<'_>) -> Result<()> {
    let (dtype, length) = (ctx.operand(1)?.dtype, length(ctx)?);
    if dtype.is_complex() {
        return complex_sum(ctx, 1.0 / length as f64);
    }
    reals!(dtype, T => {
        reduce_to(ctx, dtype, &addition::<T>(), &|total: T| total / length as T)
    })
}

fn prod(ctx: &KernelCtx<'_>) -> Result<()> {
    let dtype = ctx.operand(1)?.dtype;
    if dtype.is_complex() {
        return complex_product(ctx);
    }
    compute!(dtype, T => {
        let leaf = |values: &[T], _: usize| interleaved(values, T::ONE, T::times, T::times);
        let reduction = Reduction::new(T::ONE, &leaf, &T::times);
        reduce_to(ctx, dtype, &reduction, &|total: T| total)
    })
}

/// Runs a reduction that depends on the number of nonzero elements and on the number of all.
fn counted(ctx: &KernelCtx<'_>, finish: fn(i64, i64) -> i64) -> Result<()> {
    let length = length(ctx)? as i64;
    let leaf = |values: &[Bool], _: usize| values.iter().map(|v| i64::from(v.get())).sum();
    let reduction = Reduction::new(0, &leaf, &|a: i64, b: i64| a + b);
    reduce_to(ctx, Bool::DTYPE, &reduction, &|count| finish(count, length))
}

/// `hash_tensor(x; dim, keepdim, mode)`.
fn hash(ctx: &KernelCtx<'_>) -> Result<()> {
    let dtype = ctx.operand(0)?.dtype;
    let join = |a: i64, b: i64| a ^ b;
    if dtype.is_float() {
        let leaf = |values: &[f64], _: usize| {
            values.iter().fold(0, |bits, v| bits ^ v.to_bits().cast_signed())
        };
        return reduce_to(ctx, dtype, &Reduction::new(0, &leaf, &join), &|bits: i64| bits);
    }
    let leaf = |values: &[i64], _: usize| values.iter().fold(0, |bits, v| bits ^ v);
    reduce_to(ctx, dtype, &Reduction::new(0, &leaf, &join), &|bits: i64| bits)
}

/// Reduces to the number, the mean, and the sum of squared differences from the mean. A leaf is
/// read twice.
///
/// Source of the combination: T. F. Chan, G. H. Golub, R. J. LeVeque, "Updating formulae and a
/// pairwise algorithm for computing sample variances", Stanford STAN-CS-79-773 (1979), equation
/// 2.1.
fn variance(ctx: &KernelCtx<'_>, finish: fn(f64) -> f64) -> Result<()> {
    let correction = ctx.attrs().float("correction")?.unwrap_or(1.0);
    let dtype = ctx.operand(0)?.dtype;
    if dtype.is_complex() {
        return complex_variance(ctx, correction, finish);
    }
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
    let reduction = Reduction::new([0.0; 3], &leaf, &join);
    reduce_to(ctx, dtype, &reduction, &|[count, _, squares]: [f64; 3]| {
        finish(squares / (count - correction).max(0.0))
    })
}

/// Reduces complex numbers as [`variance`] does: to the number, the parts of the mean, and the sum
/// of squared distances from the mean.
fn complex_variance(ctx: &KernelCtx<'_>, correction: f64, finish: fn(f64) -> f64) -> Result<()> {
    let leaf = |values: &[C128], _: usize| {
        let count = values.len() as f64;
        let plus = |a: C128, b: C128| a + b;
        let mean = interleaved(values, C128::ZERO, plus, plus) / count;
        let squares = values.iter().map(|v| (v - mean).norm_sqr()).sum();
        [count, mean.re, mean.im, squares]
    };
    let join = |a: [f64; 4], b: [f64; 4]| {
        let (count, apart) = (a[0] + b[0], [b[1] - a[1], b[2] - a[2]]);
        let square = apart[0] * apart[0] + apart[1] * apart[1];
        let mean = |k: usize| a[k + 1] + apart[k] * b[0] / count;
        [count, mean(0), mean(1), a[3] + b[3] + square * a[0] * b[0] / count]
    };
    let reduction = Reduction::new([0.0; 4], &leaf, &join);
    let dtype = ctx.operand(0)?.dtype;
    reduce_to(ctx, dtype, &reduction, &|[count, _, _, squares]: [f64; 4]| {
        finish(squares / (count - correction).max(0.0))
    })
}

/// Computes in f64, in which no square of an f32 overflows.
fn norm(ctx: &KernelCtx<'_>) -> Result<()> {
    let ord = ctx.attrs().float("ord")?.unwrap_or(2.0);
    let dtype = ctx.operand(1)?.dtype;
    let is_complex = ctx.operand(0)?.dtype.is_complex();
    type Join = fn(f64, f64) -> f64;
    let with = |empty: f64, leaf: fn(&[f64], f64) -> f64, join: Join, root: fn(f64, f64) -> f64| {
        if is_complex {
            let leaf = |values: &[C128], _: usize| {
                leaf(&values.iter().map(|v| v.norm()).collect::<Vec<f64>>(), ord)
            };
            let reduction = Reduction::new(empty, &leaf, &join);
            let dtype = dtype.complex();
            return reduce_to(ctx, dtype, &reduction, &|total| root(total, ord));
        }
        let leaf = |values: &[f64], _: usize| leaf(values, ord);
        let reduction = Reduction::new(empty, &leaf, &join);
        reduce_to(ctx, dtype, &reduction, &|total| root(total, ord))
    };
    let plus: Join = |a, b| a + b;
    if ord == 2.0 {
        with(0.0, |all, _| square_sum(all), plus, |v, _| v.sqrt())
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

/// As [`logsumexp`], of complex numbers: the greatest real part is subtracted.
fn complex_logsumexp(ctx: &KernelCtx<'_>) -> Result<()> {
    let shift = |greatest: f64| if greatest.is_infinite() { 0.0 } else { greatest };
    let leaf = |values: &[C128], _: usize| {
        let greatest = values.iter().fold(f64::LEAST, |most, v| most.greater(v.re));
        let sum: C128 = values.iter().map(|v| exp(v - shift(greatest))).sum();
        [greatest, sum.re, sum.im]
    };
    let join = |a: [f64; 3], b: [f64; 3]| {
        let greatest = a[0].greater(b[0]);
        let part = |p: [f64; 3]| match (p[1], p[2]) == (0.0, 0.0) {
            true => C128::ZERO,
            false => C128::new(p[1], p[2]) * (shift(p[0]) - shift(greatest)).exp(),
        };
        let sum = part(a) + part(b);
        [greatest, sum.re, sum.im]
    };
    let reduction = Reduction::new([f64::LEAST, 0.0, 0.0], &leaf, &join);
    let dtype = ctx.operand(1)?.dtype;
    reduce_to(ctx, dtype, &reduction, &|[greatest, re, im]: [f64; 3]| {
        log(C128::new(re, im)) + shift(greatest)
    })
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
    let reduction = Reduction::new((f64::LEAST, 0.0), &leaf, &join);
    let dtype = ctx.operand(1)?.dtype;
    if dtype.is_complex() {
        return complex_logsumexp(ctx);
    }
    reduce_to(ctx, dtype, &reduction, &|(greatest, sum)| sum.ln() + shift(greatest))
}
