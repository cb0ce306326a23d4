//! Elements and rows that indices name: `gather`, `index_select`, `index` and `embedding`.
//!
//! An index out of range reads nothing. It sets a word, and the call has failed when it completes.

use std::ffi::CString;

use anyhow::{Context, Result, ensure};
use millstream_ops::args::{ABSENT, dimension};
use millstream_ops::index::{indexed_dims as listed, plan};
use millstream_types::{DType, Dims};

use super::walk::{Failed, Step, Text, Walk};
use super::{Unsupported, native};
use crate::context::{KernelCtx, RawTensor};

pub(super) const KERNELS: &[super::Kernel] =
    &[("gather", gather), ("index_select", index_select), ("embedding", embedding)];

const PICK: Text = Text { name: "pick", text: include_str!("pick.cu") };

pub(super) fn sources() -> Vec<(String, CString)> {
    PICK.sized()
}

/// An index: along which dimension of x it steps, and how it moves along the walk.
pub(super) struct Index<'a> {
    pub(super) dim: usize,
    pub(super) step: Step<'a>,
    pub(super) dtype: DType,
}

/// The error of an index that is out of range of these dimensions.
pub(super) fn outside(x: &RawTensor<'_>, indices: &[Index<'_>], from_end: bool) -> anyhow::Error {
    let range = |index: &Index<'_>| {
        let length = x.shape[index.dim] as i64;
        let low = if from_end { -length } else { 0 };
        format!("{low} to {} for dimension {}", length - 1, index.dim)
    };
    let ranges: Vec<String> = indices.iter().map(range).collect();
    anyhow::anyhow!("an index is out of range: expected {}", ranges.join(", "))
}

/// What the kernels are told of indices: for each its bytes, the length of its dimension, and x's
/// stride there.
pub(super) fn told(x: &RawTensor<'_>, indices: &[Index<'_>]) -> Vec<i64> {
    let of = |index: &Index<'_>| {
        let (length, stride) = (x.shape[index.dim] as i64, x.strides[index.dim] as i64);
        [index.dtype.size() as i64, length, stride]
    };
    indices.iter().flat_map(of).collect()
}

/// Picks all elements of `out`: `strides` are those of x along out's dimensions.
fn pick(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    strides: Dims,
    indices: Vec<Index<'_>>,
    out: RawTensor<'_>,
    from_end: bool,
) -> Result<()> {
    ensure!(x.dtype == out.dtype, "{x:?} to {out:?}: schema and kernel disagree");
    if out.numel() == 0 {
        return match indices.iter().all(|index| index.step.numel() == 0) {
            true => Ok(()),
            false => Err(Unsupported::of("indices of no elements")),
        };
    }
    let native = native(ctx)?;
    let failed = Failed::with(native, outside(&x, &indices, from_end))?;
    let integers = [indices.len() as i64, i64::from(from_end)].into_iter();
    let integers: Vec<i64> = integers.chain(told(&x, &indices)).collect();
    let mut steps = vec![Step::by(x, strides), Step::own(out), failed.step(out.shape.len())];
    steps.extend(indices.into_iter().map(|index| index.step));
    let walk = Walk::new(out.shape, 0, &steps)?.integers(&integers)?;
    // SAFETY: the kernel writes the elements of the last operand of the call, its output, and reads
    // those of the others, of x only where the index is in range.
    unsafe { PICK.of_size(native, out.dtype, walk) }
}

/// The tensor, with one dimension if it has none.
pub(super) fn raised<'a>(x: &RawTensor<'a>) -> RawTensor<'a> {
    match x.shape {
        [] => RawTensor { shape: &[1], strides: &[1], ..*x },
        _ => *x,
    }
}

/// The argument `dim`.
pub(super) fn dim(ctx: &KernelCtx<'_>, rank: usize) -> Result<usize> {
    let dim = ctx.attrs().int("dim")?.context("dim: expected, and not given")?;
    Ok(dimension(dim, rank)?)
}

/// `gather(x, index; dim)`.
fn gather(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, index, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    if out.numel() == 0 {
        return Ok(());
    }
    let (x, index, out) = (raised(&x), raised(&index), raised(&out));
    let agree = x.shape.len() == index.shape.len() && index.shape == out.shape;
    ensure!(agree, "{index:?} to {out:?}: schema and kernel disagree");
    take(ctx, x, index, dim(ctx, x.shape.len())?, out)
}

