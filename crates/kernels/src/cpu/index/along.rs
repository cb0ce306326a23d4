//! Kernels of `gather`, `scatter` and their like: one index for each element.

use anyhow::{Context, Result, ensure};
use millstream_ops::args::{Scalar, dimension};
use millstream_types::{DType, Dims, Layout};

use super::{check, raised};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::copy::{apart, convert, set};
use crate::cpu::element::{Element, dispatch, moved};
use crate::cpu::memory::{Temporary, bits, view};
use crate::cpu::number::Number;
use crate::cpu::picked::{Axis, Picked, even, in_chunks, step};
use crate::cpu::strided::{CHUNK, Sequence};

/// The elements of a tensor that an index names along a dimension.
struct Named {
    /// Where they would be if every index were zero.
    origin: Picked,
    index: Sequence,
    /// Bytes from one element of the dimension to the next.
    step: usize,
    count: usize,
}

impl Named {
    /// Checks the index.
    ///
    /// # Safety
    /// As for [`Picked::new`], `x` being the tensor.
    unsafe fn new(ctx: &KernelCtx<'_>, x: RawTensor<'_>, index: &RawTensor<'_>) -> Result<Named> {
        let (x, index) = (raised(&x), raised(index));
        let dim = ctx.attrs().int("dim")?.context("dim: expected, and not given")?;
        let dim = dimension(dim, x.shape.len())?;
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
        // SAFETY: the caller's promise; along other dimensions the index is not longer than x. The
        // index is an operand that is only read.
        let (origin, index_elements) = unsafe { (Picked::new(x, axes), Sequence::new(index)) };
        Ok(Named { origin, index: index_elements, step, count: index.numel() })
    }

    /// The places numbered from `at` on.
    fn places(&self, at: usize, indices: &mut [i64], places: &mut [usize]) {
        self.origin.places(at, places);
        self.index.load(at, indices);
        for (place, &index) in places.iter_mut().zip(indices.iter()) {
            *place += index as usize * self.step;
        }
    }

    /// Reads the elements numbered from `at` on.
    fn load<T: Element>(&self, at: usize, to: &mut [T], indices: &mut [i64], places: &mut [usize]) {
        self.places(at, indices, places);
        // SAFETY: the index has been checked.
        unsafe { self.origin.load_at(places, to) };
    }

    /// Sets the elements named, in order, to `f` of what they are and of the values.
    fn update<T: Element>(&self, values: &Sequence, f: impl Fn(T, T) -> T) {
        let (mut buffer, mut indices, mut places) =
            ([T::ZERO; CHUNK], [0i64; CHUNK], [0usize; CHUNK]);
        for at in (0..self.count).step_by(CHUNK) {
            let count = CHUNK.min(self.count - at);
            let (buffer, places) = (&mut buffer[..count], &mut places[..count]);
            self.places(at, &mut indices[..count], places);
            values.load(at, buffer);
            // SAFETY: the index has been checked.
            unsafe { self.origin.update_at(places, buffer, &f) };
        }
    }
}

/// `gather(x, index; dim)`.
pub(super) fn gather(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, index, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    ensure!(index.shape == out.shape, "{index:?} to {out:?}: schema and kernel disagree");
    // SAFETY: operands of the call; the last is its output, and blocks of it are disjoint.
    let (named, to) = unsafe { (Named::new(ctx, bits(&x), &index)?, Sequence::new(bits(&out))) };
    moved!(x.dtype, T => {
        let buffers = || ([<T as Element>::ZERO; CHUNK], [0i64; CHUNK], [0usize; CHUNK]);
        in_chunks(ctx, named.count, buffers, |(buffer, indices, places), at, count| {
            let buffer = &mut buffer[..count];
            named.load(at, buffer, &mut indices[..count], &mut places[..count]);
            to.store(at, buffer);
        });
    });
    Ok(())
}

