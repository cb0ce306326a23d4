//! Elementwise functions of one tensor.

use std::f64::consts::{LN_2, LN_10, PI};

use millstream_types::Result;

use super::{Derivative, I0, I1, O0, Rule, each, one};
use crate::handle::Tensor;

pub(super) const RULES: &[Rule] = &[
    one("abs", &[(I0, &[0])], &[Some(|d| d.g()?.mul(&d.input(0)?.sign()?))]),
    one("round", &[], &[Some(|d| d.zeros(0))]),
    one("trunc", &[], &[Some(|d| d.zeros(0))]),
    one("floor", &[], &[Some(|d| d.zeros(0))]),
    one("ceil", &[], &[Some(|d| d.zeros(0))]),
    one("frac", &[], &[Some(|d| d.g())]),
    one("relu", &[(O0, &[0])], &[Some(|d| above(&d.g()?, &d.output(0)?, 0.0))]),
    one("exp", &[(O0, &[0])], &[Some(|d| d.g()?.mul(&d.output(0)?))]),
    one("expm1", &[(O0, &[0])], &[Some(|d| d.g()?.mul(&d.output(0)?.add(1)?))]),
    one("exp2", &[(O0, &[0])], &[Some(|d| d.g()?.mul(&d.output(0)?)?.mul(LN_2))]),
    one("log", &[(I0, &[0])], &[Some(|d| d.g()?.div(&d.input(0)?))]),
    one("log2", &[(I0, &[0])], &[Some(|d| d.g()?.div(&d.input(0)?.mul(LN_2)?))]),
    one("log10", &[(I0, &[0])], &[Some(|d| d.g()?.div(&d.input(0)?.mul(LN_10)?))]),
    one("log1p", &[(I0, &[0])], &[Some(|d| d.g()?.div(&d.input(0)?.add(1)?))]),
    one("sqrt", &[(O0, &[0])], &[Some(|d| d.g()?.div(&d.output(0)?.mul(2)?))]),
    one("rsqrt", &[(O0, &[0])], &[Some(|d| d.g()?.mul(-0.5)?.mul(&d.output(0)?.pow(3)?))]),
    one(
        "reciprocal",
        &[(O0, &[0])],
        &[Some(|d| d.g()?.neg()?.mul(&d.output(0)?.mul(&d.output(0)?)?))],
    ),
    one("sin", &[(I0, &[0])], &[Some(|d| d.g()?.mul(&d.input(0)?.cos()?))]),
    one("cos", &[(I0, &[0])], &[Some(|d| d.g()?.neg()?.mul(&d.input(0)?.sin()?))]),
    one("tan", &[(O0, &[0])], &[Some(|d| d.g()?.mul(&d.output(0)?.pow(2)?.add(1)?))]),
    one("asin", &[(I0, &[0])], &[Some(|d| d.g()?.mul(&one_minus_square(d)?.rsqrt()?))]),
    one("acos", &[(I0, &[0])], &[Some(|d| d.g()?.neg()?.mul(&one_minus_square(d)?.rsqrt()?))]),
    one("atan", &[(I0, &[0])], &[Some(|d| d.g()?.div(&d.input(0)?.pow(2)?.add(1)?))]),
    one("sinh", &[(I0, &[0])], &[Some(|d| d.g()?.mul(&d.input(0)?.cosh()?))]),
    one("cosh", &[(I0, &[0])], &[Some(|d| d.g()?.mul(&d.input(0)?.sinh()?))]),
    one("asinh", &[(I0, &[0])], &[Some(|d| d.g()?.mul(&d.input(0)?.pow(2)?.add(1)?.rsqrt()?))]),
    one(
        "acosh",
        &[(I0, &[0])],
        &[Some(|d| {
            let x = d.input(0)?;
            // For complex numbers the root of the product is not the product of the roots.
            let slope = match x.dtype().is_complex() {
                true => x.add(1)?.rsqrt()?.mul(&x.sub(1)?.rsqrt()?)?,
                false => x.pow(2)?.sub(1)?.rsqrt()?,
            };
            d.g()?.mul(&slope)
        })],
    ),
    one("atanh", &[(I0, &[0])], &[Some(|d| d.g()?.div(&one_minus_square(d)?))]),
    one("deg2rad", &[], &[Some(|d| d.g()?.mul(PI / 180.0))]),
    one("rad2deg", &[], &[Some(|d| d.g()?.mul(180.0 / PI))]),
    one("sinc", &[(I0, &[0])], &[Some(sinc)]),
    one("erf", &[(I0, &[0])], &[Some(|d| bell(d, 2.0 / PI.sqrt()))]),
    one("erfc", &[(I0, &[0])], &[Some(|d| bell(d, -2.0 / PI.sqrt()))]),
    one(
        "erfinv",
        &[(O0, &[0])],
        &[Some(|d| d.g()?.mul(PI.sqrt() / 2.0)?.mul(&d.output(0)?.pow(2)?.exp()?))],
    ),
    one("lgamma", &[(I0, &[0])], &[Some(|d| d.g()?.mul(&d.input(0)?.digamma()?))]),
    one(
        "tanh",
        &[(O0, &[0])],
        &[Some(|d| d.call_one("tanh_backward", &[&d.g()?, &d.output(0)?], &[]))],
    ),
    one(
        "sigmoid",
        &[(O0, &[0])],
        &[Some(|d| d.call_one("sigmoid_backward", &[&d.g()?, &d.output(0)?], &[]))],
    ),
    each(
        "threshold_backward",
        &[(I1, &[0])],
        &[
            Some(|d| above(&d.g()?, &d.input(1)?, d.number("threshold", 0.0)?)),
            Some(|d| d.zeros(1)),
        ],
    ),
    one("gelu", &[(I0, &[0])], &[Some(|d| by_input(d, "gelu_backward", &["approximate"]))]),
    one("silu", &[(I0, &[0])], &[Some(silu)]),
    one("mish", &[(I0, &[0])], &[Some(|d| by_input(d, "mish_backward", &[]))]),
    one("hardswish", &[(I0, &[0])], &[Some(|d| by_input(d, "hardswish_backward", &[]))]),
    one("hardsigmoid", &[(I0, &[0])], &[Some(|d| by_input(d, "hardsigmoid_backward", &[]))]),
    one("log_sigmoid", &[(I0, &[0])], &[Some(|d| by_input(d, "log_sigmoid_backward", &[]))]),
    one(
        "elu",
        &[(I0, &[0])],
        &[Some(|d| by_input(d, "elu_backward", &["alpha", "scale", "input_scale"]))],
    ),
    one(
        "leaky_relu",
        &[(I0, &[0])],
        &[Some(|d| by_input(d, "leaky_relu_backward", &["negative_slope"]))],
    ),
    one(
        "softplus",
        &[(I0, &[0])],
        &[Some(|d| by_input(d, "softplus_backward", &["beta", "threshold"]))],
    ),
    one("softshrink", &[(I0, &[0])], &[Some(|d| by_input(d, "softshrink_backward", &["lambd"]))]),
    one("hardshrink", &[(I0, &[0])], &[Some(|d| by_input(d, "hardshrink_backward", &["lambd"]))]),
    one("logit", &[(I0, &[0])], &[Some(|d| by_input(d, "logit_backward", &["eps"]))]),
    one("hardtanh", &[(I0, &[0])], &[Some(hardtanh)]),
    one("nan_to_num", &[(I0, &[0])], &[Some(nan_to_num)]),
];

