//! Kernels of `gather`, `scatter` and `scatter_add`: an index for each element along a dimension.

use anyhow::{Context, Result, ensure};
use millstream_ops::args::Scalar;
use millstream_types::{DType, Dims, Layout};

use super::{check, has_wide_sums, with_wide};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::copy::{copy_if_overlapping, set};
use crate::cpu::copy_primitives::COPY_PRIMITIVES;
use crate::cpu::element::{Element, dispatch, moved};
use crate::cpu::indexed::{Axis, IndexedElements, even, in_chunks, step};
use crate::cpu::memory::{Temporary, at_least_1d, bits, view};
use crate::cpu::number::Number;
use crate::cpu::strided::{CHUNK, Sequence};
use crate::data_movement::{changed, required_dim};

/// The elements of a tensor at an index along a dimension.
pub(super) struct DimIndex {
    /// The elements at index zero.
    origin: IndexedElements,
    index: Sequence,
    /// The bytes between neighbouring elements of the dimension.
    step: usize,
    count: usize,
}

impl DimIndex {
    /// Checks the index.
    ///
    /// # Safety
    /// The contract of [`IndexedElements::new`] holds for `x`.
    pub(super) unsafe fn new(
        ctx: &KernelCtx<'_>,
        x: RawTensor<'_>,
        index: &RawTensor<'_>,
    ) -> Result<DimIndex> {
        let (x, index) = (at_least_1d(&x), at_least_1d(index));
        let dim = required_dim(ctx, x.shape.len())?;
        if index.numel() > 0 {
            let agree = x.shape.len() == index.shape.len()
                && (0..x.shape.len()).all(|k| k == dim || index.shape[k] <= x.shape[k]);
            ensure!(agree, "{index:?} into {x:?}: schema and kernel disagree");
            check(ctx, &index, x.shape[dim], false)?;
        }
        let axis = |(k, &length): (usize, &usize)| match k == dim {
            true => Axis::Even { length, step: 0 },
            false => even(&x, k, length),
        };
        let axes: Vec<Axis> = match index.numel() {
            0 => Vec::new(),
            _ => index.shape.iter().enumerate().map(axis).collect(),
        };
        let step = step(&x, dim);
        // SAFETY: guaranteed by the caller; along other dimensions the index is no longer than x.
        // The index is an operand that is only read.
        let (origin, index_elements) =
            unsafe { (IndexedElements::new(x, axes), Sequence::new(index)) };
        Ok(DimIndex { origin, index: index_elements, step, count: index.numel() })
    }

    /// Computes the offsets of the elements from position `at` on.
    fn offsets(&self, at: usize, indices: &mut [i64], offsets: &mut [usize]) {
        self.origin.offsets(at, offsets);
        self.index.load(at, indices);
        for (offset, &index) in offsets.iter_mut().zip(indices.iter()) {
            *offset += index as usize * self.step;
        }
    }

    /// Loads the elements from position `at` on.
    fn load<T: Element>(
        &self,
        at: usize,
        to: &mut [T],
        indices: &mut [i64],
        offsets: &mut [usize],
    ) {
        self.offsets(at, indices, offsets);
        // SAFETY: the index is checked.
        unsafe { self.origin.load_at(offsets, to) };
    }

    /// Sets the indexed elements, in order, to `f` of their old content and the values.
    pub(super) fn update<T: Element>(&self, values: &Sequence, f: impl Fn(T, T) -> T) {
        let (mut buffer, mut indices, mut offsets) =
            ([T::ZERO; CHUNK], [0i64; CHUNK], [0usize; CHUNK]);
        for at in (0..self.count).step_by(CHUNK) {
            let count = CHUNK.min(self.count - at);
            let (buffer, offsets) = (&mut buffer[..count], &mut offsets[..count]);
            self.offsets(at, &mut indices[..count], offsets);
            values.load(at, buffer);
            // SAFETY: the index is checked.
            unsafe { self.origin.update_at(offsets, buffer, &f) };
        }
    }
}

