//! Kernels of the elementwise functions of several tensors.

use anyhow::Result;
use millstream_ops::args::Scalar;
use millstream_types::DType;

use super::compute::Compute;
use super::element::{Element, compute, computed, from_scalar};
use super::elementwise::{Bound, Call, CallArgs, ElementwiseOp, Input, common_of};
use super::function::{one, three};
use super::real::reals;

/// Kernels that are also registered for the in-place op.
pub(crate) const KERNELS: &[ElementwiseOp] = &[
    ("masked_fill", masked_fill),
    ("clamp", clamp),
    ("clamp_min", clamp),
    ("clamp_max", clamp),
    ("lerp", lerp),
    ("addcmul", addcmul),
    ("addcdiv", addcdiv),
];

pub(crate) const NEW: &[ElementwiseOp] = &[("where", choose)];

pub(super) fn choose(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", "self", "other"])?;
    let common = common_of(&call.inputs[1..])?;
    computed!(common, T => {
        call.bind(common, three(|c: T, x: T, y: T| if c != T::ZERO { x } else { y }))
    })
}

pub(super) fn masked_fill(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", "", "value"])?;
    let dtype = call.out;
    computed!(dtype, T => {
        call.bind(dtype, three(|x: T, mask: T, value: T| if mask != T::ZERO { value } else { x }))
    })
}

fn clamp(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""])?;
    let bound = |name| Scalar::of(args.attrs, name);
    let (min, max) = (bound("min")?, bound("max")?);
    let with_bounds = [min, max].into_iter().flatten();
    let common = common_of_numbers(&call, with_bounds)?;
    compute!(common, T => {
        let min = min.map_or(T::LEAST, from_scalar);
        let max = max.map_or(T::GREATEST, from_scalar);
        // A NaN in x or a bound is the result.
        call.bind(common, one(move |x: T| x.greater(min).lesser(max)))
    })
}

fn common_of_numbers(call: &Call<1>, numbers: impl IntoIterator<Item = Scalar>) -> Result<DType> {
    let inputs = call.inputs.iter().copied();
    let numbers = numbers.into_iter().map(Input::Number);
    common_of(&inputs.chain(numbers).collect::<Vec<_>>())
}

/// Interpolates from the nearer end, so that the result is exact at both ends.
fn lerp(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", "", "weight"])?;
    let common = common_of(&call.inputs[..2])?;
    reals!(common, T => {
        call.bind(common, three(|x: T, end: T, weight: T| {
            if weight.abs() < 0.5 {
                x + weight * (end - x)
            } else {
                end - (end - x) * (1.0 - weight)
            }
        }))
    })
}

fn addcmul(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""; 3])?;
    let (common, value) = (call.common()?, value(args)?);
    compute!(common, T => {
        let value = from_scalar::<T>(value);
        call.bind(common, three(move |x: T, a: T, b: T| x.plus(value.times(a).times(b))))
    })
}

fn addcdiv(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""; 3])?;
    let (common, value) = (call.common()?, value(args)?);
    reals!(common, T => {
        let value = from_scalar::<T>(value);
        call.bind(common, three(move |x: T, a: T, b: T| x + value * a / b))
    })
}

fn value(args: &CallArgs<'_>) -> Result<Scalar> {
    Ok(Scalar::of(args.attrs, "value")?.unwrap_or(Scalar::Int(1)))
}
