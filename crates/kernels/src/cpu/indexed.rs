//! Operands accessed at irregular offsets, given by tables or one by one.

use std::ops::Range;

use anyhow::{Result, ensure};
use millstream_types::layout::numel;
use millstream_types::{DType, Dims};
use smallvec::SmallVec;

use super::element::{Element, moved};
use super::memory::bits;
use super::strided::{Address, BLOCK, CHUNK, Sequence};
use crate::context::{KernelCtx, RawTensor};

/// One dimension of the offsets into an operand, in bytes.
pub(crate) enum Axis {
    /// Equal steps.
    Even {
        /// The number of elements.
        length: usize,
        /// The step between elements.
        step: usize,
    },
    /// An offset for each element.
    Table(Vec<usize>),
}

impl Axis {
    /// Returns the number of offsets.
    fn length(&self) -> usize {
        match self {
            Axis::Even { length, .. } => *length,
            Axis::Table(offsets) => offsets.len(),
        }
    }

    fn offset(&self, at: usize) -> usize {
        match self {
            Axis::Even { step, .. } => at * step,
            Axis::Table(offsets) => offsets[at],
        }
    }
}

/// Returns the axis of `length` equal steps along dimension `k` of an operand.
pub(crate) fn even(tensor: &RawTensor<'_>, k: usize, length: usize) -> Axis {
    Axis::Even { length, step: step(tensor, k) }
}

/// Returns the bytes between neighbouring elements of dimension `k`. An operand without elements
/// has arbitrary strides.
pub(crate) fn step(tensor: &RawTensor<'_>, k: usize) -> usize {
    match tensor.numel() {
        0 => 0,
        _ => tensor.strides[k].wrapping_mul(tensor.dtype.size()),
    }
}

/// Elements of an operand in a shape of their own, numbered in row-major order.
///
/// The element type must match the dtype of the operand exactly; see [`bits`](super::memory::bits).
pub(crate) struct IndexedElements {
    /// Outermost first; never empty.
    axes: SmallVec<[Axis; 4]>,
    data: Address,
    dtype: DType,
}

impl IndexedElements {
    /// # Safety
    /// Every offset of the axes is that of an element of `tensor`, which is an operand of the
    /// current kernel call or memory that it alone uses, valid and aligned. While an element is
    /// stored, nothing else reads or writes it, other threads included.
    pub(crate) unsafe fn new(
        tensor: RawTensor<'_>,
        axes: impl IntoIterator<Item = Axis>,
    ) -> IndexedElements {
        let mut axes: SmallVec<[Axis; 4]> = axes.into_iter().collect();
        if axes.is_empty() {
            axes.push(Axis::Even { length: 1, step: 0 });
        }
        IndexedElements { axes, data: Address(tensor.data), dtype: tensor.dtype }
    }

    /// Returns the number of elements.
    pub(crate) fn count(&self) -> usize {
        numel(&self.axes.iter().map(Axis::length).collect::<Dims>())
    }

    /// Visits the elements from number `from` on in runs of equal steps. The arguments of `visit`
    /// are the number of the run's first element relative to `from`, its offset, the step and the
    /// length.
    #[inline(always)]
    fn runs(&self, from: usize, count: usize, mut visit: impl FnMut(usize, usize, usize, usize)) {
        let (inner, outer) = self.axes.split_last().expect("an axis");
        let mut done = 0;
        while done < count {
            let mut rest = (from + done) / inner.length();
            let start = (from + done) % inner.length();
            let length = (count - done).min(inner.length() - start);
            let mut base = 0;
            for axis in outer.iter().rev() {
                base += axis.offset(rest % axis.length());
                rest /= axis.length();
            }
            assert!(rest == 0, "an element number out of range");
            match inner {
                Axis::Even { step, .. } => visit(done, base + start * step, *step, length),
                Axis::Table(offsets) => {
                    for (k, offset) in offsets[start..start + length].iter().enumerate() {
                        visit(done + k, base + offset, 0, 1);
                    }
                }
            }
            done += length;
        }
    }

    /// Computes the offsets of the elements from number `from` on.
    pub(crate) fn offsets(&self, from: usize, to: &mut [usize]) {
        self.runs(from, to.len(), |at, offset, step, length| {
            for (k, to) in to[at..at + length].iter_mut().enumerate() {
                *to = offset + k * step;
            }
        });
    }

