//! Kernels of `sort`, `argsort` and `topk`, by row along the dimension. Rows are sorted by value,
//! then by index; `topk` breaks ties as PyTorch does ([`partial_sort`](super::partial_sort)).

use std::cmp::Ordering;

use anyhow::{Result, ensure};
use millstream_ops::args::dimension;
use millstream_types::{DType, Layout};

use super::Kernel;
use super::element::{Element, compute};
use super::indexed::in_ranges;
use super::lines::with_last;
use super::memory::view;
use super::partial_sort;
use super::strided::Sequence;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[("sort", sort), ("argsort", argsort), ("topk", topk)];

/// A type that elements are compared in.
pub(super) trait Compare: Element {
    /// Compares two elements: NaN is greater than every number; zeros of either sign are equal.
    fn compare(self, other: Self) -> Ordering;

    /// Returns an element whose order is that of this one as one of a dtype: the bits of u64 are
    /// those of i64 with another sign. Applied twice, returns the element.
    fn ordered(self, dtype: DType) -> Self;
}

impl Compare for i64 {
    fn compare(self, other: i64) -> Ordering {
        self.cmp(&other)
    }

    fn ordered(self, dtype: DType) -> i64 {
        if dtype == DType::U64 { self ^ i64::MIN } else { self }
    }
}

macro_rules! compare_floats {
    ($($t:ty)*) => {$(
        impl Compare for $t {
            fn compare(self, other: $t) -> Ordering {
                let nan = self.is_nan().cmp(&other.is_nan());
                self.partial_cmp(&other).unwrap_or(nan)
            }

            fn ordered(self, _: DType) -> $t {
                self
            }
        }
    )*};
}

compare_floats! { f32 f64 }

/// Returns the layout with the sorted dimension last.
fn rows(x: &RawTensor<'_>, dim: usize) -> Result<Layout> {
    Ok(Layout::strided(&with_last(x.shape, dim), &with_last(x.strides, dim), 0)?)
}

/// The order of equal elements.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ties {
    /// The lower index comes first.
    ByIndex,
    /// The order of PyTorch's `topk`.
    Selected,
}

/// Stores the first elements of each sorted row, as many as the results hold.
fn sort_rows(
    ctx: &KernelCtx<'_>,
    values: Option<RawTensor<'_>>,
    indices: RawTensor<'_>,
    descending: bool,
    ties: Ties,
) -> Result<()> {
    let x = ctx.operand(0)?;
    let dim = dimension(ctx.attrs().int("dim")?.unwrap_or(-1), x.shape.len())?;
    let (from, to) = (rows(&x, dim)?, rows(&indices, dim)?);
    let last = from.rank() - 1;
    let (length, kept) = (from.shape()[last], to.shape()[last]);
    let agree = from.shape()[..last] == to.shape()[..last]
        && kept <= length
        && values.is_none_or(|v| v.shape == indices.shape && v.dtype == x.dtype);
    ensure!(agree, "{x:?} to {indices:?}: schema and kernel disagree");
    if to.numel() == 0 {
        return Ok(());
    }
    let count = from.numel() / length;
    let values_rows = values.map(|v| rows(&v, dim)).transpose()?;
    let values = values.as_ref().zip(values_rows.as_ref()).map(|(v, layout)| view(v, layout));
    // SAFETY: operands of the call, all but the first its outputs; their rows are disjoint.
    let (elements, indices, values) = unsafe {
        let (x, indices) = (view(&x, &from), view(&indices, &to));
        (Sequence::new(x), Sequence::new(indices), values.map(|v| Sequence::new(v)))
    };
    compute!(x.dtype, T => {
        in_ranges(ctx, count, length, |lines| {
            let mut row = vec![<T as Element>::ZERO; length];
            let mut order = Vec::with_capacity(length);
            for at in lines {
                elements.load(at * length, &mut row);
                row.iter_mut().for_each(|v| *v = v.ordered(x.dtype));
                order.clear();
                order.extend(0..length as i64);
                let by_value = |&a: &i64, &b: &i64| {
                    let (x, y) = (row[a as usize], row[b as usize]);
                    if descending { y.compare(x) } else { x.compare(y) }
                };
                match ties {
                    Ties::ByIndex => order.sort_by(by_value),
                    Ties::Selected => {
                        let before = |a: &i64, b: &i64| by_value(a, b) == Ordering::Less;
                        partial_sort::partial_sort(&mut order, kept, true, before);
                        order.truncate(kept);
                    }
                }
                indices.store(at * kept, &order);
                if let Some(values) = &values {
                    let sorted = order.iter().map(|&k| row[k as usize].ordered(x.dtype));
                    let sorted: Vec<T> = sorted.collect();
                    values.store(at * kept, &sorted);
                }
            }
        });
    });
    Ok(())
}

/// `sort(x; dim, descending, stable)`.
fn sort(ctx: &KernelCtx<'_>) -> Result<()> {
    let descending = ctx.attrs().bool("descending")?.unwrap_or(false);
    sort_rows(ctx, Some(ctx.operand(1)?), ctx.operand(2)?, descending, Ties::ByIndex)
}

/// `argsort(x; dim, descending, stable)`.
fn argsort(ctx: &KernelCtx<'_>) -> Result<()> {
    let descending = ctx.attrs().bool("descending")?.unwrap_or(false);
    sort_rows(ctx, None, ctx.operand(1)?, descending, Ties::ByIndex)
}

/// `topk(x; k, dim, largest, sorted)`.
fn topk(ctx: &KernelCtx<'_>) -> Result<()> {
    let largest = ctx.attrs().bool("largest")?.unwrap_or(true);
    sort_rows(ctx, Some(ctx.operand(1)?), ctx.operand(2)?, largest, Ties::Selected)
}
