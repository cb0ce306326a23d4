//! Special functions.

use std::f64::consts::{FRAC_2_SQRT_PI, PI, SQRT_2};

use millstream_types::{Attrs, Result};

use super::{Derivative, Formula, I0, I1, O0, O1, Rule, each, one};
use crate::handle::Tensor;

pub(super) const RULES: &[Rule] = &[
    one("digamma", &[(I0, &[0])], &[Some(|d| d.g()?.mul(&polygamma(d, 1)?))]),
    one(
        "polygamma",
        &[(I0, &[0])],
        &[Some(|d| {
            let n = d.attrs().int("n")?.unwrap_or(0);
            d.g()?.mul(&polygamma(d, n + 1)?)
        })],
    ),
    // PyTorch has no derivative for the exponent.
    each(
        "special_zeta",
        &[(I0, &[1]), (I1, &[1])],
        &[
            Some(|d| d.refuse("its first operand")),
            Some(|d| {
                let s = d.input(0)?;
                d.g()?.mul(&s.neg()?.mul(&s.add(1)?.special_zeta(&d.input(1)?)?)?)
            }),
        ],
    ),
    each("igamma", GAMMA, &[Some(|d| d.refuse("its first operand")), Some(gamma_density)]),
    each(
        "igammac",
        GAMMA,
        &[Some(|d| d.refuse("its first operand")), Some(|d| gamma_density(d)?.neg())],
    ),
    one("i0", &[(I0, &[0])], &[Some(|d| d.g()?.mul(&d.input(0)?.special_i1()?))]),
    one(
        "special_i0e",
        &[(I0, &[0]), (O0, &[0])],
        &[Some(|d| {
            let x = d.input(0)?;
            d.g()?.mul(&x.special_i1e()?.sub(&x.sign()?.mul(&d.output(0)?)?)?)
        })],
    ),
    one("special_i1", &[(I0, &[0]), (O0, &[0])], BESSEL_I1),
    one(
        "special_i1e",
        &[(I0, &[0]), (O0, &[0])],
        &[Some(|d| {
            let x = d.input(0)?;
            let (away, by_x) = by_input(d)?;
            let slope = away.special_i0e()?.sub(&d.output(0)?.mul(&away.sign()?)?)?.sub(&by_x)?;
            near_zero(d, &x, &slope, 0.5)
        })],
    ),
    one(
        "special_modified_bessel_i0",
        &[(I0, &[0])],
        &[Some(|d| d.g()?.mul(&d.input(0)?.special_modified_bessel_i1()?))],
    ),
    one("special_modified_bessel_i1", &[(I0, &[0]), (O0, &[0])], BESSEL_I1),
    one(
        "special_modified_bessel_k0",
        &[(I0, &[0])],
        &[Some(|d| d.g()?.mul(&d.input(0)?.special_modified_bessel_k1()?)?.neg())],
    ),
    one(
        "special_modified_bessel_k1",
        &[(I0, &[0]), (O0, &[0])],
        &[Some(|d| {
            let x = d.input(0)?;
            let slope = x.special_modified_bessel_k0()?.add(&d.output(0)?.div(&x)?)?;
            d.g()?.mul(&slope)?.neg()
        })],
    ),
    one(
        "special_bessel_j0",
        &[(I0, &[0])],
        &[Some(|d| d.g()?.mul(&d.input(0)?.special_bessel_j1()?)?.neg())],
    ),
    one(
        "special_bessel_j1",
        &[(I0, &[0]), (O0, &[0])],
        &[Some(|d| {
            let (away, by_x) = by_input(d)?;
            near_zero(d, &d.input(0)?, &away.special_bessel_j0()?.sub(&by_x)?, 0.5)
        })],
    ),
    one(
        "special_bessel_y0",
        &[(I0, &[0])],
        &[Some(|d| d.g()?.mul(&d.input(0)?.special_bessel_y1()?)?.neg())],
    ),
    one(
        "special_bessel_y1",
        &[(I0, &[0]), (O0, &[0])],
        &[Some(|d| {
            let x = d.input(0)?;
            d.g()?.mul(&x.special_bessel_y0()?.sub(&d.output(0)?.div(&x)?)?)
        })],
    ),
    one(
        "special_erfcx",
        &[(I0, &[0]), (O0, &[0])],
        &[Some(|d| {
            let slope = d.input(0)?.mul(2)?.mul(&d.output(0)?)?.sub(FRAC_2_SQRT_PI)?;
            d.g()?.mul(&slope)
        })],
    ),
    one(
        "special_log_ndtr",
        &[(I0, &[0]), (O0, &[0])],
        &[Some(|d| {
            let x = d.input(0)?;
            let exponent = d.output(0)?.add(&x.mul(&x)?.mul(0.5)?)?.neg()?;
            d.g()?.mul(&exponent.exp()?.mul(1.0 / (2.0 * PI).sqrt())?)
        })],
    ),
    one(
        "special_ndtri",
        &[(O0, &[0])],
        &[Some(|d| {
            let y = d.output(0)?;
            d.g()?.mul(&y.mul(&y)?.mul(0.5)?.exp()?.mul(PI.sqrt() * SQRT_2)?)
        })],
    ),
    one(
        "frexp",
        &[(O1, &[0])],
        &[Some(|d| {
            let exponent = d.output(1)?.cast(d.spec(0)?.dtype)?;
            d.g()?.div(&exponent.exp2()?)
        })],
    ),
    each(
        "nextafter",
        &[(I0, &[0]), (I1, &[0])],
        &[Some(|d| d.input(0)?.ne(&d.input(1)?)?.where_cond(&d.g()?, 0)), Some(|d| d.zeros(1))],
    ),
];

const GAMMA: &[(super::Save, &[usize])] = &[(I0, &[1]), (I1, &[1])];

/// I₁′ is I₀ − I₁/x, and ½ at 0.
const BESSEL_I1: &[Option<Formula>; 1] = &[Some(|d| {
    let (away, by_x) = by_input(d)?;
    near_zero(d, &d.input(0)?, &away.i0()?.sub(&by_x)?, 0.5)
})];

fn polygamma(d: &Derivative<'_>, n: i64) -> Result<Tensor> {
    let attrs = Attrs::new().with("n", n);
    super::first("polygamma", crate::tensor::call_op("polygamma", &[&d.input(0)?], attrs)?)
}

/// Returns the input with ones in place of numbers next to 0, and the result divided by it.
fn by_input(d: &Derivative<'_>) -> Result<(Tensor, Tensor)> {
    let x = d.input(0)?;
    let away = x.masked_fill(&is_tiny(&x)?, 1)?;
    let by_x = d.output(0)?.div(&away)?;
    Ok((away, by_x))
}

fn is_tiny(x: &Tensor) -> Result<Tensor> {
    let epsilon = match x.dtype() {
        millstream_types::DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    };
    x.abs()?.le(epsilon)
}

/// Returns the gradient times a slope that has another value next to 0.
fn near_zero(d: &Derivative<'_>, x: &Tensor, slope: &Tensor, at_zero: f64) -> Result<Tensor> {
    d.g()?.mul(&slope.masked_fill(&is_tiny(x)?, at_zero)?)
}

/// Returns the gradient times x^(a − 1) e^(−x) / Γ(a).
fn gamma_density(d: &Derivative<'_>) -> Result<Tensor> {
    let (a, x) = (d.input(0)?, d.input(1)?);
    let exponent = a.sub(1)?.mul(&x.log()?)?.sub(&x)?.sub(&a.lgamma()?)?;
    d.g()?.mul(&exponent.exp()?)
}
