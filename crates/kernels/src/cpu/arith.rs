//! Kernels of the elementwise arithmetic ops.

use anyhow::Result;
use millstream_ops::args::{Scalar, choice};
use millstream_ops::arith::ROUNDING_MODES;
use millstream_ops::promotion::floating;

use super::compute::Compute;
use super::element::{compute, float, from_scalar};
use super::elementwise::{Bound, Call, CallArgs, ElementwiseOp, Input};
use super::function::{one, two};

pub(crate) const KERNELS: &[ElementwiseOp] = &[
    ("add", |args| add(args, false)),
    ("sub", |args| add(args, true)),
    ("mul", mul),
    ("div", div),
    ("remainder", remainder),
    ("fmod", fmod),
    ("pow", pow),
    ("atan2", atan2),
    ("neg", neg),
];

pub(crate) const EXTREMES: &[ElementwiseOp] = &[("maximum", maximum), ("minimum", minimum)];

/// The argument names of two operands, the second of which may be the number `other`.
const PAIR: [&str; 2] = ["", "other"];

/// `out = x + alpha · y`, or `x - alpha · y` if `negate`.
fn add(args: &CallArgs<'_>, negate: bool) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let given = Scalar::of(args.attrs, "alpha")?.unwrap_or(Scalar::Int(1));
    // x - alpha · y equals x + (-alpha) · y bit for bit, in floats and in wrapping integers.
    let alpha = match given {
        Scalar::Int(v) if negate => Scalar::Int(v.wrapping_neg()),
        Scalar::Float(v) if negate => Scalar::Float(-v),
        other => other,
    };
    let common = call.common();
    compute!(common, T => {
        let alpha = from_scalar::<T>(alpha);
        call.bind(common, two(move |x: T, y: T| x.plus(alpha.times(y))))
    })
}

fn mul(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common();
    compute!(common, T => call.bind(common, two(T::times)))
}

fn div(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common();
    match choice(args.attrs, "rounding_mode", ROUNDING_MODES)? {
        Some("floor") => {
            compute!(common, T => call.bind_division(common, two(T::floor_quotient)))
        }
        Some(_) => compute!(common, T => call.bind_division(common, two(T::quotient))),
        None => {
            let common = floating(common);
            float!(common, T => call.bind(common, two(|x: T, y: T| x / y)))
        }
    }
}

fn remainder(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common();
    compute!(common, T => call.rounded(common).bind_division(common, two(T::remainder)))
}

fn fmod(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common();
    compute!(common, T => call.rounded(common).bind_division(common, two(T::truncated_remainder)))
}

/// Frequent exponents have their own functions, with the same result or a more accurate one.
fn pow(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", "exponent"])?;
    let common = call.common();
    let exponent = match call.inputs[1] {
        Input::Number(v) if common.is_float() => Some(from_scalar::<f64>(v)),
        Input::Number(Scalar::Int(2)) => Some(2.0),
        _ => None,
    };
    if exponent == Some(2.0) {
        return compute!(common, T => call.bind(common, two(|x: T, _| x.times(x))));
    }
    let Some(exponent) = exponent else {
        return compute!(common, T => call.bind(common, two(T::power)));
    };
    float!(common, T => {
        if exponent == 1.0 {
            call.bind(common, two(|x: T, _| x))
        } else if exponent == 3.0 {
            call.bind(common, two(|x: T, _| x * x * x))
        } else if exponent == 0.5 {
            call.bind(common, two(|x: T, _| x.sqrt()))
        } else if exponent == -0.5 {
            call.bind(common, two(|x: T, _| 1.0 / x.sqrt()))
        } else if exponent == -1.0 {
            call.bind(common, two(|x: T, _| 1.0 / x))
        } else {
            call.bind(common, two(T::power))
        }
    })
}

fn atan2(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", ""])?;
    let common = floating(call.common());
    float!(common, T => call.bind(common, two(|x: T, y: T| x.atan2(y))))
}

fn neg(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""])?;
    let common = call.common();
    compute!(common, T => call.bind(common, one(T::negative)))
}

fn maximum(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", ""])?;
    let common = call.common();
    compute!(common, T => call.bind(common, two(T::greater)))
}

fn minimum(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", ""])?;
    let common = call.common();
    compute!(common, T => call.bind(common, two(T::lesser)))
}
