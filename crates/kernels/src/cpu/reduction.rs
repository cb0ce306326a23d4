//! The loops of reductions.
//!
//! The elements of one result, in row-major order of the reduced dimensions, form leaves of
//! [`LEAF`] elements. A kernel reduces each leaf to a partial result. Partial results are combined
//! pairwise: two leaves, two pairs, and so on, like a binary counter carries. Parts of [`SUM_PART`]
//! elements, which may run on different threads, are combined in the same way. The rounding error
//! of a sum grows with the logarithm of the length, and the order of additions depends on the shape
//! alone.
//!
//! Source: N. J. Higham, "The accuracy of floating point summation", SIAM Journal on Scientific
//! Computing 14 (1993), section 3, pairwise summation.
//!
//! Long because the three ways through an operand share a plan.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, ensure};
use millstream_ops::reduce::{SUM_PART, reduced};
use millstream_types::{DType, Dims};

use super::element::Element;
use super::memory::Workspace;
use super::pairwise::{LANES, LEAF, Pairwise, PairwiseRows};
use super::partial::Partial;
use super::strided::{Address, BLOCK, Sequence, StridedRow};
use super::traversal::{Order, Traversal};
use crate::context::{KernelCtx, RawTensor};

/// The number of results that are computed together, so that adjacent results share cache lines.
const GROUP: usize = 16;

/// The number of adjacent results whose elements at one position are added at once.
const COLUMNS: usize = 128;

/// The definition of a reduction of elements, loaded as `T`, to partial results `P`.
pub(crate) struct Reduction<'a, T, P> {
    /// The result of no elements.
    pub(crate) empty: P,
    /// Reduces some elements; the second argument is the position of the first among all elements
    /// of this result.
    pub(crate) leaf: &'a (dyn Fn(&[T], usize) -> P + Sync),
    /// Combines the results of two adjacent ranges, in order.
    pub(crate) join: &'a (dyn Fn(P, P) -> P + Sync),
    /// The same, of many adjacent results at once.
    pub(crate) columns: Option<Columns<T, P>>,
    /// Reduces any number of elements at once, where the result is that of leaves combined
    /// pairwise; the second argument is as for `leaf`.
    pub(crate) whole: Option<Whole<'a, T, P>>,
}

type Whole<'a, T, P> = &'a (dyn Fn(&[T], usize) -> Option<P> + Sync);

impl<'a, T, P> Reduction<'a, T, P> {
    /// Returns a reduction by leaves alone.
    pub(crate) fn new(
        empty: P,
        leaf: &'a (dyn Fn(&[T], usize) -> P + Sync),
        join: &'a (dyn Fn(P, P) -> P + Sync),
    ) -> Reduction<'a, T, P> {
        Reduction { empty, leaf, join, columns: None, whole: None }
    }
}

/// A reduction of many results at once, whose leaf is [`interleaved`](super::pairwise::interleaved)
/// in `add` and `join`. Each function changes the results in its first argument.
pub(crate) struct Columns<T, P> {
    /// Adds one element to each result.
    pub(crate) add: fn(&mut [P], &[T]),
    /// Combines each result with that of a later range.
    pub(crate) join: fn(&mut [P], &[P]),
}

/// The buffers of one thread, for a number of results that are computed together.
struct Buffers<T, P> {
    values: Vec<[T; LEAF]>,
    pairwise: Vec<Pairwise<P>>,
    lanes: Vec<P>,
}

impl<T: Element, P: Partial> Buffers<T, P> {
    fn new(empty: P, copies: usize, sums: usize) -> Buffers<T, P> {
        let pairwise = (0..sums).map(|_| Pairwise::new(empty)).collect();
        Buffers { values: vec![[T::ZERO; LEAF]; copies], pairwise, lanes: Vec::new() }
    }
}

/// How results are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One by one, in place: the elements of each follow one another.
    Rows,
    /// Many at once, in place: their elements at one position follow one another.
    Columns,
    /// Some at once, on copies of their elements.
    Copies,
}

impl Way {
    /// Returns the number of results that are computed together.
    fn group(self) -> usize {
        match self {
            Way::Columns => COLUMNS,
            Way::Rows | Way::Copies => GROUP,
        }
    }
}

