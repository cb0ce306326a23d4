//! Tensors from numbers, and dropout that drops nothing.

use std::sync::Arc;

use anyhow::{Context, Result};

use millstream_ops::args::Scalar;
use millstream_types::DType;

use super::source::{Elementwise, computed};
use super::{KIND, copy, elementwise, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::elementwise::Input;
use crate::registry::KernelRegistry;

/// Adds the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    kernels.register(KIND, "full", Arc::new(fill));
    kernels.register(KIND, "fill", Arc::new(fill));
    kernels.register(KIND, "arange", Arc::new(arange));
    kernels.register(KIND, "scrub", Arc::new(scrub));
    kernels.register(KIND, "native_dropout", Arc::new(dropout));
}

/// A kernel of no tensors, computed in one of the three types.
fn kernel(op: &'static str, out: DType, computed: DType) -> Result<Elementwise<'static>> {
    Ok(Elementwise {
        op,
        variant: "",
        inputs: Vec::new(),
        common: out,
        rounded: false,
        out,
        computed,
        function: elementwise::function(op)?.texts[0].1,
        wide: false,
    })
}

/// Sets every element of `x` to a value.
pub(super) fn set(ctx: &KernelCtx<'_>, x: RawTensor<'_>, value: Scalar) -> Result<()> {
    // An element that x names more than once need be set but once.
    let shape: Vec<usize> =
        x.shape.iter().zip(x.strides).map(|(&d, &s)| if s == 0 { d.min(1) } else { d }).collect();
    let x = RawTensor { shape: &shape, ..x };
    let kernel = kernel("full", x.dtype, computed(x.dtype))?;
    elementwise::run(ctx, kernel, &[Input::Number(value)], x, &[])
}

/// `fill(x; value)`, and `full`, whose only operand is its output.
fn fill(ctx: &KernelCtx<'_>) -> Result<()> {
    let value = Scalar::of(ctx.attrs(), "value")?.context("value: expected, and not given")?;
    set(ctx, ctx.operand(0)?, value)
}

/// Every number is computed from its index, that of a float in f64, as on the host.
fn arange(ctx: &KernelCtx<'_>) -> Result<()> {
    let number =
        |name, default| anyhow::Ok(Scalar::of(ctx.attrs(), name)?.unwrap_or(Scalar::Int(default)));
    let numbers = [number("start", 0)?, number("step", 1)?];
    let out = ctx.operand(0)?;
    let computed = if out.dtype.is_float() { DType::F64 } else { DType::I64 };
    elementwise::run(ctx, kernel("arange", out.dtype, computed)?, &[], out, &numbers)
}

fn scrub(ctx: &KernelCtx<'_>) -> Result<()> {
    let (bytes, count) = ctx.workspace();
    // SAFETY: the workspace is `count` bytes long and nobody else's until the stream has run this.
    unsafe { native(ctx)?.fill(bytes, 0xff, count) }
}

/// `native_dropout(x; p, train)`, where nothing is dropped.
fn dropout(ctx: &KernelCtx<'_>) -> Result<()> {
    copy::convert(ctx, ctx.operand(0)?, ctx.operand(1)?)?;
    set(ctx, ctx.operand(2)?, Scalar::Bool(true))
}
