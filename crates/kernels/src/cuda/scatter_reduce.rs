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
    let (combine, identity) = match choice(ctx.attrs(), "reduce", &REDUCTIONS)?.unwrap_or_default()
    {
        "sum" => (Combine::Add(Scalar::Int(1)), Scalar::Int(0)),
        "prod" => (Combine::Multiply, Scalar::Int(1)),
        "amax" => (Combine::Greatest, least(out.dtype)),
        "amin" => (Combine::Least, greatest(out.dtype)),
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

/// Returns the least number of a dtype.
fn least(dtype: DType) -> Scalar {
    match dtype {
        DType::F32 | DType::F64 | DType::F16 | DType::BF16 | DType::C64 | DType::C128 => {
            Scalar::Float(f64::NEG_INFINITY)
        }
        DType::I64 => Scalar::Int(i64::MIN),
        DType::I32 => Scalar::Int(i32::MIN.into()),
        DType::I16 => Scalar::Int(i16::MIN.into()),
        DType::I8 => Scalar::Int(i8::MIN.into()),
        DType::U8 | DType::U16 | DType::U32 | DType::U64 | DType::Bool => Scalar::Int(0),
    }
}

/// Returns the greatest number of a dtype.
fn greatest(dtype: DType) -> Scalar {
    match dtype {
        DType::F32 | DType::F64 | DType::F16 | DType::BF16 | DType::C64 | DType::C128 => {
            Scalar::Float(f64::INFINITY)
        }
        DType::I64 => Scalar::Int(i64::MAX),
        DType::I32 => Scalar::Int(i32::MAX.into()),
        DType::I16 => Scalar::Int(i16::MAX.into()),
        DType::I8 => Scalar::Int(i8::MAX.into()),
        DType::U8 => Scalar::Int(u8::MAX.into()),
        DType::U16 => Scalar::Int(u16::MAX.into()),
        DType::U32 => Scalar::Int(u32::MAX.into()),
        DType::U64 => Scalar::Int(-1),
        DType::Bool => Scalar::Int(1),
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