/// Picks the elements of x that places in range name along a dimension.
pub(super) fn take(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    places: RawTensor<'_>,
    dim: usize,
    out: RawTensor<'_>,
) -> Result<()> {
    let (x, places, out) = (raised(&x), raised(&places), raised(&out));
    let strides = x.strides.iter().enumerate().map(|(k, &s)| if k == dim { 0 } else { s });
    let strides = strides.collect();
    let index = Index { dim, dtype: places.dtype, step: Step::own(places) };
    pick(ctx, x, strides, vec![index], out, false)
}

/// `index_select(x, index; dim)`.
fn index_select(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, index, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let (x, out) = (raised(&x), raised(&out));
    ensure!(x.shape.len() == out.shape.len(), "{x:?} to {out:?}: schema and kernel disagree");
    let dim = dim(ctx, x.shape.len())?;
    let strides = x.strides.iter().enumerate().map(|(k, &s)| if k == dim { 0 } else { s });
    let strides = strides.collect();
    let index = along(x.shape.len(), dim, index);
    pick(ctx, x, strides, vec![index], out, false)
}

/// An index of at most one dimension that moves along dimension `dim` of the walk.
pub(super) fn along(rank: usize, dim: usize, index: RawTensor<'_>) -> Index<'_> {
    let stride = index.strides.first().copied().unwrap_or(0);
    let strides = (0..rank).map(|k| if k == dim { stride } else { 0 });
    Index { dim, dtype: index.dtype, step: Step::by(index, strides) }
}

/// `embedding(weight, indices; ..)`.
fn embedding(ctx: &KernelCtx<'_>) -> Result<()> {
    let (weight, indices, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let &[_, columns] = weight.strides else {
        anyhow::bail!("{weight:?}: schema and kernel disagree");
    };
    let strides = indices.shape.iter().map(|_| 0).chain([columns]).collect();
    let step = Step::by(indices, indices.strides.iter().copied().chain([0]));
    let index = Index { dim: 0, dtype: indices.dtype, step };
    pick(ctx, weight, strides, vec![index], out, false)
}

/// What indices of several dimensions name in x: x's strides along the dimensions of the result, and
/// how the indices move along them.
pub(super) struct Named<'a> {
    pub(super) shape: Dims,
    pub(super) strides: Dims,
    pub(super) indices: Vec<Index<'a>>,
    /// Where the dimensions of the indices stand.
    pub(super) at: std::ops::Range<usize>,
}

pub(super) fn named<'a>(
    ctx: &KernelCtx<'_>,
    op: &str,
    x: &RawTensor<'_>,
    indices: Vec<RawTensor<'a>>,
) -> Result<Named<'a>> {
    let rank = x.shape.len();
    let dims = listed(op, ctx.attrs().ints(ABSENT)?, indices.len(), rank)?;
    let plan = plan(&dims, rank, indices.iter().map(|index| index.shape))?;
    let (before, after) = plan.rest.split_at(plan.at);
    let still = |dims: &[usize]| Dims::from_elem(0, dims.len());
    let strides = |dims: &[usize]| dims.iter().map(|&k| x.strides[k]).collect::<Dims>();
    let place = |index: &RawTensor<'a>| {
        let own = Step::broadcast(*index, &plan.indices).strides;
        Step::by(*index, still(before).into_iter().chain(own).chain(still(after)))
    };
    let indices = dims.iter().zip(&indices);
    let indices = indices.map(|(&dim, i)| Index { dim, dtype: i.dtype, step: place(i) }).collect();
    let moves = strides(before).into_iter().chain(still(&plan.indices)).chain(strides(after));
    Ok(Named {
        shape: plan.shape(x.shape),
        strides: moves.collect(),
        indices,
        at: plan.at..plan.at + plan.indices.len(),
    })
}

/// `index(x, indices...; absent)`, for indices that are no mask.
pub(super) fn index(ctx: &KernelCtx<'_>) -> Result<()> {
    let last = ctx.operands() - 1;
    let (x, out) = (ctx.operand(0)?, ctx.operand(last)?);
    let indices = (1..last).map(|k| ctx.operand(k)).collect::<Result<Vec<_>>>()?;
    let named = named(ctx, "index", &x, indices)?;
    ensure!(*named.shape == *out.shape, "{out:?}: schema and kernel disagree");
    pick(ctx, x, named.strides, named.indices, out, true)
}
