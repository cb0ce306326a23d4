//! Memory besides operands: the workspace, and temporaries on the heap.

use std::any::Any;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, ensure};
use millstream_types::layout::{contiguous_strides, numel};
use millstream_types::{DType, Dims, Layout};

use super::element::Element;
use crate::context::{KernelCtx, RawTensor};

/// An allocator that splits the workspace into aligned pieces.
pub(crate) struct Workspace {
    next: *mut u8,
    left: usize,
}

impl Workspace {
    /// Returns the whole workspace of a call. Call it once per kernel call: pieces must not
    /// overlap.
    pub(crate) fn of(ctx: &KernelCtx<'_>) -> Workspace {
        let (next, left) = ctx.workspace();
        Workspace { next, left }
    }

    /// Returns the address of `bytes` bytes, aligned to `align`.
    ///
    /// # Errors
    /// Fails if too few bytes remain.
    pub(crate) fn take(&mut self, bytes: usize, align: usize) -> Result<*mut u8> {
        let skipped = self.next.addr().wrapping_neg() % align;
        let used =
            skipped.checked_add(bytes).filter(|&used| used <= self.left).with_context(|| {
                format!(
                    "workspace: expected {bytes} more bytes, got {}: schema and kernel disagree",
                    self.left
                )
            })?;
        let at = self.next.wrapping_add(skipped);
        self.next = self.next.wrapping_add(used);
        self.left -= used;
        Ok(at)
    }

    /// Returns `count` zeroed words that threads may share.
    ///
    /// # Errors
    /// Fails if too few bytes remain.
    pub(crate) fn words<'a>(
        &mut self,
        _ctx: &'a KernelCtx<'_>,
        count: usize,
    ) -> Result<&'a [AtomicU64]> {
        let bytes = count.checked_mul(size_of::<u64>()).context("workspace: too many words")?;
        let data = self.take(bytes, align_of::<AtomicU64>())?.cast::<AtomicU64>();
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: `take` returned that many aligned bytes to this caller alone. By the contract of
        // the context, they are valid and not used otherwise while the context lives. Zeroed bytes
        // are valid AtomicU64s.
        unsafe {
            data.write_bytes(0, count);
            Ok(std::slice::from_raw_parts(data, count))
        }
    }
}

impl Workspace {
    /// Returns `count` elements that `fill` sets; `fill` receives zeros.
    ///
    /// # Errors
    /// Fails if too few bytes remain.
    pub(crate) fn slice<'a, T: Element>(
        &mut self,
        _ctx: &'a KernelCtx<'_>,
        count: usize,
        align: usize,
        fill: impl FnOnce(&mut [T]),
    ) -> Result<&'a [T]> {
        assert!(align >= align_of::<T>());
        let bytes = count.checked_mul(size_of::<T>()).context("workspace: too many elements")?;
        let data = self.take(bytes, align)?.cast::<T>();
        if count == 0 {
            return Ok(&[]);
        }
        // SAFETY: as in `words`; any bytes are valid elements.
        unsafe {
            data.write_bytes(0, count);
            fill(std::slice::from_raw_parts_mut(data, count));
            Ok(std::slice::from_raw_parts(data, count))
        }
    }
}

/// A dense tensor on the heap.
pub(crate) struct Temporary {
    // Words, to be aligned for every element type.
    words: Vec<u64>,
    dtype: DType,
    shape: Dims,
    strides: Dims,
}

impl Temporary {
    /// Returns a tensor of zeros.
    ///
    /// # Errors
    /// Fails if memory is exhausted.
    pub(crate) fn new(dtype: DType, shape: &[usize]) -> Result<Temporary> {
        let bytes = numel(shape).checked_mul(dtype.size());
        let count = bytes
            .context("expected a temporary of fewer than 2^64 bytes")?
            .div_ceil(size_of::<u64>());
        let mut words = Vec::new();
        words.try_reserve_exact(count).with_context(|| {
            format!("out of memory for a temporary of {count} words of 8 bytes")
        })?;
        words.resize(count, 0);
        Ok(Temporary {
            words,
            dtype,
            shape: Dims::from_slice(shape),
            strides: contiguous_strides(shape)?,
        })
    }

    /// Sets every word of the memory.
    pub(crate) fn fill(&mut self, word: u64) {
        self.words.fill(word);
    }

    /// Returns the tensor as an operand.
    pub(crate) fn tensor(&mut self) -> RawTensor<'_> {
        RawTensor {
            data: self.words.as_mut_ptr().cast(),
            dtype: self.dtype,
            shape: &self.shape,
            strides: &self.strides,
        }
    }
}

/// The most bytes of a buffer that is kept, and the most buffers that a thread keeps.
const KEPT_BYTES: usize = 4 << 20;
const KEPT: usize = 4;