/// Puts `src`, or the argument `value`, at the index, or adds it.
fn put(
    ctx: &KernelCtx<'_>,
    target: RawTensor<'_>,
    index: RawTensor<'_>,
    src: Option<RawTensor<'_>>,
    add: bool,
) -> Result<()> {
    if index.numel() == 0 {
        return Ok(());
    }
    let mut index_copy = apart(ctx, &target, &index)?;
    let index = index_copy.as_mut().map_or(index, Temporary::tensor);
    let index = raised(&index);
    let mut copy = match &src {
        Some(src) => apart(ctx, &target, src)?,
        None => Some(value(ctx, target.dtype)?),
    };
    let lone = src.is_none();
    let src = copy.as_mut().map(Temporary::tensor).or(src);
    let src = raised(&src.context("no src: schema and kernel disagree")?);
    let from = match lone {
        // An element that every index sees.
        true => Layout::strided(index.shape, &Dims::from_elem(0, index.shape.len()), 0)?,
        false => first(&src, index.shape)?,
    };
    if add {
        // SAFETY: operands of the call, or memory of the copies' own; the schema refuses a target
        // that names an element twice, and all runs on this thread.
        let (named, values) =
            unsafe { (Named::new(ctx, target, &index)?, Sequence::new(view(&src, &from))) };
        dispatch!(target.dtype, T => {
            named.update::<T>(&values, |a, b| T::narrow(T::plus(a.widen(), b.widen())));
        });
    } else {
        // SAFETY: as above.
        let (named, values) = unsafe {
            (Named::new(ctx, bits(&target), &index)?, Sequence::new(bits(&view(&src, &from))))
        };
        moved!(target.dtype, T => named.update::<T>(&values, |_, new| new));
    }
    Ok(())
}

/// The argument `value` as a tensor of one element.
fn value(ctx: &KernelCtx<'_>, dtype: DType) -> Result<Temporary> {
    let value = Scalar::of(ctx.attrs(), "value")?.context("neither src nor value is given")?;
    let mut lone = Temporary::new(dtype, &[])?;
    // SAFETY: memory of its own.
    unsafe { set(ctx, lone.tensor(), value) }?;
    Ok(lone)
}

/// The part of `src` from its first element on that is as long as `shape`.
fn first(src: &RawTensor<'_>, shape: &[usize]) -> Result<Layout> {
    let agree = src.shape.len() == shape.len() && shape.iter().zip(src.shape).all(|(a, b)| a <= b);
    ensure!(agree, "{src:?} for an index of {shape:?}: schema and kernel disagree");
    Ok(Layout::strided(shape, src.strides, 0)?)
}

/// `scatter(x, index, src; dim)`.
pub(super) fn scatter(ctx: &KernelCtx<'_>) -> Result<()> {
    new(ctx, false)
}

/// `scatter_add(x, index, src; dim)`.
pub(super) fn scatter_add(ctx: &KernelCtx<'_>) -> Result<()> {
    new(ctx, true)
}

fn new(ctx: &KernelCtx<'_>, add: bool) -> Result<()> {
    let out = ctx.operand(ctx.operands() - 1)?;
    // SAFETY: operands of the call, of which the last is its output.
    unsafe { convert(ctx, ctx.operand(0)?, out) }?;
    let src = if ctx.operands() == 4 { Some(ctx.operand(2)?) } else { None };
    put(ctx, out, ctx.operand(1)?, src, add)
}

/// `scatter_(x, index, src; dim)`.
pub(super) fn scatter_in_place(ctx: &KernelCtx<'_>) -> Result<()> {
    let src = if ctx.operands() == 3 { Some(ctx.operand(2)?) } else { None };
    put(ctx, ctx.operand(0)?, ctx.operand(1)?, src, false)
}

/// `scatter_add_(x, index, src; dim)`.
pub(super) fn scatter_add_in_place(ctx: &KernelCtx<'_>) -> Result<()> {
    put(ctx, ctx.operand(0)?, ctx.operand(1)?, Some(ctx.operand(2)?), true)
}
