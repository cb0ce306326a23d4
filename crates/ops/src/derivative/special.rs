//! Special functions.

use std::f64::consts::{FRAC_2_SQRT_PI, PI, SQRT_2};

use millstream_types::{Attrs, DType};

use super::{Derivative, Formula, I0, I1, O0, O1, Rule, Save, each, one};
use crate::formula::Expr;

pub(super) const RULES: &[Rule] = &[
    one("digamma", &[I0], |d| Ok(d.g() * polygamma(d, 1))),
    one("polygamma", &[I0], |d| Ok(d.g() * polygamma(d, d.int("n", 0)? + 1))),
    // PyTorch has no derivative for the exponent.
    each(
        "special_zeta",
        &[(I0, &[1]), (I1, &[1])],
        &[
            Some(|d| d.refuse("its first operand")),
            Some(|d| {
                let s = d.input(0);
                Ok(d.g() * (-s * (s + 1).apply("special_zeta", [d.input(1)])))
            }),
        ],
    ),
    each(
        "igamma",
        GAMMA,
        &[Some(|d| d.refuse("its first operand")), Some(|d| Ok(gamma_density(d)))],
    ),
    each(
        "igammac",
        GAMMA,
        &[Some(|d| d.refuse("its first operand")), Some(|d| Ok(-gamma_density(d)))],
    ),
    one("i0", &[I0], |d| Ok(d.g() * d.input(0).apply("special_i1", []))),
    one("special_i0e", &[I0, O0], |d| {
        let x = d.input(0);
        Ok(d.g() * (x.apply("special_i1e", []) - x.sign() * d.output(0)))
    }),
    one("special_i1", &[I0, O0], BESSEL_I1),
    one("special_i1e", &[I0, O0], |d| {
        let [away, by_x] = by_input(d);
        let slope = away.apply("special_i0e", []) - d.output(0) * away.sign() - by_x;
        Ok(near_zero(d, slope, 0.5))
    }),
    one("special_modified_bessel_i0", &[I0], |d| {
        Ok(d.g() * d.input(0).apply("special_modified_bessel_i1", []))
    }),
    one("special_modified_bessel_i1", &[I0, O0], BESSEL_I1),
    one("special_modified_bessel_k0", &[I0], |d| {
        Ok(-(d.g() * d.input(0).apply("special_modified_bessel_k1", [])))
    }),
    one("special_modified_bessel_k1", &[I0, O0], |d| {
        let x = d.input(0);
        Ok(-(d.g() * (x.apply("special_modified_bessel_k0", []) + d.output(0) / x)))
    }),
    one("special_bessel_j0", &[I0], |d| Ok(-(d.g() * d.input(0).apply("special_bessel_j1", [])))),
    one("special_bessel_j1", &[I0, O0], |d| {
        let [away, by_x] = by_input(d);
        Ok(near_zero(d, away.apply("special_bessel_j0", []) - by_x, 0.5))
    }),
    one("special_bessel_y0", &[I0], |d| Ok(-(d.g() * d.input(0).apply("special_bessel_y1", [])))),
    one("special_bessel_y1", &[I0, O0], |d| {
        let x = d.input(0);
        Ok(d.g() * (x.apply("special_bessel_y0", []) - d.output(0) / x))
    }),
    one("special_erfcx", &[I0, O0], |d| {
        let slope = d.input(0) * 2 * d.output(0) - FRAC_2_SQRT_PI;
        Ok(d.g() * slope)
    }),
    one("special_log_ndtr", &[I0, O0], |d| {
        let x = d.input(0);
        let exponent = -(d.output(0) + x * x * 0.5);
        Ok(d.g() * (exponent.exp() * (1.0 / (2.0 * PI).sqrt())))
    }),
    one("special_ndtri", &[O0], |d| {
        let y = d.output(0);
        Ok(d.g() * ((y * y * 0.5).exp() * (PI.sqrt() * SQRT_2)))
    }),
    one("frexp", &[O1], |d| Ok(d.g() / d.output(1).cast(d.spec(0)?.dtype).exp2())),
    each(
        "nextafter",
        &[(I0, &[0]), (I1, &[0])],
        &[Some(|d| Ok(d.input(0).ne(d.input(1)).choose(d.g(), 0))), Some(|d| d.zeros(1))],
    ),
];

const GAMMA: &[(Save, &[usize])] = &[(I0, &[1]), (I1, &[1])];

/// I₁′ is I₀ − I₁/x, and ½ at 0.
const BESSEL_I1: Formula = |d| {
    let [away, by_x] = by_input(d);
    Ok(near_zero(d, away.i0() - by_x, 0.5))
};

fn polygamma(d: Derivative<'_>, n: i64) -> Expr<'_> {
    d.input(0).op("polygamma", Attrs::new().with("n", n))
}

/// Returns the input with ones in place of numbers next to 0, and the result divided by it.
fn by_input(d: Derivative<'_>) -> [Expr<'_>; 2] {
    let x = d.input(0);
    let away = x.filled(is_tiny(x), 1);
    [away, d.output(0) / away]
}

fn is_tiny(x: Expr<'_>) -> Expr<'_> {
    let epsilon = if x.dtype() == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    x.abs().le(epsilon)
}

/// Returns the gradient times a slope that has another value next to 0.
fn near_zero<'a>(d: Derivative<'a>, slope: Expr<'a>, at_zero: f64) -> Expr<'a> {
    d.g() * slope.filled(is_tiny(d.input(0)), at_zero)
}

/// Returns the gradient times x^(a − 1) e^(−x) / Γ(a).
fn gamma_density(d: Derivative<'_>) -> Expr<'_> {
    let (a, x) = (d.input(0), d.input(1));
    let exponent = (a - 1) * x.log() - x - a.apply("lgamma", []);
    d.g() * exponent.exp()
}
