//! Kernels of `index` and `index_put`: indices of several dimensions at once, and masks.

use anyhow::{Result, ensure};
use millstream_ops::args::ABSENT;
use millstream_ops::index::{indexed_dims, plan};
use millstream_ops::views::narrow;
use millstream_types::layout::numel;
use millstream_types::{DType, Dims, Layout};

use super::{check, distances, zeros};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::copy::copy_if_overlapping;
use crate::cpu::copy_primitives::COPY_PRIMITIVES;
use crate::cpu::element::{Bool, Element, dispatch, moved};
use crate::cpu::indexed::{Axis, IndexedElements, even, gather, step};
use crate::cpu::memory::{Temporary, bits, expect_dtype, layout, view};
use crate::cpu::number::Number;
use crate::cpu::strided::{CHUNK, Sequence, broadcast_step};
use crate::data_movement::changed;

/// The axes of the indexed elements of a tensor, and their shape in the result.
struct AdvancedIndex {
    axes: Vec<Axis>,
    shape: Dims,
}

/// Resolves indices into `x`.
fn resolve(
    ctx: &KernelCtx<'_>,
    op: &str,
    x: &RawTensor<'_>,
    indices: &[RawTensor<'_>],
) -> Result<AdvancedIndex> {
    if let [mask @ RawTensor { dtype: DType::Bool, .. }] = indices {
        return resolve_mask(x, mask);
    }
    let rank = x.shape.len();
    let dims = indexed_dims(op, ctx.attrs().ints(ABSENT)?, indices.len(), rank)?;
    let plan = plan(&dims, rank, indices.iter().map(|i| i.shape))?;
    let mut table = zeros(numel(&plan.indices))?;
    for (&dim, index) in dims.iter().zip(indices) {
        check(ctx, index, x.shape[dim], true).map_err(|e| e.context(format!("dimension {dim}")))?;
        let seen = broadcast_to(index, &plan.indices)?;
        let steps = distances(&view(index, &seen), x.shape[dim], step(x, dim))?;
        table.iter_mut().zip(steps).for_each(|(at, step)| *at = at.wrapping_add(step));
    }
    let shape = plan.shape(x.shape);
    let mut axes: Vec<Axis> = plan.rest.iter().map(|&k| even(x, k, x.shape[k])).collect();
    axes.insert(plan.at, Axis::Table(table));
    Ok(AdvancedIndex { axes, shape })
}

/// Resolves a mask of the first dimensions of x.
fn resolve_mask(x: &RawTensor<'_>, mask: &RawTensor<'_>) -> Result<AdvancedIndex> {
    let rank = mask.shape.len();
    let agree = rank <= x.shape.len() && x.shape[..rank] == *mask.shape;
    ensure!(agree, "{mask:?} of {x:?}: schema and kernel disagree");
    let over = mask.shape.iter().enumerate().map(|(k, &length)| even(x, k, length));
    // SAFETY: operands of the call, only read here.
    let (offsets, flags) = unsafe { (IndexedElements::new(*x, over), Sequence::new(*mask)) };
    let (mut buffer, mut at_flags) = ([Bool::ZERO; CHUNK], [0usize; CHUNK]);
    let mut table = Vec::new();
    let all = mask.numel();
    for at in (0..all).step_by(CHUNK) {
        let count = CHUNK.min(all - at);
        flags.load(at, &mut buffer[..count]);
        offsets.offsets(at, &mut at_flags[..count]);
        let kept = buffer[..count].iter().zip(&at_flags).filter(|(flag, _)| flag.get());
        table.extend(kept.map(|(_, offset)| *offset));
    }
    let mut shape = Dims::from_slice(&[table.len()]);
    shape.extend_from_slice(&x.shape[rank..]);
    let mut axes = vec![Axis::Table(table)];
    axes.extend((rank..x.shape.len()).map(|k| even(x, k, x.shape[k])));
    Ok(AdvancedIndex { axes, shape })
}

/// Returns the layout of a tensor in a shape that it broadcasts to.
fn broadcast_to(x: &RawTensor<'_>, shape: &[usize]) -> Result<Layout> {
    let fits = x.shape.len() <= shape.len()
        && x.shape.iter().rev().zip(shape.iter().rev()).all(|(&own, &to)| own == to || own == 1);
    ensure!(fits, "expected a shape that broadcasts to {shape:?}, got {x:?}");
    let size = x.dtype.size();
    let strides: Dims =
        (0..shape.len()).map(|k| broadcast_step(x, shape.len(), k) / size).collect();
    Ok(Layout::strided(shape, &strides, 0)?)
}

/// `index(x, indices...; absent)`. With a mask, the number of rows is a further operand.
pub(super) fn index(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, first) = (ctx.operand(0)?, ctx.operand(1)?);
    if first.dtype != DType::Bool {
        let count = ctx.operands() - 1;
        let indices: Result<Vec<RawTensor<'_>>> = (1..count).map(|k| ctx.operand(k)).collect();
        let (resolved, out) = (resolve(ctx, "index", &x, &indices?)?, ctx.operand(count)?);
        ensure!(*resolved.shape == *out.shape, "{out:?}: schema and kernel disagree");
        // SAFETY: operands of the call, the last its output; the indices are checked.
        return unsafe { gather(ctx, x, resolved.axes, out) };
    }
    let (out, count) = (ctx.operand(2)?, ctx.operand(3)?);
    expect_dtype(&count, DType::I64)?;
    let resolved = resolve_mask(&x, &first)?;
    let rows = resolved.shape[0];
    ensure!(rows <= out.shape[0], "{rows} rows for {out:?}: schema and kernel disagree");
    let taken = narrow(&layout(&out)?, 0, 0, rows)?;
    // SAFETY: operands of the call; the last two are its output and the number of rows of the
    // output.
    unsafe {
        gather(ctx, x, resolved.axes, view(&out, &taken))?;
        Sequence::new(count).store(0, &[rows as i64]);
    }
    Ok(())
}

