//! Kernels of gather, scatter and indexing.
//!
//! Reads at indices run in parallel blocks. Writes at indices run on one thread, since several
//! indices may name one element and the last write must win.
//!
//! | module | ops |
//! |---|---|
//! | `elements` | `gather`, `scatter`, `scatter_add` |
//! | `reduced` | `scatter_reduce` |
//! | `slices` | `index_select`, `index_add` |
//! | `advanced` | `index`, `index_put` |

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, Result, bail};
use millstream_types::DType;

use super::Kernel;
use super::copy::convert;
use super::indexed::in_chunks;
use super::memory::Temporary;
use super::strided::{CHUNK, Sequence};
use crate::context::{KernelCtx, RawTensor};

mod advanced;
mod elements;
mod reduced;
mod slices;

#[cfg(feature = "cuda")]
pub(crate) use slices::is_scatter_add;

pub(crate) const KERNELS: &[Kernel] = &[
    ("gather", elements::gather),
    ("scatter", |ctx| elements::scatter(ctx, false, false)),
    ("scatter_", |ctx| elements::scatter(ctx, true, false)),
    ("scatter_add", |ctx| elements::scatter(ctx, false, true)),
    ("scatter_add_", |ctx| elements::scatter(ctx, true, true)),
    ("scatter_reduce", reduced::scatter_reduce),
    ("index_select", slices::index_select),
    ("index_add", |ctx| slices::index_add(ctx, false)),
    ("index_add_", |ctx| slices::index_add(ctx, true)),
    ("index", advanced::index),
    ("index_put", |ctx| advanced::index_put(ctx, false)),
    ("index_put_", |ctx| advanced::index_put(ctx, true)),
];

/// Calls `combine` with copies of `x` and `source` in a wider dtype, and rounds the results to `x`
/// once. PyTorch's kernels of `scatter_add` do the same for 16-bit floats.
///
/// # Safety
/// Both are operands of the call; `x` does not overlap itself.
unsafe fn with_wide(
    ctx: &KernelCtx<'_>,
    dtype: DType,
    x: RawTensor<'_>,
    source: RawTensor<'_>,
    combine: impl FnOnce(RawTensor<'_>, RawTensor<'_>) -> Result<()>,
) -> Result<()> {
    let mut results = Temporary::new(dtype, x.shape)?;
    let mut wide = Temporary::new(dtype, source.shape)?;
    // SAFETY: guaranteed by the caller; the temporaries own their memory.
    unsafe {
        convert(ctx, x, results.tensor())?;
        convert(ctx, source, wide.tensor())?;
        combine(results.tensor(), wide.tensor())?;
        convert(ctx, results.tensor(), x)
    }
}

/// Returns whether sums of this dtype are rounded once, at their end.
pub(crate) fn has_wide_sums(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Checks that all elements of an index lie in a dimension of `length`; negative ones count from
/// the end if `from_end`. The error states the first that does not.
fn check(ctx: &KernelCtx<'_>, index: &RawTensor<'_>, length: usize, from_end: bool) -> Result<()> {
    let low = if from_end { -(length as i64) } else { 0 };
    let range = low..length as i64;
    // SAFETY: an operand of the call, only read here.
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
    let mut position = vec![0; index.shape.len()];
    let mut rest = first;
    for (at, &length) in position.iter_mut().zip(index.shape).rev() {
        *at = rest % length;
        rest /= length;
    }
    match length {
        0 => bail!("index {} at {position:?}: the dimension has no elements", value[0]),
        _ => bail!("index {} at {position:?}: expected {low} to {}", value[0], length - 1),
    }
}

/// Returns the byte offsets of the elements of an index that [`check`] has accepted, in row-major
/// order. Negative elements count from the end.
fn distances(index: &RawTensor<'_>, length: usize, step: usize) -> Result<Vec<usize>> {
    // SAFETY: an operand of the call, only read here.
    let elements = unsafe { Sequence::new(*index) };
    let mut offsets = zeros(index.numel())?;
    let mut buffer = [0i64; CHUNK];
    for (number, offsets) in offsets.chunks_mut(CHUNK).enumerate() {
        let buffer = &mut buffer[..offsets.len()];
        elements.load(number * CHUNK, buffer);
        for (offset, &v) in offsets.iter_mut().zip(buffer.iter()) {
            let at = if v < 0 { v + length as i64 } else { v };
            *offset = (at as usize).wrapping_mul(step);
        }
    }
    Ok(offsets)
}

/// Returns a table of `count` zeros.
fn zeros(count: usize) -> Result<Vec<usize>> {
    let mut table = Vec::new();
    table
        .try_reserve_exact(count)
        .with_context(|| format!("out of memory for a table of {count} indices"))?;
    table.resize(count, 0);
    Ok(table)
}
