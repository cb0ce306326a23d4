//! Kernels of `index` and `index_put`: indices of several dimensions at once, and masks.

use anyhow::{Result, ensure};
use millstream_ops::args::ABSENT;
use millstream_ops::index::{listed, plan};
use millstream_ops::views::part;
use millstream_types::layout::numel;
use millstream_types::{DType, Dims, Layout};

use super::{check, distances, zeros};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::copy::{apart, convert};
use crate::cpu::element::{Bool, Element, dispatch, moved};
use crate::cpu::memory::{Temporary, bits, expect_dtype, layout, view};
use crate::cpu::number::Number;
use crate::cpu::picked::{Axis, Picked, even, pick, step};
use crate::cpu::strided::{CHUNK, Sequence, broadcast_step};

/// What indices name in a tensor: its places, and the shape that they have in the result.
struct Named {
    axes: Vec<Axis>,
    shape: Dims,
}

/// What the indices name in `x`.
fn named(
    ctx: &KernelCtx<'_>,
    op: &str,
    x: &RawTensor<'_>,
    indices: &[RawTensor<'_>],
) -> Result<Named> {
    if let [mask @ RawTensor { dtype: DType::Bool, .. }] = indices {
        return masked(x, mask);
    }
    let rank = x.shape.len();
    let dims = listed(op, ctx.attrs().ints(ABSENT)?, indices.len(), rank)?;
    let plan = plan(&dims, rank, indices.iter().map(|i| i.shape))?;
    let mut table = zeros(numel(&plan.indices))?;
    for (&dim, index) in dims.iter().zip(indices) {
        check(ctx, index, x.shape[dim], true).map_err(|e| e.context(format!("dimension {dim}")))?;
        let seen = broadcast(index, &plan.indices)?;
        let steps = distances(&view(index, &seen), x.shape[dim], step(x, dim))?;
        table.iter_mut().zip(steps).for_each(|(at, step)| *at = at.wrapping_add(step));
    }
    let shape = plan.shape(x.shape);
    let mut axes: Vec<Axis> = plan.rest.iter().map(|&k| even(x, k, x.shape[k])).collect();
    axes.insert(plan.at, Axis::Table(table));
    Ok(Named { axes, shape })
}

/// What is named by a mask of x's first dimensions.
fn masked(x: &RawTensor<'_>, mask: &RawTensor<'_>) -> Result<Named> {
    let rank = mask.shape.len();
    let agree = rank <= x.shape.len() && x.shape[..rank] == *mask.shape;
    ensure!(agree, "{mask:?} of {x:?}: schema and kernel disagree");
    let over = mask.shape.iter().enumerate().map(|(k, &length)| even(x, k, length));
    // SAFETY: operands of the call, here only read.
    let (places, flags) = unsafe { (Picked::new(*x, over), Sequence::new(*mask)) };
    let (mut buffer, mut at_flags) = ([Bool::ZERO; CHUNK], [0usize; CHUNK]);
    let mut table = Vec::new();
    let all = mask.numel();
    for at in (0..all).step_by(CHUNK) {
        let count = CHUNK.min(all - at);
        flags.load(at, &mut buffer[..count]);
        places.places(at, &mut at_flags[..count]);
        let kept = buffer[..count].iter().zip(&at_flags).filter(|(flag, _)| flag.get());
        table.extend(kept.map(|(_, place)| *place));
    }
    let mut shape = Dims::from_slice(&[table.len()]);
    shape.extend_from_slice(&x.shape[rank..]);
    let mut axes = vec![Axis::Table(table)];
    axes.extend((rank..x.shape.len()).map(|k| even(x, k, x.shape[k])));
    Ok(Named { axes, shape })
}

/// The layout of a tensor under a shape that it broadcasts to.
fn broadcast(x: &RawTensor<'_>, shape: &[usize]) -> Result<Layout> {
    let fits = x.shape.len() <= shape.len()
        && x.shape.iter().rev().zip(shape.iter().rev()).all(|(&own, &to)| own == to || own == 1);
    ensure!(fits, "{x:?} does not broadcast to {shape:?}");
    let size = x.dtype.size();
    let strides: Dims =
        (0..shape.len()).map(|k| broadcast_step(x, shape.len(), k) / size).collect();
    Ok(Layout::strided(shape, &strides, 0)?)
}

/// `index(x, indices...; absent)`. After a mask the number of rows is a further operand.
pub(super) fn index(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, first) = (ctx.operand(0)?, ctx.operand(1)?);
    if first.dtype != DType::Bool {
        let count = ctx.operands() - 1;
        let indices: Result<Vec<RawTensor<'_>>> = (1..count).map(|k| ctx.operand(k)).collect();
        let (named, out) = (named(ctx, "index", &x, &indices?)?, ctx.operand(count)?);
        ensure!(*named.shape == *out.shape, "{out:?}: schema and kernel disagree");
        // SAFETY: operands of the call, the last its output; the indices have been checked.
        return unsafe { pick(ctx, x, named.axes, out) };
    }
    let (out, count) = (ctx.operand(2)?, ctx.operand(3)?);
    expect_dtype(&count, DType::I64)?;
    let named = masked(&x, &first)?;
    let rows = named.shape[0];
    ensure!(rows <= out.shape[0], "{rows} rows for {out:?}: schema and kernel disagree");
    let taken = part(&layout(&out)?, 0, 0, rows)?;
    // SAFETY: operands of the call, the last two its output and the number of rows of that.
    unsafe {
        pick(ctx, x, named.axes, view(&out, &taken))?;
        Sequence::new(count).store(0, &[rows as i64]);
    }
    Ok(())
}