/// The operand of a reduction and its kept and reduced dimensions.
struct Plan {
    x: Address,
    x_dtype: DType,
    /// The dtype of a conversion before the reduction, if it differs from the dtype of x and from
    /// the type of the loaded elements.
    via: Option<DType>,
    /// Over the results; steps in x.
    kept: Traversal<1>,
    /// Over the elements of one result, in row-major order; steps in x.
    along: Traversal<1>,
}

impl Plan {
    /// # Safety
    /// `x` is an operand of the current call, valid and aligned.
    unsafe fn new(x: &RawTensor<'_>, dims: &[usize], via: Option<DType>) -> Plan {
        let empty = x.numel() == 0;
        let kept: Dims = (0..x.shape.len()).filter(|k| !dims.contains(k)).collect();
        let traversal = |dims: &[usize]| {
            let shape: Dims = dims.iter().map(|&k| x.shape[k]).collect();
            // A tensor without elements may have any strides and is not read.
            let step = |k: usize| [if empty { 0 } else { x.strides[dims[k]] * x.dtype.size() }];
            Traversal::new(&shape, step, Order::RowMajor)
        };
        Plan {
            x: Address(x.data),
            x_dtype: x.dtype,
            via,
            kept: traversal(&kept),
            along: traversal(dims),
        }
    }

    /// Returns how the results are computed.
    fn way<T: Element, P>(&self, reduction: &Reduction<'_, T, P>) -> Way {
        let follow = |all: &Traversal<1>| {
            all.count() > 1 && all.is_one_row() && all.steps() == [size_of::<T>()]
        };
        match self.x_dtype == T::DTYPE && self.via.is_none() && self.kept.count() > 0 {
            true if follow(&self.along) => Way::Rows,
            true if reduction.columns.is_some()
                && follow(&self.kept)
                && self.kept.count() >= GROUP =>
            {
                Way::Columns
            }
            _ => Way::Copies,
        }
    }

    /// Computes the partial results of the elements in `range`, of results from number `first` on,
    /// at most the group of the way.
    fn reduce<T: Element, P: Partial>(
        &self,
        way: Way,
        reduction: &Reduction<'_, T, P>,
        buffers: &mut Buffers<T, P>,
        first: usize,
        range: Range<usize>,
        totals: &mut [P],
    ) {
        match (way, &reduction.columns) {
            (Way::Columns, Some(columns)) => {
                let lanes = &mut buffers.lanes;
                return self.columns(reduction.empty, columns, lanes, (first, range), totals);
            }
            (Way::Rows, _) => return self.rows(reduction, buffers, first, range, totals),
            (Way::Columns | Way::Copies, _) => {}
        }
        totals.fill(reduction.empty);
        let mut done = 0;
        self.kept.rows(first, first + totals.len(), |row| {
            let totals = &mut totals[done..done + row.length];
            self.row(reduction, buffers, (row.offsets[0], row.steps[0]), range.clone(), totals);
            done += row.length;
        });
    }

    /// Returns `count` elements at an offset in bytes.
    ///
    /// # Safety
    /// They are elements of x, of the type `T`.
    unsafe fn elements<T: Element>(&self, offset: usize, count: usize) -> &[T] {
        let data = self.x.0.wrapping_add(offset).cast::<T>();
        // SAFETY: guaranteed by the caller; x is valid by the contract of `new`, and only read.
        unsafe { std::slice::from_raw_parts(data, count) }
    }

    /// As [`Plan::reduce`], of results whose elements follow one another.
    fn rows<T: Element, P: Partial>(
        &self,
        reduction: &Reduction<'_, T, P>,
        buffers: &mut Buffers<T, P>,
        first: usize,
        range: Range<usize>,
        totals: &mut [P],
    ) {
        let [pairwise] = &mut buffers.pairwise[..] else { return };
        let mut done = 0;
        self.kept.rows(first, first + totals.len(), |row| {
            for (k, total) in totals[done..done + row.length].iter_mut().enumerate() {
                let from = row.offsets[0] + k * row.steps[0] + range.start * size_of::<T>();
                // SAFETY: the traversals stay within x, whose elements are of this type, as `way`
                // has checked.
                let values = unsafe { self.elements::<T>(from, range.len()) };
                if let Some(whole) = reduction.whole.and_then(|f| f(values, range.start)) {
                    *total = whole;
                    continue;
                }
                if values.len() <= LEAF {
                    *total = (reduction.leaf)(values, range.start);
                    continue;
                }
                pairwise.clear();
                for (leaf, values) in values.chunks(LEAF).enumerate() {
                    let partial = (reduction.leaf)(values, range.start + leaf * LEAF);
                    pairwise.push(partial, reduction.join);
                }
                *total = pairwise.total(reduction.empty, reduction.join);
            }
            done += row.length;
        });
    }

