//! Kernels of positions in sorted sequences, histograms, distinct and frequent elements.

use std::cmp::Ordering;

use anyhow::{Result, ensure};
use millstream_ops::args::{Scalar, dimension};
use millstream_ops::counting::range;
use millstream_ops::promotion::promote;
use millstream_types::DType;

use super::compute::Compute;
use super::element::{Bool, Element, compute};
use super::lines::with_last;
use super::memory::expect_dtype;
use super::sort::Compare;
use super::strided::{CHUNK, Sequence, load_all, store_all};
use super::{Kernel, Written};
use crate::context::{KernelCtx, RawTensor};

/// The kernels, with the operands that they write.
pub(crate) const KERNELS: &[(Kernel, Written)] = &[
    (("searchsorted", search), Written::Last(1)),
    (("histc", histogram), Written::Last(1)),
    (("mode", mode), Written::Last(2)),
    (("nonzero_static", nonzero), Written::Last(1)),
];

/// `searchsorted(sorted, x; right, out_int32)`.
fn search(ctx: &KernelCtx<'_>) -> Result<()> {
    let (sorted, x, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let right = ctx.attrs().bool("right")?.unwrap_or(false);
    let length = sorted.shape.last().copied().unwrap_or(0);
    // The numbers of x beside each sequence.
    let width = match sorted.shape.len() {
        1 => x.numel(),
        _ => x.shape.last().copied().unwrap_or(1),
    };
    ensure!(x.shape == out.shape, "{x:?} to {out:?}: schema and kernel disagree");
    let common = promote(sorted.dtype, x.dtype)?;
    // SAFETY: operands of the call; blocks of the output are disjoint.
    let (sequences, from, to) =
        unsafe { (Sequence::new(sorted), Sequence::new(x), Sequence::new(out)) };
    compute!(common, T => {
        let lines = x.numel().checked_div(width).unwrap_or(0);
        ctx.for_each(lines, |line| {
            let mut sequence = vec![<T as Element>::ZERO; length];
            sequences.load(line * length, &mut sequence);
            let mut buffer = [<T as Element>::ZERO; CHUNK];
            for at in (0..width).step_by(CHUNK) {
                let part = &mut buffer[..CHUNK.min(width - at)];
                from.load(line * width + at, part);
                let found: Vec<i64> = part.iter().map(|v| position(&sequence, *v, right)).collect();
                to.store(line * width + at, &found);
            }
        });
    });
    Ok(())
}

/// Returns the number of elements that come before `v`. No number is greater than or equal to NaN,
/// and NaN to no number, so NaN comes last.
fn position<T: Compute>(sorted: &[T], v: T, right: bool) -> i64 {
    let after = |x: &T| if right { *x > v } else { *x >= v };
    sorted.partition_point(|x| !after(x)) as i64
}

/// `histc(x; bins, min, max)`.
fn histogram(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let bins = out.numel();
    let bound = |name| Ok::<f64, anyhow::Error>(range(Scalar::of(ctx.attrs(), name)?));
    let (mut least, mut most) = (bound("min")?, bound("max")?);
    // f16 and bf16 are computed in f32, f64 and integers in f64.
    let narrow = matches!(x.dtype, DType::F32 | DType::F16 | DType::BF16);
    let values: Vec<f64> = load_all(x);
    if least == most && !values.is_empty() {
        least = values.iter().copied().fold(f64::INFINITY, f64::min);
        most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    }
    if least == most {
        (least, most) = (least - 1.0, most + 1.0);
    }
    ensure!(
        least.is_finite() && most.is_finite(),
        "expected a finite range, got {least} to {most}"
    );
    let mut counts = vec![0f64; bins];
    for v in values.into_iter().filter(|v| (least..=most).contains(v)) {
        let share = match narrow {
            true => {
                f64::from((v as f32 - least as f32) / (most as f32 - least as f32) * bins as f32)
            }
            false => (v - least) / (most - least) * bins as f64,
        };
        counts[(share as usize).min(bins - 1)] += 1.0;
    }
    store_all(out, &counts)
}

/// `mode(x; dim, keepdim)`.
fn mode(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, values, indices) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let dim = dimension(ctx.attrs().int("dim")?.unwrap_or(-1), x.shape.len())?;
    let (shape, strides) = (with_last(x.shape, dim), with_last(x.strides, dim));
    let length = shape.last().copied().unwrap_or(1);
    let lines = values.numel();
    ensure!(lines * length == x.numel(), "{x:?} to {values:?}: schema and kernel disagree");
    // SAFETY: operands of the call; each line's results are stored by one thread.
    let (from, values, indices) = unsafe {
        let from = RawTensor { shape: &shape, strides: &strides, ..x };
        (Sequence::new(from), Sequence::new(values), Sequence::new(indices))
    };
    compute!(x.dtype, T => {
        ctx.for_each(lines, |line| {
            let mut row = vec![<T as Element>::ZERO; length];
            from.load(line * length, &mut row);
            let mut order: Vec<usize> = (0..length).collect();
            order.sort_by(|&a, &b| row[a].compare(row[b]));
            // The sort is stable, so a run of equal elements starts with the first of them.
            let (mut best, mut most, mut start) = (order[0], 0, 0);
            for (k, &at) in order.iter().enumerate() {
                if row[order[start]].compare(row[at]) != Ordering::Equal {
                    start = k;
                }
                if k + 1 - start > most {
                    (best, most) = (order[start], k + 1 - start);
                }
            }
            values.store(line, &[row[best]]);
            indices.store(line, &[best as i64]);
        });
    });
    Ok(())
}

/// `nonzero_static(x; size, fill_value)`.
fn nonzero(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    expect_dtype(&out, DType::I64)?;
    let fill = ctx.attrs().int("fill_value")?.unwrap_or(-1);
    let rank = x.shape.len();
    let mut found = vec![fill; out.numel()];
    let size = out.shape[0];
    let nonzero: Vec<bool> = load_all::<Bool>(x).into_iter().map(Bool::get).collect();
    let positions = nonzero.iter().enumerate().filter(|(_, v)| **v).map(|(at, _)| at);
    for (row, at) in positions.take(size).enumerate() {
        let mut rest = at;
        for (k, &length) in x.shape.iter().enumerate().rev() {
            found[row * rank + k] = (rest % length) as i64;
            rest /= length;
        }
    }
    store_all(out, &found)
}
