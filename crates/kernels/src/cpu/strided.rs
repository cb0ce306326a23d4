//! Reading and writing strided operands. Almost all of the crate's unsafe code for memory is here.
//!
//! Kernels never see a reference into an operand, because two operands may be the same memory.
//! They load a piece of a row into a buffer of their own, compute there, and store it; so a result
//! may lie exactly over an operand. Loads and stores convert between dtypes on the way.

use anyhow::{Result, ensure};
use millstream_types::DType;

use super::element::{Element, cast, dispatch};
use super::walk::{Order, Row, Walk};
use crate::context::{KernelCtx, RawTensor};

/// Elements that a kernel loads, computes and stores at once. A few such buffers stay in the
/// first-level cache.
pub(crate) const CHUNK: usize = 256;

/// Elements of an elementwise op that make one piece of parallel work.
pub(crate) const BLOCK: usize = 1 << 15;

/// Elements in a line: the part of an operand that a row covers.
///
/// Whoever makes one promises that the elements are valid for loads, and for stores if it is
/// stored to, and aligned; that nobody writes them but through lanes of the same kernel call; and
/// that no two threads use an element at once if one of them stores it.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    data: *mut u8,
    /// Bytes from one element to the next.
    step: usize,
    length: usize,
    dtype: DType,
}

impl Lane {
    /// # Safety
    /// The promise above holds.
    pub(crate) unsafe fn new(data: *mut u8, step: usize, length: usize, dtype: DType) -> Lane {
        Lane { data, step, length, dtype }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    fn at(&self, at: usize, count: usize) -> *mut u8 {
        assert!(count <= self.length && at <= self.length - count, "outside of a row");
        self.data.wrapping_add(at * self.step)
    }

    /// Reads the elements from number `at` on, converted to `T`.
    #[inline]
    pub(crate) fn load<T: Element>(&self, at: usize, to: &mut [T]) {
        dispatch!(self.dtype, S => self.load_as::<S, T>(at, to));
    }

    #[inline]
    fn load_as<S: Element, T: Element>(&self, at: usize, to: &mut [T]) {
        assert_eq!(S::DTYPE, self.dtype);
        let from = self.at(at, to.len());
        // SAFETY: `at` has checked the range; the lane's maker promises valid, aligned elements of
        // this dtype; `to` is a buffer of the caller's.
        unsafe {
            if S::DTYPE == T::DTYPE {
                gather(from.cast::<T>(), self.step, to, |v| v);
            } else {
                gather(from.cast::<S>(), self.step, to, cast::<S, T>);
            }
        }
    }

    /// As [`Lane::load`], each element converted to the dtype `via` first.
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

    /// Writes the elements from number `at` on, converted from `T`.
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
/// `to.len()` elements, `step` bytes apart, are valid for reads from `from`, aligned, and not in
/// `to`.
#[inline(always)]
unsafe fn gather<S: Element, T>(from: *const S, step: usize, to: &mut [T], f: impl Fn(S) -> T) {
    if step == size_of::<S>() {
        for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *to = f(unsafe { *from.add(i) });
        }
    } else {
        for (i, to) in to.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *to = f(unsafe { *from.byte_add(i * step) });
        }
    }
}

/// # Safety
/// `from.len()` elements, `step` bytes apart, are valid for writes from `to`, aligned, and not in
/// `from`.
#[inline(always)]
unsafe fn scatter<T: Copy, D: Element>(from: &[T], to: *mut D, step: usize, f: impl Fn(T) -> D) {
    if step == size_of::<D>() {
        for (i, &v) in from.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *to.add(i) = f(v) };
        }
    } else {
        for (i, &v) in from.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { *to.byte_add(i * step) = f(v) };
        }
    }
}

/// An address that threads may share; what may be done there is the business of its user.
#[derive(Clone, Copy)]
pub(crate) struct Address(pub(crate) *mut u8);

// SAFETY: an address alone does nothing. Every use of it is in an unsafe block of its own.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}

