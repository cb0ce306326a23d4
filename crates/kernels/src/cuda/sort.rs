//! `sort`, `argsort` and `topk`.
//!
//! Of equal elements the one with the lower index comes first. The exception is `topk` of short
//! lines: there one thread per line executes the sequential steps of the host's kernel, which
//! leaves ties as PyTorch does on the host.

use std::ffi::CString;

use anyhow::{Result, ensure};
use millstream_ops::args::dimension;
use millstream_types::DType;

use super::gather::take_along_dim;
use super::native;
use super::scan::{line, without};
use super::strided::{StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use crate::context::{KernelCtx, RawTensor};

pub(super) const KERNELS: &[super::Kernel] =
    &[("sort", sort), ("argsort", argsort), ("topk", topk)];

const LINES: KernelTemplate = template!("sort_lines", "sort.cu");
const STEP: KernelTemplate = template!("sort_step", "sort.cu");
const TOPK: KernelTemplate = template!("topk");
const TOPK_SHORT: KernelTemplate = template!("topk_short");

pub(super) fn sources() -> Vec<(String, CString)> {
    [LINES, STEP, TOPK, TOPK_SHORT]
        .map(|kernel| kernel.typed_sources(super::SAMPLE_DTYPES))
        .concat()
}

/// The longest line that one block sorts.
const MAX_BLOCK_LINE: usize = 1 << 12;

/// The longest line for which `topk` leaves ties as the host does: `MAX_LENGTH` in `topk_short.cu`.
const MAX_SHORT_LINE: i64 = 1 << 10;

/// Writes the indices that sort each line of x.
fn sort_indices(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    indices: RawTensor<'_>,
    dim: usize,
) -> Result<()> {
    let descending = ctx.attrs().bool("descending")?.unwrap_or(false);
    let agree = x.shape == indices.shape && indices.dtype == DType::I64;
    ensure!(agree, "{x:?} to {indices:?}: schema and kernel disagree");
    if x.numel() == 0 {
        return Ok(());
    }
    let native = native(ctx)?;
    let (length, [x_step, step]) = line(&x, dim, [&x, &indices]);
    let operands = [x, indices]
        .map(|tensor| StridedOperand::with_strides(tensor, without(tensor.strides, dim)));
    let args = StridedArgs::new(&without(x.shape, dim), 0, &operands)?;
    let lines = args.count;
    let common = [length, x_step, step, i64::from(descending)];
    if length as usize <= MAX_BLOCK_LINE {
        // SAFETY: the kernel writes the call's output, each line by one block. It reads its input
        // at the indices that it has written there.
        return unsafe { LINES.launch_blocks(native, x.dtype, lines, args.integers(&common)?) };
    }
    let launch = |merge: i64, distance: i64, width: i64| {
        let integers = [common[0], common[1], common[2], common[3], merge, distance, width];
        let mut args = args.integers(&integers)?;
        args.count = lines * width as u64;
        // SAFETY: as above; in each step, one thread accesses each index.
        unsafe { STEP.launch_typed(native, x.dtype, args) }
    };
    launch(0, 0, length)?;
    let (mut merge, width) = (2i64, (length as u64).next_power_of_two() as i64);
    while merge <= width {
        launch(merge, 0, width / 2)?;
        let mut distance = merge / 4;
        while distance > 0 {
            launch(merge, distance, width / 2)?;
            distance /= 2;
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
    let (x, values, indices) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let dim = dim(ctx, &x)?;
    sort_indices(ctx, x, indices, dim)?;
    take_along_dim(ctx, x, indices, dim, values)
}

/// `argsort(x; dim, descending, stable)`.
fn argsort(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, indices) = (ctx.operand(0)?, ctx.operand(1)?);
    sort_indices(ctx, x, indices, dim(ctx, &x)?)
}

/// `topk(x; k, dim, largest, sorted)`.
fn topk(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, values, indices) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let dim = dim(ctx, &x)?;
    let agree = values.shape == indices.shape
        && values.shape.len() == x.shape.len()
        && values.dtype == x.dtype
        && without(values.shape, dim) == without(x.shape, dim);
    ensure!(agree, "{x:?} to {values:?}: schema and kernel disagree");
    if values.numel() == 0 {
        return Ok(());
    }
    let (wanted, _) = line(&values, dim, []);
    let (length, operands) = line(&x, dim, [&x, &values, &indices]);
    let largest = ctx.attrs().bool("largest")?.unwrap_or(true);
    let all = [x, values, indices]
        .map(|tensor| StridedOperand::with_strides(tensor, without(tensor.strides, dim)));
    let integers = [length, wanted, operands[0], operands[1], operands[2], i64::from(largest)];
    let mut args = StridedArgs::new(&without(x.shape, dim), 0, &all)?.integers(&integers)?;
    let kernel = if length <= MAX_SHORT_LINE { TOPK_SHORT } else { TOPK };
    if length > MAX_SHORT_LINE {
        args.count *= length as u64;
    }
    // SAFETY: the kernel writes elements of the call's outputs, each by one thread, and reads its
    // input.
    unsafe { kernel.launch_typed(native(ctx)?, x.dtype, args) }
}
