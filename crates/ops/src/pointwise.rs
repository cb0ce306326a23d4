//! Elementwise functions of one tensor, and their gradients.
//!
//! Functions with fractional results return f32 for integers and bool. f16 and bf16 are computed in
//! f32 and rounded once. All but `softplus`, `log_sigmoid`, `softshrink`, `hardshrink`, `signbit`,
//! the questions whether x is infinite or NaN, and the gradients have an in-place form whose name
//! ends in `_`. A gradient takes the gradient of the result and then the input of
//! the function; `tanh_backward` and `sigmoid_backward` take the result of the function instead.
//!
//! Sources of the formulas: the pages of `torch` and of
//! <https://docs.pytorch.org/docs/stable/nn.functional.html>; the gradients are their derivatives.

use millstream_types::{DType, Result};

use crate::args::{Scalar, choice, required};
use crate::def::arg;
use crate::elementwise::{briefs, common, elementwise, refuse};
use crate::promotion::floating;
use crate::schema::{ArgDoc, CallSpec};

const X: &[ArgDoc] = &[arg("x", "any shape")];
const GRAD_X: &[ArgDoc] =
    &[arg("grad", "the gradient of the result"), arg("x", "the input of the function")];
const GRAD_OUT: &[ArgDoc] =
    &[arg("grad", "the gradient of the result"), arg("out", "the result of the function")];
const GELU: &[ArgDoc] = &[arg("approximate", "\"none\" or \"tanh\"").text().or("\"none\"")];
const ELU: &[ArgDoc] = &[
    arg("alpha", "the result tends to -alpha * scale for negative x").float().or("1"),
    arg("scale", "factor of the result").float().or("1"),
    arg("input_scale", "factor of x where it is negative").float().or("1"),
];
const ELU_BACKWARD: &[ArgDoc] = &[
    ELU[0],
    ELU[1],
    ELU[2],
    arg("is_result", "whether x is the result of the function instead of its input")
        .flag()
        .or("false"),
];
const SLOPE: &[ArgDoc] = &[arg("negative_slope", "the slope for negative x").float().or("0.01")];
const SLOPE_BACKWARD: &[ArgDoc] = &[
    SLOPE[0],
    arg("self_is_result", "whether x is the result of the function instead of its input")
        .flag()
        .or("false"),
];
const SOFTPLUS: &[ArgDoc] = &[
    arg("beta", "the sharpness").float().or("1"),
    arg("threshold", "where beta * x is greater, the result is x").float().or("20"),
];
const HARDTANH: &[ArgDoc] = &[
    arg("min_val", "the lower bound").float().or("-1"),
    arg("max_val", "the upper bound").float().or("1"),
];
const FINITE: &[ArgDoc] = &[
    arg("nan", "replaces NaN").float().or("0"),
    arg("posinf", "replaces infinity").float().or("the dtype's greatest number"),
    arg("neginf", "replaces minus infinity").float().or("the dtype's least number"),
];
const LAMBD: &[ArgDoc] = &[arg("lambd", "the distance from 0").float().or("0.5")];
const EPS: &[ArgDoc] =
    &[arg("eps", "x is clamped to eps and 1 - eps, if that is not negative").float().or("-1")];
const THRESHOLD: &[ArgDoc] =
    &[arg("threshold", "where x is not greater, the gradient is 0").number()];

/// The ways to compute `gelu`.
pub const APPROXIMATIONS: &[&str] = &["none", "tanh"];

