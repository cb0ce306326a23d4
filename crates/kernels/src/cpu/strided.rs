//! Loads and stores of strided operands. Almost all of the crate's unsafe code for memory is here.
//!
//! Kernels hold no reference into an operand, because two operands may be the same memory. They
//! load a piece of a row into their own buffer, compute there, and store it; a result may therefore
//! coincide with an operand. Loads and stores convert between dtypes.
//!
//! Long because that code stays in one file.

use anyhow::{Result, ensure};
use millstream_types::DType;

use super::conversion::convert_dense;
use super::element::{Element, cast, dispatch};
use super::traversal::{Order, Traversal};
use super::unsigned::{saturated, zero_extended};
use crate::context::RawTensor;

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

    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    fn at(&self, at: usize, count: usize) -> *mut u8 {
        assert!(count <= self.length && at <= self.length - count, "outside of a row");
        self.data.wrapping_add(at * self.step)
    }

    /// Loads the elements from number `at` on, converted to `T`.
    #[inline]
    pub(crate) fn load<T: Element>(&self, at: usize, to: &mut [T]) {
        // SAFETY: `to` is a buffer of the caller.
        unsafe { self.load_to(at, to.as_mut_ptr(), to.len()) };
    }

    /// Loads `count` elements from number `at` on, converted to `T`.
    ///
    /// # Safety
    /// `to` is valid for writes of `count` aligned elements, and outside of these elements; or its
    /// elements are these, of the same type and step.
    #[inline]
    pub(crate) unsafe fn load_to<T: Element>(&self, at: usize, to: *mut T, count: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.dtype.is_wide_unsigned() {
                true => self.load_unsigned(at, to, count),
                false => dispatch!(self.dtype, S => self.load_as::<S, T>(at, to, count)),
            }
        }
    }

    /// As [`StridedRow::load_to`], of u16, u32 or u64. Integers of their size take the bits.
    ///
    /// # Safety
    /// As for `load_to`.
    unsafe fn load_unsigned<T: Element>(&self, at: usize, to: *mut T, count: usize) {
        let bits = self.as_signed();
        if bits.dtype == T::DTYPE {
            // SAFETY: guaranteed by the caller.
            return unsafe { bits.load_as::<T, T>(at, to, count) };
        }
        let mut words = [0; CHUNK];
        for done in (0..count).step_by(CHUNK) {
            let words = &mut words[..CHUNK.min(count - done)];
            bits.load(at + done, words);
            let elements = words.iter().map(|&w| T::from_u64(zero_extended(w, self.dtype)));
            // SAFETY: guaranteed by the caller.
            unsafe { write_all(to.add(done), elements) };
        }
    }

    /// Returns the same bits as elements of the signed integer of the size of u16, u32 or u64.
    fn as_signed(&self) -> StridedRow {
        StridedRow { dtype: dispatch!(self.dtype, S => S::DTYPE), ..*self }
    }

    /// # Safety
    /// As for `load_to`.
    #[inline]
    unsafe fn load_as<S: Element, T: Element>(&self, at: usize, to: *mut T, count: usize) {
        assert_eq!(S::DTYPE, self.dtype);
        let from = self.at(at, count);
        // SAFETY: `at` has checked the range; the elements are valid, aligned and of this dtype by
        // the contract of `new`; the caller guarantees the rest.
        unsafe {
            if S::DTYPE == T::DTYPE && self.step == size_of::<T>() {
                std::ptr::copy(from.cast::<T>(), to, count);
            } else if self.step == size_of::<S>() {
                convert_dense::<S, T>(from.cast(), to, count);
            } else {
                convert_strided((from.cast::<S>(), self.step), (to, size_of::<T>()), count);
            }
        }
    }

    /// As [`StridedRow::load`], with each element converted to the dtype `via` first.
    pub(crate) fn load_via<T: Element>(&self, via: DType, at: usize, to: &mut [T]) {
        // SAFETY: `to` is a buffer of the caller.
        unsafe { self.load_via_to(via, at, to.as_mut_ptr(), to.len()) };
    }

    /// As [`StridedRow::load_to`], with each element converted to the dtype `via` first.
    ///
    /// # Safety
    /// `to` is valid for writes of `count` aligned elements, and outside of these elements.
    pub(crate) unsafe fn load_via_to<T: Element>(
        &self,
        via: DType,
        at: usize,
        to: *mut T,
        count: usize,
    ) {
        if via.is_wide_unsigned() {
            let mut words = [0; CHUNK];
            for done in (0..count).step_by(CHUNK) {
                let words = &mut words[..CHUNK.min(count - done)];
                self.load_words(via, at + done, words);
                // SAFETY: guaranteed by the caller.
                unsafe { write_all(to.add(done), words.iter().map(|&w| T::from_u64(w))) };
            }
            return;
        }
        // SAFETY: guaranteed by the caller.
        unsafe {
            dispatch!(via, V => {
                let mut values = [<V as Element>::ZERO; CHUNK];
                for done in (0..count).step_by(CHUNK) {
                    let values = &mut values[..CHUNK.min(count - done)];
                    self.load(at + done, values);
                    write_all(to.add(done), values.iter().map(|&v| cast::<V, T>(v)));
                }
            });
        }
    }

    /// Loads at most [`CHUNK`] elements from number `at` on, converted to u16, u32 or u64.
    fn load_words(&self, dtype: DType, at: usize, to: &mut [u64]) {
        if self.dtype.is_inexact() {
            let mut values = [0.0; CHUNK];
            self.load::<f64>(at, &mut values[..to.len()]);
            to.iter_mut().zip(values).for_each(|(to, v)| *to = saturated(v, dtype));
        } else {
            let mut values = [0; CHUNK];
            self.load::<i64>(at, &mut values[..to.len()]);
            to.iter_mut().zip(values).for_each(|(to, v)| *to = zero_extended(v, dtype));
        }
    }

    /// Stores the elements from number `at` on, converted from `T`.
    #[inline]
    pub(crate) fn store<T: Element>(&self, at: usize, from: &[T]) {
        // SAFETY: `from` is a buffer of the caller.
        unsafe { self.store_from(at, from.as_ptr(), from.len()) };
    }

    /// Stores `count` elements from number `at` on, converted from `T`.
    ///
    /// # Safety
    /// `from` is valid for reads of `count` aligned elements, and outside of these elements.
    #[inline]
    pub(crate) unsafe fn store_from<T: Element>(&self, at: usize, from: *const T, count: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.dtype.is_wide_unsigned() {
                true => self.store_unsigned(at, from, count),
                false => dispatch!(self.dtype, D => self.store_as::<T, D>(at, from, count)),
            }
        }
    }

    /// As [`StridedRow::store_from`], to u16, u32 or u64. Integers keep the low bits.
    ///
    /// # Safety
    /// As for `store_from`.
    unsafe fn store_unsigned<T: Element>(&self, at: usize, from: *const T, count: usize) {
        let bits = self.as_signed();
        if !T::DTYPE.is_inexact() {
            // SAFETY: guaranteed by the caller.
            return unsafe { bits.store_from(at, from, count) };
        }
        let mut words = [0; CHUNK];
        for done in (0..count).step_by(CHUNK) {
            let words = &mut words[..CHUNK.min(count - done)];
            for (k, word) in words.iter_mut().enumerate() {
                // SAFETY: guaranteed by the caller.
                let v: f64 = cast(unsafe { from.add(done + k).read() });
                *word = saturated(v, self.dtype).cast_signed();
            }
            bits.store(at + done, words);
        }
    }

    /// # Safety
    /// As for `store_from`.
    #[inline]
    unsafe fn store_as<T: Element, D: Element>(&self, at: usize, from: *const T, count: usize) {
        assert_eq!(D::DTYPE, self.dtype);
        let to = self.at(at, count);
        // SAFETY: as in `load_as`.
        unsafe {
            if D::DTYPE == T::DTYPE && self.step == size_of::<D>() {
                std::ptr::copy_nonoverlapping(from, to.cast::<T>(), count);
            } else if self.step == size_of::<D>() {
                convert_dense::<T, D>(from, to.cast(), count);
            } else {
                convert_strided((from, size_of::<T>()), (to.cast::<D>(), self.step), count);
            }
        }
    }

    /// Stores a value to every element.
    pub(crate) fn fill<T: Element>(&self, value: T) {
        // SAFETY: these are the elements of the row, valid by the contract of `new`.
        unsafe {
            dispatch!(self.dtype, D => {
                let (value, to) = (cast::<T, D>(value), self.data.cast::<D>());
                if self.step == size_of::<D>() {
                    for i in 0..self.length {
                        to.add(i).write(value);
                    }
                } else {
                    for i in 0..self.length {
                        to.byte_add(i * self.step).write(value);
                    }
                }
            });
        }
    }

    /// Returns the address of the first element if the elements follow one another in memory and
    /// are of the type `T`.
    pub(crate) fn dense<T: Element>(&self) -> Option<*mut T> {
        let dense = self.dtype == T::DTYPE && self.step == size_of::<T>();
        dense.then(|| self.data.cast())
    }
}

