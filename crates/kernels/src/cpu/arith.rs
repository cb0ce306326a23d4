//! Kernels of the elementwise arithmetic ops.

use anyhow::Result;
use millstream_ops::args::{Scalar, choice};
use millstream_ops::arith::ROUNDING_MODES;
use millstream_ops::promotion::floating;
use millstream_types::DType;

use super::compute::Compute;
use super::element::{compute, from_scalar};
use super::elementwise::{Bound, Call, CallArgs, ElementwiseOp, Input};
use super::function::two;
use super::pointwise::functions;
use super::real::reals;

pub(crate) const KERNELS: &[ElementwiseOp] = &[
    ("add", |args| add(args, false)),
    ("sub", |args| add(args, true)),
    ("mul", mul),
    ("div", div),
    ("remainder", remainder),
    ("fmod", fmod),
    ("pow", pow),
];

functions! {
    ANGLES, 2, two;
    float "atan2" [] T => T::atan2;
}

functions! {
    EXTREMES, 2, two;
    any "maximum" [] T => T::greater;
    any "minimum" [] T => T::lesser;
}

/// Functions that the host computes for every device.
pub(crate) const NUMBERS: &[ElementwiseOp] =
    &[("gcd", gcd), ("lcm", lcm), ("nextafter", next_after)];

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
    let common = call.common()?;
    compute!(common, T => {
        let alpha = from_scalar::<T>(alpha);
        call.bind(common, two(move |x: T, y: T| x.plus(alpha.times(y))))
    })
}

fn mul(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common()?;
    compute!(common, T => call.bind(common, two(T::times)))
}

fn div(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common()?;
    match choice(args.attrs, "rounding_mode", ROUNDING_MODES)? {
        Some("floor") => {
            compute!(common, T => call.bind_division(common, two(T::floor_quotient)))
        }
        Some(_) => compute!(common, T => call.bind_division(common, two(T::quotient))),
        None => {
            let common = floating(common);
            reals!(common, T => call.bind(common, two(|x: T, y: T| x / y)))
        }
    }
}

fn remainder(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common()?;
    compute!(common, T => call.rounded(common).bind_division(common, two(T::remainder)))
}

fn fmod(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common()?;
    compute!(common, T => call.rounded(common).bind_division(common, two(T::truncated_remainder)))
}

/// Frequent exponents have their own functions, with the same result or a more accurate one.
fn pow(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", "exponent"])?;
    let common = call.common()?;
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
    reals!(common, T => {
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

/// Returns the greatest common divisor.
fn divisor(x: i64, y: i64) -> i64 {
    let (mut x, mut y) = (x.unsigned_abs(), y.unsigned_abs());
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x as i64
}

fn gcd(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""; 2])?;
    call.bind(call.common()?, two(divisor))
}

fn lcm(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""; 2])?;
    let multiple = |x: i64, y: i64| match divisor(x, y) {
        0 => 0,
        common => (x / common).wrapping_mul(y).wrapping_abs(),
    };
    call.bind(call.common()?, two(multiple))
}

/// The neighbours of x are those of the dtype, also where it is computed in f32.
fn next_after(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""; 2])?;
    let common = call.common()?;
    let function = match common {
        DType::F64 => two(|x: f64, y: f64| libm::nextafter(x, y)),
        DType::BF16 => two(|x: f32, y: f32| {
            // The upper half of an f32: its neighbours are 2^16 steps away.
            stepped(x, y, |bits| bits & !0xffff, 0x1_0000)
        }),
        DType::F16 => two(|x: f32, y: f32| {
            let own = half::f16::from_f32(x);
            if x.is_nan() || y.is_nan() || x == y {
                return if x == y { y } else { f32::NAN };
            }
            let up = (y > x) == (x >= 0.0);
            let bits = own.to_bits();
            let next = match bits & 0x7fff {
                0 if y > 0.0 => 1,
                0 => 0x8001,
                _ if up => bits + 1,
                _ => bits - 1,
            };
            half::f16::from_bits(next).to_f32()
        }),
        _ => two(|x: f32, y: f32| libm::nextafterf(x, y)),
    };
    call.bind(common, function)
}

/// Returns the f32 whose bits, cut by `cut`, are one step nearer to y.
fn stepped(x: f32, y: f32, cut: fn(u32) -> u32, step: u32) -> f32 {
    if x.is_nan() || y.is_nan() || x == y {
        return if x == y { y } else { f32::NAN };
    }
    let bits = cut(x.to_bits());
    f32::from_bits(match bits & 0x7fff_ffff {
        0 if y > 0.0 => step,
        0 => 0x8000_0000 | step,
        _ if (y > x) == (x > 0.0) => bits + step,
        _ => bits - step,
    })
}