/// `gather(x, index; dim)`.
pub(super) fn gather(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, index, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    ensure!(index.shape == out.shape, "{index:?} to {out:?}: schema and kernel disagree");
    // SAFETY: operands of the call; the last is its output, and blocks of it are disjoint.
    let (indexed, to) =
        unsafe { (DimIndex::new(ctx, bits(&x), &index)?, Sequence::new(bits(&out))) };
    moved!(x.dtype, T => {
        let buffers = || ([<T as Element>::ZERO; CHUNK], [0i64; CHUNK], [0usize; CHUNK]);
        in_chunks(ctx, indexed.count, buffers, |(buffer, indices, offsets), at, count| {
            let buffer = &mut buffer[..count];
            indexed.load(at, buffer, &mut indices[..count], &mut offsets[..count]);
            to.store(at, buffer);
        });
    });
    Ok(())
}

/// Writes `src`, or the argument `value`, to the elements at the index, or adds it.
fn scatter_into(
    ctx: &KernelCtx<'_>,
    target: RawTensor<'_>,
    index: RawTensor<'_>,
    src: Option<RawTensor<'_>>,
    add: bool,
) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    if let Some(src) = src.filter(|_| add && has_wide_sums(target.dtype)) {
        // SAFETY: operands of the call; the schema refuses a target that overlaps itself.
        return unsafe {
            with_wide(ctx, DType::F32, target, src, |sums, src| {
                scatter_into(ctx, sums, index, Some(src), add)
            })
        };
    }
    let mut index_copy = copy_if_overlapping(ctx, &target, &index)?;
    let index = index_copy.as_mut().map_or(index, Temporary::tensor);
    let index = at_least_1d(&index);
    let mut copy = match &src {
        Some(src) => copy_if_overlapping(ctx, &target, src)?,
        None => Some(value(ctx, target.dtype)?),
    };
    let lone = src.is_none();
    let src = copy.as_mut().map(Temporary::tensor).or(src);
    let src = at_least_1d(&src.context("no src: schema and kernel disagree")?);
    let from = match lone {
        // One element for all indices.
        true => Layout::strided(index.shape, &Dims::from_elem(0, index.shape.len()), 0)?,
        false => first(&src, index.shape)?,
    };
    if add {
        // SAFETY: operands of the call, or memory that the copies own; the schema refuses a target
        // that overlaps itself, and everything runs on this thread.
        let (indexed, values) =
            unsafe { (DimIndex::new(ctx, target, &index)?, Sequence::new(view(&src, &from))) };
        dispatch!(target.dtype, T => {
            indexed.update::<T>(&values, |a, b| T::narrow(T::plus(a.widen(), b.widen())));
        });
    } else {
        // SAFETY: as above.
        let (indexed, values) = unsafe {
            (DimIndex::new(ctx, bits(&target), &index)?, Sequence::new(bits(&view(&src, &from))))
        };
        moved!(target.dtype, T => indexed.update::<T>(&values, |_, new| new));
    }
    Ok(())
}

/// Returns the argument `value` as a tensor of one element.
fn value(ctx: &KernelCtx<'_>, dtype: DType) -> Result<Temporary> {
    let value = Scalar::of(ctx.attrs(), "value")?.context("expected src or value, got neither")?;
    let mut lone = Temporary::new(dtype, &[])?;
    // SAFETY: memory that this function owns.
    unsafe { set(ctx, lone.tensor(), value) }?;
    Ok(lone)
}

/// Returns the layout of the part of `src` that begins at its first element and has `shape`.
pub(super) fn first(src: &RawTensor<'_>, shape: &[usize]) -> Result<Layout> {
    let agree = src.shape.len() == shape.len() && shape.iter().zip(src.shape).all(|(a, b)| a <= b);
    ensure!(agree, "{src:?} for an index of {shape:?}: schema and kernel disagree");
    Ok(Layout::strided(shape, src.strides, 0)?)
}

/// `scatter(x, index, src; dim)`, `scatter_add`, and both in place.
pub(super) fn scatter(ctx: &KernelCtx<'_>, in_place: bool, add: bool) -> Result<()> {
    let (target, inputs) = changed(ctx, in_place, &COPY_PRIMITIVES)?;
    let src = if inputs == 3 { Some(ctx.operand(2)?) } else { None };
    scatter_into(ctx, target, ctx.operand(1)?, src, add)
}
