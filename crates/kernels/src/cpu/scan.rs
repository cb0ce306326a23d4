//! Kernels of cumulative sums and products.

use anyhow::{Result, ensure};
use millstream_types::element::C128;

use super::complex_functions::log_sum;
use super::compute::Compute;
use super::copy::convert;
use super::element::{Element, compute};
use super::indexed::in_ranges;
use super::lines::with_last;
use super::strided::{CHUNK, Sequence};
use super::{Kernel, Written};
use crate::context::{KernelCtx, RawTensor};
use crate::data_movement::required_dim;

pub(crate) const KERNELS: &[Kernel] = &[
    ("cumsum", |ctx| {
        let complex: Step<C128> = (C128::new(0.0, 0.0), |a, b| a + b);
        scan(ctx, (0.0, |a, b| a + b), (0, i64::wrapping_add), complex)
    }),
    ("cumprod", |ctx| {
        let complex: Step<C128> = (C128::new(1.0, 0.0), |a, b| a * b);
        scan(ctx, (1.0, |a, b| a * b), (1, i64::wrapping_mul), complex)
    }),
];

/// The kernels that the host runs for every device, with the operands that they write.
pub(crate) const ON_HOST: &[(Kernel, Written)] = &[
    (("logcumsumexp", log_sums), Written::Last(1)),
    (("cummax", |ctx| extrema(ctx, true)), Written::Last(2)),
    (("cummin", |ctx| extrema(ctx, false)), Written::Last(2)),
];

/// `logcumsumexp(x; dim)`: adds to the logarithm of the sum so far.
fn log_sums(ctx: &KernelCtx<'_>) -> Result<()> {
    let add = |a: f64, b: f64| {
        let (least, most) = if a < b { (a, b) } else { (b, a) };
        if a.is_nan() || b.is_nan() {
            f64::NAN
        } else if most.is_infinite() {
            most
        } else {
            most + (least - most).exp().ln_1p()
        }
    };
    let complex: Step<C128> = (C128::new(f64::NEG_INFINITY, 0.0), log_sum);
    scan(ctx, (f64::NEG_INFINITY, add), (0, i64::wrapping_add), complex)
}

/// `cummax(x; dim)` and `cummin(x; dim)`.
fn extrema(ctx: &KernelCtx<'_>, greatest: bool) -> Result<()> {
    let (x, values, indices) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let agree = x.shape == values.shape && x.shape == indices.shape;
    ensure!(agree, "{x:?} to {values:?}: schema and kernel disagree");
    let dim = required_dim(ctx, x.shape.len())?;
    let shape = with_last(x.shape, dim);
    let strides = [x, values, indices].map(|t| with_last(t.strides, dim));
    // SAFETY: operands of the call with permuted dimensions; each line is stored by one thread.
    let sequences = unsafe {
        let of = |t: RawTensor<'_>, k: usize| {
            Sequence::new(RawTensor { shape: &shape, strides: &strides[k], ..t })
        };
        [of(x, 0), of(values, 1), of(indices, 2)]
    };
    let count: usize = shape.iter().product();
    let length = shape.last().copied().unwrap_or(1).max(1);
    let [from, values, indices] = &sequences;
    compute!(x.dtype, T => {
        ctx.for_each(count / length, |line| {
            let mut row = vec![<T as Element>::ZERO; length];
            from.load(line * length, &mut row);
            let (mut best, mut at) = (row[0], 0i64);
            let mut positions = vec![0i64; length];
            for (k, v) in row.iter_mut().enumerate() {
                let extreme = if greatest { *v >= best } else { *v <= best };
                if v.unordered() || (!best.unordered() && extreme) {
                    (best, at) = (*v, k as i64);
                }
                *v = best;
                positions[k] = at;
            }
            values.store(line * length, &row);
            indices.store(line * length, &positions);
        });
    });
    Ok(())
}

/// The initial value of a scan, and the function that adds an element.
type Step<T> = (T, fn(T, T) -> T);

fn scan(
    ctx: &KernelCtx<'_>,
    floats: Step<f64>,
    ints: Step<i64>,
    complex: Step<C128>,
) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    ensure!(x.shape == out.shape, "{x:?} to {out:?}: schema and kernel disagree");
    let dim = required_dim(ctx, x.shape.len())?;
    let from = if x.dtype == out.dtype {
        x
    } else {
        // SAFETY: an operand of the call and its output. The scan then reads each element of the
        // output before it overwrites it.
        unsafe { convert(ctx, x, out) }?;
        out
    };
    if out.dtype.is_float() {
        lines(ctx, from, out, dim, floats);
    } else if out.dtype.is_complex() {
        lines(ctx, from, out, dim, complex);
    } else {
        lines(ctx, from, out, dim, ints);
    }
    Ok(())
}

/// Scans all lines along a dimension, each from start to end.
fn lines<T: Element>(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    out: RawTensor<'_>,
    dim: usize,
    (start, step): Step<T>,
) {
    let (shape, x_strides, strides) =
        (with_last(x.shape, dim), with_last(x.strides, dim), with_last(out.strides, dim));
    // SAFETY: operands of the call with permuted dimensions; lines are disjoint, and each is
    // written by one thread.
    let (x, out) = unsafe {
        (
            Sequence::new(RawTensor { shape: &shape, strides: &x_strides, ..x }),
            Sequence::new(RawTensor { shape: &shape, strides: &strides, ..out }),
        )
    };
    let count: usize = shape.iter().product();
    let length = shape.last().copied().unwrap_or(1).max(1);
    in_ranges(ctx, count / length, length, |lines| {
        let mut buffer = [T::ZERO; CHUNK];
        for line in lines {
            let mut total = start;
            for at in (0..length).step_by(CHUNK) {
                let part = &mut buffer[..CHUNK.min(length - at)];
                x.load(line * length + at, part);
                for v in part.iter_mut() {
                    total = step(total, *v);
                    *v = total;
                }
                out.store(line * length + at, part);
            }
        }
    });
}
