//! Elementwise functions of one tensor, and their gradients.
//!
//! Functions with fractional results give f32 for integers and bool. f16 and bf16 are computed in
//! f32 and rounded once. All but `softplus`, `isnan`, `isinf` and the gradients exist in place as
//! well, with a `_` after the name. A gradient takes the gradient of the result first, then what
//! the function was given (`tanh` and `sigmoid`: what it gave).
//!
//! Sources of the formulas: the pages of `torch` and of
//! <https://docs.pytorch.org/docs/stable/nn.functional.html>; the gradients are their derivatives.

use millstream_types::{DType, Result};

use crate::args::{Scalar, choice, required};
use crate::def::{Arity, arg};
use crate::elementwise::{briefs, common, elementwise, refuse};
use crate::promote::floating;
use crate::schema::{ArgDoc, CallSpec};

const X: &[ArgDoc] = &[arg("x", "any shape")];
const GRAD_X: &[ArgDoc] =
    &[arg("grad", "the gradient of the result"), arg("x", "what the function was given")];
const GRAD_OUT: &[ArgDoc] =
    &[arg("grad", "the gradient of the result"), arg("out", "what the function gave")];
const GELU: &[ArgDoc] = &[arg("approximate", "\"none\" or \"tanh\"; \"none\" unless given")];
const ELU: &[ArgDoc] = &[
    arg("alpha", "what it nears for small x; 1 unless given"),
    arg("scale", "factor of all; 1 unless given"),
    arg("input_scale", "factor of x below zero; 1 unless given"),
];
const ELU_BACKWARD: &[ArgDoc] = &[
    ELU[0],
    ELU[1],
    ELU[2],
    arg("is_result", "whether x is what the function gave; false unless given"),
];
const SLOPE: &[ArgDoc] = &[arg("negative_slope", "the slope below zero; 0.01 unless given")];
const SLOPE_BACKWARD: &[ArgDoc] =
    &[SLOPE[0], arg("self_is_result", "whether x is what the function gave; false unless given")];
const SOFTPLUS: &[ArgDoc] = &[
    arg("beta", "1 unless given"),
    arg("threshold", "beyond this value of beta * x the result is x; 20 unless given"),
];
const HARDTANH: &[ArgDoc] =
    &[arg("min_val", "the least; -1 unless given"), arg("max_val", "the greatest; 1 unless given")];
const FINITE: &[ArgDoc] = &[
    arg("nan", "in place of NaN; 0 unless given"),
    arg("posinf", "in place of infinity; the dtype's greatest number unless given"),
    arg("neginf", "in place of minus infinity; the dtype's least number unless given"),
];
const THRESHOLD: &[ArgDoc] = &[arg("threshold", "where x is not above it, the gradient is 0")];

/// The ways in which `gelu` is computed.
pub const APPROXIMATIONS: &[&str] = &["none", "tanh"];

