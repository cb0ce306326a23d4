//! Kernels of the elementwise ops on complex numbers. Sums and products are computed in the dtype
//! itself, everything else in f64, rounded once, by `complex_functions`.

use anyhow::Result;
use millstream_ops::args::{Scalar, choice};
use millstream_ops::arith::ROUNDING_MODES;
use num_complex::Complex;

use super::complex_functions::{
    C, ONE, ZERO, acos, acosh, asin, asinh, atan, atanh, cos, cosh, exp, expm1, log, log1p, power,
    quotient, sigmoid, sign, silu, sin, sinc, sinh, sqrt, tan, tanh,
};
use super::element::{Element, from_scalar, greatest_finite, with_type};
use super::elementwise::{Bind, Bound, Call, CallArgs, ElementwiseOp, Input, common_of};
use super::function::{one, three, two};
use super::ternary::{choose, masked_fill};

/// The argument names of two operands, the second of which may be the number `other`.
const PAIR: [&str; 2] = ["", "other"];

const KERNELS: &[ElementwiseOp] = &[
    ("add", |args| add(args, false)),
    ("sub", |args| add(args, true)),
    ("mul", mul),
    ("div", div),
    ("pow", pow),
    ("neg", |args| of_one(args, |z| -z)),
    ("eq", |args| of_two(args, PAIR, |x, y| truth(x == y))),
    ("ne", |args| of_two(args, PAIR, |x, y| truth(x != y))),
    ("logical_and", |args| of_two(args, [""; 2], |x, y| truth(x != ZERO && y != ZERO))),
    ("logical_or", |args| of_two(args, [""; 2], |x, y| truth(x != ZERO || y != ZERO))),
    ("logical_not", |args| of_one(args, |z| truth(z == ZERO))),
    ("abs", |args| of_one(args, |z| C::new(z.re.hypot(z.im), 0.0))),
    ("sign", |args| of_one(args, sign)),
    ("reciprocal", |args| of_one(args, |z| quotient(ONE, z))),
    ("sqrt", |args| of_one(args, sqrt)),
    ("rsqrt", |args| of_one(args, |z| quotient(ONE, sqrt(z)))),
    ("exp", |args| of_one(args, exp)),
    ("exp2", |args| of_one(args, |z| exp(z * std::f64::consts::LN_2))),
    ("expm1", |args| of_one(args, expm1)),
    ("log", |args| of_one(args, log)),
    ("log2", |args| of_one(args, |z| log(z) / std::f64::consts::LN_2)),
    ("log10", |args| of_one(args, |z| log(z) / std::f64::consts::LN_10)),
    ("log1p", |args| of_one(args, log1p)),
    ("sin", |args| of_one(args, sin)),
    ("cos", |args| of_one(args, cos)),
    ("tan", |args| of_one(args, tan)),
    ("sinh", |args| of_one(args, sinh)),
    ("cosh", |args| of_one(args, cosh)),
    ("tanh", |args| of_one(args, tanh)),
    ("asin", |args| of_one(args, asin)),
    ("acos", |args| of_one(args, acos)),
    ("atan", |args| of_one(args, atan)),
    ("asinh", |args| of_one(args, asinh)),
    ("acosh", |args| of_one(args, acosh)),
    ("atanh", |args| of_one(args, atanh)),
    ("sigmoid", |args| of_one(args, sigmoid)),
    ("silu", |args| of_one(args, silu)),
    ("sinc", |args| of_one(args, sinc)),
    ("nan_to_num", nan_to_num),
    ("isnan", |args| of_one(args, |z| truth(z.re.is_nan() || z.im.is_nan()))),
    ("isinf", |args| of_one(args, |z| truth(z.re.is_infinite() || z.im.is_infinite()))),
    ("tanh_backward", |args| of_two(args, [""; 2], |grad, y| grad * (ONE - y * y).conj())),
    ("sigmoid_backward", |args| of_two(args, [""; 2], |grad, y| grad * ((ONE - y) * y).conj())),
    ("where", choose),
    ("masked_fill", masked_fill),
    ("lerp", lerp),
    ("addcmul", |args| combined(args, |a, b| a * b)),
    ("addcdiv", |args| combined(args, quotient)),
];

/// Ops that have complex results alone, which the host computes for every device.
pub(super) const NEW: &[ElementwiseOp] =
    &[("conj_physical", conjugate), ("complex", parts_to_complex), ("polar", polar_to_complex)];

fn conjugate(args: &CallArgs<'_>) -> Result<Bound> {
    of_one(args, |z| z.conj())
}

fn parts_to_complex(args: &CallArgs<'_>) -> Result<Bound> {
    from_parts(args, C::new)
}

fn polar_to_complex(args: &CallArgs<'_>) -> Result<Bound> {
    from_parts(args, |size, angle| C::new(size * angle.cos(), size * angle.sin()))
}

/// Returns the function that binds the calls of an elementwise op with complex operands.
pub(super) fn bind_of(op: &str) -> Option<Bind> {
    KERNELS.iter().chain(NEW).find(|(name, _)| *name == op).map(|(_, bind)| *bind)
}

