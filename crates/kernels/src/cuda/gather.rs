//! Reads by index: `gather`, `index_select`, `index` and `embedding`.
//!
//! An index out of range reads nothing. The kernel sets the failure flag instead, and the call
//! fails when it completes.

use std::ffi::CString;

use anyhow::{Result, ensure};

use millstream_ep::cuda::NativeStream;
use millstream_ops::args::ABSENT;
use millstream_ops::index::{indexed_dims, plan};
use millstream_types::{DType, Dims};

use super::native;
use super::strided::{FailureFlag, StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::memory::at_least_1d;
use crate::data_movement::required_dim;

pub(super) const KERNELS: &[super::Kernel] =
    &[("gather", gather), ("index_select", index_select), ("embedding", embedding)];

const GATHER: KernelTemplate = template!("gather");

pub(super) fn sources() -> Vec<(String, CString)> {
    GATHER.sized_sources()
}

/// An index tensor: the dimension of x that it indexes, its dtype, and its strides in the iteration
/// space.
pub(super) struct Index<'a> {
    pub(super) dim: usize,
    pub(super) operand: StridedOperand<'a>,
    pub(super) dtype: DType,
}

/// Returns the error of an index out of range. Negative indices count from the end if
/// `allow_negative`.
pub(super) fn out_of_range(
    x: &RawTensor<'_>,
    indices: &[Index<'_>],
    allow_negative: bool,
) -> anyhow::Error {
    let range = |index: &Index<'_>| {
        let length = x.shape[index.dim] as i64;
        let low = if allow_negative { -length } else { 0 };
        format!("{low} to {} for dimension {}", length - 1, index.dim)
    };
    let ranges: Vec<String> = indices.iter().map(range).collect();
    anyhow::anyhow!("an index is out of range: expected {}", ranges.join(", "))
}

/// Returns the integers that describe the indices to kernels. For each: its bytes, the length of
/// its dimension, and the stride of x along that dimension.
pub(super) fn index_info(x: &RawTensor<'_>, indices: &[Index<'_>]) -> Vec<i64> {
    let of = |index: &Index<'_>| {
        let (length, stride) = (x.shape[index.dim] as i64, x.strides[index.dim] as i64);
        [index.dtype.size() as i64, length, stride]
    };
    indices.iter().flat_map(of).collect()
}

/// Gathers all elements of `out`. `strides` are the strides of x along the dimensions of `out`; 0
/// for indexed dimensions.
fn gather_elements(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    strides: Dims,
    indices: Vec<Index<'_>>,
    out: RawTensor<'_>,
    allow_negative: bool,
) -> Result<()> {
    ensure!(x.dtype == out.dtype, "{x:?} to {out:?}: schema and kernel disagree");
    if out.numel() == 0 {
        return check_indices(ctx, x, indices, out.shape, allow_negative);
    }
    let operands = [StridedOperand::with_strides(x, strides), StridedOperand::new(out)];
    // SAFETY: operands of the call, which `KernelCtx::new` promises to be valid; the second one is
    // its output.
    unsafe { launch(native(ctx)?, &x, operands, indices, out.shape, allow_negative) }
}

/// Fails the call if an index is out of range, for rows without elements: the kernel reads and
/// writes one element of scratch memory in place of theirs.
pub(super) fn check_indices(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    indices: Vec<Index<'_>>,
    shape: &[usize],
    allow_negative: bool,
) -> Result<()> {
    if indices.iter().any(|index| index.operand.numel() == 0) {
        return Ok(());
    }
    let native = native(ctx)?;
    let mut scratch = native.scratch();
    let data = scratch.take(x.dtype.size())?;
    let shape: Dims = shape.iter().map(|&length| length.max(1)).collect();
    let operand = || {
        let one = RawTensor { data, dtype: x.dtype, shape: &[], strides: &[] };
        StridedOperand::fixed(one, shape.len())
    };
    let still = Dims::from_elem(0, x.strides.len());
    let x = RawTensor { strides: &still, ..x };
    // SAFETY: scratch memory of the call, and indices that are its operands.
    unsafe { launch(native, &x, [operand(), operand()], indices, &shape, allow_negative) }
}

