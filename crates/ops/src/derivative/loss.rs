//! Losses.

use crate::handle::machine::Inputs;
use millstream_types::AttrValue::Str;
use millstream_types::Result;

use super::{Derivative, I0, I1, I2, O1, Rule, Save, each};
use crate::handle::Tensor;

const I3: Save = Save::Input(3);

pub(super) const RULES: &[Rule] = &[
    each(
        "mse_loss",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| loss(d, "mse_loss_backward", &["reduction"])),
            Some(|d| loss(d, "mse_loss_backward", &["reduction"])?.neg()),
        ],
    ),
    each(
        "smooth_l1_loss",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| loss(d, "smooth_l1_loss_backward", &["reduction", "beta"])),
            Some(|d| loss(d, "smooth_l1_loss_backward", &["reduction", "beta"])?.neg()),
        ],
    ),
    each(
        "huber_loss",
        &[(I0, &[0, 1]), (I1, &[0, 1])],
        &[
            Some(|d| loss(d, "huber_loss_backward", &["reduction", "delta"])),
            Some(|d| loss(d, "huber_loss_backward", &["reduction", "delta"])?.neg()),
        ],
    ),
    each(
        "mse_loss_backward",
        &[(I0, &[1, 2]), (I1, &[0]), (I2, &[0])],
        &[
            Some(|d| slope(d, &d.g()?.mul(&d.input(1)?.sub(&d.input(2)?)?)?)),
            Some(|d| slope(d, &d.g()?.mul(&d.input(0)?)?)),
            Some(|d| slope(d, &d.g()?.mul(&d.input(0)?)?)?.neg()),
        ],
    ),
    each(
        "binary_cross_entropy",
        &[(I0, &[0, 1]), (I1, &[0]), (I2, &[0, 1])],
        &[
            Some(|d| {
                let (g, x, y, weight) = (d.g()?, d.input(0)?, d.input(1)?, d.optional(2)?);
                let mut inputs = vec![&g, &x, &y];
                inputs.extend(weight.as_ref());
                d.call_one("binary_cross_entropy_backward", &inputs, &["reduction"])
            }),
            Some(|d| {
                let x = d.input(0)?;
                // Logarithms are at least -100, as in the loss.
                let logs = x.neg()?.log1p()?.clamp_min(-100)?.sub(&x.log()?.clamp_min(-100)?)?;
                weighted(d, &logs)
            }),
        ],
    ),
    each(
        "binary_cross_entropy_with_logits",
        &[(I0, &[0, 1]), (I1, &[0]), (I2, &[0, 1]), (I3, &[0, 1])],
        &[
            Some(with_logits),
            Some(|d| {
                let x = d.input(0)?;
                let slope = match d.optional(3)? {
                    Some(p) => x.neg()?.log_sigmoid()?.sub(&p.mul(&x.log_sigmoid()?)?)?,
                    None => x.neg()?,
                };
                weighted(d, &slope)
            }),
        ],
    ),
    each(
        "nll_loss_forward",
        &[(I0, &[0]), (I1, &[0]), (I2, &[0]), (O1, &[0])],
        &[Some(|d| nll(d, "nll_loss_backward"))],
    ),
    each(
        "nll_loss2d_forward",
        &[(I0, &[0]), (I1, &[0]), (I2, &[0]), (O1, &[0])],
        &[Some(|d| nll(d, "nll_loss2d_backward"))],
    ),
];

fn loss(d: &Derivative<'_>, op: &str, names: &[&'static str]) -> Result<Tensor> {
    let shape = millstream_ops::broadcast::broadcast(d.shape(0)?, d.shape(1)?)?;
    let (x, target) = (d.input(0)?.expand(&shape[..])?, d.input(1)?.expand(&shape[..])?);
    d.call_one(op, &[&d.g()?, &x, &target], names)
}

/// Returns 2 x, or 2 x / n for the mean.
fn slope(d: &Derivative<'_>, x: &Tensor) -> Result<Tensor> {
    let factor = match d.attrs().get("reduction") {
        Some(Str(name)) if name != "mean" => 2.0,
        _ => 2.0 / d.output_spec(0)?.numel() as f64,
    };
    x.mul(factor)
}

/// The derivative for x of a loss with weight w and weight p of positive targets y is
/// w (s (1 − y + p y) − p y), with s the sigmoid of x.
fn with_logits(d: &Derivative<'_>) -> Result<Tensor> {
    let (x, y) = (d.input(0)?, d.input(1)?);
    let positive = match d.optional(3)? {
        Some(p) => y.mul(&p)?,
        None => y.copy()?,
    };
    let all = y.neg()?.add(1)?.add(&positive)?;
    let slope = x.sigmoid()?.mul(&all)?.sub(&positive)?;
    weighted(d, &slope)
}

/// Returns the gradient of a loss from its slope for each element: times the weight, which is input
/// 2, and divided by the number of elements if the loss is their mean.
fn weighted(d: &Derivative<'_>, slope: &Tensor) -> Result<Tensor> {
    let mut slope = slope.clone();
    if let Some(weight) = d.optional(2)? {
        slope = slope.mul(&weight)?;
    }
    let slope = match d.attrs().get("reduction") {
        Some(Str(name)) if name != "mean" => slope,
        _ => {
            let count = slope.numel() as f64;
            slope.div(count)?
        }
    };
    d.g()?.mul(&slope)
}

fn nll(d: &Derivative<'_>, op: &str) -> Result<Tensor> {
    let (g, x, target, weight) = (d.g()?, d.input(0)?, d.input(1)?, d.optional(2)?);
    let total = d.output(1)?;
    let mut attrs = millstream_types::Attrs::new();
    for name in ["reduction", "ignore_index"] {
        if let Some(value) = d.attrs().get(name) {
            attrs.set(name, value.clone());
        }
    }
    let mut given = Inputs::from_slice(&[&g, &x, &target]);
    crate::tensor::optional(&[weight.as_ref(), Some(&total)], &mut given, &mut attrs);
    super::first(op, crate::tensor::call_op(op, &given, attrs)?)
}
