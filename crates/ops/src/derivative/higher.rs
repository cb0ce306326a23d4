//! Gradients of gradients: the derivatives of the ops that formulas call.

use std::f64::consts::PI;

use millstream_types::AttrValue::Str;
use millstream_types::{Attrs, Result};

use super::{Derivative, Formula, I0, I1, I2, Rule, Save, each, first, joint};
use crate::handle::Tensor;
use crate::tensor::call_op;

const I3: Save = Save::Input(3);
/// A function that has no slope, or whose slope is a constant by parts.
const ZERO: Option<Formula> = Some(|d| d.zeros(1));
const BY_X: &[(Save, &[usize])] = &[(I0, &[1]), (I1, &[0, 1])];
const BY_X_ALONE: &[(Save, &[usize])] = &[(I1, &[0])];
const OF_LOSS: &[(Save, &[usize])] = &[(I0, &[1, 2]), (I1, &[0, 1, 2]), (I2, &[0, 1, 2])];

pub(super) const RULES: &[Rule] = &[
    each("gelu_backward", BY_X, &[Some(|d| again(d, &["approximate"])), Some(gelu)]),
    each("silu_backward", BY_X, &[Some(|d| again(d, &[])), Some(silu)]),
    each("mish_backward", BY_X, &[Some(|d| again(d, &[])), Some(mish)]),
    each("elu_backward", BY_X, &[Some(|d| again(d, ELU)), Some(elu)]),
    each("softplus_backward", BY_X, &[Some(|d| again(d, &["beta", "threshold"])), Some(softplus)]),
    each(
        "log_sigmoid_backward",
        BY_X,
        &[
            Some(|d| again(d, &[])),
            Some(|d| {
                let s = d.input(1)?.sigmoid()?;
                both(d)?.mul(&s.mul(&s.sub(1)?)?)
            }),
        ],
    ),
    each(
        "hardswish_backward",
        BY_X,
        &[
            Some(|d| again(d, &[])),
            Some(|d| {
                let x = d.input(1)?;
                x.abs()?.lt(3)?.where_cond(&both(d)?.div(3)?, 0)
            }),
        ],
    ),
    each(
        "logit_backward",
        BY_X,
        &[
            Some(|d| again(d, &["eps"])),
            Some(|d| {
                let x = d.input(1)?;
                let product = x.mul(&x.neg()?.add(1)?)?;
                let slope = both(d)?.mul(&x.mul(2)?.sub(1)?.div(&product.mul(&product)?)?)?;
                match d.attrs().float("eps")?.filter(|eps| *eps >= 0.0) {
                    Some(eps) => {
                        let within = x.ge(eps)?.logical_and(&x.le(1.0 - eps)?)?;
                        within.where_cond(&slope, 0)
                    }
                    None => Ok(slope),
                }
            }),
        ],
    ),
    each("hardsigmoid_backward", BY_X_ALONE, &[Some(|d| again(d, &[])), ZERO]),
    each("leaky_relu_backward", BY_X_ALONE, &[Some(|d| again(d, LEAKY)), ZERO]),
    each("softshrink_backward", BY_X_ALONE, &[Some(|d| again(d, &["lambd"])), ZERO]),
    each("hardshrink_backward", BY_X_ALONE, &[Some(|d| again(d, &["lambd"])), ZERO]),
    each(
        "native_dropout_backward",
        &[(I1, &[0])],
        &[
            Some(|d| d.call_one("native_dropout_backward", &[&d.g()?, &d.input(1)?], &["scale"])),
            None,
        ],
    ),
    each("select_backward", &[], &[Some(|d| d.call_one("select", &[&d.g()?], &["dim", "index"]))]),
    each(
        "slice_backward",
        &[],
        &[Some(|d| d.call_one("slice", &[&d.g()?], &["dim", "start", "end", "step"]))],
    ),
    each(
        "diagonal_backward",
        &[],
        &[Some(|d| d.call_one("diagonal", &[&d.g()?], &["offset", "dim1", "dim2"]))],
    ),
    each("embedding_dense_backward", &[(I1, &[0])], &[Some(embedded), None]),
    each(
        "avg_pool2d_backward",
        &[],
        &[
            Some(|d| {
                let names = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"];
                let names = [names.as_slice(), &["divisor_override"]].concat();
                d.call_one("avg_pool2d", &[&d.g()?], &names)
            }),
            ZERO,
        ],
    ),
    each(
        "_adaptive_avg_pool2d_backward",
        &[],
        &[
            Some(|d| {
                let shape = d.shape(0)?;
                let size: Vec<i64> = shape[shape.len() - 2..].iter().map(|&n| n as i64).collect();
                let (op, attrs) = ("_adaptive_avg_pool2d", Attrs::new().with("output_size", size));
                first(op, call_op(op, &[&d.g()?], attrs)?)
            }),
            ZERO,
        ],
    ),
    each(
        "max_pool2d_with_indices_backward",
        &[(I2, &[0])],
        &[
            Some(|d| {
                let (g, index) = (d.g()?.flatten(-2, -1)?, d.input(2)?);
                g.gather(&index.flatten(-2, -1)?, -1)?.reshape(d.shape(0)?)
            }),
            ZERO,
            None,
        ],
    ),
    joint("convolution_backward", &[(I0, &[1, 2]), (I1, &[0, 2]), (I2, &[0, 1])], convolution),
    each("nll_loss_backward", CLASSES, &[Some(|d| classes(d, "nll_loss_forward")), ZERO]),
    each("nll_loss2d_backward", CLASSES, &[Some(|d| classes(d, "nll_loss2d_forward")), ZERO]),
    each(
        "smooth_l1_loss_backward",
        OF_LOSS,
        &[
            Some(|d| of_loss(d, "smooth_l1_loss_backward", "beta")),
            Some(smooth_l1),
            Some(|d| smooth_l1(d)?.neg()),
        ],
    ),
    each(
        "huber_loss_backward",
        OF_LOSS,
        &[
            Some(|d| of_loss(d, "huber_loss_backward", "delta")),
            Some(huber),
            Some(|d| huber(d)?.neg()),
        ],
    ),
    each(
        "binary_cross_entropy_backward",
        &[(I0, &[1, 2]), (I1, &[0, 1, 2]), (I2, &[0, 1]), (I3, &[0, 1, 2])],
        &[
            Some(|d| {
                let (x, y) = (d.input(1)?, d.input(2)?);
                averaged(d, &d.g()?.mul(&x.sub(&y)?.div(&variance(&x)?)?)?)
            }),
            Some(|d| {
                let (x, y) = (d.input(1)?, d.input(2)?);
                // x² − 2 x y + y, over the square of x (1 − x).
                let above = x.mul(&x)?.sub(&x.mul(&y)?.mul(2)?)?.add(&y)?;
                let below = variance(&x)?;
                averaged(d, &both(d)?.mul(&above.div(&below.mul(&below)?)?)?)
            }),
            Some(|d| averaged(d, &both(d)?.div(&variance(&d.input(1)?)?)?.neg()?)),
        ],
    ),
];