thread_local! {
    static KEPT_BUFFERS: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

/// Elements on the heap whose memory the thread keeps for later calls: the system zeroes the pages
/// of fresh memory one by one.
pub(crate) struct Buffer<T: Element>(Vec<T>);

impl<T: Element> Buffer<T> {
    /// Returns this many elements with any values.
    pub(crate) fn new(count: usize) -> Buffer<T> {
        let capacity = |kept: &dyn Any| kept.downcast_ref().map(Vec::<T>::capacity);
        let kept = KEPT_BUFFERS.with_borrow_mut(|all| {
            let of_type = (0..all.len()).filter(|&at| capacity(&*all[at]).is_some());
            let largest = of_type.max_by_key(|&at| capacity(&*all[at]))?;
            all.swap_remove(largest).downcast::<Vec<T>>().ok()
        });
        let mut buffer = Buffer(kept.map_or_else(Vec::new, |kept| *kept));
        buffer.resize(count);
        buffer
    }

    /// Changes the number of elements; their values are any.
    pub(crate) fn resize(&mut self, count: usize) {
        if self.0.capacity() < count {
            // The old elements are not copied.
            self.0 = Vec::new();
        }
        self.0.resize(count, T::ZERO);
    }
}

impl<T: Element> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Element> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Element> Drop for Buffer<T> {
    fn drop(&mut self) {
        let values = std::mem::take(&mut self.0);
        if values.capacity() * size_of::<T>() > KEPT_BYTES {
            return;
        }
        // At the end of a thread there may be no list any more; then the memory is freed.
        let _ = KEPT_BUFFERS.try_with(|all| {
            let mut all = all.borrow_mut();
            if all.len() < KEPT {
                all.push(Box::new(values));
            }
        });
    }
}

/// Returns the tensor, with one dimension if it has none.
pub(crate) fn at_least_1d<'a>(x: &RawTensor<'a>) -> RawTensor<'a> {
    match x.shape {
        [] => RawTensor { shape: &[1], strides: &[1], ..*x },
        _ => *x,
    }
}

/// Returns the layout of an operand relative to its first element.
///
/// # Errors
/// None for an operand, whose layout is valid.
pub(crate) fn layout(tensor: &RawTensor<'_>) -> Result<Layout> {
    Ok(Layout::strided(tensor.shape, tensor.strides, 0)?)
}

/// Returns a view of an operand; `layout` is derived from the result of [`layout()`].
pub(crate) fn view<'a>(tensor: &RawTensor<'_>, layout: &'a Layout) -> RawTensor<'a> {
    RawTensor {
        data: tensor.data.wrapping_add(layout.offset() * tensor.dtype.size()),
        dtype: tensor.dtype,
        shape: layout.shape(),
        strides: layout.strides(),
    }
}

/// Returns the same elements as integers of their size, or as c128, for kernels that only move
/// them.
pub(crate) fn bits<'a>(tensor: &RawTensor<'a>) -> RawTensor<'a> {
    let dtype = match tensor.dtype.size() {
        1 => DType::U8,
        2 => DType::I16,
        4 => DType::I32,
        8 => DType::I64,
        _ => DType::C128,
    };
    RawTensor { dtype, ..*tensor }
}

/// Returns the number of bytes from the first element of a tensor to the end of the last.
pub(crate) fn byte_count(tensor: &RawTensor<'_>) -> usize {
    if tensor.shape.contains(&0) {
        return 0;
    }
    let last: usize = tensor.shape.iter().zip(tensor.strides).map(|(&d, &s)| (d - 1) * s).sum();
    (last + 1) * tensor.dtype.size()
}

/// Returns whether the address ranges of two tensors overlap.
pub(crate) fn may_overlap(a: &RawTensor<'_>, b: &RawTensor<'_>) -> bool {
    ranges_overlap((a.data, byte_count(a)), (b.data, byte_count(b)))
}

/// Returns whether two ranges, each given by its address and number of bytes, overlap.
fn ranges_overlap(a: (*mut u8, usize), b: (*mut u8, usize)) -> bool {
    a.0.addr() < b.0.addr() + b.1 && b.0.addr() < a.0.addr() + a.1
}

/// Returns whether two tensors have the same elements at the same indices.
pub(crate) fn is_same(a: &RawTensor<'_>, b: &RawTensor<'_>) -> bool {
    a.data == b.data && is_like(a, b)
}

/// Returns whether two tensors would be the same at one address.
fn is_like(a: &RawTensor<'_>, b: &RawTensor<'_>) -> bool {
    let mut dims = a.shape.iter().zip(a.strides.iter().zip(b.strides));
    a.dtype == b.dtype && a.shape == b.shape && dims.all(|(&d, (a, b))| d == 1 || a == b)
}

/// Returns whether two indices may name the same element.
pub(crate) fn overlaps_itself(tensor: &RawTensor<'_>) -> bool {
    // An operand has a valid layout; for any other, the answer is the safe one.
    let overlaps = || layout(tensor).map_or(true, |l| l.may_overlap_itself());
    !tensor.is_contiguous() && overlaps()
}

/// The layout of an input beside the output of its call, as far as an overlap depends on it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extent {
    bytes: usize,
    /// Whether the input at the address of the output is the output.
    like_output: bool,
}

impl Extent {
    pub(crate) fn of(input: &RawTensor<'_>, out: &RawTensor<'_>) -> Extent {
        Extent { bytes: byte_count(input), like_output: is_like(input, out) }
    }

    /// Returns whether the input at this address overlaps the output, of `bytes` bytes, without
    /// being the output.
    #[inline]
    pub(crate) fn clashes(&self, input: *mut u8, out: *mut u8, bytes: usize) -> bool {
        let is_output = self.like_output && input == out;
        !is_output && ranges_overlap((input, self.bytes), (out, bytes))
    }
}

/// Checks the dtype of an operand.
pub(crate) fn expect_dtype(tensor: &RawTensor<'_>, dtype: DType) -> Result<()> {
    ensure!(tensor.dtype == dtype, "{tensor:?}: expected {dtype}: schema and kernel disagree");
    Ok(())
}