/// Evaluates an expression with the type name `$t` bound to the Rust type of a complex dtype. Any
/// other dtype returns an error from the calling function.
macro_rules! complex {
    ($dtype:expr, $t:ident => $body:expr) => {{
        use millstream_types::DType;
        match $dtype {
            DType::C64 => with_type!($t, Complex<f32>, $body),
            DType::C128 => with_type!($t, Complex<f64>, $body),
            other => anyhow::bail!("expected complex, got {other}: schema and kernel disagree"),
        }
    }};
}

fn truth(v: bool) -> C {
    if v { ONE } else { ZERO }
}

fn of_one(args: &CallArgs<'_>, f: fn(C) -> C) -> Result<Bound> {
    let call = Call::of(args, [""])?;
    let common = call.common()?;
    complex!(common, T => call.bind(common, one(move |z: T| T::from_complex(f(z.carry())))))
}

fn of_two(args: &CallArgs<'_>, numbers: [&str; 2], f: fn(C, C) -> C) -> Result<Bound> {
    let call = Call::of(args, numbers)?;
    let common = call.common()?;
    complex!(common, T => {
        call.rounded(common.part()).bind(common, two(move |x: T, y: T| {
            T::from_complex(f(x.carry(), y.carry()))
        }))
    })
}

/// `out = x + alpha · y`, or `x - alpha · y` if `negate`.
fn add(args: &CallArgs<'_>, negate: bool) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let alpha = Scalar::of(args.attrs, "alpha")?.unwrap_or(Scalar::Int(1));
    let common = call.common()?;
    complex!(common, T => {
        let alpha = from_scalar::<T>(alpha).re;
        let alpha = if negate { -alpha } else { alpha };
        call.bind(common, two(move |x: T, y: T| x + y * alpha))
    })
}

fn mul(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, PAIR)?;
    let common = call.common()?;
    complex!(common, T => call.bind(common, two(|x: T, y: T| x * y)))
}

fn div(args: &CallArgs<'_>) -> Result<Bound> {
    if choice(args.attrs, "rounding_mode", ROUNDING_MODES)?.is_some() {
        anyhow::bail!("a rounded quotient of complex numbers: schema and kernel disagree");
    }
    of_two(args, PAIR, quotient)
}

/// Frequent exponents have their own functions.
fn pow(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", "exponent"])?;
    let exponent = match call.inputs[1] {
        Input::Number(v) => from_scalar::<f64>(v),
        Input::Tensor(_) => f64::NAN,
    };
    let f: fn(C, C) -> C = if exponent == 0.0 {
        |_, _| ONE
    } else if exponent == 2.0 {
        |z, _| z * z
    } else if exponent == 3.0 {
        |z, _| z * z * z
    } else if exponent == 0.5 {
        |z, _| sqrt(z)
    } else if exponent == -0.5 {
        |z, _| quotient(ONE, sqrt(z))
    } else if exponent == -1.0 {
        |z, _| quotient(ONE, z)
    } else if exponent == -2.0 {
        |z, _| quotient(ONE, z * z)
    } else {
        power
    };
    let common = call.common()?;
    complex!(common, T => {
        call.bind(common, two(move |x: T, y: T| T::from_complex(f(x.carry(), y.carry()))))
    })
}

/// Combines the real values of two tensors to a complex one.
fn from_parts(args: &CallArgs<'_>, f: fn(f64, f64) -> C) -> Result<Bound> {
    let call = Call::of(args, [""; 2])?;
    complex!(call.out, T => {
        call.bind(call.out, two(move |x: T, y: T| T::from_complex(f(x.carry().re, y.carry().re))))
    })
}

fn lerp(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, ["", "", "weight"])?;
    let common = common_of(&call.inputs[..2])?;
    complex!(common, T => {
        call.bind(common, three(|x: T, end: T, weight: T| {
            let (x, end, weight) = (x.carry(), end.carry(), weight.carry());
            T::from_complex(if weight.norm_sqr() < 0.25 {
                x + weight * (end - x)
            } else {
                end - (end - x) * (ONE - weight)
            })
        }))
    })
}

/// Replaces NaN and infinities in both parts.
fn nan_to_num(args: &CallArgs<'_>) -> Result<Bound> {
    let call = Call::of(args, [""])?;
    let common = call.common()?;
    let most = greatest_finite(common);
    let number = |name, default: f64| anyhow::Ok(args.attrs.float(name)?.unwrap_or(default));
    let (nan, high, low) = (number("nan", 0.0)?, number("posinf", most)?, number("neginf", -most)?);
    let part = move |v: f64| match v {
        _ if v.is_nan() => nan,
        f64::INFINITY => high,
        f64::NEG_INFINITY => low,
        _ => v,
    };
    complex!(common, T => {
        call.bind(common, one(move |z: T| {
            let z = z.carry();
            T::from_complex(C::new(part(z.re), part(z.im)))
        }))
    })
}

/// `out = x + value · f(a, b)`.
fn combined(args: &CallArgs<'_>, f: fn(C, C) -> C) -> Result<Bound> {
    let call = Call::of(args, [""; 3])?;
    let value = Scalar::of(args.attrs, "value")?.unwrap_or(Scalar::Int(1));
    let common = call.common()?;
    complex!(common, T => {
        let value = from_scalar::<T>(value).carry().re;
        call.bind(common, three(move |x: T, a: T, b: T| {
            T::from_complex(x.carry() + f(a.carry(), b.carry()) * value)
        }))
    })
}
