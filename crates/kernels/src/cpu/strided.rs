//! Loads and stores of strided operands. Almost all of the crate's unsafe code for memory is here.
//!
//! Kernels hold no reference into an operand, because two operands may be the same memory. They
//! load a piece of a row into their own buffer, compute there, and store it; a result may therefore
//! coincide with an operand. Loads and stores convert between dtypes.

use anyhow::{Result, ensure};
use millstream_types::DType;

use super::element::{Element, cast, dispatch};
use super::traversal::{Order, Row, Traversal};
use crate::context::{KernelCtx, RawTensor};

/// The number of elements that a kernel loads, computes and stores at once. A few such buffers fit
/// into the first-level cache.
pub(crate) const CHUNK: usize = 256;

/// The number of elements of an elementwise op in one parallel task.
pub(crate) const BLOCK: usize = 1 << 15;

/// A row of elements of an operand, with equal steps.
///
/// The caller of `new` guarantees that the elements are aligned and valid for loads, and for stores
/// if the row is stored to; that nothing else writes them while the kernel call runs, except other
/// rows of the same call; and that no two threads access an element at once if one of them stores
/// it.
#[derive(Clone, Copy)]
pub(crate) struct StridedRow {
    data: *mut u8,
    /// Bytes from one element to the next.
    step: usize,
    length: usize,
    dtype: DType,
}

impl StridedRow {
    /// # Safety
    /// The guarantees of [`StridedRow`] hold.
    pub(crate) unsafe fn new(
        data: *mut u8,
        step: usize,
        length: usize,
        dtype: DType,
    ) -> StridedRow {
        StridedRow { data, step, length, dtype }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    fn at(&self, at: usize, count: usize) -> *mut u8 {
        assert!(count <= self.length && at <= self.length - count, "outside of a row");
        self.data.wrapping_add(at * self.step)
    }

    /// Loads the elements from number `at` on, converted to `T`.
    #[inline]
    pub(crate) fn load<T: Element>(&self, at: usize, to: &mut [T]) {
        dispatch!(self.dtype, S => self.load_as::<S, T>(at, to));
    }

    #[inline]
    fn load_as<S: Element, T: Element>(&self, at: usize, to: &mut [T]) {
        assert_eq!(S::DTYPE, self.dtype);
        let from = self.at(at, to.len());
        // SAFETY: `at` has checked the range; the elements are valid, aligned and of this dtype by
        // the contract of `new`; `to` is a buffer of the caller.
        unsafe {
            if S::DTYPE == T::DTYPE {
                gather(from.cast::<T>(), self.step, to, |v| v);
            } else {
                gather(from.cast::<S>(), self.step, to, cast::<S, T>);
            }
        }
    }

    /// As [`StridedRow::load`], with each element converted to the dtype `via` first.
    pub(crate) fn load_via<T: Element>(&self, via: DType, at: usize, to: &mut [T]) {
        dispatch!(via, V => {
            let mut values = [<V as Element>::ZERO; CHUNK];
            for (k, to) in to.chunks_mut(CHUNK).enumerate() {
                let values = &mut values[..to.len()];
                self.load(at + k * CHUNK, values);
                for (to, &v) in to.iter_mut().zip(values.iter()) {
                    *to = cast::<V, T>(v);
                }
            }
        });
    }

    /// Stores the elements from number `at` on, converted from `T`.
    #[inline]
    pub(crate) fn store<T: Element>(&self, at: usize, from: &[T]) {
        dispatch!(self.dtype, D => self.store_as::<T, D>(at, from));
    }

    #[inline]
    fn store_as<T: Element, D: Element>(&self, at: usize, from: &[T]) {
        assert_eq!(D::DTYPE, self.dtype);
        let to = self.at(at, from.len());
        // SAFETY: as in `load_as`.
        unsafe {
            if D::DTYPE == T::DTYPE {
                scatter(from, to.cast::<T>(), self.step, |v| v);
            } else {
                scatter(from, to.cast::<D>(), self.step, cast::<T, D>);
            }
        }
    }
}

/// # Safety
/// `to.len()` elements, `step` bytes apart, are valid for reads from `from`, aligned, and outside
/// of `to`.
#[inline(always)]
unsafe fn gather<S: Element, T>(from: *const S, step: usize, to: &mut [T], f: impl Fn(S) -> T) {
    if step == size_of::<S>() {
        for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller.
            *to = f(unsafe { *from.add(i) });
        }
    } else {
        for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller.
            *to = f(unsafe { *from.byte_add(i * step) });
        }
    }
}

/// # Safety
/// `from.len()` elements, `step` bytes apart, are valid for writes from `to`, aligned, and outside
/// of `from`.
#[inline(always)]
unsafe fn scatter<T: Copy, D: Element>(from: &[T], to: *mut D, step: usize, f: impl Fn(T) -> D) {
    if step == size_of::<D>() {
        for (i, &v) in from.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.add(i) = f(v) };
        }
    } else {
        for (i, &v) in from.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { *to.byte_add(i * step) = f(v) };
        }
    }
}

