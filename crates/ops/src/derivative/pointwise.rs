//! Elementwise functions of one tensor.

use std::f64::consts::{LN_2, LN_10, PI};

use millstream_types::{Attrs, Result};

use super::{Derivative, I0, I1, O0, Rule, each, one};
use crate::formula::Expr;

pub(super) const RULES: &[Rule] = &[
    one("abs", &[I0], |d| Ok(d.g() * d.input(0).sign())).complex(),
    one("round", &[], |d| d.zeros(0)),
    one("trunc", &[], |d| d.zeros(0)),
    one("floor", &[], |d| d.zeros(0)),
    one("ceil", &[], |d| d.zeros(0)),
    one("frac", &[], |d| Ok(d.g())),
    one("relu", &[O0], |d| Ok(above(d.g(), d.output(0), 0.0))),
    one("exp", &[O0], |d| Ok(d.g() * d.output(0))).holomorphic(),
    one("expm1", &[O0], |d| Ok(d.g() * (d.output(0) + 1))).holomorphic(),
    one("exp2", &[O0], |d| Ok(d.g() * d.output(0) * LN_2)).holomorphic(),
    one("log", &[I0], |d| Ok(d.g() / d.input(0))).holomorphic(),
    one("log2", &[I0], |d| Ok(d.g() / (d.input(0) * LN_2))).holomorphic(),
    one("log10", &[I0], |d| Ok(d.g() / (d.input(0) * LN_10))).holomorphic(),
    one("log1p", &[I0], |d| Ok(d.g() / (d.input(0) + 1))).holomorphic(),
    one("sqrt", &[O0], |d| Ok(d.g() / (d.output(0) * 2))).holomorphic(),
    one("rsqrt", &[O0], |d| Ok(d.g() * -0.5 * d.output(0).pow(3))).holomorphic(),
    one("reciprocal", &[O0], |d| Ok(-d.g() * (d.output(0) * d.output(0)))).holomorphic(),
    one("sin", &[I0], |d| Ok(d.g() * d.input(0).cos())).holomorphic(),
    one("cos", &[I0], |d| Ok(-d.g() * d.input(0).sin())).holomorphic(),
    one("tan", &[O0], |d| Ok(d.g() * (d.output(0).pow(2) + 1))).holomorphic(),
    one("asin", &[I0], |d| Ok(d.g() * one_minus_square(d).rsqrt())).holomorphic(),
    one("acos", &[I0], |d| Ok(-d.g() * one_minus_square(d).rsqrt())).holomorphic(),
    one("atan", &[I0], |d| Ok(d.g() / (d.input(0).pow(2) + 1))).holomorphic(),
    one("sinh", &[I0], |d| Ok(d.g() * d.input(0).apply("cosh", []))).holomorphic(),
    one("cosh", &[I0], |d| Ok(d.g() * d.input(0).apply("sinh", []))).holomorphic(),
    one("asinh", &[I0], |d| Ok(d.g() * (d.input(0).pow(2) + 1).rsqrt())).holomorphic(),
    one("acosh", &[I0], |d| {
        let x = d.input(0);
        // For complex numbers the root of the product is not the product of the roots.
        Ok(d.g()
            * match x.dtype().is_complex() {
                true => (x + 1).rsqrt() * (x - 1).rsqrt(),
                false => (x.pow(2) - 1).rsqrt(),
            })
    })
    .holomorphic(),
    one("atanh", &[I0], |d| Ok(d.g() / one_minus_square(d))).holomorphic(),
    one("deg2rad", &[], |d| Ok(d.g() * (PI / 180.0))),
    one("rad2deg", &[], |d| Ok(d.g() * (180.0 / PI))),
    one("sinc", &[I0], |d| Ok(sinc(d))).holomorphic(),
    one("erf", &[I0], |d| Ok(bell(d, 2.0 / PI.sqrt()))),
    one("erfc", &[I0], |d| Ok(bell(d, -2.0 / PI.sqrt()))),
    one("erfinv", &[O0], |d| Ok(d.g() * (PI.sqrt() / 2.0) * d.output(0).pow(2).exp())),
    one("lgamma", &[I0], |d| Ok(d.g() * d.input(0).apply("digamma", []))),
    one("tanh", &[O0], |d| Ok(d.g().tanh_backward(d.output(0)))).complex(),
    one("sigmoid", &[O0], |d| Ok(d.g().sigmoid_backward(d.output(0)))).complex(),
    each(
        "threshold_backward",
        &[(I1, &[0])],
        &[
            Some(|d| Ok(above(d.g(), d.input(1), d.number("threshold", 0.0)?))),
            Some(|d| d.zeros(1)),
        ],
    ),
    one("gelu", &[I0], |d| by_input(d, "gelu_backward", &["approximate"])),
    one("silu", &[I0], silu).holomorphic(),
    one("mish", &[I0], |d| by_input(d, "mish_backward", &[])),
    one("hardswish", &[I0], |d| by_input(d, "hardswish_backward", &[])),
    one("hardsigmoid", &[I0], |d| by_input(d, "hardsigmoid_backward", &[])),
    one("log_sigmoid", &[I0], |d| by_input(d, "log_sigmoid_backward", &[])),
    one("elu", &[I0], |d| by_input(d, "elu_backward", &["alpha", "scale", "input_scale"])),
    one("leaky_relu", &[I0], |d| by_input(d, "leaky_relu_backward", &["negative_slope"])),
    one("softplus", &[I0], |d| by_input(d, "softplus_backward", &["beta", "threshold"])),
    one("softshrink", &[I0], |d| by_input(d, "softshrink_backward", &["lambd"])),
    one("hardshrink", &[I0], |d| by_input(d, "hardshrink_backward", &["lambd"])),
    one("logit", &[I0], |d| by_input(d, "logit_backward", &["eps"])),
    one("hardtanh", &[I0], |d| {
        let x = d.input(0);
        let inside = x.gt(d.number("min_val", -1.0)?);
        Ok(inside.logical_and(x.lt(d.number("max_val", 1.0)?)).choose(d.g(), 0))
    }),
    one("nan_to_num", &[I0], |d| {
        let x = d.input(0);
        Ok(x.isnan().logical_or(x.isinf()).choose(0, d.g()))
    })
    .complex(),
];