const ELU: &[&str] = &["alpha", "scale", "input_scale", "is_result"];
const LEAKY: &[&str] = &["negative_slope", "self_is_result"];

/// Calls the same op with the gradient of its result, since that is linear in its first operand.
fn again(d: &Derivative<'_>, attrs: &[&'static str]) -> Result<Tensor> {
    d.call_one(&d.node.op, &[&d.g()?, &d.input(1)?], attrs)
}

/// Returns the product of the gradient and the first operand, which is a gradient, too.
fn both(d: &Derivative<'_>) -> Result<Tensor> {
    d.g()?.mul(&d.input(0)?)
}

/// The second derivative of x Φ(x) is (2 − x²) φ(x).
fn gelu(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(1)?;
    let square = x.mul(&x)?;
    if !matches!(d.attrs().get("approximate"), Some(Str(name)) if name == "tanh") {
        let density = square.mul(-0.5)?.exp()?.mul(1.0 / (2.0 * PI).sqrt())?;
        return both(d)?.mul(&square.neg()?.add(2)?.mul(&density)?);
    }
    // x (1 + tanh u) / 2 with u = k (x + c x³).
    let (k, c) = ((2.0 / PI).sqrt(), 0.044715);
    let t = x.add(&square.mul(&x)?.mul(c)?)?.mul(k)?.tanh()?;
    let (du, ddu) = (square.mul(3.0 * c)?.add(1)?.mul(k)?, x.mul(6.0 * k * c)?);
    let dt = t.mul(&t)?.neg()?.add(1)?;
    let bend = ddu.sub(&t.mul(&du)?.mul(&du)?.mul(2)?)?;
    both(d)?.mul(&dt.mul(&du.add(&x.mul(&bend)?.mul(0.5)?)?)?)
}

