//! Kernels of the ops in `millstream_ops::linear`: the bias is copied to the result, and the
//! product is added to it.

use anyhow::Result;
use millstream_ops::args::Scalar;
use millstream_types::Dims;

use super::Kernel;
use super::matmul::multiply;
use super::strided::broadcast_step;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] = &[("addmm", add_product), ("baddbmm", add_product)];

fn is_zero(v: Scalar) -> bool {
    match v {
        Scalar::Int(v) => v == 0,
        Scalar::Float(v) => v == 0.0,
        Scalar::Bool(v) => !v,
    }
}

/// `addmm(bias, x, y; beta, alpha)` and `baddbmm`. If beta is zero, the bias is not read.
fn add_product(ctx: &KernelCtx<'_>) -> Result<()> {
    let bias = ctx.operand(0)?;
    let all = [ctx.operand(1)?, ctx.operand(2)?, ctx.operand(3)?];
    let number =
        |name| Ok::<_, anyhow::Error>(Scalar::of(ctx.attrs(), name)?.unwrap_or(Scalar::Int(1)));
    let (alpha, beta) = (number("alpha")?, number("beta")?);
    let shape = all[2].shape;
    let step = |k| broadcast_step(&bias, shape.len(), k) / bias.dtype.size();
    let strides: Dims = (0..shape.len()).map(step).collect();
    let bias = RawTensor { shape, strides: &strides, ..bias };
    // SAFETY: operands of the call; the last is its output. The schema has checked that the bias
    // broadcasts to it.
    unsafe { multiply(ctx, all, alpha, (!is_zero(beta)).then_some((bias, beta))) }
}
