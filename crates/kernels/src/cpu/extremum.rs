//! Kernels of maxima and minima, and of their indices.

use anyhow::Result;

use super::Kernel;
use super::compute::Compute;
use super::element::compute;
use super::function::LANES;
use super::pairwise::{self, LEAF, interleaved};
use super::reduction::{Columns, Reduction, reduce, reduce_to};
use super::strided::Sequence;
use super::vectorised::vectorised;
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[
    ("amax", |ctx| values(ctx, true)),
    ("amin", |ctx| values(ctx, false)),
    ("max", |ctx| both(ctx, true)),
    ("min", |ctx| both(ctx, false)),
    ("argmax", |ctx| indices(ctx, true, None, Some(1))),
    ("argmin", |ctx| indices(ctx, false, None, Some(1))),
];

/// The parts of a leaf that are compared side by side, because each comparison waits for the one
/// before it in its lane.
const PARTS: usize = 4;

/// Reduces a leaf as [`interleaved`] does: which elements are compared first makes no difference,
/// as long as they stay in order.
#[inline(always)]
fn extreme<T: Compute>(values: &[T], empty: T, keep: impl Fn(T, T) -> T) -> T {
    let rows = values.as_chunks::<{ pairwise::LANES }>().0;
    if values.len() != LEAF {
        return interleaved(values, empty, &keep, &keep);
    }
    let mut parts = [[empty; pairwise::LANES]; PARTS];
    let length = rows.len() / PARTS;
    for at in 0..length {
        for (part, lanes) in parts.iter_mut().enumerate() {
            for (lane, &v) in lanes.iter_mut().zip(&rows[part * length + at]) {
                *lane = keep(*lane, v);
            }
        }
    }
    let [mut all, rest @ ..] = parts;
    for part in rest {
        all.iter_mut().zip(part).for_each(|(lane, v)| *lane = keep(*lane, v));
    }
    interleaved(&all, empty, &keep, &keep)
}

/// The elements that are compared side by side where their order makes no difference.
const WIDTH: usize = 32;

/// Returns the extreme of values in any order of comparisons. Returns none where the order decides
/// about the bits: of NaN, and of zeros with different signs.
#[inline(always)]
fn extreme_in_any_order<T: Compute>(
    values: &[T],
    empty: T,
    is_better: impl Fn(T, T) -> bool,
) -> Option<T> {
    let better = |a: T, b: T| if is_better(b, a) { b } else { a };
    let (mut best, mut unordered) = ([empty; WIDTH], [empty; WIDTH]);
    let (rows, rest) = values.as_chunks::<WIDTH>();
    let mut add = |row: &[T]| {
        for ((best, unordered), &v) in best.iter_mut().zip(&mut unordered).zip(row) {
            *best = better(*best, v);
            // A selected value, unlike a bool, is as wide as a lane of a vector.
            *unordered = if v.unordered() { v } else { *unordered };
        }
    };
    rows.iter().for_each(|row| add(row));
    add(rest);
    if unordered.iter().fold(false, |any, v| any | v.unordered()) {
        return None;
    }
    let mut half = WIDTH / 2;
    while half > 0 {
        for k in 0..half {
            best[k] = better(best[k], best[k + half]);
        }
        half /= 2;
    }
    (best[0] != T::ZERO || !T::DTYPE.is_float()).then_some(best[0])
}

vectorised! {
    fn greatest_in_any_order<T: Compute>(values: &[T]) -> Option<T> {
        extreme_in_any_order(values, T::LEAST, |a, b| a > b)
    }

    fn least_in_any_order<T: Compute>(values: &[T]) -> Option<T> {
        extreme_in_any_order(values, T::GREATEST, |a, b| a < b)
    }

    fn greatest_of<T: Compute>(values: &[T], _first: usize) -> T {
        extreme(values, T::LEAST, T::greater)
    }

    fn least_of<T: Compute>(values: &[T], _first: usize) -> T {
        extreme(values, T::GREATEST, T::lesser)
    }

    fn keep_greater<T: Compute>(all: &mut [T], values: &[T]) {
        all.iter_mut().zip(values).for_each(|(most, &v)| *most = most.greater(v));
    }

    fn keep_lesser<T: Compute>(all: &mut [T], values: &[T]) {
        all.iter_mut().zip(values).for_each(|(least, &v)| *least = least.lesser(v));
    }

    /// Returns the position of the first value that equals `wanted`, or is NaN if `wanted` is.
    fn first_equal<T: Compute>(values: &[T], wanted: T) -> usize {
        let equal = |v: T| v == wanted || (v.unordered() && wanted.unordered());
        let (blocks, rest) = values.as_chunks::<LANES>();
        // All of a block are compared, without a branch for each.
        let any = |block: &[T; LANES]| block.iter().fold(false, |any, &v| any | equal(v));
        let found = blocks.iter().position(any);
        let from = found.unwrap_or(blocks.len()) * LANES;
        let rest = found.map_or(rest, |at| &blocks[at][..]);
        from + rest.iter().position(|&v| equal(v)).unwrap_or(0)
    }
}

fn values(ctx: &KernelCtx<'_>, greatest: bool) -> Result<()> {
    let dtype = ctx.operand(0)?.dtype;
    compute!(dtype, T => {
        let reduction = match greatest {
            true => Reduction {
                empty: T::LEAST,
                leaf: &greatest_of::<T>,
                join: &T::greater,
                columns: Some(Columns { add: keep_greater::<T>, join: keep_greater::<T> }),
                whole: Some(&|values, _| greatest_in_any_order(values)),
            },
            false => Reduction {
                empty: T::GREATEST,
                leaf: &least_of::<T>,
                join: &T::lesser,
                columns: Some(Columns { add: keep_lesser::<T>, join: keep_lesser::<T> }),
                whole: Some(&|values, _| least_in_any_order(values)),
            },
        };
        reduce_to(ctx, dtype, &reduction, &|total: T| total)
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
            let extreme = if greatest { greatest_of(values, 0) } else { least_of(values, 0) };
            let best = first_equal(values, extreme);
            (values[best], (first + best) as i64)
        };
        let join = |a: (T, i64), b: (T, i64)| if after(a.0, b.0) { b } else { a };
        let whole = |values: &[T], first: usize| {
            let extreme = match greatest {
                true => greatest_in_any_order(values),
                false => least_in_any_order(values),
            }?;
            Some((extreme, (first + first_equal(values, extreme)) as i64))
        };
        let reduction = Reduction { whole: Some(&whole), ..Reduction::new(empty, &leaf, &join) };
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