/// Launches the kernel on x and the result.
///
/// # Safety
/// The operands are valid until the kernel has run, which is ordered against all other uses of
/// them.
unsafe fn launch(
    native: &NativeStream,
    x: &RawTensor<'_>,
    [from, to]: [StridedOperand<'_>; 2],
    indices: Vec<Index<'_>>,
    shape: &[usize],
    allow_negative: bool,
) -> Result<()> {
    let failure = FailureFlag::new(native, out_of_range(x, &indices, allow_negative))?;
    let integers = [indices.len() as i64, i64::from(allow_negative)].into_iter();
    let integers: Vec<i64> = integers.chain(index_info(x, &indices)).collect();
    let mut operands = vec![from, to, failure.operand(shape.len())];
    operands.extend(indices.into_iter().map(|index| index.operand));
    let args = StridedArgs::new(shape, 0, &operands)?.integers(&integers)?;
    // SAFETY: the kernel writes the elements of the result and reads elements of the other
    // operands, those of x only where the index is in range.
    unsafe { GATHER.launch_sized(native, x.dtype, args) }
}

/// Returns the strides of a tensor, 0 along the indexed dimension.
pub(super) fn strides_beside(x: &RawTensor<'_>, dim: usize) -> Dims {
    x.strides.iter().enumerate().map(|(k, &s)| if k == dim { 0 } else { s }).collect()
}

/// `gather(x, index; dim)`.
fn gather(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, index, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    if out.numel() == 0 {
        return Ok(());
    }
    let (x, index, out) = (at_least_1d(&x), at_least_1d(&index), at_least_1d(&out));
    let agree = x.shape.len() == index.shape.len() && index.shape == out.shape;
    ensure!(agree, "{index:?} to {out:?}: schema and kernel disagree");
    take_along_dim(ctx, x, index, required_dim(ctx, x.shape.len())?, out)
}

/// Gathers elements of x along a dimension. The indices must be in range.
pub(super) fn take_along_dim(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    index_tensor: RawTensor<'_>,
    dim: usize,
    out: RawTensor<'_>,
) -> Result<()> {
    let (x, index_tensor, out) = (at_least_1d(&x), at_least_1d(&index_tensor), at_least_1d(&out));
    let strides = strides_beside(&x, dim);
    let index =
        Index { dim, dtype: index_tensor.dtype, operand: StridedOperand::new(index_tensor) };
    gather_elements(ctx, x, strides, vec![index], out, false)
}

/// `index_select(x, index; dim)`.
fn index_select(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, index, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let (x, out) = (at_least_1d(&x), at_least_1d(&out));
    ensure!(x.shape.len() == out.shape.len(), "{x:?} to {out:?}: schema and kernel disagree");
    let dim = required_dim(ctx, x.shape.len())?;
    let strides = strides_beside(&x, dim);
    let index = index_along(x.shape.len(), dim, index);
    gather_elements(ctx, x, strides, vec![index], out, false)
}

/// Returns an index of at most one dimension that varies along dimension `dim` of the iteration
/// space.
pub(super) fn index_along(rank: usize, dim: usize, index: RawTensor<'_>) -> Index<'_> {
    let stride = index.strides.first().copied().unwrap_or(0);
    let strides = (0..rank).map(|k| if k == dim { stride } else { 0 });
    Index { dim, dtype: index.dtype, operand: StridedOperand::with_strides(index, strides) }
}

/// `embedding(weight, indices; ..)`.
fn embedding(ctx: &KernelCtx<'_>) -> Result<()> {
    let (weight, indices, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let &[_, columns] = weight.strides else {
        anyhow::bail!("{weight:?}: schema and kernel disagree");
    };
    let strides = indices.shape.iter().map(|_| 0).chain([columns]).collect();
    gather_elements(ctx, weight, strides, vec![index_of_rows(indices)], out, false)
}

/// Returns an index of the rows of a matrix, in an iteration space with its columns behind the
/// dimensions of the index.
pub(super) fn index_of_rows(indices: RawTensor<'_>) -> Index<'_> {
    let strides = indices.strides.iter().copied().chain([0]);
    let operand = StridedOperand::with_strides(indices, strides);
    Index { dim: 0, dtype: indices.dtype, operand }
}

/// The iteration space of an access to x with indices of several dimensions: its shape, the strides
/// of x, and the indices.
pub(super) struct IndexPlan<'a> {
    pub(super) shape: Dims,
    pub(super) strides: Dims,
    pub(super) indices: Vec<Index<'a>>,
    /// The dimensions that the indices vary along.
    pub(super) indexed: std::ops::Range<usize>,
}

/// Plans the access to x with these indices, some of which may be absent.
pub(super) fn plan_indices<'a>(
    ctx: &KernelCtx<'_>,
    op: &str,
    x: &RawTensor<'_>,
    indices: Vec<RawTensor<'a>>,
) -> Result<IndexPlan<'a>> {
    let rank = x.shape.len();
    let dims = indexed_dims(op, ctx.attrs().ints(ABSENT)?, indices.len(), rank)?;
    let plan = plan(&dims, rank, indices.iter().map(|index| index.shape))?;
    let (before, after) = plan.rest.split_at(plan.at);
    let fixed = |dims: &[usize]| Dims::from_elem(0, dims.len());
    let strides = |dims: &[usize]| dims.iter().map(|&k| x.strides[k]).collect::<Dims>();
    let broadcast = |index: &RawTensor<'a>| {
        let along_indices = StridedOperand::broadcast(*index, &plan.indices).strides;
        StridedOperand::with_strides(
            *index,
            fixed(before).into_iter().chain(along_indices).chain(fixed(after)),
        )
    };
    let indices = dims.iter().zip(&indices);
    let indices =
        indices.map(|(&dim, i)| Index { dim, dtype: i.dtype, operand: broadcast(i) }).collect();
    let x_strides = strides(before).into_iter().chain(fixed(&plan.indices)).chain(strides(after));
    Ok(IndexPlan {
        shape: plan.shape(x.shape),
        strides: x_strides.collect(),
        indices,
        indexed: plan.at..plan.at + plan.indices.len(),
    })
}

/// `index(x, indices...; absent)` for integer indices.
pub(super) fn index(ctx: &KernelCtx<'_>) -> Result<()> {
    let last = ctx.operands() - 1;
    let (x, out) = (ctx.operand(0)?, ctx.operand(last)?);
    let indices = (1..last).map(|k| ctx.operand(k)).collect::<Result<Vec<_>>>()?;
    let planned = plan_indices(ctx, "index", &x, indices)?;
    ensure!(*planned.shape == *out.shape, "{out:?}: schema and kernel disagree");
    gather_elements(ctx, x, planned.strides, planned.indices, out, true)
}