/// Returns the gradient where `x` is greater than a threshold, else 0.
fn above(g: &Tensor, x: &Tensor, threshold: f64) -> Result<Tensor> {
    let attrs = millstream_types::Attrs::new().with("threshold", threshold);
    super::first(
        "threshold_backward",
        crate::tensor::call_op("threshold_backward", &[g, x], attrs)?,
    )
}

/// Calls a gradient's op on the gradient and the input.
fn by_input(d: &Derivative<'_>, op: &str, attrs: &[&'static str]) -> Result<Tensor> {
    d.call_one(op, &[&d.g()?, &d.input(0)?], attrs)
}

fn silu(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(0)?;
    if !x.dtype().is_complex() {
        return by_input(d, "silu_backward", &[]);
    }
    let s = x.sigmoid()?;
    d.g()?.mul(&s.mul(&x.mul(&s.neg()?.add(1)?)?.add(1)?)?)
}

fn one_minus_square(d: &Derivative<'_>) -> Result<Tensor> {
    d.input(0)?.pow(2)?.neg()?.add(1)
}

/// Returns the gradient times factor · e^(−x²).
fn bell(d: &Derivative<'_>, factor: f64) -> Result<Tensor> {
    d.g()?.mul(factor)?.mul(&d.input(0)?.pow(2)?.neg()?.exp()?)
}

/// The derivative of sin(πx)/(πx) is (cos(πx) πx − sin(πx)) / (πx²), and 0 at 0.
fn sinc(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(0)?;
    let (angle, square) = (x.mul(PI)?, x.mul(&x)?.mul(PI)?);
    let slope = angle.cos()?.mul(&angle)?.sub(&angle.sin()?)?.div(&square)?;
    square.eq(0)?.where_cond(0, &d.g()?.mul(&slope)?)
}

fn hardtanh(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(0)?;
    let inside = x.gt(d.number("min_val", -1.0)?)?;
    let inside = inside.logical_and(&x.lt(d.number("max_val", 1.0)?)?)?;
    inside.where_cond(&d.g()?, 0)
}

fn nan_to_num(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(0)?;
    x.isnan()?.logical_or(&x.isinf()?)?.where_cond(0, &d.g()?)
}