/// With the sigmoid s, the second derivative of x s is s (1 − s) (2 + x (1 − 2 s)).
fn silu(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(1)?;
    let s = x.sigmoid()?;
    let bend = x.mul(&s.mul(-2)?.add(1)?)?.add(2)?;
    both(d)?.mul(&s.sub(&s.mul(&s)?)?.mul(&bend)?)
}

/// With t the hyperbolic tangent of softplus and s the sigmoid, the second derivative of x t is
/// (1 − t²) s (2 + x (1 − s) − 2 x t s).
fn mish(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(1)?;
    let (s, t) = (x.sigmoid()?, x.softplus()?.tanh()?);
    let bend = x.mul(&s.add(&t.mul(&s)?.mul(2)?)?.neg()?.add(1)?)?.add(2)?;
    both(d)?.mul(&t.mul(&t)?.neg()?.add(1)?.mul(&s)?.mul(&bend)?)
}

fn elu(d: &Derivative<'_>) -> Result<Tensor> {
    let x = d.input(1)?;
    let (scale, input) = (d.number("scale", 1.0)?, d.number("input_scale", 1.0)?);
    let both = both(d)?;
    let slope = match d.attrs().bool("is_result")?.unwrap_or(false) {
        true => both.mul(input)?,
        false => {
            let factor = d.number("alpha", 1.0)? * scale * input * input;
            // Positive elements are not used, and their exponentials may be infinite.
            both.mul(&x.clamp_max(0)?.mul(input)?.exp()?.mul(factor)?)?
        }
    };
    x.lt(0)?.where_cond(&slope, 0)
}

fn softplus(d: &Derivative<'_>) -> Result<Tensor> {
    let (x, beta) = (d.input(1)?, d.number("beta", 1.0)?);
    let scaled = x.mul(beta)?;
    let s = scaled.sigmoid()?;
    let slope = both(d)?.mul(&s.sub(&s.mul(&s)?)?.mul(beta)?)?;
    scaled.ge(d.number("threshold", 20.0)?)?.where_cond(0, &slope)
}

/// The rows at the indices; divided by how often each index occurs, if the gradient was.
fn embedded(d: &Derivative<'_>) -> Result<Tensor> {
    let (g, index) = (d.g()?, d.input(1)?);
    let flat = index.reshape(index.numel())?;
    let mut taken = g.index_select(&flat, 0)?;
    if d.attrs().bool("scale_grad_by_freq")?.unwrap_or(false) {
        let ones = Tensor::ones(flat.numel(), g.dtype(), &g)?;
        let counts = Tensor::zeros(g.shape()[0], g.dtype(), &g)?.index_add(&flat, &ones, 0)?;
        taken = taken.div(&counts.index_select(&flat, 0)?.unsqueeze(-1)?)?;
    }
    if let Some(padding) = d.attrs().int("padding_idx")?.filter(|&row| row >= 0) {
        taken = taken.masked_fill(&flat.eq(padding)?.unsqueeze(-1)?, 0)?;
    }
    taken.reshape(d.shape(0)?)
}

