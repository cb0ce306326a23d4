//! Arithmetic, and elementwise functions of several tensors.

use millstream_types::{Attrs, Result};

use super::{Derivative, Formula, I0, I1, I2, O0, Rule, each};
use crate::formula::Expr;

const PASS: Option<Formula> = Some(|d| Ok(d.g()));
const NONE: Option<Formula> = None;

pub(super) const RULES: &[Rule] = &[
    each("add", &[], &[PASS, Some(|d| Ok(scaled(d.g(), d.number("alpha", 1.0)?)))]).complex(),
    each("sub", &[], &[PASS, Some(|d| Ok(scaled(d.g(), -d.number("alpha", 1.0)?)))]).complex(),
    each(
        "mul",
        &[(I1, &[0]), (I0, &[1])],
        &[Some(|d| Ok(d.g() * d.operand(1, "other"))), Some(|d| Ok(d.g() * d.input(0)))],
    )
    .holomorphic(),
    each(
        "div",
        &[(I1, &[0, 1]), (I0, &[1])],
        &[
            Some(|d| match d.attrs.get("rounding_mode") {
                Some(_) => d.zeros(0),
                None => Ok(d.g() / d.operand(1, "other")),
            }),
            Some(|d| {
                if d.attrs.get("rounding_mode").is_some() {
                    return d.zeros(1);
                }
                let (y, negative) = (d.input(1), -d.g());
                Ok(negative * (d.input(0) / y / y))
            }),
        ],
    )
    .holomorphic(),
    each("remainder", &[(I0, &[1]), (I1, &[1])], &[PASS, Some(|d| Ok(quotient(d, "floor")))]),
    each("fmod", &[(I0, &[1]), (I1, &[1])], &[PASS, Some(|d| Ok(quotient(d, "trunc")))]),
    each("pow", &[(I0, &[0, 1]), (I1, &[0, 1]), (O0, &[1])], &[Some(pow_base), Some(pow_exponent)])
        .holomorphic(),
    each(
        "atan2",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| Ok(d.g() * (d.input(1) / squares(d)))),
            Some(|d| Ok(d.g() * (-d.input(0) / squares(d)))),
        ],
    ),
    each("neg", &[], &[Some(|d| Ok(-d.g()))]).complex(),
    each(
        "maximum",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| Ok(chosen(d.g(), [d.input(0), d.input(1)], Expr::lt))),
            Some(|d| Ok(chosen(d.g(), [d.input(1), d.input(0)], Expr::lt))),
        ],
    ),
    each(
        "minimum",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| Ok(chosen(d.g(), [d.input(0), d.input(1)], Expr::gt))),
            Some(|d| Ok(chosen(d.g(), [d.input(1), d.input(0)], Expr::gt))),
        ],
    ),
    each(
        "lerp",
        &[(I0, &[2]), (I1, &[2]), (I2, &[0, 1])],
        &[
            Some(|d| Ok(d.g() - d.g() * d.operand(2, "weight"))),
            Some(|d| Ok(d.g() * d.operand(2, "weight"))),
            Some(|d| Ok(d.g() * (d.input(1) - d.input(0)))),
        ],
    )
    .holomorphic(),
    each(
        "addcmul",
        &[(I1, &[2]), (I2, &[1])],
        &[
            PASS,
            Some(|d| Ok(d.g() * d.input(2) * d.number("value", 1.0)?)),
            Some(|d| Ok(d.g() * d.input(1) * d.number("value", 1.0)?)),
        ],
    )
    .holomorphic(),
    each(
        "addcdiv",
        &[(I1, &[2]), (I2, &[1, 2])],
        &[
            PASS,
            Some(|d| Ok(d.g() * d.number("value", 1.0)? / d.input(2))),
            Some(|d| {
                let (x, y) = (d.input(1), d.input(2));
                Ok(d.g() * (x * -d.number("value", 1.0)? / (y * y)))
            }),
        ],
    )
    .holomorphic(),
    each(
        "where",
        &[(I0, &[1, 2])],
        // A number in place of x leaves y as the one tensor behind the condition.
        &[
            NONE,
            Some(|d| match d.attrs.get("self") {
                Some(_) => Ok(d.input(0).choose(0, d.g())),
                None => Ok(d.input(0).choose(d.g(), 0)),
            }),
            Some(|d| Ok(d.input(0).choose(0, d.g()))),
        ],
    )
    .complex(),
    each(
        "masked_fill",
        &[(I1, &[0, 2])],
        &[
            Some(|d| Ok(d.g().filled(d.input(1), 0))),
            NONE,
            Some(|d| Ok(d.input(1).choose(d.g(), 0).op("sum", Attrs::new()))),
        ],
    )
    .complex(),
    each("clamp", &[(I0, &[0])], &[Some(clamp)]),
    each("clamp_min", &[(I0, &[0])], &[Some(clamp)]),
    each("clamp_max", &[(I0, &[0])], &[Some(clamp)]),
    each("logical_and", &[], &[NONE, NONE]),
    each("logical_or", &[], &[NONE, NONE]),
    each("logical_not", &[], &[NONE]),
    // Overwritten: nothing of the old value is left.
    each("fill", &[], &[NONE]).complex(),
    each("copy_", &[], &[NONE, PASS]).complex(),
    each("uniform_", &[], &[NONE]),
    each("normal_", &[], &[NONE]),
    each("exponential_", &[], &[NONE]),
    each("bernoulli_", &[], &[NONE]),
    each("randint_", &[], &[NONE]),
];

