//! What is chosen by data: `nonzero`, `masked_select`, and `index` and `index_put` by a mask. One block
//! goes through all that is chosen from, so that the order is that of the elements.

use std::ffi::CString;

use anyhow::{Result, ensure};
use millstream_ops::broadcast::broadcast;
use millstream_types::{DType, Dims};

use super::apart::Apart;
use super::copy::convert;
use super::walk::{Failed, Step, Text, Walk};
use super::{native, pick, put};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::memory::expect_dtype;

pub(super) const KERNELS: &[super::Kernel] = &[
    ("nonzero", nonzero),
    ("masked_select", masked_select),
    ("index", index),
    ("index_put", |ctx| index_put(ctx, false)),
    ("index_put_", |ctx| index_put(ctx, true)),
];

macro_rules! chosen {
    ($name:literal, $file:literal) => {
        Text { name: $name, text: concat!(include_str!($file), include_str!("chosen.cu")) }
    };
}

const NONZERO: Text = chosen!("nonzero", "nonzero.cu");
const MASKED: Text = chosen!("masked", "masked.cu");
const SET: Text = chosen!("put_masked", "put_masked.cu");
const ADD: Text = Text {
    name: "add_masked",
    text: concat!("#define ADDS\n", include_str!("put_masked.cu"), include_str!("chosen.cu")),
};

pub(super) fn sources() -> Vec<(String, CString)> {
    let added = ADD.typed(super::SOME);
    [NONZERO.typed(super::SOME), MASKED.sized(), SET.sized(), added].concat()
}

/// `nonzero(x)`.
fn nonzero(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out, count) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    expect_dtype(&out, DType::I64)?;
    expect_dtype(&count, DType::I64)?;
    let (all, rank) = (x.numel(), x.shape.len());
    let dense = out.strides == [rank, 1] || rank == 1 && out.strides == [1, 1] || all * rank == 0;
    ensure!(*out.shape == [all, rank] && dense, "{x:?} to {out:?}: schema and kernel disagree");
    let steps = [Step::own(x), Step::still(out, rank), Step::still(count, rank)];
    let walk = Walk::new(x.shape, Walk::WHOLE, &steps)?.integers(&[all as i64, rank as i64])?;
    // SAFETY: the kernel writes rows of the call's output, no more than there are elements, and their
    // number, and reads the elements of its input.
    unsafe { NONZERO.in_one_block(native(ctx)?, x.dtype, walk) }
}

/// Copies what lies behind each true element of a mask of shape `shape[..split]` to a row of `out`.
fn select(
    ctx: &KernelCtx<'_>,
    shape: &[usize],
    split: usize,
    x: Step<'_>,
    mask: Step<'_>,
    (out, count): (RawTensor<'_>, RawTensor<'_>),
) -> Result<()> {
    expect_dtype(&count, DType::I64)?;
    let (all, rest): (usize, usize) =
        (shape[..split].iter().product(), shape[split..].iter().product());
    let agree = out.shape.first().is_some_and(|&rows| rows >= all);
    ensure!(agree && out.shape[1..] == shape[split..], "{out:?}: schema and kernel disagree");
    let row = out.strides[0] as i64;
    let moves = (0..split).map(|_| 0).chain(out.strides[1..].iter().copied());
    let steps = [x, mask, Step::by(out, moves), Step::still(count, shape.len())];
    let walk = Walk::new(shape, split, &steps)?.integers(&[all as i64, rest as i64, row])?;
    // SAFETY: the kernel writes rows of the call's output, no more than the mask has elements, and
    // their number, and reads the elements of its inputs.
    unsafe { MASKED.in_one_block_of_size(native(ctx)?, out.dtype, walk) }
}