/// The op is linear in the gradient and in each of the two operands: what each result gives to one
/// of them is the convolution's own gradient, with the gradient of that result in its place.
fn convolution(d: &Derivative<'_>) -> Result<Vec<Option<Tensor>>> {
    let mask = d.attrs().ints("output_mask")?.unwrap_or_else(|| vec![1, 1, 1]);
    // The results are those that the mask asked for, in order.
    let mut at = 0;
    let mut results = [None, None, None];
    for (k, result) in results.iter_mut().enumerate() {
        if mask.get(k).is_some_and(|&flag| flag != 0) {
            *result = d.gradients.get(at).and_then(Option::clone);
            at += 1;
        }
    }
    let [of_x, of_weight, of_bias] = results;
    let names = ["stride", "padding", "dilation", "transposed", "output_padding", "groups"];
    let backward = |x: &Tensor, weight: &Tensor, mask: [i64; 3]| {
        let mut attrs = Attrs::new().with("output_mask", mask.to_vec());
        for name in names {
            if let Some(value) = d.attrs().get(name) {
                attrs.set(name, value.clone());
            }
        }
        let op = "convolution_backward";
        first(op, call_op(op, &[&d.input(0)?, x, weight], attrs)?)
    };
    let mut gradient: Option<Tensor> = None;
    let mut gradients = vec![None; 3];
    let mut add = |part: Tensor| -> Result<()> {
        gradient = Some(match gradient.take() {
            Some(sum) => sum.add(&part)?,
            None => part,
        });
        Ok(())
    };
    if let Some(gx) = &of_x {
        if d.needs(0) {
            add(d.call_one("convolution", &[gx, &d.input(2)?], &names)?)?;
        }
        if d.needs(2) {
            gradients[2] = Some(backward(gx, &d.zeros(2)?, [0, 1, 0])?);
        }
    }
    if let Some(gw) = &of_weight {
        if d.needs(0) {
            add(d.call_one("convolution", &[&d.input(1)?, gw], &names)?)?;
        }
        if d.needs(1) {
            gradients[1] = Some(backward(&d.zeros(1)?, gw, [1, 0, 0])?);
        }
    }
    if let Some(gb) = of_bias.filter(|_| d.needs(0)) {
        let mut shape = vec![1; d.shape(0)?.len()];
        shape[1] = gb.numel();
        add(gb.reshape(shape)?.expand(d.shape(0)?)?)?;
    }
    gradients[0] = gradient;
    Ok(gradients)
}

const CLASSES: &[(Save, &[usize])] = &[(I2, &[0]), (I3, &[0])];

fn classes(d: &Derivative<'_>, op: &str) -> Result<Tensor> {
    let (g, target, weight) = (d.g()?, d.input(2)?, d.optional(3)?);
    let mut given = vec![&g, &target];
    given.extend(weight.as_ref());
    d.call_one(op, &given, &["reduction", "ignore_index"])
}

/// Returns a product with the slope of a loss that the gradient has divided: by the number of
/// elements, if the loss is their mean, and times the weight, which is input 3.
fn averaged(d: &Derivative<'_>, product: &Tensor) -> Result<Tensor> {
    let product = match d.optional(3)? {
        Some(weight) => product.mul(&weight)?,
        None => product.clone(),
    };
    match d.attrs().get("reduction") {
        Some(Str(name)) if name != "mean" => Ok(product),
        _ => product.div(d.output_spec(0)?.numel() as f64),
    }
}

/// Returns x (1 − x), as far from 0 as the loss itself has it.
fn variance(x: &Tensor) -> Result<Tensor> {
    x.mul(&x.neg()?.add(1)?)?.clamp_min(1e-12)
}

/// A gradient of a loss is linear in its first operand, which may be one number.
fn of_loss(d: &Derivative<'_>, op: &str, name: &'static str) -> Result<Tensor> {
    let (x, target) = (d.input(1)?, d.input(2)?);
    let ones = x.ones_like()?;
    let mut attrs = Attrs::new().with("reduction", "none");
    if let Some(value) = d.attrs().get(name) {
        attrs.set(name, value.clone());
    }
    let slope = first(op, call_op(op, &[&ones, &x, &target], attrs)?)?;
    averaged(d, &d.g()?.mul(&slope)?)
}

fn smooth_l1(d: &Derivative<'_>) -> Result<Tensor> {
    let beta = d.number("beta", 1.0)?;
    if beta == 0.0 {
        return d.zeros(1);
    }
    let is_near = d.input(1)?.sub(&d.input(2)?)?.abs()?.lt(beta)?;
    averaged(d, &is_near.where_cond(&both(d)?.div(beta)?, 0)?)
}

fn huber(d: &Derivative<'_>) -> Result<Tensor> {
    let delta = d.number("delta", 1.0)?;
    let is_near = d.input(1)?.sub(&d.input(2)?)?.abs()?.lt(delta)?;
    averaged(d, &is_near.where_cond(&both(d)?, 0)?)
}
