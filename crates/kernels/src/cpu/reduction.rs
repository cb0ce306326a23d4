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

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Result, ensure};
use millstream_ops::reduce::{SUM_PART, reduced};
use millstream_types::{DType, Dims};

use super::element::Element;
use super::memory::Workspace;
use super::pairwise::{LEAF, Pairwise};
use super::strided::{Address, BLOCK, Sequence, StridedRow};
use super::traversal::{Order, Traversal};
use crate::context::{KernelCtx, RawTensor};

/// The number of results that are computed together, so that adjacent results share cache lines.
const GROUP: usize = 16;

/// The definition of a reduction of elements, loaded as `T`, to partial results `P`.
pub(crate) struct Reduction<'a, T, P> {
    /// The result of no elements.
    pub(crate) empty: P,
    /// Reduces some elements; the second argument is the position of the first among all elements
    /// of this result.
    pub(crate) leaf: &'a (dyn Fn(&[T], usize) -> P + Sync),
    /// Combines the results of two adjacent ranges, in order.
    pub(crate) join: &'a (dyn Fn(P, P) -> P + Sync),
}

/// A partial result that fits into words of the workspace.
pub(crate) trait Partial: Copy + Send + Sync {
    const WORDS: usize;

    fn word(self, at: usize) -> u64;
    fn of(words: impl Fn(usize) -> u64) -> Self;
}

impl<T: Element> Partial for T {
    const WORDS: usize = 1;

    fn word(self, _: usize) -> u64 {
        self.to_word()
    }
    fn of(words: impl Fn(usize) -> u64) -> T {
        T::from_word(words(0))
    }
}

impl<A: Element, B: Element> Partial for (A, B) {
    const WORDS: usize = 2;

    fn word(self, at: usize) -> u64 {
        if at == 0 { self.0.to_word() } else { self.1.to_word() }
    }
    fn of(words: impl Fn(usize) -> u64) -> (A, B) {
        (A::from_word(words(0)), B::from_word(words(1)))
    }
}

impl<T: Element, const N: usize> Partial for [T; N] {
    const WORDS: usize = N;

    fn word(self, at: usize) -> u64 {
        self[at].to_word()
    }
    fn of(words: impl Fn(usize) -> u64) -> [T; N] {
        std::array::from_fn(|at| T::from_word(words(at)))
    }
}

/// The buffers of one thread.
struct Buffers<T, P> {
    values: [[T; LEAF]; GROUP],
    pairwise: [Pairwise<P>; GROUP],
}

impl<T: Element, P: Partial> Buffers<T, P> {
    fn new(empty: P) -> Buffers<T, P> {
        let pairwise = std::array::from_fn(|_| Pairwise::new(empty));
        Buffers { values: [[T::ZERO; LEAF]; GROUP], pairwise }
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

    /// Returns the partial results of the elements in `range`, of up to `GROUP` results from number
    /// `first` on.
    fn reduce<T: Element, P: Partial>(
        &self,
        reduction: &Reduction<'_, T, P>,
        buffers: &mut Buffers<T, P>,
        first: usize,
        range: Range<usize>,
    ) -> [P; GROUP] {
        let mut totals = [reduction.empty; GROUP];
        let mut done = 0;
        self.kept.rows(first, first + GROUP, |row| {
            let totals = &mut totals[done..done + row.length];
            self.row(reduction, buffers, (row.offsets[0], row.steps[0]), range.clone(), totals);
            done += row.length;
        });
        totals
    }

    /// As [`Plan::reduce`], for results whose first elements have equal steps.
    fn row<T: Element, P: Partial>(
        &self,
        reduction: &Reduction<'_, T, P>,
        Buffers { values, pairwise }: &mut Buffers<T, P>,
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
    let groups = results.div_ceil(GROUP);
    let parts = length.div_ceil(SUM_PART);
    let store = |group: usize, totals: &[P]| {
        let first = group * GROUP;
        store(first, &totals[..GROUP.min(results - first)]);
    };
    if parts <= 1 {
        // Short reductions are grouped into tasks.
        let at_once = (BLOCK / GROUP / length.max(1)).max(1);
        ctx.for_each(groups.div_ceil(at_once), |task| {
            let mut buffers = Buffers::new(reduction.empty);
            for group in task * at_once..groups.min((task + 1) * at_once) {
                store(group, &plan.reduce(reduction, &mut buffers, group * GROUP, 0..length));
            }
        });
        return Ok(());
    }
    let words = Workspace::of(ctx).words(ctx, results * parts * P::WORDS)?;
    ctx.for_each(groups * parts, |task| {
        let (first, part) = (task / parts * GROUP, task % parts);
        let range = part * SUM_PART..length.min((part + 1) * SUM_PART);
        let mut buffers = Buffers::new(reduction.empty);
        let partial = plan.reduce(reduction, &mut buffers, first, range);
        for (k, partial) in partial.iter().enumerate().take(results - first) {
            for at in 0..P::WORDS {
                let word = ((first + k) * parts + part) * P::WORDS + at;
                words[word].store(partial.word(at), Relaxed);
            }
        }
    });
    ctx.for_each(groups, |group| {
        let mut totals = [reduction.empty; GROUP];
        let rest = words[group * GROUP * parts * P::WORDS..].chunks(parts * P::WORDS);
        for (total, words) in totals.iter_mut().zip(rest) {
            let mut pairwise = Pairwise::new(reduction.empty);
            for words in words.chunks(P::WORDS) {
                pairwise.push(P::of(|at| words[at].load(Relaxed)), reduction.join);
            }
            *total = pairwise.total(reduction.empty, reduction.join);
        }
        store(group, &totals);
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
        let mut values = [R::ZERO; GROUP];
        for (value, &total) in values.iter_mut().zip(totals) {
            *value = finish(total);
        }
        out.store(first, &values[..totals.len()]);
    })
}
