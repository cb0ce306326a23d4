//! Losses.

use millstream_types::AttrValue::Str;
use millstream_types::Result;

use super::{Derivative, I0, I1, I2, O1, Rule, Save, each};
use crate::broadcast::broadcast;
use crate::formula::{Expr, ints};

const I3: Save = Save::Input(3);

pub(super) const RULES: &[Rule] = &[
    each(
        "mse_loss",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| loss(d, "mse_loss_backward", &["reduction"])),
            Some(|d| Ok(-loss(d, "mse_loss_backward", &["reduction"])?)),
        ],
    ),
    each(
        "smooth_l1_loss",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| loss(d, "smooth_l1_loss_backward", &["reduction", "beta"])),
            Some(|d| Ok(-loss(d, "smooth_l1_loss_backward", &["reduction", "beta"])?)),
        ],
    ),
    each(
        "huber_loss",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| loss(d, "huber_loss_backward", &["reduction", "delta"])),
            Some(|d| Ok(-loss(d, "huber_loss_backward", &["reduction", "delta"])?)),
        ],
    ),
    each(
        "mse_loss_backward",
        &[(I0, &[1, 2]), (I1, &[0]), (I2, &[0])],
        &[
            Some(|d| Ok(d.g() * (d.input(1) - d.input(2)) * slope(d)?)),
            Some(|d| Ok(d.g() * d.input(0) * slope(d)?)),
            Some(|d| Ok(-(d.g() * d.input(0) * slope(d)?))),
        ],
    ),
    each(
        "binary_cross_entropy",
        &[(I0, &[0, 1]), (I1, &[0]), (I2, &[0, 1])],
        &[
            Some(|d| {
                let mut inputs = vec![d.g(), d.input(0), d.input(1)];
                inputs.extend(d.optional(2));
                Ok(d.one("binary_cross_entropy_backward", &inputs, &["reduction"]))
            }),
            Some(|d| {
                let x = d.input(0);
                // Logarithms are at least -100, as in the loss.
                weighted(d, (-x).log1p().clamp_min(-100) - x.log().clamp_min(-100))
            }),
        ],
    ),
    each(
        "binary_cross_entropy_with_logits",
        &[(I0, &[0, 1]), (I1, &[0]), (I2, &[0, 1]), (I3, &[0, 1])],
        &[
            Some(with_logits),
            Some(|d| {
                let x = d.input(0);
                let slope = match d.optional(3) {
                    Some(p) => (-x).apply("log_sigmoid", []) - p * x.apply("log_sigmoid", []),
                    None => -x,
                };
                weighted(d, slope)
            }),
        ],
    ),
    each(
        "nll_loss_forward",
        &[(I0, &[0]), (I1, &[0]), (I2, &[0]), (O1, &[0])],
        &[Some(|d| Ok(nll(d, "nll_loss_backward")))],
    ),
    each(
        "nll_loss2d_forward",
        &[(I0, &[0]), (I1, &[0]), (I2, &[0]), (O1, &[0])],
        &[Some(|d| Ok(nll(d, "nll_loss2d_backward")))],
    ),
];

fn loss<'a>(d: Derivative<'a>, op: &str, names: &[&'static str]) -> Result<Expr<'a>> {
    let shape = ints(&broadcast(d.spec(0)?.shape(), d.spec(1)?.shape())?);
    let (x, target) = (d.input(0).expand(&shape), d.input(1).expand(&shape));
    Ok(d.one(op, &[d.g(), x, target], names))
}

/// Returns 2, or 2 / n for the mean.
fn slope(d: Derivative<'_>) -> Result<f64> {
    Ok(match d.attrs.get("reduction") {
        Some(Str(name)) if name != "mean" => 2.0,
        _ => 2.0 / d.output_spec(0)?.numel() as f64,
    })
}

/// The derivative for x of a loss with weight w and weight p of positive targets y is
/// w (s (1 − y + p y) − p y), with s the sigmoid of x.
fn with_logits(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (x, y) = (d.input(0), d.input(1));
    let positive = match d.optional(3) {
        Some(p) => y * p,
        None => y.apply("clone", []),
    };
    let all = -y + 1 + positive;
    weighted(d, x.sigmoid() * all - positive)
}

/// Returns the gradient of a loss from its slope for each element: times the weight, which is input
/// 2, and divided by the number of elements if the loss is their mean.
fn weighted<'a>(d: Derivative<'a>, mut slope: Expr<'a>) -> Result<Expr<'a>> {
    if let Some(weight) = d.optional(2) {
        slope = slope * weight;
    }
    Ok(match d.attrs.get("reduction") {
        Some(Str(name)) if name != "mean" => d.g() * slope,
        _ => d.g() * (slope / slope.numel()? as f64),
    })
}

fn nll<'a>(d: Derivative<'a>, op: &str) -> Expr<'a> {
    let (inputs, attrs) = d.absent(
        vec![d.g(), d.input(0), d.input(1)],
        [d.optional(2), Some(d.output(1))],
        d.passed(&["reduction", "ignore_index"]),
    );
    d.calls.one(op, &inputs, attrs)
}