/// The bytes that dimension `k` of `shape` steps over in `tensor`, which broadcasts to `shape`.
pub(crate) fn broadcast_step(tensor: &RawTensor<'_>, rank: usize, k: usize) -> usize {
    match (k + tensor.shape.len()).checked_sub(rank) {
        // The strides of a tensor without elements may be anything.
        Some(at) if tensor.shape[at] != 1 => tensor.strides[at].wrapping_mul(tensor.dtype.size()),
        _ => 0,
    }
}

/// `N` operands walked together over the shape that they broadcast to.
pub(crate) struct Loop<const N: usize> {
    walk: Walk<N>,
    data: [Address; N],
    dtypes: [DType; N],
}

impl<const N: usize> Loop<N> {
    /// # Safety
    /// The operands are those of the current kernel call or memory that it alone uses, valid and
    /// aligned; nothing is stored to an operand that names an element more than once or that
    /// partly overlaps another.
    ///
    /// # Errors
    /// An operand that does not broadcast to `shape`.
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
            walk: Walk::new(shape, step, order),
            data: operands.map(|o| Address(o.data)),
            dtypes: operands.map(|o| o.dtype),
        })
    }

    /// Cuts the elements into blocks of `block`, in the walk's order, and calls `rows` for every
    /// row of every block, with the block's number and a state that `init` makes for each block.
    /// Blocks run side by side, the rows of one block in order.
    pub(crate) fn for_each<S>(
        &self,
        ctx: &KernelCtx<'_>,
        block: usize,
        init: impl Fn(usize) -> S + Sync + Send,
        rows: impl Fn(&mut S, &[Lane; N]) + Sync + Send,
    ) {
        ctx.for_each(self.walk.count().div_ceil(block), |number| {
            let mut state = init(number);
            self.walk.rows(number * block, (number + 1) * block, |row| {
                rows(&mut state, &self.lanes(&row));
            });
        });
    }

    fn lanes(&self, row: &Row<N>) -> [Lane; N] {
        std::array::from_fn(|i| {
            let data = self.data[i].0.wrapping_add(row.offsets[i]);
            // SAFETY: the row lies in the operand, whose elements are valid by the promise given
            // to `new`. Blocks cover disjoint elements of an operand that is stored to.
            unsafe { Lane::new(data, row.steps[i], row.length, self.dtypes[i]) }
        })
    }
}

/// One operand in row-major order, read or written by element number.
pub(crate) struct Sequence {
    walk: Walk<1>,
    data: Address,
    dtype: DType,
}

impl Sequence {
    /// # Safety
    /// As for [`Loop::new`]; and what threads store side by side is disjoint.
    pub(crate) unsafe fn new(tensor: RawTensor<'_>) -> Sequence {
        let step = |k| [broadcast_step(&tensor, tensor.shape.len(), k)];
        Sequence {
            walk: Walk::new(tensor.shape, step, Order::RowMajor),
            data: Address(tensor.data),
            dtype: tensor.dtype,
        }
    }

    fn lanes(&self, from: usize, count: usize, mut f: impl FnMut(usize, Lane)) {
        assert!(from + count <= self.walk.count(), "outside of an operand");
        let mut at = 0;
        self.walk.rows(from, from + count, |row| {
            let data = self.data.0.wrapping_add(row.offsets[0]);
            // SAFETY: the row lies in the operand; the rest is the promise given to `new`.
            f(at, unsafe { Lane::new(data, row.steps[0], row.length, self.dtype) });
            at += row.length;
        });
    }

    /// Reads the elements from number `from` on.
    pub(crate) fn load<T: Element>(&self, from: usize, to: &mut [T]) {
        self.lanes(from, to.len(), |at, lane| lane.load(0, &mut to[at..at + lane.len()]));
    }

    /// Writes the elements from number `from` on.
    pub(crate) fn store<T: Element>(&self, from: usize, values: &[T]) {
        self.lanes(from, values.len(), |at, lane| lane.store(0, &values[at..at + lane.len()]));
    }
}