elementwise! {
    OPS = new, IN_PLACE = in place;
    ("abs", "the absolute value of x", X, &[], size) complex;
    ("sign", "-1, 0 or 1 for negative, zero and positive x; x / abs(x) of a complex number", X, &[],
      any) complex;
    ("round", "x rounded to the nearest whole number, ties to even", X, &[], number);
    ("trunc", "x rounded towards zero", X, &[], number);
    ("floor", "the greatest whole number less than or equal to x", X, &[], number);
    ("ceil", "the least whole number greater than or equal to x", X, &[], number);
    ("relu", "the greater of x and 0", X, &[], number);
    ("exp", "e to the power of x", X, &[], float) complex;
    ("expm1", "e to the power of x, minus 1", X, &[], float) complex;
    ("log", "the natural logarithm of x", X, &[], float) complex;
    ("log2", "the logarithm of x to base 2", X, &[], float) complex;
    ("log1p", "the natural logarithm of 1 + x", X, &[], float) complex;
    ("sqrt", "the square root of x", X, &[], float) complex;
    ("rsqrt", "1 / the square root of x", X, &[], float) complex;
    ("reciprocal", "1 / x", X, &[], float) complex;
    ("sin", "the sine of x", X, &[], float) complex;
    ("cos", "the cosine of x", X, &[], float) complex;
    ("tanh", "the hyperbolic tangent of x", X, &[], float) complex;
    ("sigmoid", "1 / (1 + e^-x)", X, &[], float) complex;
    ("erf", "the error function of x", X, &[], float);
    ("erfc", "1 minus the error function of x", X, &[], float);
    ("lgamma", "the logarithm of the absolute value of the gamma function", X, &[], float);
    ("digamma", "the derivative of the logarithm of the gamma function", X, &[], float);
    ("erfinv", "the number whose error function is x", X, &[], float);
    ("exp2", "2 to the power of x", X, &[], float) complex;
    ("log10", "the logarithm of x to base 10", X, &[], float) complex;
    ("tan", "the tangent of x", X, &[], float) complex;
    ("asin", "the angle whose sine is x", X, &[], float) complex;
    ("acos", "the angle whose cosine is x", X, &[], float) complex;
    ("atan", "the angle whose tangent is x", X, &[], float) complex;
    ("sinh", "the hyperbolic sine of x", X, &[], float) complex;
    ("cosh", "the hyperbolic cosine of x", X, &[], float) complex;
    ("asinh", "the number whose hyperbolic sine is x", X, &[], float) complex;
    ("acosh", "the number whose hyperbolic cosine is x", X, &[], float) complex;
    ("atanh", "the number whose hyperbolic tangent is x", X, &[], float) complex;
    ("sinc", "sin(pi * x) / (pi * x), and 1 where x is 0", X, &[], float) complex;
    ("deg2rad", "the angle in radians of one in degrees", X, &[], float);
    ("rad2deg", "the angle in degrees of one in radians", X, &[], float);
    ("logit", "log(x / (1 - x))", X, EPS, logit);
    ("frac", "x without its whole part", X, &[], floats);
    ("hardsigmoid", "x / 6 + 1 / 2, clamped to 0 and 1", X, &[], floats);
    ("hardswish", "x times the hardsigmoid of x", X, &[], floats);
    ("mish", "x times the tanh of the softplus of x", X, &[], floats);
    ("gelu", "x times the cumulative normal distribution at x", X, GELU, gelu);
    ("silu", "x times the sigmoid of x", X, &[], floats) complex;
    ("elu", "scale * x where x is positive, else scale * alpha * (e^(input_scale * x) - 1)", X, ELU,
      floats);
    ("leaky_relu", "x where it is positive, else negative_slope * x", X, SLOPE, floats);
    ("hardtanh", "x clamped to min_val and max_val", X, HARDTANH, hardtanh);
    ("nan_to_num", "x with NaN and infinities replaced by finite numbers", X, FINITE,
      finite) complex;
}

