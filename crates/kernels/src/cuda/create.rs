//! Tensors from numbers.

use anyhow::{Context, Result};

use millstream_ops::args::Scalar;
use millstream_types::DType;

use super::elementwise::{plain, run};
use super::native;
use super::source::computed;
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::elementwise::Input;

pub(super) const KERNELS: &[super::Kernel] =
    &[("full", full), ("fill", full), ("arange", arange), ("scrub", scrub)];

/// Sets all elements of `x` to a value.
pub(super) fn fill(ctx: &KernelCtx<'_>, x: RawTensor<'_>, value: Scalar) -> Result<()> {
    // A broadcast dimension of x addresses one element repeatedly. Setting it once is enough.
    let shape: Vec<usize> =
        x.shape.iter().zip(x.strides).map(|(&d, &s)| if s == 0 { d.min(1) } else { d }).collect();
    let x = RawTensor { shape: &shape, ..x };
    let kernel = plain("full", x.dtype, x.dtype, computed(x.dtype))?;
    run(ctx, kernel, &[Input::Number(value)], x, &[])
}

/// `fill(x; value)` and `full`, whose only operand is its output.
fn full(ctx: &KernelCtx<'_>) -> Result<()> {
    let value =
        Scalar::of(ctx.attrs(), "value")?.context("value: missing; this argument is required")?;
    fill(ctx, ctx.operand(0)?, value)
}

/// `arange`: computes every number from its index; floats in f64, as on the host.
fn arange(ctx: &KernelCtx<'_>) -> Result<()> {
    let number =
        |name, default| anyhow::Ok(Scalar::of(ctx.attrs(), name)?.unwrap_or(Scalar::Int(default)));
    let scalars = [number("start", 0)?, number("step", 1)?];
    let out = ctx.operand(0)?;
    let computed = if out.dtype.is_float() { DType::F64 } else { DType::I64 };
    run(ctx, plain("arange", out.dtype, out.dtype, computed)?, &[], out, &scalars)
}

/// Sets all bits of the workspace.
fn scrub(ctx: &KernelCtx<'_>) -> Result<()> {
    let (bytes, count) = ctx.workspace();
    // SAFETY: the workspace has `count` bytes, and nothing else uses it until the stream has run
    // this.
    unsafe { native(ctx)?.fill(bytes, 0xff, count) }
}