    /// As [`Plan::reduce`], of many results whose elements at one position follow one another.
    fn columns<T: Element, P: Partial>(
        &self,
        empty: P,
        columns: &Columns<T, P>,
        lanes: &mut Vec<P>,
        (first, range): (usize, Range<usize>),
        totals: &mut [P],
    ) {
        let count = totals.len();
        let mut leaves = PairwiseRows::new();
        lanes.resize(LANES * count, empty);
        for from in range.clone().step_by(LEAF) {
            lanes.fill(empty);
            let mut lane = 0;
            self.along.rows(from, range.end.min(from + LEAF), |row| {
                for i in 0..row.length {
                    let at = row.offsets[0] + i * row.steps[0] + first * size_of::<T>();
                    // SAFETY: as in `rows`.
                    let values = unsafe { self.elements::<T>(at, count) };
                    (columns.add)(&mut lanes[lane * count..(lane + 1) * count], values);
                    lane = (lane + 1) % LANES;
                }
            });
            for distance in [1, 2, 4] {
                for lane in (0..LANES).step_by(2 * distance) {
                    let (to, other) = lanes.split_at_mut((lane + distance) * count);
                    (columns.join)(&mut to[lane * count..(lane + 1) * count], &other[..count]);
                }
            }
            if range.len() <= LEAF {
                return totals.copy_from_slice(&lanes[..count]);
            }
            leaves.push(lanes[..count].to_vec(), columns.join);
        }
        match leaves.total(columns.join) {
            Some(all) => totals.copy_from_slice(&all),
            None => totals.fill(empty),
        }
    }

    /// As [`Plan::reduce`], for results whose first elements have equal steps.
    fn row<T: Element, P: Partial>(
        &self,
        reduction: &Reduction<'_, T, P>,
        Buffers { values, pairwise, .. }: &mut Buffers<T, P>,
        (start, step): (usize, usize),
        range: Range<usize>,
        totals: &mut [P],
    ) {
        pairwise.iter_mut().for_each(Pairwise::clear);
        let strided_row = |offset: usize, step: usize, length: usize| {
            let data = self.x.0.wrapping_add(start + offset);
            // SAFETY: the traversals stay within x, which is valid by the contract of `new` and
            // only read.
            unsafe { StridedRow::new(data, step, length, self.x_dtype) }
        };
        let load = |row: StridedRow, to: &mut [T]| match self.via {
            None => row.load(0, to),
            Some(via) => row.load_via(via, 0, to),
        };
        for from in range.clone().step_by(LEAF) {
            let to = range.end.min(from + LEAF);
            let mut filled = 0;
            self.along.rows(from, to, |row| {
                let [offset] = row.offsets;
                if row.steps[0] <= step || totals.len() == 1 {
                    for (k, values) in values[..totals.len()].iter_mut().enumerate() {
                        let to = &mut values[filled..filled + row.length];
                        load(strided_row(offset + k * step, row.steps[0], row.length), to);
                    }
                } else {
                    let mut across = [T::ZERO; GROUP];
                    let across = &mut across[..totals.len()];
                    for i in 0..row.length {
                        load(strided_row(offset + i * row.steps[0], step, across.len()), across);
                        for (values, &v) in values.iter_mut().zip(across.iter()) {
                            values[filled + i] = v;
                        }
                    }
                }
                filled += row.length;
            });
            for (pairwise, values) in pairwise[..totals.len()].iter_mut().zip(values.iter()) {
                pairwise.push((reduction.leaf)(&values[..filled], from), reduction.join);
            }
        }
        for (total, pairwise) in totals.iter_mut().zip(pairwise.iter()) {
            *total = pairwise.total(reduction.empty, reduction.join);
        }
    }
}