/// `index_put(x, values, indices...; absent, accumulate)`.
pub(super) fn index_put(ctx: &KernelCtx<'_>) -> Result<()> {
    let count = ctx.operands() - 1;
    let out = ctx.operand(count)?;
    // SAFETY: operands of the call, of which the last is its output.
    unsafe { convert(ctx, ctx.operand(0)?, out) }?;
    put(ctx, "index_put", out, count)
}

/// `index_put_(x, values, indices...; absent, accumulate)`.
pub(super) fn index_put_in_place(ctx: &KernelCtx<'_>) -> Result<()> {
    put(ctx, "index_put_", ctx.operand(0)?, ctx.operands())
}

/// Sets the elements of `x` at the indices, which are the operands from the third on and before
/// `end`, to the values, or adds these.
fn put(ctx: &KernelCtx<'_>, op: &str, x: RawTensor<'_>, end: usize) -> Result<()> {
    let values = ctx.operand(1)?;
    ensure!(x.dtype == values.dtype, "{values:?} into {x:?}: schema and kernel disagree");
    let indices: Result<Vec<RawTensor<'_>>> = (2..end).map(|k| ctx.operand(k)).collect();
    let named = named(ctx, op, &x, &indices?)?;
    let mut copy = apart(ctx, &x, &values)?;
    let values = copy.as_mut().map_or(values, Temporary::tensor);
    let seen = broadcast(&values, &named.shape)?;
    let (values, count) = (view(&values, &seen), seen.numel());
    if ctx.attrs().bool("accumulate")?.unwrap_or(false) {
        // SAFETY: operands of the call, or memory of the copy's own; the indices have been
        // checked. The schema refuses an x that names an element twice, and all runs on this
        // thread.
        let (to, from) = unsafe { (Picked::new(x, named.axes), Sequence::new(values)) };
        dispatch!(x.dtype, T => {
            update::<T>(&to, &from, count, |a, b| T::narrow(T::plus(a.widen(), b.widen())));
        });
    } else {
        // SAFETY: as above.
        let (to, from) =
            unsafe { (Picked::new(bits(&x), named.axes), Sequence::new(bits(&values))) };
        moved!(x.dtype, T => update::<T>(&to, &from, count, |_, new| new));
    }
    Ok(())
}

/// Sets the places to `f` of what they are and of the values.
fn update<T: Element>(to: &Picked, from: &Sequence, count: usize, f: impl Fn(T, T) -> T) {
    let mut buffer = [T::ZERO; CHUNK];
    for at in (0..count).step_by(CHUNK) {
        let buffer = &mut buffer[..CHUNK.min(count - at)];
        from.load(at, buffer);
        to.update(at, buffer, &f);
    }
}