elementwise! {
    NEW = new;
    ("softplus", "log(1 + e^(beta * x)) / beta", X, SOFTPLUS, floats);
    ("isnan", "whether x is NaN", X, &[], truth) complex;
    ("isinf", "whether x is infinite", X, &[], truth) complex;
    ("isposinf", "whether x is infinity", X, &[], truth);
    ("isneginf", "whether x is minus infinity", X, &[], truth);
    ("signbit", "whether the sign of x is negative", X, &[], truth);
    ("log_sigmoid", "the logarithm of the sigmoid of x", X, &[], floats);
    ("softshrink", "x moved towards 0 by lambd, or 0 where it is nearer", X, LAMBD, floats);
    ("hardshrink", "x, and 0 where it is no further from 0 than lambd", X, LAMBD, floats);
    ("tanh_backward", "the gradient of tanh", GRAD_OUT, &[], floats) complex;
    ("sigmoid_backward", "the gradient of sigmoid", GRAD_OUT, &[], floats) complex;
    ("gelu_backward", "the gradient of gelu", GRAD_X, GELU, gelu);
    ("silu_backward", "the gradient of silu", GRAD_X, &[], floats);
    ("elu_backward", "the gradient of elu", GRAD_X, ELU_BACKWARD, elu_backward);
    ("log_sigmoid_backward", "the gradient of log_sigmoid", GRAD_X, &[], floats);
    ("hardsigmoid_backward", "the gradient of hardsigmoid", GRAD_X, &[], floats);
    ("hardswish_backward", "the gradient of hardswish", GRAD_X, &[], floats);
    ("mish_backward", "the gradient of mish", GRAD_X, &[], floats);
    ("softshrink_backward", "the gradient of softshrink", GRAD_X, LAMBD, floats);
    ("hardshrink_backward", "the gradient of hardshrink", GRAD_X, LAMBD, floats);
    ("logit_backward", "the gradient of logit", GRAD_X, EPS, floats);
    ("softplus_backward", "the gradient of softplus", GRAD_X, SOFTPLUS, floats);
}

elementwise! {
    BY_LAST = new by last;
    ("threshold_backward", "the gradient where x is greater than the threshold, else 0", GRAD_X,
     THRESHOLD, threshold);
    ("leaky_relu_backward", "the gradient of leaky_relu", GRAD_X, SLOPE_BACKWARD,
     leaky_relu_backward);
}

fn any(call: CallSpec<'_>) -> Result<DType> {
    common(call, None)
}

fn number(call: CallSpec<'_>) -> Result<DType> {
    match common(call, None)? {
        DType::Bool => refuse("dtype", format!("expected numbers, got {}", briefs(call.inputs))),
        common => Ok(common),
    }
}

fn size(call: CallSpec<'_>) -> Result<DType> {
    Ok(number(call)?.part())
}

fn float(call: CallSpec<'_>) -> Result<DType> {
    common(call, None).map(floating)
}

fn logit(call: CallSpec<'_>) -> Result<DType> {
    call.attrs.float("eps")?;
    float(call)
}

fn truth(_: CallSpec<'_>) -> Result<DType> {
    Ok(DType::Bool)
}

fn finite(call: CallSpec<'_>) -> Result<DType> {
    for name in ["nan", "posinf", "neginf"] {
        call.attrs.float(name)?;
    }
    common(call, None)
}

/// Returns the dtype of functions that PyTorch defines for floats only, and checks their arguments.
fn floats(call: CallSpec<'_>) -> Result<DType> {
    let names =
        ["alpha", "scale", "input_scale", "negative_slope", "beta", "threshold", "lambd", "eps"];
    for name in names {
        call.attrs.float(name)?;
    }
    match common(call, None)? {
        common if common.is_inexact() => Ok(common),
        _ => refuse("dtype", format!("expected floats, got {}", briefs(call.inputs))),
    }
}

fn gelu(call: CallSpec<'_>) -> Result<DType> {
    choice(call.attrs, "approximate", APPROXIMATIONS)?;
    floats(call)
}

fn hardtanh(call: CallSpec<'_>) -> Result<DType> {
    for name in ["min_val", "max_val"] {
        call.attrs.float(name)?;
    }
    number(call)
}

fn threshold(call: CallSpec<'_>) -> Result<DType> {
    required("threshold", Scalar::of(call.attrs, "threshold")?)?;
    number(call)
}

/// Checks a slope or alpha: if the gradient is computed from the result instead of the input, the
/// factor must keep the sign.
fn invertible(call: CallSpec<'_>, flag: &str, factor: &str) -> Result<DType> {
    let given = call.attrs.bool(flag)?.unwrap_or(false);
    match call.attrs.float(factor)? {
        Some(v) if given && v < 0.0 => {
            refuse("argument", format!("{factor}: expected 0 or more with {flag}, got {v:?}"))
        }
        _ => floats(call),
    }
}

fn elu_backward(call: CallSpec<'_>) -> Result<DType> {
    invertible(call, "is_result", "alpha")
}

fn leaky_relu_backward(call: CallSpec<'_>) -> Result<DType> {
    invertible(call, "self_is_result", "negative_slope")
}