/// Writes elements one after another.
///
/// # Safety
/// `to` is valid for writes of as many aligned elements.
#[inline(always)]
unsafe fn write_all<T>(to: *mut T, values: impl Iterator<Item = T>) {
    for (k, v) in values.enumerate() {
        // SAFETY: guaranteed by the caller.
        unsafe { to.add(k).write(v) };
    }
}

/// Converts elements. Each address has the distance in bytes between its elements.
///
/// # Safety
/// `count` elements are valid for reads from `from`, aligned, and outside of those of `to`, which
/// are valid for writes; or they are these elements, of one type and step.
#[inline(always)]
unsafe fn convert_strided<S: Element, T: Element>(
    (from, from_step): (*const S, usize),
    (to, to_step): (*mut T, usize),
    count: usize,
) {
    for i in 0..count {
        // SAFETY: guaranteed by the caller. Elements of one type keep their bits, also of NaN.
        unsafe {
            let (from, to) = (from.byte_add(i * from_step), to.byte_add(i * to_step));
            match S::DTYPE == T::DTYPE {
                true => to.write(from.cast::<T>().read()),
                false => to.write(cast::<S, T>(from.read())),
            }
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

/// Returns whether a tensor of shape `from` broadcasts to `shape`.
pub(crate) fn broadcasts(from: &[usize], shape: &[usize]) -> bool {
    let mut lengths = from.iter().rev().zip(shape.iter().rev());
    from.len() <= shape.len() && lengths.all(|(&f, &s)| f == s || f == 1)
}

/// Returns the step in bytes of dimension `k` of a shape of `rank` dimensions that `tensor`
/// broadcasts to.
pub(crate) fn broadcast_step(tensor: &RawTensor<'_>, rank: usize, k: usize) -> usize {
    match (k + tensor.shape.len()).checked_sub(rank) {
        // A tensor without elements may have any strides.
        Some(at) if tensor.shape[at] != 1 => tensor.strides[at].wrapping_mul(tensor.dtype.size()),
        _ => 0,
    }
}

/// Returns whether a tensor has elements that follow one another in row-major order.
pub(crate) fn is_dense(tensor: &RawTensor<'_>) -> bool {
    tensor.numel() > 0 && tensor.is_contiguous()
}

/// One operand, accessed by element number in row-major order.
pub(crate) struct Sequence {
    traversal: Traversal<1>,
    data: Address,
    dtype: DType,
    /// Whether the elements follow one another in memory.
    dense: bool,
}

impl Sequence {
    /// # Safety
    /// The contract of [`Loop::new`](super::loops::Loop::new) holds, and concurrent stores are
    /// disjoint.
    pub(crate) unsafe fn new(tensor: RawTensor<'_>) -> Sequence {
        let step = |k| [broadcast_step(&tensor, tensor.shape.len(), k)];
        Sequence {
            traversal: Traversal::new(tensor.shape, step, Order::RowMajor),
            data: Address(tensor.data),
            dtype: tensor.dtype,
            dense: is_dense(&tensor),
        }
    }

    /// Returns the address of the first element, if all are of this type and follow one another.
    pub(crate) fn direct<T: Element>(&self) -> Option<*mut T> {
        (self.dense && self.dtype == T::DTYPE).then(|| self.data.0.cast())
    }

    /// Returns the elements themselves, if all are of this type and follow one another.
    ///
    /// # Safety
    /// Nothing writes the operand while the slice lives.
    pub(crate) unsafe fn slice<T: Element>(&self) -> Option<&[T]> {
        // SAFETY: the operand is valid by the contract of `new`, and not written by that above.
        self.direct::<T>().map(|data| unsafe {
            std::slice::from_raw_parts(data.cast_const(), self.traversal.count())
        })
    }

    /// Returns the elements from number `from` on: themselves, if they are of this type and follow
    /// one another, else copies in the buffer.
    ///
    /// # Safety
    /// Nothing writes the operand while the slice lives.
    pub(crate) unsafe fn elements<'a, T: Element>(
        &'a self,
        from: usize,
        count: usize,
        buffer: &'a mut Vec<T>,
    ) -> &'a [T] {
        // SAFETY: guaranteed by the caller.
        if let Some(all) = unsafe { self.slice::<T>() } {
            return &all[from..from + count];
        }
        buffer.resize(count, T::ZERO);
        self.load(from, buffer);
        buffer
    }

    /// Sets the elements from number `from` on to those that `f` computes: in place if they are of
    /// this type and follow one another, else in the buffer.
    ///
    /// # Safety
    /// Nothing else accesses these elements until `f` has returned.
    pub(crate) unsafe fn compute<T: Element, R>(
        &self,
        from: usize,
        count: usize,
        buffer: &mut Vec<T>,
        f: impl FnOnce(&mut [T]) -> R,
    ) -> R {
        if let Some(data) = self.direct::<T>() {
            assert!(from + count <= self.traversal.count(), "outside of an operand");
            // SAFETY: the elements lie in the operand, which is valid by the contract of `new`; the
            // caller guarantees that nothing else accesses them.
            return f(unsafe { std::slice::from_raw_parts_mut(data.add(from), count) });
        }
        buffer.resize(count, T::ZERO);
        let result = f(buffer);
        self.store(from, buffer);
        result
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

/// Loads all elements of an operand, in row-major order.
pub(crate) fn load_all<T: Element>(x: RawTensor<'_>) -> Vec<T> {
    let mut values = vec![T::ZERO; x.numel()];
    // SAFETY: an operand of the call, only read here.
    unsafe { Sequence::new(x) }.load(0, &mut values);
    values
}

/// Stores all elements of an output, in row-major order.
pub(crate) fn store_all<T: Element>(out: RawTensor<'_>, values: &[T]) -> Result<()> {
    let count = values.len();
    ensure!(out.numel() == count, "{count} elements for {out:?}: schema and kernel disagree");
    // SAFETY: an output of the call, stored by this thread alone.
    unsafe { Sequence::new(out) }.store(0, values);
    Ok(())
}
