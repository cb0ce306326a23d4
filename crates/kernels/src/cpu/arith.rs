//! Kernels of the elementwise arithmetic ops.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Result, ensure};
use millstream_ops::args::{Scalar, choice};
use millstream_ops::arith::ROUNDING_MODES;
use millstream_ops::promotion::floating;
use millstream_types::DType;

use super::Kernel;
use super::compute::Compute;
use super::element::{compute, float, from_scalar};
use super::elementwise::{Call, Chunk, Input, one, two};
use crate::context::KernelCtx;

pub(crate) const KERNELS: &[Kernel] = &[
    ("add", |ctx| add(ctx, false)),
    ("sub", |ctx| add(ctx, true)),
    ("mul", mul),
    ("div", div),
    ("remainder", remainder),
    ("fmod", fmod),
    ("pow", pow),
    ("neg", neg),
];

pub(crate) const EXTREMES: &[Kernel] = &[("maximum", maximum), ("minimum", minimum)];

/// The argument names of two operands, the second of which may be the number `other`.
const PAIR: [&str; 2] = ["", "other"];

/// `out = x + alpha · y`, or `x - alpha · y` if `negate`.
fn add(ctx: &KernelCtx<'_>, negate: bool) -> Result<()> {
    let call = Call::of(ctx, PAIR)?;
    let given = Scalar::of(ctx.attrs(), "alpha")?.unwrap_or(Scalar::Int(1));
    // x - alpha · y equals x + (-alpha) · y bit for bit, in floats and in wrapping integers.
    let alpha = match given {
        Scalar::Int(v) if negate => Scalar::Int(v.wrapping_neg()),
        Scalar::Float(v) if negate => Scalar::Float(-v),
        other => other,
    };
    let common = call.common();
    compute!(common, T => {
        let alpha = from_scalar::<T>(alpha);
        call.run(common, &two(|x: T, y: T| x.plus(alpha.times(y))))
    })
}

fn mul(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, PAIR)?;
    let common = call.common();
    compute!(common, T => call.run(common, &two(T::times)))
}

fn div(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, PAIR)?;
    let common = call.common();
    match choice(ctx.attrs(), "rounding_mode", ROUNDING_MODES)? {
        Some("floor") => {
            compute!(common, T => divided(call, common, &two(T::floor_quotient)))
        }
        Some(_) => compute!(common, T => divided(call, common, &two(T::quotient))),
        None => {
            let common = floating(common);
            float!(common, T => call.run(common, &two(|x: T, y: T| x / y)))
        }
    }
}

fn remainder(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, PAIR)?;
    let common = call.common();
    compute!(common, T => divided(call.rounded(common), common, &two(T::remainder)))
}

fn fmod(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, PAIR)?;
    let common = call.common();
    compute!(common, T => divided(call.rounded(common), common, &two(T::truncated_remainder)))
}

/// Runs a division. Integer division by zero is an error.
fn divided<T: Compute>(call: Call<'_, 2>, common: DType, chunk: Chunk<'_, T, 3>) -> Result<()> {
    if common.is_float() {
        return call.run(common, chunk);
    }
    let zero = AtomicBool::new(false);
    call.run::<T, 3>(common, &|buffers, count| {
        if buffers[1][..count].contains(&T::ZERO) {
            zero.store(true, Relaxed);
        }
        chunk(buffers, count);
    })?;
    ensure!(!zero.into_inner(), "{common} divided by zero");
    Ok(())
}

/// Frequent exponents have their own functions, with the same result or a more accurate one.
fn pow(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, ["", "exponent"])?;
    let common = call.common();
    let exponent = match call.inputs[1] {
        Input::Number(v) if common.is_float() => Some(from_scalar::<f64>(v)),
        Input::Number(Scalar::Int(2)) => Some(2.0),
        _ => None,
    };
    if exponent == Some(2.0) {
        return compute!(common, T => call.run(common, &two(|x: T, _| x.times(x))));
    }
    let Some(exponent) = exponent else {
        return compute!(common, T => call.run(common, &two(T::power)));
    };
    float!(common, T => {
        if exponent == 3.0 {
            call.run(common, &two(|x: T, _| x * x * x))
        } else if exponent == 0.5 {
            call.run(common, &two(|x: T, _| x.sqrt()))
        } else if exponent == -0.5 {
            call.run(common, &two(|x: T, _| 1.0 / x.sqrt()))
        } else if exponent == -1.0 {
            call.run(common, &two(|x: T, _| 1.0 / x))
        } else {
            call.run(common, &two(T::power))
        }
    })
}

fn neg(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, [""])?;
    let common = call.common();
    compute!(common, T => call.run(common, &one(T::negative)))
}

fn maximum(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, ["", ""])?;
    let common = call.common();
    compute!(common, T => call.run(common, &two(T::greater)))
}

fn minimum(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, ["", ""])?;
    let common = call.common();
    compute!(common, T => call.run(common, &two(T::lesser)))
}
