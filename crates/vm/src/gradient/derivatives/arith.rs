//! Arithmetic, and elementwise functions of several tensors.

use super::{Derivative, Formula, I0, I1, I2, O0, Rule, each};
use crate::handle::Tensor;
use millstream_types::Result;

const PASS: Option<Formula> = Some(|d| d.g());
const NONE: Option<Formula> = None;

pub(super) const RULES: &[Rule] = &[
    each("add", &[], &[PASS, Some(|d| scaled(d, d.number("alpha", 1.0)?))]),
    each("sub", &[], &[PASS, Some(|d| scaled(d, -d.number("alpha", 1.0)?))]),
    each(
        "mul",
        &[(I1, &[0]), (I0, &[1])],
        &[
            Some(|d| d.with_operand(1, "other", |y| d.g()?.mul(y))),
            Some(|d| d.g()?.mul(&d.input(0)?)),
        ],
    ),
    each(
        "div",
        &[(I1, &[0, 1]), (I0, &[1])],
        &[
            Some(|d| match d.attrs().get("rounding_mode") {
                Some(_) => d.zeros(0),
                None => d.with_operand(1, "other", |y| d.g()?.div(y)),
            }),
            Some(|d| {
                if d.attrs().get("rounding_mode").is_some() {
                    return d.zeros(1);
                }
                let y = d.input(1)?;
                d.g()?.neg()?.mul(&d.input(0)?.div(&y)?.div(&y)?)
            }),
        ],
    ),
    each(
        "remainder",
        &[(I0, &[1]), (I1, &[1])],
        &[
            PASS,
            Some(|d| {
                let floored = crate::tensor::options::Div::default().rounding_mode("floor");
                d.g()?.neg()?.mul(&d.input(0)?.div_with(&d.input(1)?, floored)?)
            }),
        ],
    ),
    each(
        "fmod",
        &[(I0, &[1]), (I1, &[1])],
        &[
            PASS,
            Some(|d| {
                let cut = crate::tensor::options::Div::default().rounding_mode("trunc");
                d.g()?.neg()?.mul(&d.input(0)?.div_with(&d.input(1)?, cut)?)
            }),
        ],
    ),
    each("pow", &[(I0, &[0, 1]), (I1, &[0, 1]), (O0, &[1])], &[Some(pow_base), Some(pow_exponent)]),
    each(
        "atan2",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| d.g()?.mul(&d.input(1)?.div(&squares(d)?)?)),
            Some(|d| d.g()?.mul(&d.input(0)?.neg()?.div(&squares(d)?)?)),
        ],
    ),
    each("neg", &[], &[Some(|d| d.g()?.neg())]),
    each(
        "maximum",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| greater(d, &d.input(0)?, &d.input(1)?)),
            Some(|d| greater(d, &d.input(1)?, &d.input(0)?)),
        ],
    ),
    each(
        "minimum",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| lesser(d, &d.input(0)?, &d.input(1)?)),
            Some(|d| lesser(d, &d.input(1)?, &d.input(0)?)),
        ],
    ),
    each(
        "lerp",
        &[(I0, &[2]), (I1, &[2]), (I2, &[0, 1])],
        &[
            Some(|d| {
                d.with_operand(2, "weight", |w| {
                    let g = d.g()?;
                    g.sub(&g.mul(w)?)
                })
            }),
            Some(|d| d.with_operand(2, "weight", |w| d.g()?.mul(w))),
            Some(|d| d.g()?.mul(&d.input(1)?.sub(&d.input(0)?)?)),
        ],
    ),
    each(
        "addcmul",
        &[(I1, &[2]), (I2, &[1])],
        &[
            PASS,
            Some(|d| d.g()?.mul(&d.input(2)?)?.mul(d.number("value", 1.0)?)),
            Some(|d| d.g()?.mul(&d.input(1)?)?.mul(d.number("value", 1.0)?)),
        ],
    ),
    each(
        "addcdiv",
        &[(I1, &[2]), (I2, &[1, 2])],
        &[
            PASS,
            Some(|d| d.g()?.mul(d.number("value", 1.0)?)?.div(&d.input(2)?)),
            Some(|d| {
                let y = d.input(2)?;
                let scale = d.input(1)?.mul(-d.number("value", 1.0)?)?.div(&y.mul(&y)?)?;
                d.g()?.mul(&scale)
            }),
        ],
    ),
    each(
        "where",
        &[(I0, &[1, 2])],
        // A number in place of x leaves y as the one tensor behind the condition.
        &[
            NONE,
            Some(|d| match d.attrs().get("self") {
                Some(_) => d.input(0)?.where_cond(0, &d.g()?),
                None => d.input(0)?.where_cond(&d.g()?, 0),
            }),
            Some(|d| d.input(0)?.where_cond(0, &d.g()?)),
        ],
    ),
    each(
        "masked_fill",
        &[(I1, &[0, 2])],
        &[
            Some(|d| d.g()?.masked_fill(&d.input(1)?, 0)),
            NONE,
            Some(|d| d.input(1)?.where_cond(&d.g()?, 0)?.sum(..)),
        ],
    ),
    each("clamp", &[(I0, &[0])], &[Some(clamp)]),
    each("clamp_min", &[(I0, &[0])], &[Some(clamp)]),
    each("clamp_max", &[(I0, &[0])], &[Some(clamp)]),
    each("logical_and", &[], &[NONE, NONE]),
    each("logical_or", &[], &[NONE, NONE]),
    each("logical_not", &[], &[NONE]),
    // Overwritten: nothing of the old value is left.
    each("fill", &[], &[NONE]),
    each("copy_", &[], &[NONE, PASS]),
    each("uniform_", &[], &[NONE]),
    each("normal_", &[], &[NONE]),
    each("exponential_", &[], &[NONE]),
    each("bernoulli_", &[], &[NONE]),
    each("randint_", &[], &[NONE]),
];