/// Returns the gradient where `x` is greater than a threshold, else 0.
fn above<'a>(g: Expr<'a>, x: Expr<'a>, threshold: f64) -> Expr<'a> {
    g.calls.one("threshold_backward", &[g, x], Attrs::new().with("threshold", threshold))
}

/// Calls a gradient's op on the gradient and the input.
fn by_input<'a>(d: Derivative<'a>, op: &str, names: &[&'static str]) -> Result<Expr<'a>> {
    Ok(d.one(op, &[d.g(), d.input(0)], names))
}

fn silu(d: Derivative<'_>) -> Result<Expr<'_>> {
    let x = d.input(0);
    if !x.dtype().is_complex() {
        return by_input(d, "silu_backward", &[]);
    }
    let s = x.sigmoid();
    Ok(d.g() * (s * (x * (-s + 1) + 1)))
}

fn one_minus_square(d: Derivative<'_>) -> Expr<'_> {
    -d.input(0).pow(2) + 1
}

/// Returns the gradient times factor · e^(−x²).
fn bell(d: Derivative<'_>, factor: f64) -> Expr<'_> {
    d.g() * factor * (-d.input(0).pow(2)).exp()
}

/// The derivative of sin(πx)/(πx) is (cos(πx) πx − sin(πx)) / (πx²), and 0 at 0.
fn sinc(d: Derivative<'_>) -> Expr<'_> {
    let x = d.input(0);
    let (angle, square) = (x * PI, x * x * PI);
    let slope = (angle.cos() * angle - angle.sin()) / square;
    square.eq(0).choose(0, d.g() * slope)
}
