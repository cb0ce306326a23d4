//! `sort`, `argsort` and `topk`.
//!
//! Of equal elements the one of the lower index comes first. Only `topk` of short lines leaves ties as
//! the host's does, which does as PyTorch's on the host: that takes steps one after the other.

use std::ffi::CString;

use anyhow::{Result, ensure};
use millstream_ops::args::dimension;
use millstream_types::DType;

use super::native;
use super::pick::take;
use super::scan::{along, without};
use super::walk::{Step, Text, Walk};
use crate::context::{KernelCtx, RawTensor};

pub(super) const KERNELS: &[super::Kernel] =
    &[("sort", sort), ("argsort", argsort), ("topk", topk)];

const LINES: Text =
    Text { name: "sort", text: concat!(include_str!("sort.cu"), include_str!("sort_lines.cu")) };
const STEP: Text = Text {
    name: "sort_step",
    text: concat!(include_str!("sort.cu"), include_str!("sort_step.cu")),
};
const TOPK: Text = Text { name: "topk", text: include_str!("topk.cu") };
const TOPK_SHORT: Text = Text { name: "topk_short", text: include_str!("topk_short.cu") };

pub(super) fn sources() -> Vec<(String, CString)> {
    [LINES, STEP, TOPK, TOPK_SHORT].map(|text| text.typed(super::SOME)).concat()
}

/// The longest line that one block sorts by itself.
const LONGEST: usize = 1 << 12;

/// The longest line of which `topk` leaves ties as the host's: `MOST` in `topk_short.cu`.
const SHORT: i64 = 1 << 10;

/// Puts the order of x's lines into `places`.
fn order(ctx: &KernelCtx<'_>, x: RawTensor<'_>, places: RawTensor<'_>, dim: usize) -> Result<()> {
    let descending = ctx.attrs().bool("descending")?.unwrap_or(false);
    let agree = x.shape == places.shape && places.dtype == DType::I64;
    ensure!(agree, "{x:?} to {places:?}: schema and kernel disagree");
    if x.numel() == 0 {
        return Ok(());
    }
    let native = native(ctx)?;
    let (length, [x_step, step]) = along(&x, dim, [&x, &places]);
    let steps = [x, places].map(|tensor| Step::by(tensor, without(tensor.strides, dim)));
    let walk = Walk::new(&without(x.shape, dim), 0, &steps)?;
    let lines = walk.count;
    let told = [length, x_step, step, i64::from(descending)];
    if length as usize <= LONGEST {
        // SAFETY: the kernel writes the elements of the call's output, a line by a block, and reads
        // those of its input at the places that it has written there.
        return unsafe { LINES.in_blocks(native, x.dtype, lines, walk.integers(&told)?) };
    }
    let launch = |merge: i64, apart: i64, width: i64| {
        let integers = [told[0], told[1], told[2], told[3], merge, apart, width];
        let mut walk = walk.integers(&integers)?;
        walk.count = lines * width as u64;
        // SAFETY: as above; a step moves each place in one thread.
        unsafe { STEP.of_dtype(native, x.dtype, walk) }
    };
    launch(0, 0, length)?;
    let (mut merge, width) = (2i64, (length as u64).next_power_of_two() as i64);
    while merge <= width {
        launch(merge, 0, width / 2)?;
        let mut apart = merge / 4;
        while apart > 0 {
            launch(merge, apart, width / 2)?;
            apart /= 2;
        }
        merge *= 2;
    }
    Ok(())
}

fn dim(ctx: &KernelCtx<'_>, x: &RawTensor<'_>) -> Result<usize> {
    Ok(dimension(ctx.attrs().int("dim")?.unwrap_or(-1), x.shape.len())?)
}

/// `sort(x; dim, descending, stable)`.
fn sort(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, values, places) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let dim = dim(ctx, &x)?;
    order(ctx, x, places, dim)?;
    take(ctx, x, places, dim, values)
}

/// `argsort(x; dim, descending, stable)`.
fn argsort(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, places) = (ctx.operand(0)?, ctx.operand(1)?);
    order(ctx, x, places, dim(ctx, &x)?)
}

/// `topk(x; k, dim, largest, sorted)`.
fn topk(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, values, places) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let dim = dim(ctx, &x)?;
    let agree = values.shape == places.shape
        && values.shape.len() == x.shape.len()
        && values.dtype == x.dtype
        && without(values.shape, dim) == without(x.shape, dim);
    ensure!(agree, "{x:?} to {values:?}: schema and kernel disagree");
    if values.numel() == 0 {
        return Ok(());
    }
    let (wanted, _) = along(&values, dim, []);
    let (length, steps) = along(&x, dim, [&x, &values, &places]);
    let largest = ctx.attrs().bool("largest")?.unwrap_or(true);
    let all = [x, values, places].map(|tensor| Step::by(tensor, without(tensor.strides, dim)));
    let integers = [length, wanted, steps[0], steps[1], steps[2], i64::from(largest)];
    let mut walk = Walk::new(&without(x.shape, dim), 0, &all)?.integers(&integers)?;
    let text = if length <= SHORT { TOPK_SHORT } else { TOPK };
    if length > SHORT {
        walk.count *= length as u64;
    }
    // SAFETY: the kernel writes elements of the call's outputs, each by one thread, and reads those of
    // its input.
    unsafe { text.of_dtype(native(ctx)?, x.dtype, walk) }
}
