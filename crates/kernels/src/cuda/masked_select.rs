//! Selection by mask: `nonzero`, `masked_select`, and `index` and `index_put` with a mask. One
//! block processes all elements, which keeps the selected ones in order.

use std::ffi::CString;

use anyhow::{Result, ensure};
use millstream_ops::broadcast::broadcast;
use millstream_types::{DType, Dims};

use super::copy::COPY_PRIMITIVES;
use super::overlap::OverlapCopies;
use super::strided::{FailureFlag, StridedArgs, StridedOperand};
use super::template::KernelTemplate;
use super::{gather, native, scatter};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::memory::expect_dtype;
use crate::data_movement::changed;

pub(super) const KERNELS: &[super::Kernel] = &[
    ("nonzero", nonzero),
    ("masked_select", masked_select),
    ("index", index),
    ("index_put", |ctx| index_put(ctx, false)),
    ("index_put_", |ctx| index_put(ctx, true)),
];

macro_rules! compaction {
    ($name:literal, $file:literal) => {
        KernelTemplate {
            name: $name,
            body: concat!(include_str!($file), include_str!("compaction.cu")),
        }
    };
}

const NONZERO: KernelTemplate = compaction!("nonzero", "nonzero.cu");
const SELECT: KernelTemplate = compaction!("masked_select", "masked_select.cu");
const SCATTER: KernelTemplate = compaction!("masked_scatter", "masked_scatter.cu");
const SCATTER_ADD: KernelTemplate = KernelTemplate {
    name: "masked_scatter_add",
    body: concat!(
        "#define ADDS\n",
        include_str!("masked_scatter.cu"),
        include_str!("compaction.cu")
    ),
};

pub(super) fn sources() -> Vec<(String, CString)> {
    let added = SCATTER_ADD.typed_sources(super::SAMPLE_DTYPES);
    [
        NONZERO.typed_sources(super::SAMPLE_DTYPES),
        SELECT.sized_sources(),
        SCATTER.sized_sources(),
        added,
    ]
    .concat()
}

/// `nonzero(x)`.
fn nonzero(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out, count) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    expect_dtype(&out, DType::I64)?;
    expect_dtype(&count, DType::I64)?;
    let (all, rank) = (x.numel(), x.shape.len());
    let dense = out.strides == [rank, 1] || rank == 1 && out.strides == [1, 1] || all * rank == 0;
    ensure!(*out.shape == [all, rank] && dense, "{x:?} to {out:?}: schema and kernel disagree");
    let operands = [
        StridedOperand::new(x),
        StridedOperand::fixed(out, rank),
        StridedOperand::fixed(count, rank),
    ];
    let args = StridedArgs::new(x.shape, StridedArgs::KEEP_DIMENSIONS, &operands)?
        .integers(&[all as i64, rank as i64])?;
    // SAFETY: the kernel reads the input. It writes at most as many rows of the output as the input
    // has elements, and their number.
    unsafe { NONZERO.launch_blocks(native(ctx)?, x.dtype, 1, args) }
}

/// Copies the elements of x at each true element of a mask of shape `shape[..split]` to a row of
/// `out`.
fn select(
    ctx: &KernelCtx<'_>,
    shape: &[usize],
    split: usize,
    x: StridedOperand<'_>,
    mask: StridedOperand<'_>,
    (out, count): (RawTensor<'_>, RawTensor<'_>),
) -> Result<()> {
    expect_dtype(&count, DType::I64)?;
    let (all, rest): (usize, usize) =
        (shape[..split].iter().product(), shape[split..].iter().product());
    let agree = out.shape.first().is_some_and(|&rows| rows >= all);
    ensure!(agree && out.shape[1..] == shape[split..], "{out:?}: schema and kernel disagree");
    let row = out.strides[0] as i64;
    let strides = (0..split).map(|_| 0).chain(out.strides[1..].iter().copied());
    let operands = [
        x,
        mask,
        StridedOperand::with_strides(out, strides),
        StridedOperand::fixed(count, shape.len()),
    ];
    let args =
        StridedArgs::new(shape, split, &operands)?.integers(&[all as i64, rest as i64, row])?;
    // SAFETY: the kernel reads the inputs. It writes at most as many rows of the output as the mask
    // has elements, and their number.
    unsafe { SELECT.launch_block_sized(native(ctx)?, out.dtype, args) }
}