/// Reduces x over the dimensions that the arguments name, after converting its elements to the
/// dtype `to`. Calls `store` with the number of a result and the results from there on.
pub(crate) fn reduce<T: Element, P: Partial>(
    ctx: &KernelCtx<'_>,
    to: DType,
    reduction: &Reduction<'_, T, P>,
    store: &(dyn Fn(usize, &[P]) + Sync),
) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let via = (to != x.dtype && to != T::DTYPE).then_some(to);
    // SAFETY: an operand of the call.
    let plan = unsafe { Plan::new(&x, &reduced(ctx.attrs(), x.shape.len())?, via) };
    let (results, length) = (plan.kept.count(), plan.along.count());
    ensure!(results == out.numel(), "{x:?} to {out:?}: schema and kernel disagree");
    let way = plan.way(reduction);
    let group = way.group();
    let groups = results.div_ceil(group);
    let parts = length.div_ceil(SUM_PART);
    let buffers = || match way {
        Way::Columns => Buffers::new(reduction.empty, 0, 0),
        Way::Rows => Buffers::new(reduction.empty, 0, 1),
        Way::Copies => Buffers::new(reduction.empty, group.min(results), group.min(results)),
    };
    if parts <= 1 {
        // Short reductions are grouped into tasks.
        let at_once = (BLOCK / group / length.max(1)).max(1);
        ctx.for_each(groups.div_ceil(at_once), |task| {
            let (mut buffers, mut totals) = (buffers(), [reduction.empty; COLUMNS]);
            for first in (task * at_once..groups.min((task + 1) * at_once)).map(|g| g * group) {
                let totals = &mut totals[..group.min(results - first)];
                plan.reduce(way, reduction, &mut buffers, first, 0..length, totals);
                store(first, totals);
            }
        });
        return Ok(());
    }
    let words = Workspace::of(ctx).words(ctx, results * parts * P::WORDS)?;
    ctx.for_each(groups * parts, |task| {
        let (first, part) = (task / parts * group, task % parts);
        let range = part * SUM_PART..length.min((part + 1) * SUM_PART);
        let mut totals = [reduction.empty; COLUMNS];
        let totals = &mut totals[..group.min(results - first)];
        plan.reduce(way, reduction, &mut buffers(), first, range, totals);
        for (k, partial) in totals.iter().enumerate() {
            for at in 0..P::WORDS {
                let word = ((first + k) * parts + part) * P::WORDS + at;
                words[word].store(partial.word(at), Relaxed);
            }
        }
    });
    ctx.for_each(results.div_ceil(GROUP), |task| {
        let first = task * GROUP;
        let mut totals = [reduction.empty; GROUP];
        let totals = &mut totals[..GROUP.min(results - first)];
        let mut pairwise = Pairwise::new(reduction.empty);
        let rest = words[first * parts * P::WORDS..].chunks(parts * P::WORDS);
        for (total, words) in totals.iter_mut().zip(rest) {
            pairwise.clear();
            for words in words.chunks(P::WORDS) {
                pairwise.push(P::of(|at| words[at].load(Relaxed)), reduction.join);
            }
            *total = pairwise.total(reduction.empty, reduction.join);
        }
        store(first, totals);
    });
    Ok(())
}

/// As [`reduce`]; `finish` converts each total to an element of the output.
pub(crate) fn reduce_to<T: Element, P: Partial, R: Element>(
    ctx: &KernelCtx<'_>,
    to: DType,
    reduction: &Reduction<'_, T, P>,
    finish: &(dyn Fn(P) -> R + Sync),
) -> Result<()> {
    // SAFETY: the call's output; every result is stored by one thread. Keeping reduced dimensions
    // with length 1 does not change the order of results.
    let out = unsafe { Sequence::new(ctx.operand(1)?) };
    reduce(ctx, to, reduction, &|first, totals| {
        let mut values = [R::ZERO; COLUMNS];
        let values = &mut values[..totals.len()];
        for (value, &total) in values.iter_mut().zip(totals) {
            *value = finish(total);
        }
        out.store(first, values);
    })
}
