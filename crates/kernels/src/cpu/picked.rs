//! Operands read and written at places that do not lie evenly: by tables, or one by one.

use anyhow::{Result, ensure};
use millstream_types::layout::numel;
use millstream_types::{DType, Dims};
use smallvec::SmallVec;

use super::element::{Element, moved};
use super::memory::bits;
use super::strided::{Address, BLOCK, CHUNK, Sequence};
use crate::context::{KernelCtx, RawTensor};

/// One dimension of the places in an operand. Distances are in bytes.
pub(crate) enum Axis {
    /// Even steps.
    Even {
        /// How many.
        length: usize,
        /// From one to the next.
        step: usize,
    },
    /// A distance for each.
    Table(Vec<usize>),
}

impl Axis {
    /// How many places it has.
    fn length(&self) -> usize {
        match self {
            Axis::Even { length, .. } => *length,
            Axis::Table(places) => places.len(),
        }
    }

    fn place(&self, at: usize) -> usize {
        match self {
            Axis::Even { step, .. } => at * step,
            Axis::Table(places) => places[at],
        }
    }
}

/// The even axis of dimension `k` of an operand, in `length` steps.
pub(crate) fn even(tensor: &RawTensor<'_>, k: usize, length: usize) -> Axis {
    Axis::Even { length, step: step(tensor, k) }
}

/// The bytes from one element of dimension `k` to the next. Where there is no next one, the stride
/// may be anything.
pub(crate) fn step(tensor: &RawTensor<'_>, k: usize) -> usize {
    match tensor.numel() {
        0 => 0,
        _ => tensor.strides[k].wrapping_mul(tensor.dtype.size()),
    }
}

/// Elements of an operand under a shape of its own, numbered in row-major order.
///
/// Elements are of exactly the operand's dtype; see [`bits`](super::memory::bits).
pub(crate) struct Picked {
    /// Outermost first; never empty.
    axes: SmallVec<[Axis; 4]>,
    data: Address,
    dtype: DType,
}

impl Picked {
    /// # Safety
    /// Every place that the axes lead to is an element of `tensor`, which is an operand of the
    /// current kernel call or memory that it alone uses, valid and aligned; nothing else reads or
    /// writes an element while it is stored, other threads included.
    pub(crate) unsafe fn new(
        tensor: RawTensor<'_>,
        axes: impl IntoIterator<Item = Axis>,
    ) -> Picked {
        let mut axes: SmallVec<[Axis; 4]> = axes.into_iter().collect();
        if axes.is_empty() {
            axes.push(Axis::Even { length: 1, step: 0 });
        }
        Picked { axes, data: Address(tensor.data), dtype: tensor.dtype }
    }

    /// How many places there are.
    pub(crate) fn count(&self) -> usize {
        numel(&self.axes.iter().map(Axis::length).collect::<Dims>())
    }

    /// Visits the places numbered from `from` on in runs of even steps: the number of the run's
    /// first place less `from`, its distance, the step and the length.
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
                base += axis.place(rest % axis.length());
                rest /= axis.length();
            }
            assert!(rest == 0, "outside of the places");
            match inner {
                Axis::Even { step, .. } => visit(done, base + start * step, *step, length),
                Axis::Table(places) => {
                    for (k, place) in places[start..start + length].iter().enumerate() {
                        visit(done + k, base + place, 0, 1);
                    }
                }
            }
            done += length;
        }
    }

    /// The distances of the places numbered from `from` on.
    pub(crate) fn places(&self, from: usize, to: &mut [usize]) {
        self.runs(from, to.len(), |at, place, step, length| {
            for (k, to) in to[at..at + length].iter_mut().enumerate() {
                *to = place + k * step;
            }
        });
    }

    /// Reads the elements numbered from `from` on.
    pub(crate) fn load<T: Element>(&self, from: usize, to: &mut [T]) {
        assert_eq!(T::DTYPE, self.dtype);
        self.runs(from, to.len(), |at, place, step, length| {
            for (k, to) in to[at..at + length].iter_mut().enumerate() {
                // SAFETY: the promise given to `new`; the dtype has been compared.
                *to = unsafe { self.data.0.wrapping_add(place + k * step).cast::<T>().read() };
            }
        });
    }

    /// Sets the elements numbered from `from` on to `f` of what they are and a value, in order.
    pub(crate) fn update<T: Element>(&self, from: usize, values: &[T], f: impl Fn(T, T) -> T) {
        assert_eq!(T::DTYPE, self.dtype);
        self.runs(from, values.len(), |at, place, step, length| {
            for (k, &value) in values[at..at + length].iter().enumerate() {
                let to = self.data.0.wrapping_add(place + k * step).cast::<T>();
                // SAFETY: as in `load`.
                unsafe { to.write(f(to.read(), value)) };
            }
        });
    }

    /// Reads the elements at these distances.
    ///
    /// # Safety
    /// They are distances of elements of the tensor, for which the promise given to `new` holds.
    pub(crate) unsafe fn load_at<T: Element>(&self, places: &[usize], to: &mut [T]) {
        assert_eq!(T::DTYPE, self.dtype);
        for (to, &place) in to.iter_mut().zip(places) {
            // SAFETY: the caller's promise; the dtype has been compared.
            *to = unsafe { self.data.0.wrapping_add(place).cast::<T>().read() };
        }
    }

    /// Sets the elements at these distances to `f` of what they are and a value, in order.
    ///
    /// # Safety
    /// As for [`Picked::load_at`].
    pub(crate) unsafe fn update_at<T: Element>(
        &self,
        places: &[usize],
        values: &[T],
        f: impl Fn(T, T) -> T,
    ) {
        assert_eq!(T::DTYPE, self.dtype);
        for (&value, &place) in values.iter().zip(places) {
            let to = self.data.0.wrapping_add(place).cast::<T>();
            // SAFETY: as in `load_at`.
            unsafe { to.write(f(to.read(), value)) };
        }
    }
}

/// Calls `f` for all of the numbers below `count` in chunks of at most [`CHUNK`]: with a state that
/// `init` makes for each block of them, the first number and how many. Blocks run side by side.
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

/// Copies the elements that `axes` lead to in `x`, in row-major order, to all of `out`.
///
/// # Safety
/// Every place that the axes lead to is an element of `x`. Both are operands of the call; `out` is
/// its output.
pub(crate) unsafe fn pick(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    axes: impl IntoIterator<Item = Axis>,
    out: RawTensor<'_>,
) -> Result<()> {
    // SAFETY: the caller's promise; blocks of the output are disjoint.
    let (from, to) = unsafe { (Picked::new(bits(&x), axes), Sequence::new(bits(&out))) };
    let (picked, count) = (from.count(), out.numel());
    let agree = picked == count && x.dtype == out.dtype;
    ensure!(agree, "{picked} elements of {x:?} for {out:?}: schema and kernel disagree");
    moved!(x.dtype, T => {
        in_chunks(ctx, count, || [<T as Element>::ZERO; CHUNK], |buffer, at, count| {
            from.load(at, &mut buffer[..count]);
            to.store(at, &buffer[..count]);
        });
    });
    Ok(())
}