/// An address that threads may share. Each user is responsible for its accesses.
#[derive(Clone, Copy)]
pub(crate) struct Address(pub(crate) *mut u8);

// SAFETY: an address alone does nothing. Every access through it is in an unsafe block.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// Returns the step in bytes of dimension `k` of a shape of `rank` dimensions that `tensor`
/// broadcasts to.
pub(crate) fn broadcast_step(tensor: &RawTensor<'_>, rank: usize, k: usize) -> usize {
    match (k + tensor.shape.len()).checked_sub(rank) {
        // A tensor without elements may have any strides.
        Some(at) if tensor.shape[at] != 1 => tensor.strides[at].wrapping_mul(tensor.dtype.size()),
        _ => 0,
    }
}

/// A joint loop over `N` operands in the shape that they broadcast to.
pub(crate) struct Loop<const N: usize> {
    traversal: Traversal<N>,
    data: [Address; N],
    dtypes: [DType; N],
}

impl<const N: usize> Loop<N> {
    /// # Safety
    /// The operands are those of the current kernel call or memory that it alone uses, valid and
    /// aligned; nothing is stored to an operand that overlaps itself or partly overlaps another.
    ///
    /// # Errors
    /// Fails if an operand does not broadcast to `shape`.
    pub(crate) unsafe fn new(
        shape: &[usize],
        operands: [RawTensor<'_>; N],
        order: Order,
    ) -> Result<Loop<N>> {
        for operand in &operands {
            let fits = operand.shape.len() <= shape.len()
                && operand
                    .shape
                    .iter()
                    .rev()
                    .zip(shape.iter().rev())
                    .all(|(&o, &s)| o == s || o == 1);
            ensure!(
                fits,
                "{operand:?} does not broadcast to {shape:?}: schema and kernel disagree"
            );
        }
        let step = |k| std::array::from_fn(|i| broadcast_step(&operands[i], shape.len(), k));
        Ok(Loop {
            traversal: Traversal::new(shape, step, order),
            data: operands.map(|o| Address(o.data)),
            dtypes: operands.map(|o| o.dtype),
        })
    }

    /// Divides the elements into blocks of `block` in the order of the traversal, and calls `rows`
    /// for every row of every block, with a state that `init` makes from the number of the block.
    /// Blocks run in parallel, the rows of one block in order.
    pub(crate) fn for_each<S>(
        &self,
        ctx: &KernelCtx<'_>,
        block: usize,
        init: impl Fn(usize) -> S + Sync + Send,
        rows: impl Fn(&mut S, &[StridedRow; N]) + Sync + Send,
    ) {
        ctx.for_each(self.traversal.count().div_ceil(block), |number| {
            let mut state = init(number);
            self.traversal.rows(number * block, (number + 1) * block, |row| {
                rows(&mut state, &self.rows(&row));
            });
        });
    }

    fn rows(&self, row: &Row<N>) -> [StridedRow; N] {
        std::array::from_fn(|i| {
            let data = self.data[i].0.wrapping_add(row.offsets[i]);
            // SAFETY: the row lies in the operand, whose elements are valid by the contract of
            // `new`. Blocks cover disjoint elements of an operand that is stored to.
            unsafe { StridedRow::new(data, row.steps[i], row.length, self.dtypes[i]) }
        })
    }
}

/// One operand, accessed by element number in row-major order.
pub(crate) struct Sequence {
    traversal: Traversal<1>,
    data: Address,
    dtype: DType,
}

impl Sequence {
    /// # Safety
    /// The contract of [`Loop::new`] holds, and concurrent stores are disjoint.
    pub(crate) unsafe fn new(tensor: RawTensor<'_>) -> Sequence {
        let step = |k| [broadcast_step(&tensor, tensor.shape.len(), k)];
        Sequence {
            traversal: Traversal::new(tensor.shape, step, Order::RowMajor),
            data: Address(tensor.data),
            dtype: tensor.dtype,
        }
    }

    fn rows(&self, from: usize, count: usize, mut f: impl FnMut(usize, StridedRow)) {
        assert!(from + count <= self.traversal.count(), "outside of an operand");
        let mut at = 0;
        self.traversal.rows(from, from + count, |row| {
            let data = self.data.0.wrapping_add(row.offsets[0]);
            // SAFETY: the row lies in the operand; the rest is the contract of `new`.
            f(at, unsafe { StridedRow::new(data, row.steps[0], row.length, self.dtype) });
            at += row.length;
        });
    }

    /// Loads the elements from number `from` on.
    pub(crate) fn load<T: Element>(&self, from: usize, to: &mut [T]) {
        self.rows(from, to.len(), |at, row| row.load(0, &mut to[at..at + row.len()]));
    }

    /// Stores the elements from number `from` on.
    pub(crate) fn store<T: Element>(&self, from: usize, values: &[T]) {
        self.rows(from, values.len(), |at, row| row.store(0, &values[at..at + row.len()]));
    }
}