    /// Loads the elements from number `from` on.
    pub(crate) fn load<T: Element>(&self, from: usize, to: &mut [T]) {
        assert_eq!(T::DTYPE, self.dtype);
        self.runs(from, to.len(), |at, offset, step, length| {
            for (k, to) in to[at..at + length].iter_mut().enumerate() {
                // SAFETY: the contract of `new`; the dtype is checked.
                *to = unsafe { self.data.0.wrapping_add(offset + k * step).cast::<T>().read() };
            }
        });
    }

    /// Sets the elements from number `from` on, in order, to `f` of their old content and a value.
    pub(crate) fn update<T: Element>(&self, from: usize, values: &[T], f: impl Fn(T, T) -> T) {
        assert_eq!(T::DTYPE, self.dtype);
        self.runs(from, values.len(), |at, offset, step, length| {
            for (k, &value) in values[at..at + length].iter().enumerate() {
                let to = self.data.0.wrapping_add(offset + k * step).cast::<T>();
                // SAFETY: as in `load`.
                unsafe { to.write(f(to.read(), value)) };
            }
        });
    }

    /// Loads the elements at these offsets.
    ///
    /// # Safety
    /// They are offsets of elements of the tensor, for which the contract of `new` holds.
    pub(crate) unsafe fn load_at<T: Element>(&self, offsets: &[usize], to: &mut [T]) {
        assert_eq!(T::DTYPE, self.dtype);
        for (to, &offset) in to.iter_mut().zip(offsets) {
            // SAFETY: guaranteed by the caller; the dtype is checked.
            *to = unsafe { self.data.0.wrapping_add(offset).cast::<T>().read() };
        }
    }

    /// Sets the elements at these offsets, in order, to `f` of their old content and a value.
    ///
    /// # Safety
    /// As for [`IndexedElements::load_at`].
    pub(crate) unsafe fn update_at<T: Element>(
        &self,
        offsets: &[usize],
        values: &[T],
        f: impl Fn(T, T) -> T,
    ) {
        assert_eq!(T::DTYPE, self.dtype);
        for (&value, &offset) in values.iter().zip(offsets) {
            let to = self.data.0.wrapping_add(offset).cast::<T>();
            // SAFETY: as in `load_at`.
            unsafe { to.write(f(to.read(), value)) };
        }
    }
}

/// Calls `f` for the numbers below `count` in chunks of at most [`CHUNK`], with the first number
/// and the length of the chunk. `init` makes a state for each block. Blocks run in parallel.
pub(crate) fn in_chunks<S>(
    ctx: &KernelCtx<'_>,
    count: usize,
    init: impl Fn() -> S + Sync + Send,
    f: impl Fn(&mut S, usize, usize) + Sync + Send,
) {
    ctx.for_each(count.div_ceil(BLOCK), |block| {
        let mut state = init();
        let end = count.min((block + 1) * BLOCK);
        for at in (block * BLOCK..end).step_by(CHUNK) {
            f(&mut state, at, CHUNK.min(end - at));
        }
    });
}

/// Calls `f` for the numbers below `count` in ranges, which run in parallel. Each number stands for
/// `work` elements, and a range for about [`BLOCK`].
pub(crate) fn in_ranges(
    ctx: &KernelCtx<'_>,
    count: usize,
    work: usize,
    f: impl Fn(Range<usize>) + Sync + Send,
) {
    let at_once = (BLOCK / work.max(1)).max(1);
    ctx.for_each(count.div_ceil(at_once), |task| {
        f(task * at_once..count.min((task + 1) * at_once));
    });
}

/// Copies the elements of `x` at `axes`, in row-major order, to all of `out`.
///
/// # Safety
/// Every offset of the axes is that of an element of `x`. Both are operands of the call; `out` is
/// its output.
pub(crate) unsafe fn gather(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    axes: impl IntoIterator<Item = Axis>,
    out: RawTensor<'_>,
) -> Result<()> {
    // SAFETY: guaranteed by the caller; blocks of the output are disjoint.
    let (from, to) = unsafe { (IndexedElements::new(bits(&x), axes), Sequence::new(bits(&out))) };
    let (indexed, count) = (from.count(), out.numel());
    let agree = indexed == count && x.dtype == out.dtype;
    ensure!(agree, "{indexed} elements of {x:?} for {out:?}: schema and kernel disagree");
    moved!(x.dtype, T => {
        in_chunks(ctx, count, || [<T as Element>::ZERO; CHUNK], |buffer, at, count| {
            from.load(at, &mut buffer[..count]);
            to.store(at, &buffer[..count]);
        });
    });
    Ok(())
}
