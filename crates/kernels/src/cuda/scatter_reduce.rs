//! `scatter_reduce`: the elements at an index, combined with values; and sums of 16-bit floats in
//! f32.

use anyhow::{Context, Result};
use millstream_ops::args::{Scalar, choice};
use millstream_ops::index::REDUCTIONS;
use millstream_types::DType;
use millstream_types::layout::contiguous_strides;

use super::copy::{convert, strided};
use super::native;
use super::scatter::{Combine, Source, scatter_into};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::element::{Element, dispatch, from_scalar};
use crate::cpu::index::has_wide_sums;

/// `scatter_reduce(x, index, src; dim, reduce, include_self)`.
pub(super) fn scatter_reduce(ctx: &KernelCtx<'_>) -> Result<()> {
    let (index, src, out) = (ctx.operand(1)?, ctx.operand(2)?, ctx.operand(3)?);
    convert(ctx, ctx.operand(0)?, out)?;
    if index.numel() == 0 {
        return Ok(());
    }
    let [least, greatest] = limits(out.dtype);
    let (combine, identity) = match choice(ctx.attrs(), "reduce", &REDUCTIONS)?.unwrap_or_default()
    {
        "sum" => (Combine::Add(Scalar::Int(1)), Scalar::Int(0)),
        "prod" => (Combine::Multiply, Scalar::Int(1)),
        "amax" => (Combine::Greatest, least),
        "amin" => (Combine::Least, greatest),
        other => anyhow::bail!("reduce '{other}': schema and kernel disagree"),
    };
    if !ctx.attrs().bool("include_self")?.unwrap_or(true) {
        let word = dispatch!(out.dtype, T => from_scalar::<T>(identity).to_word());
        scatter_into(ctx, out, index, Source::Bits(word), Combine::Set)?;
    }
    match combine {
        Combine::Add(_) | Combine::Multiply if has_wide_sums(out.dtype) => {
            with_wide_sums(ctx, out, src, |out, src| {
                scatter_into(ctx, out, index, Source::Tensor(src), combine)
            })
        }
        _ => scatter_into(ctx, out, index, Source::Tensor(src), combine),
    }
}

/// Returns the least and the greatest number of a dtype, as its bits in an i64 if it is an integer.
fn limits(dtype: DType) -> [Scalar; 2] {
    let unused = 64 - 8 * dtype.size().min(8) as u32;
    match dtype {
        DType::F32 | DType::F64 | DType::F16 | DType::BF16 | DType::C64 | DType::C128 => {
            [f64::NEG_INFINITY, f64::INFINITY].map(Scalar::Float)
        }
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => {
            [i64::MIN >> unused, i64::MAX >> unused].map(Scalar::Int)
        }
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => {
            [0, (u64::MAX >> unused).cast_signed()].map(Scalar::Int)
        }
        DType::Bool => [0, 1].map(Scalar::Int),
    }
}

/// Calls `add` with f32 copies of `x` and `source` in scratch memory, and rounds the sums to `x`
/// once, as the host's kernels do. `add` takes no scratch memory: its operands do not overlap.
pub(super) fn with_wide_sums(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'_>,
    source: RawTensor<'_>,
    add: impl FnOnce(RawTensor<'_>, RawTensor<'_>) -> Result<()>,
) -> Result<()> {
    let native = native(ctx)?;
    let mut scratch = native.scratch();
    let (x_strides, source_strides) =
        (contiguous_strides(x.shape)?, contiguous_strides(source.shape)?);
    let bytes = |of: &RawTensor<'_>| of.numel().checked_mul(size_of::<f32>()).context("too large");
    let sums =
        RawTensor { data: scratch.take(bytes(&x)?)?, dtype: DType::F32, strides: &x_strides, ..x };
    let wide = RawTensor {
        data: scratch.take(bytes(&source)?)?,
        dtype: DType::F32,
        strides: &source_strides,
        ..source
    };
    // SAFETY: `KernelCtx::new` promises valid operands; the schema refuses an x that overlaps
    // itself, and the scratch memory is the call's alone.
    unsafe {
        strided(native, x, sums)?;
        strided(native, source, wide)?;
        add(sums, wide)?;
        strided(native, sums, x)
    }
}
