//! Kernels of the ops that pick and place elements by index.
//!
//! What is read at an index runs in blocks, side by side. What is written at an index runs on one
//! thread, since two indices may name one element, and the later one has to have the last word.
//!
//! | module | ops |
//! |---|---|
//! | `along` | `gather`, `scatter` and their like |
//! | `slices` | `index_select`, `index_add` |
//! | `advanced` | `index`, `index_put` |

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result, bail};

use super::Kernel;
use super::picked::in_chunks;
use super::strided::{CHUNK, Sequence};
use crate::context::{KernelCtx, RawTensor};

mod advanced;
mod along;
mod slices;

pub(crate) const KERNELS: &[Kernel] = &[
    ("gather", along::gather),
    ("scatter", along::scatter),
    ("scatter_", along::scatter_in_place),
    ("scatter_add", along::scatter_add),
    ("scatter_add_", along::scatter_add_in_place),
    ("index_select", slices::index_select),
    ("index_add", slices::index_add),
    ("index_add_", slices::index_add_in_place),
    ("index", advanced::index),
    ("index_put", advanced::index_put),
    ("index_put_", advanced::index_put_in_place),
];

/// Checks that all of an index lies in a dimension of `length`, for which numbers below zero may
/// count from the end; names the first that does not.
fn check(ctx: &KernelCtx<'_>, index: &RawTensor<'_>, length: usize, from_end: bool) -> Result<()> {
    let low = if from_end { -(length as i64) } else { 0 };
    let range = low..length as i64;
    // SAFETY: an operand of the call, here only read.
    let elements = unsafe { Sequence::new(*index) };
    let first = AtomicUsize::new(usize::MAX);
    in_chunks(
        ctx,
        index.numel(),
        || [0i64; CHUNK],
        |buffer, at, count| {
            elements.load(at, &mut buffer[..count]);
            if let Some(k) = buffer[..count].iter().position(|v| !range.contains(v)) {
                first.fetch_min(at + k, Relaxed);
            }
        },
    );
    let first = first.load(Relaxed);
    if first == usize::MAX {
        return Ok(());
    }
    let mut value = [0i64];
    elements.load(first, &mut value);
    let mut place = vec![0; index.shape.len()];
    let mut rest = first;
    for (at, &length) in place.iter_mut().zip(index.shape).rev() {
        *at = rest % length;
        rest /= length;
    }
    match length {
        0 => bail!("index {} at {place:?}: the dimension has no elements", value[0]),
        _ => bail!("index {} at {place:?}: expected {low} to {}", value[0], length - 1),
    }
}

/// The elements of an index in row-major order, which [`check`] has seen, as bytes to step over;
/// numbers below zero count from the end.
fn distances(index: &RawTensor<'_>, length: usize, step: usize) -> Result<Vec<usize>> {
    // SAFETY: an operand of the call, here only read.
    let elements = unsafe { Sequence::new(*index) };
    let mut places = zeros(index.numel())?;
    let mut buffer = [0i64; CHUNK];
    for (number, places) in places.chunks_mut(CHUNK).enumerate() {
        let buffer = &mut buffer[..places.len()];
        elements.load(number * CHUNK, buffer);
        for (place, &v) in places.iter_mut().zip(buffer.iter()) {
            let at = if v < 0 { v + length as i64 } else { v };
            *place = (at as usize).wrapping_mul(step);
        }
    }
    Ok(places)
}

/// A table of so many zeros.
fn zeros(count: usize) -> Result<Vec<usize>> {
    let mut table = Vec::new();
    table.try_reserve_exact(count).with_context(|| format!("no memory for {count} indices"))?;
    table.resize(count, 0);
    Ok(table)
}

/// The tensor, with one dimension if it has none.
fn raised<'a>(x: &RawTensor<'a>) -> RawTensor<'a> {
    match x.shape {
        [] => RawTensor { shape: &[1], strides: &[1], ..*x },
        _ => *x,
    }
}
