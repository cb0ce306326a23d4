//! The kernel of `sum`.
//!
//! The elements of one result, in row-major order of the reduced dimensions, are cut into leaves
//! of [`LEAF`] elements. A leaf is added in [`LANES`] interleaved sums, which vector units keep
//! side by side. Leaves are added pairwise: two leaves, two pairs, and so on, as a binary counter
//! carries; so are parts of [`SUM_PART`] elements, which threads may share out. The rounding error
//! grows with the logarithm of the length, and the order depends on nothing but the shape.
//!
//! Source: N. J. Higham, "The accuracy of floating point summation", SIAM Journal on Scientific
//! Computing 14 (1993), section 3, pairwise summation.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, ensure};
use millstream_ops::reduce::{SUM_PART, reduced};
use millstream_types::{DType, Dims};

use super::element::{Element, dispatch};
use super::memory::Workspace;
use super::number::Number;
use super::strided::{Address, BLOCK, Lane, Sequence};
use super::walk::{Order, Walk};
use crate::context::{KernelCtx, RawTensor};

/// Elements added without pairing.
const LEAF: usize = 256;

/// Interleaved sums within a leaf.
const LANES: usize = 8;

/// Results computed side by side, so that a cache line is used for all of them if their elements
/// lie next to each other.
const GROUP: usize = 16;

/// Sums added as a binary counter carries: slot `i` holds a sum of 2^i values.
struct Pairwise<T: Number> {
    slots: [T::Wide; usize::BITS as usize],
    used: usize,
    count: usize,
}

impl<T: Number> Pairwise<T> {
    fn new() -> Pairwise<T> {
        Pairwise { slots: [<T::Wide as Element>::ZERO; usize::BITS as usize], used: 0, count: 0 }
    }

    fn clear(&mut self) {
        (self.used, self.count) = (0, 0);
    }

    fn push(&mut self, mut value: T::Wide) {
        for _ in 0..self.count.trailing_ones() {
            self.used -= 1;
            value = T::plus(self.slots[self.used], value);
        }
        self.slots[self.used] = value;
        self.used += 1;
        self.count += 1;
    }

    fn total(&self) -> T::Wide {
        let sums = self.slots[..self.used].iter().rev().copied();
        sums.reduce(|total, sum| T::plus(sum, total)).unwrap_or(<T::Wide as Element>::ZERO)
    }
}

