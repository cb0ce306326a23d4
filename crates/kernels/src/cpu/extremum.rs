//! Kernels of maxima and minima, and of their indices.

use anyhow::Result;

use super::Kernel;
use super::compute::Compute;
use super::element::compute;
use super::pairwise::interleaved;
use super::reduction::{Reduction, reduce, reduce_to};
use super::strided::Sequence;
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[
    ("amax", |ctx| values(ctx, true)),
    ("amin", |ctx| values(ctx, false)),
    ("max", |ctx| both(ctx, true)),
    ("min", |ctx| both(ctx, false)),
    ("argmax", |ctx| indices(ctx, true, None, Some(1))),
    ("argmin", |ctx| indices(ctx, false, None, Some(1))),
];

fn values(ctx: &KernelCtx<'_>, greatest: bool) -> Result<()> {
    let dtype = ctx.operand(0)?.dtype;
    compute!(dtype, T => {
        let leaf = |values: &[T], _: usize| match greatest {
            true => interleaved(values, T::LEAST, T::greater, T::greater),
            false => interleaved(values, T::GREATEST, T::lesser, T::lesser),
        };
        let (empty, join): (T, fn(T, T) -> T) = match greatest {
            true => (T::LEAST, T::greater),
            false => (T::GREATEST, T::lesser),
        };
        reduce_to(ctx, dtype, &Reduction { empty, leaf: &leaf, join: &join }, &|total: T| total)
    })
}

/// Without a dimension there is only a value; with one, also its index.
fn both(ctx: &KernelCtx<'_>, greatest: bool) -> Result<()> {
    match ctx.operands() {
        2 => values(ctx, greatest),
        _ => indices(ctx, greatest, Some(1), Some(2)),
    }
}

/// Stores values and indices to the operands at these positions.
fn indices(
    ctx: &KernelCtx<'_>,
    greatest: bool,
    values: Option<usize>,
    indices: Option<usize>,
) -> Result<()> {
    let output = |number: Option<usize>| {
        let tensor = number.map(|k| ctx.operand(k)).transpose()?;
        // SAFETY: an output of the call; every result is stored by one thread.
        anyhow::Ok(tensor.map(|t| unsafe { Sequence::new(t) }))
    };
    let (values, indices) = (output(values)?, output(indices)?);
    let dtype = ctx.operand(0)?.dtype;
    compute!(dtype, T => {
        // Prefers the first NaN; without NaN, the first of the extreme elements.
        let after = |a: T, b: T| {
            let more = if greatest { b > a } else { b < a };
            more || (b.unordered() && !a.unordered())
        };
        let empty = (if greatest { T::LEAST } else { T::GREATEST }, i64::MAX);
        let leaf = |values: &[T], first: usize| {
            let mut best = 0;
            for (at, &v) in values.iter().enumerate() {
                if after(values[best], v) {
                    best = at;
                }
            }
            (values[best], (first + best) as i64)
        };
        let join = |a: (T, i64), b: (T, i64)| if after(a.0, b.0) { b } else { a };
        let reduction = Reduction { empty, leaf: &leaf, join: &join };
        reduce(ctx, dtype, &reduction, &|first, totals: &[(T, i64)]| {
            for (at, &(value, index)) in (first..).zip(totals) {
                if let Some(values) = &values {
                    values.store(at, &[value]);
                }
                if let Some(indices) = &indices {
                    indices.store(at, &[index]);
                }
            }
        })
    })
}