pub(super) fn scaled(g: Expr<'_>, factor: f64) -> Expr<'_> {
    if factor == 1.0 { g } else { g * factor }
}

/// Returns the gradient of the divisor of a remainder, by the rounded quotient.
fn quotient<'a>(d: Derivative<'a>, rounding: &str) -> Expr<'a> {
    let attrs = Attrs::new().with("rounding_mode", rounding);
    let negative = -d.g();
    negative * d.input(0).with("div", d.input(1), attrs)
}

/// Returns x² + y² of the two inputs.
fn squares(d: Derivative<'_>) -> Expr<'_> {
    let (x, y) = (d.input(0), d.input(1));
    x * x + y * y
}

/// Returns the gradient where `x` is the one of both that an extremum returns, or either is NaN,
/// and half of it where both are equal.
fn chosen<'a>(
    g: Expr<'a>,
    [x, y]: [Expr<'a>; 2],
    is_other: fn(Expr<'a>, Expr<'a>) -> Expr<'a>,
) -> Expr<'a> {
    let half = g * 0.5;
    let shared = x.eq(y).choose(half, g);
    is_other(x, y).choose(0, shared)
}

/// Returns the gradient within the bounds: without the bounds themselves if there are two.
fn clamp(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (g, x) = (d.g(), d.input(0));
    let bound = |name: &str| d.attrs.get(name).map(|_| d.number(name, 0.0)).transpose();
    Ok(match (bound("min")?, bound("max")?) {
        (Some(min), Some(max)) => x.gt(min).logical_and(x.lt(max)).choose(g, 0),
        (Some(min), None) => x.ge(min).choose(g, 0),
        (None, Some(max)) => x.le(max).choose(g, 0),
        (None, None) => g,
    })
}

fn pow_base(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (g, x) = (d.g(), d.input(0));
    if !d.is_given(1) {
        return match d.number("exponent", 1.0)? {
            0.0 => d.zeros(0),
            exponent => Ok(g * (x.pow(exponent - 1.0) * exponent)),
        };
    }
    let y = d.input(1);
    let slope = g * (y * x.pow(y - 1));
    Ok(y.eq(0).choose(0, slope))
}

fn pow_exponent(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (x, y) = (d.input(0), d.input(1));
    let slope = d.g() * (d.output(0) * x.cast(d.output_spec(0)?.dtype).log());
    let y = if y.dtype().is_complex() { y.parts()[0] } else { y };
    Ok(x.eq(0).logical_and(y.ge(0)).choose(0, slope))
}