fn leaf<T: Number>(values: &[T]) -> T::Wide {
    let mut sums = [<T::Wide as Element>::ZERO; LANES];
    for row in values.chunks(LANES) {
        for (sum, v) in sums.iter_mut().zip(row) {
            *sum = T::plus(*sum, v.widen());
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    let (ab, cd, ef, gh) = (T::plus(a, b), T::plus(c, d), T::plus(e, f), T::plus(g, h));
    T::plus(T::plus(ab, cd), T::plus(ef, gh))
}

/// What one thread works with.
struct Buffers<T: Number> {
    values: [[T; LEAF]; GROUP],
    pairwise: [Pairwise<T>; GROUP],
}

impl<T: Number> Buffers<T> {
    fn new() -> Buffers<T> {
        let pairwise = std::array::from_fn(|_| Pairwise::new());
        Buffers { values: [[T::ZERO; LEAF]; GROUP], pairwise }
    }
}

/// The dimensions of a sum: those that stay, and those that are added up.
struct Plan {
    x: Address,
    x_dtype: DType,
    /// Over the results; steps in x.
    kept: Walk<1>,
    /// Over the elements of one result, in row-major order; steps in x.
    added: Walk<1>,
}

impl Plan {
    /// # Safety
    /// `x` is an operand of the current call, valid and aligned.
    unsafe fn new(x: &RawTensor<'_>, dims: &[usize]) -> Plan {
        let empty = x.numel() == 0;
        let kept: Dims = (0..x.shape.len()).filter(|k| !dims.contains(k)).collect();
        let walk = |dims: &[usize]| {
            let shape: Dims = dims.iter().map(|&k| x.shape[k]).collect();
            // A tensor without elements may have any strides, and nothing is read of it.
            let step = |k: usize| [if empty { 0 } else { x.strides[dims[k]] * x.dtype.size() }];
            Walk::new(&shape, step, Order::RowMajor)
        };
        Plan { x: Address(x.data), x_dtype: x.dtype, kept: walk(&kept), added: walk(dims) }
    }

    /// The sums over the elements numbered `from` up to `to` of the results numbered `first` up to
    /// at most `first + GROUP`.
    fn sums<T: Number>(
        &self,
        buffers: &mut Buffers<T>,
        first: usize,
        range: Range<usize>,
    ) -> [T::Wide; GROUP] {
        let mut totals = [<T::Wide as Element>::ZERO; GROUP];
        let mut done = 0;
        self.kept.rows(first, first + GROUP, |row| {
            let totals = &mut totals[done..done + row.length];
            self.row(buffers, row.offsets[0], row.steps[0], range.clone(), totals);
            done += row.length;
        });
        totals
    }

    /// As [`Plan::sums`], for results whose first elements lie in a row.
    fn row<T: Number>(
        &self,
        Buffers { values, pairwise }: &mut Buffers<T>,
        start: usize,
        step: usize,
        range: Range<usize>,
        totals: &mut [T::Wide],
    ) {
        pairwise.iter_mut().for_each(Pairwise::clear);
        let lane = |offset: usize, step: usize, length: usize| {
            let data = self.x.0.wrapping_add(start + offset);
            // SAFETY: the walks stay within x, by the promise given to `new` valid; it is only read.
            unsafe { Lane::new(data, step, length, self.x_dtype) }
        };
        for from in range.clone().step_by(LEAF) {
            let to = range.end.min(from + LEAF);
            let mut filled = 0;
            self.added.rows(from, to, |row| {
                let [offset] = row.offsets;
                if row.steps[0] <= step || totals.len() == 1 {
                    for (k, values) in values[..totals.len()].iter_mut().enumerate() {
                        let to = &mut values[filled..filled + row.length];
                        lane(offset + k * step, row.steps[0], row.length).load(0, to);
                    }
                } else {
                    let mut across = [T::ZERO; GROUP];
                    let across = &mut across[..totals.len()];
                    for i in 0..row.length {
                        lane(offset + i * row.steps[0], step, across.len()).load(0, across);
                        for (values, &v) in values.iter_mut().zip(across.iter()) {
                            values[filled + i] = v;
                        }
                    }
                }
                filled += row.length;
            });
            for (pairwise, values) in pairwise[..totals.len()].iter_mut().zip(values.iter()) {
                pairwise.push(leaf(&values[..filled]));
            }
        }
        for (total, pairwise) in totals.iter_mut().zip(pairwise.iter()) {
            *total = pairwise.total();
        }
    }
}

/// `sum(x; dim, keepdim, dtype)`: the output says the dtype, and x is converted to it first.
pub(crate) fn sum(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    // SAFETY: an operand of the call.
    let plan = unsafe { Plan::new(&x, &reduced(ctx.attrs(), x.shape.len())?) };
    let (results, length) = (plan.kept.count(), plan.added.count());
    ensure!(results == out.numel(), "{x:?} to {out:?}: schema and kernel disagree");
    let groups = results.div_ceil(GROUP);
    let parts = length.div_ceil(SUM_PART);
    // Groups of short sums, so many that they make a task together.
    let at_once = (BLOCK / GROUP / length.max(1)).max(1);
    // SAFETY: the call's output; every result is stored by one thread. Keeping reduced dimensions
    // with length 1 does not change the order of results.
    let to = unsafe { Sequence::new(out) };
    dispatch!(out.dtype, T => {
        let store = |group: usize, totals: &[<T as Number>::Wide]| {
            let mut values = [T::ZERO; GROUP];
            for (v, &total) in values.iter_mut().zip(totals) {
                *v = T::narrow(total);
            }
            let first = group * GROUP;
            to.store(first, &values[..GROUP.min(results - first)]);
        };
        if parts <= 1 {
            ctx.for_each(groups.div_ceil(at_once), |task| {
                let mut buffers = Buffers::<T>::new();
                for group in task * at_once..groups.min((task + 1) * at_once) {
                    store(group, &plan.sums(&mut buffers, group * GROUP, 0..length));
                }
            });
            return Ok(());
        }
        let words = Workspace::of(ctx).words(ctx, results * parts)?;
        ctx.for_each(groups * parts, |task| {
            let (first, part) = (task / parts * GROUP, task % parts);
            let to = length.min((part + 1) * SUM_PART);
            let sums = plan.sums(&mut Buffers::<T>::new(), first, part * SUM_PART..to);
            for (k, sum) in sums.iter().enumerate().take(results - first) {
                words[(first + k) * parts + part].store(sum.to_word(), Relaxed);
            }
        });
        ctx.for_each(groups, |g| {
            let mut totals = [<T as Number>::Wide::ZERO; GROUP];
            for (total, parts) in totals.iter_mut().zip(words[g * GROUP * parts..].chunks(parts)) {
                let mut pairwise = Pairwise::<T>::new();
                parts.iter().for_each(|w| pairwise.push(Element::from_word(w.load(Relaxed))));
                *total = pairwise.total();
            }
            store(g, &totals);
        });
    });
    Ok(())
}