/// `masked_select(x, mask)`.
fn masked_select(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, mask) = (ctx.operand(0)?, ctx.operand(1)?);
    let (out, count) = (ctx.operand(2)?, ctx.operand(3)?);
    expect_dtype(&mask, DType::Bool)?;
    expect_dtype(&out, x.dtype)?;
    let shape = broadcast(x.shape, mask.shape)?;
    let (x, mask) = (Step::broadcast(x, &shape), Step::broadcast(mask, &shape));
    select(ctx, &shape, shape.len(), x, mask, (out, count))
}

/// A mask of the first dimensions of x, in a walk over x.
fn covering<'a>(x: &RawTensor<'_>, mask: RawTensor<'a>) -> Result<Step<'a>> {
    let rank = mask.shape.len();
    let agree = rank <= x.shape.len() && x.shape[..rank] == *mask.shape;
    ensure!(agree, "{mask:?} of {x:?}: schema and kernel disagree");
    let rest = x.shape[rank..].iter().map(|_| 0);
    Ok(Step::by(mask, mask.strides.iter().copied().chain(rest)))
}

/// `index(x, indices...; absent)`. After a mask the number of rows is a further operand.
fn index(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, mask) = (ctx.operand(0)?, ctx.operand(1)?);
    if mask.dtype != DType::Bool {
        return pick::index(ctx);
    }
    let (out, count) = (ctx.operand(2)?, ctx.operand(3)?);
    expect_dtype(&out, x.dtype)?;
    select(ctx, x.shape, mask.shape.len(), Step::own(x), covering(&x, mask)?, (out, count))
}

/// `index_put(x, values, indices...; absent, accumulate)`, and in place.
fn index_put(ctx: &KernelCtx<'_>, in_place: bool) -> Result<()> {
    let (x, end, op) = match in_place {
        true => (ctx.operand(0)?, ctx.operands(), "index_put_"),
        false => {
            let end = ctx.operands() - 1;
            let out = ctx.operand(end)?;
            convert(ctx, ctx.operand(0)?, out)?;
            (out, end, "index_put")
        }
    };
    let mask = ctx.operand(2)?;
    if mask.dtype != DType::Bool {
        return put::index_put(ctx, op, x, end);
    }
    let native = native(ctx)?;
    let apart = Apart::from(native, x);
    // SAFETY: the context's maker answers for the operands.
    let (values, mask) = unsafe { (apart.of(ctx.operand(1)?)?, apart.of(mask)?) };
    ensure!(x.dtype == values.dtype, "{values:?} into {x:?}: schema and kernel disagree");
    let split = mask.shape.len();
    let mask_step = covering(&x, mask)?;
    // The values broadcast to rows of what lies behind the mask.
    let rest: Dims = x.shape[split..].iter().copied().collect();
    let seen: Dims = [1].into_iter().chain(rest.iter().copied()).collect();
    let (row, rows) = match values.shape.len().checked_sub(rest.len() + 1) {
        Some(at) if values.shape[at] != 1 => (values.strides[at], values.shape[at] as i64),
        _ => (0, -1),
    };
    let strides = Step::broadcast(values, &seen).strides;
    let moves = (0..split).map(|_| 0).chain(strides[1..].iter().copied());
    let error = anyhow::anyhow!("{rows} rows of values: expected as many as the mask has, or one");
    let failed = Failed::with(native, error)?;
    let steps = [Step::own(x), mask_step, Step::by(values, moves), failed.step(x.shape.len())];
    let all = mask.numel() as i64;
    let integers = [all, rest.iter().product::<usize>() as i64, row as i64, rows];
    let walk = Walk::new(x.shape, split, &steps)?.integers(&integers)?;
    // SAFETY: the kernel writes elements of x, which names none twice, and reads those of the mask and
    // of the values, no row beyond the last, which share no memory with it.
    unsafe {
        match ctx.attrs().bool("accumulate")?.unwrap_or(false) {
            true => ADD.in_one_block(native, x.dtype, walk),
            false => SET.in_one_block_of_size(native, x.dtype, walk),
        }
    }
}