/// `index_put(x, values, indices...; absent, accumulate)`, and in place: sets the elements at the
/// indices to the values, or adds the values.
pub(super) fn index_put(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let (x, end) = changed(ctx, in_place, &COPY_PRIMITIVES)?;
    let op = if in_place { "index_put_" } else { "index_put" };
    let values = ctx.operand(1)?;
    ensure!(x.dtype == values.dtype, "{values:?} into {x:?}: schema and kernel disagree");
    let indices: Result<Vec<RawTensor<'_>>> = (2..end).map(|k| ctx.operand(k)).collect();
    let resolved = resolve(ctx, op, &x, &indices?)?;
    let mut copy = copy_if_overlapping(ctx, &x, &values)?;
    let values = copy.as_mut().map_or(values, Temporary::tensor);
    let seen = broadcast_to(&values, &resolved.shape)?;
    let (values, count) = (view(&values, &seen), seen.numel());
    // Sums of unsigned integers have the bits of those of signed ones.
    let (x, values) =
        if x.dtype.is_wide_unsigned() { (bits(&x), bits(&values)) } else { (x, values) };
    if ctx.attrs().bool("accumulate")?.unwrap_or(false) {
        // SAFETY: operands of the call, or memory that the copy owns; the indices are checked. The
        // schema refuses an x that overlaps itself, and everything runs on this thread.
        let (to, from) = unsafe { (IndexedElements::new(x, resolved.axes), Sequence::new(values)) };
        dispatch!(x.dtype, T => {
            update::<T>(&to, &from, count, |a, b| T::narrow(T::plus(a.widen(), b.widen())));
        });
    } else {
        // SAFETY: as above.
        let (to, from) = unsafe {
            (IndexedElements::new(bits(&x), resolved.axes), Sequence::new(bits(&values)))
        };
        moved!(x.dtype, T => update::<T>(&to, &from, count, |_, new| new));
    }
    Ok(())
}

/// Sets the indexed elements to `f` of their old content and the values.
fn update<T: Element>(to: &IndexedElements, from: &Sequence, count: usize, f: impl Fn(T, T) -> T) {
    let mut buffer = [T::ZERO; CHUNK];
    for at in (0..count).step_by(CHUNK) {
        let buffer = &mut buffer[..CHUNK.min(count - at)];
        from.load(at, buffer);
        to.update(at, buffer, &f);
    }
}
