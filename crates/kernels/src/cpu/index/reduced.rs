//! The kernel of `scatter_reduce`: the elements at an index, combined with values.

use anyhow::{Result, bail};
use millstream_ops::args::choice;
use millstream_ops::index::REDUCTIONS;
use millstream_types::DType;

use super::elements::{DimIndex, first};
use super::with_wide;
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::compute::Compute;
use crate::cpu::copy::convert;
use crate::cpu::element::{Element, compute};
use crate::cpu::memory::{at_least_1d, view};
use crate::cpu::strided::Sequence;

/// `scatter_reduce(x, index, src; dim, reduce, include_self)`.
pub(super) fn scatter_reduce(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, index, src, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?, ctx.operand(3)?);
    // SAFETY: operands of the call; the last is its output.
    unsafe { convert(ctx, x, out) }?;
    if index.numel() == 0 {
        return Ok(());
    }
    let wide = match out.dtype {
        DType::F32 | DType::F64 | DType::I64 => return reduce_into(ctx, out, index, src),
        DType::F16 | DType::BF16 => DType::F32,
        DType::C64 | DType::C128 => bail!("complex numbers: schema and kernel disagree"),
        _ => DType::I64,
    };
    // SAFETY: operands of the call; the last is its output.
    unsafe { with_wide(ctx, wide, out, src, |out, src| reduce_into(ctx, out, index, src)) }
}

/// Combines the elements of a tensor of f32, f64 or i64 at the index with those of `src`.
fn reduce_into(
    ctx: &KernelCtx<'_>,
    target: RawTensor<'_>,
    index: RawTensor<'_>,
    src: RawTensor<'_>,
) -> Result<()> {
    let (index, src) = (at_least_1d(&index), at_least_1d(&src));
    let from = first(&src, index.shape)?;
    // SAFETY: operands of the call, or memory that temporaries own; nothing else uses the target,
    // which is new, and everything runs on this thread.
    let (indexed, values) =
        unsafe { (DimIndex::new(ctx, target, &index)?, Sequence::new(view(&src, &from))) };
    let reduce = choice(ctx.attrs(), "reduce", &REDUCTIONS)?.unwrap_or_default();
    let include_self = ctx.attrs().bool("include_self")?.unwrap_or(true);
    compute!(target.dtype, T => {
        let (identity, combine): (T, fn(T, T) -> T) = match reduce {
            "sum" => (T::ZERO, Compute::plus),
            "prod" => (T::ONE, Compute::times),
            "amax" => (T::LEAST, T::greater),
            "amin" => (T::GREATEST, T::lesser),
            other => anyhow::bail!("reduce '{other}': schema and kernel disagree"),
        };
        if !include_self {
            indexed.update::<T>(&values, |_, _| identity);
        }
        indexed.update::<T>(&values, combine);
    });
    Ok(())
}