fn scaled(d: &Derivative<'_>, factor: f64) -> Result<Tensor> {
    if factor == 1.0 { d.g() } else { d.g()?.mul(factor) }
}

/// Returns x² + y² of the two inputs.
fn squares(d: &Derivative<'_>) -> Result<Tensor> {
    let (x, y) = (d.input(0)?, d.input(1)?);
    x.mul(&x)?.add(&y.mul(&y)?)
}

/// Returns the gradient where `x` is the greater one or either is NaN, and half of it where both
/// are equal.
fn greater(d: &Derivative<'_>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let g = d.g()?;
    let half = g.mul(0.5)?;
    let shared = x.eq(y)?.where_cond(&half, &g)?;
    x.lt(y)?.where_cond(0, &shared)
}

/// As [`greater`], for the lesser one.
fn lesser(d: &Derivative<'_>, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let g = d.g()?;
    let half = g.mul(0.5)?;
    let shared = x.eq(y)?.where_cond(&half, &g)?;
    x.gt(y)?.where_cond(0, &shared)
}

/// Returns the gradient within the bounds: without the bounds themselves if there are two.
fn clamp(d: &Derivative<'_>) -> Result<Tensor> {
    let (g, x) = (d.g()?, d.input(0)?);
    let bound = |name: &str| d.attrs().get(name).map(|_| d.number(name, 0.0)).transpose();
    match (bound("min")?, bound("max")?) {
        (Some(min), Some(max)) => x.gt(min)?.logical_and(&x.lt(max)?)?.where_cond(&g, 0),
        (Some(min), None) => x.ge(min)?.where_cond(&g, 0),
        (None, Some(max)) => x.le(max)?.where_cond(&g, 0),
        (None, None) => Ok(g),
    }
}

fn pow_base(d: &Derivative<'_>) -> Result<Tensor> {
    let (g, x) = (d.g()?, d.input(0)?);
    if !d.is_given(1) {
        let exponent = d.number("exponent", 1.0)?;
        return match exponent == 0.0 {
            true => d.zeros(0),
            false => g.mul(&x.pow(exponent - 1.0)?.mul(exponent)?),
        };
    }
    let y = d.input(1)?;
    let slope = g.mul(&y.mul(&x.pow(&y.sub(1)?)?)?)?;
    y.eq(0)?.where_cond(0, &slope)
}

fn pow_exponent(d: &Derivative<'_>) -> Result<Tensor> {
    let (x, y) = (d.input(0)?, d.input(1)?);
    let slope = d.g()?.mul(&d.output(0)?.mul(&x.cast(d.output_spec(0)?.dtype)?.log()?)?)?;
    let y = if y.dtype().is_complex() { y.view_as_real()?.select(-1, 0)? } else { y };
    x.eq(0)?.logical_and(&y.ge(0)?)?.where_cond(0, &slope)
}