/// `masked_select(x, mask)`.
fn masked_select(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, mask) = (ctx.operand(0)?, ctx.operand(1)?);
    let (out, count) = (ctx.operand(2)?, ctx.operand(3)?);
    expect_dtype(&mask, DType::Bool)?;
    expect_dtype(&out, x.dtype)?;
    let shape = broadcast(x.shape, mask.shape)?;
    let (x, mask) = (StridedOperand::broadcast(x, &shape), StridedOperand::broadcast(mask, &shape));
    select(ctx, &shape, shape.len(), x, mask, (out, count))
}

/// Returns a mask of the first dimensions of x as an operand in the iteration space of x.
fn mask_operand<'a>(x: &RawTensor<'_>, mask: RawTensor<'a>) -> Result<StridedOperand<'a>> {
    let rank = mask.shape.len();
    let agree = rank <= x.shape.len() && x.shape[..rank] == *mask.shape;
    ensure!(agree, "{mask:?} of {x:?}: schema and kernel disagree");
    let rest = x.shape[rank..].iter().map(|_| 0);
    Ok(StridedOperand::with_strides(mask, mask.strides.iter().copied().chain(rest)))
}

/// `index(x, indices...; absent)`. With a mask, the number of rows is a further output.
fn index(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, mask) = (ctx.operand(0)?, ctx.operand(1)?);
    if mask.dtype != DType::Bool {
        return gather::index(ctx);
    }
    let (out, count) = (ctx.operand(2)?, ctx.operand(3)?);
    expect_dtype(&out, x.dtype)?;
    select(
        ctx,
        x.shape,
        mask.shape.len(),
        StridedOperand::new(x),
        mask_operand(&x, mask)?,
        (out, count),
    )
}

/// `index_put(x, values, indices...; absent, accumulate)`, and in place.
fn index_put(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let (x, end) = changed(ctx, in_place, &COPY_PRIMITIVES)?;
    let op = if in_place { "index_put_" } else { "index_put" };
    let mask = ctx.operand(2)?;
    if mask.dtype != DType::Bool {
        return scatter::index_put(ctx, op, x, end);
    }
    let native = native(ctx)?;
    let overlap = OverlapCopies::new(native, x);
    // SAFETY: `KernelCtx::new` promises valid operands.
    let (values, mask) = unsafe { (overlap.resolve(ctx.operand(1)?)?, overlap.resolve(mask)?) };
    ensure!(x.dtype == values.dtype, "{values:?} into {x:?}: schema and kernel disagree");
    let split = mask.shape.len();
    let mask_view = mask_operand(&x, mask)?;
    // The values broadcast to one row per selected element. A row has the dimensions after the
    // mask.
    let rest: Dims = x.shape[split..].iter().copied().collect();
    let row_shape: Dims = [1].into_iter().chain(rest.iter().copied()).collect();
    let (row, rows) = match values.shape.len().checked_sub(rest.len() + 1) {
        Some(at) if values.shape[at] != 1 => (values.strides[at], values.shape[at] as i64),
        _ => (0, -1),
    };
    let strides = StridedOperand::broadcast(values, &row_shape).strides;
    let strides = (0..split).map(|_| 0).chain(strides[1..].iter().copied());
    let error =
        anyhow::anyhow!("{rows} rows of values: expected as many as the mask selects, or one");
    let failure = FailureFlag::new(native, error)?;
    let operands = [
        StridedOperand::new(x),
        mask_view,
        StridedOperand::with_strides(values, strides),
        failure.operand(x.shape.len()),
    ];
    let all = mask.numel() as i64;
    let integers = [all, rest.iter().product::<usize>() as i64, row as i64, rows];
    let args = StridedArgs::new(x.shape, split, &operands)?.integers(&integers)?;
    // SAFETY: the kernel writes elements of x, no two positions of which address the same element.
    // It reads the mask, and the values up to their last row; both share no memory with x.
    unsafe {
        match ctx.attrs().bool("accumulate")?.unwrap_or(false) {
            true => SCATTER_ADD.launch_blocks(native, x.dtype, 1, args),
            false => SCATTER.launch_block_sized(native, x.dtype, args),
        }
    }
}