elementwise! {
    OPS = new, IN_PLACE = in place;
    ("abs", "x without its sign", X, &[], Arity::Listed, number);
    ("sign", "-1, 0 or 1, as x is below, at or above zero", X, &[], Arity::Listed, any);
    ("round", "the nearest whole number, of two the even one", X, &[], Arity::Listed, number);
    ("trunc", "x without its fraction", X, &[], Arity::Listed, number);
    ("floor", "the greatest whole number not above x", X, &[], Arity::Listed, number);
    ("ceil", "the least whole number not below x", X, &[], Arity::Listed, number);
    ("relu", "x where it is not below zero, else zero", X, &[], Arity::Listed, number);
    ("exp", "e to the power of x", X, &[], Arity::Listed, float);
    ("expm1", "e to the power of x, less 1", X, &[], Arity::Listed, float);
    ("log", "the natural logarithm of x", X, &[], Arity::Listed, float);
    ("log2", "the logarithm of x to base 2", X, &[], Arity::Listed, float);
    ("log1p", "the natural logarithm of 1 + x", X, &[], Arity::Listed, float);
    ("sqrt", "the square root of x", X, &[], Arity::Listed, float);
    ("rsqrt", "1 / the square root of x", X, &[], Arity::Listed, float);
    ("reciprocal", "1 / x", X, &[], Arity::Listed, float);
    ("sin", "the sine of x", X, &[], Arity::Listed, float);
    ("cos", "the cosine of x", X, &[], Arity::Listed, float);
    ("tanh", "the hyperbolic tangent of x", X, &[], Arity::Listed, float);
    ("sigmoid", "1 / (1 + e^-x)", X, &[], Arity::Listed, float);
    ("erf", "the error function of x", X, &[], Arity::Listed, float);
    ("gelu", "x times the normal distribution's share below x", X, GELU, Arity::Listed, gelu);
    ("silu", "x times sigmoid of x", X, &[], Arity::Listed, floats);
    ("elu", "scale * (x above zero, else alpha * (e^(input_scale * x) - 1))", X, ELU,
     Arity::Listed, floats);
    ("leaky_relu", "x above zero, else negative_slope * x", X, SLOPE, Arity::Listed, floats);
    ("hardtanh", "x, at least min_val and at most max_val", X, HARDTANH, Arity::Listed, hardtanh);
    ("nan_to_num", "x with finite numbers in place of NaN and infinities", X, FINITE,
     Arity::Listed, finite);
}

elementwise! {
    NEW = new;
    ("softplus", "log(1 + e^(beta * x)) / beta", X, SOFTPLUS, Arity::Listed, floats);
    ("isnan", "whether x is NaN", X, &[], Arity::Listed, truth);
    ("isinf", "whether x is an infinity", X, &[], Arity::Listed, truth);
    ("tanh_backward", "the gradient of tanh", GRAD_OUT, &[], Arity::Listed, floats);
    ("sigmoid_backward", "the gradient of sigmoid", GRAD_OUT, &[], Arity::Listed, floats);
    ("gelu_backward", "the gradient of gelu", GRAD_X, GELU, Arity::Listed, gelu);
    ("silu_backward", "the gradient of silu", GRAD_X, &[], Arity::Listed, floats);
    ("elu_backward", "the gradient of elu", GRAD_X, ELU_BACKWARD, Arity::Listed, elu_backward);
    ("softplus_backward", "the gradient of softplus", GRAD_X, SOFTPLUS, Arity::Listed, floats);
}

elementwise! {
    BY_LAST = new by last;
    ("threshold_backward", "the gradient where x is above the threshold, else 0", GRAD_X, THRESHOLD,
     Arity::Listed, threshold);
    ("leaky_relu_backward", "the gradient of leaky_relu", GRAD_X, SLOPE_BACKWARD, Arity::Listed,
     leaky_relu_backward);
}

fn any(call: CallSpec<'_>) -> Result<DType> {
    Ok(common(call, None))
}

fn number(call: CallSpec<'_>) -> Result<DType> {
    match common(call, None) {
        DType::Bool => refuse("dtype", format!("expected numbers, got {}", briefs(call.inputs))),
        common => Ok(common),
    }
}

fn float(call: CallSpec<'_>) -> Result<DType> {
    Ok(floating(common(call, None)))
}

fn truth(_: CallSpec<'_>) -> Result<DType> {
    Ok(DType::Bool)
}

fn finite(call: CallSpec<'_>) -> Result<DType> {
    for name in ["nan", "posinf", "neginf"] {
        call.attrs.float(name)?;
    }
    Ok(common(call, None))
}

/// For functions that PyTorch has for floats only; their arguments are numbers.
fn floats(call: CallSpec<'_>) -> Result<DType> {
    for name in ["alpha", "scale", "input_scale", "negative_slope", "beta", "threshold"] {
        call.attrs.float(name)?;
    }
    match common(call, None) {
        common if common.is_float() => Ok(common),
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

/// The slope or alpha by which a result below zero tells what was given has to be one that keeps
/// the sign.
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
