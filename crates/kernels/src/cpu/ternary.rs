//! Kernels of the elementwise functions of several tensors.

use anyhow::Result;
use millstream_ops::args::Scalar;
use millstream_types::DType;

use super::Kernel;
use super::compute::Compute;
use super::element::{Element, compute, float, from_scalar};
use super::elementwise::{Call, common_of, one, three};
use crate::context::KernelCtx;

/// Kernels that are also registered for the in-place op.
pub(crate) const KERNELS: &[Kernel] = &[
    ("masked_fill", masked_fill),
    ("clamp", clamp),
    ("clamp_min", clamp),
    ("clamp_max", clamp),
    ("lerp", lerp),
    ("addcmul", addcmul),
    ("addcdiv", addcdiv),
];

pub(crate) const NEW: &[Kernel] = &[("where", choose)];

fn choose(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, ["", "self", "other"])?;
    let common = common_of(&call.inputs[1..]);
    compute!(common, T => {
        call.run(common, &three(|c: T, x: T, y: T| if c != T::ZERO { x } else { y }))
    })
}

fn masked_fill(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, ["", "", "value"])?;
    let dtype = call.out.dtype;
    compute!(dtype, T => {
        call.run(dtype, &three(|x: T, mask: T, value: T| if mask != T::ZERO { value } else { x }))
    })
}

fn clamp(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, [""])?;
    let bound = |name| Scalar::of(ctx.attrs(), name);
    let (min, max) = (bound("min")?, bound("max")?);
    let with_bounds = [min, max].into_iter().flatten();
    let common = common_of_numbers(&call, with_bounds);
    compute!(common, T => {
        let min = min.map_or(T::LEAST, from_scalar);
        let max = max.map_or(T::GREATEST, from_scalar);
        // A NaN in x or a bound is the result.
        call.run(common, &one(|x: T| x.greater(min).lesser(max)))
    })
}

fn common_of_numbers(call: &Call<'_, 1>, numbers: impl IntoIterator<Item = Scalar>) -> DType {
    let inputs = call.inputs.iter().copied();
    let numbers = numbers.into_iter().map(super::elementwise::Input::Number);
    common_of(&inputs.chain(numbers).collect::<Vec<_>>())
}

/// Interpolates from the nearer end, so that the result is exact at both ends.
fn lerp(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, ["", "", "weight"])?;
    let common = common_of(&call.inputs[..2]);
    float!(common, T => {
        call.run(common, &three(|x: T, end: T, weight: T| {
            if weight.abs() < 0.5 {
                x + weight * (end - x)
            } else {
                end - (end - x) * (1.0 - weight)
            }
        }))
    })
}

fn addcmul(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, [""; 3])?;
    let (common, value) = (call.common(), value(ctx)?);
    compute!(common, T => {
        let value = from_scalar::<T>(value);
        call.run(common, &three(|x: T, a: T, b: T| x.plus(value.times(a).times(b))))
    })
}

fn addcdiv(ctx: &KernelCtx<'_>) -> Result<()> {
    let call = Call::of(ctx, [""; 3])?;
    let (common, value) = (call.common(), value(ctx)?);
    float!(common, T => {
        let value = from_scalar::<T>(value);
        call.run(common, &three(|x: T, a: T, b: T| x + value * a / b))
    })
}

fn value(ctx: &KernelCtx<'_>) -> Result<Scalar> {
    Ok(Scalar::of(ctx.attrs(), "value")?.unwrap_or(Scalar::Int(1)))
}
