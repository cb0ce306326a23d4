//! Gradients of gradients: the derivatives of the ops that formulas call.

use std::f64::consts::PI;

use millstream_types::AttrValue::Str;
use millstream_types::{Attrs, Result};

use super::{Derivative, Formula, I0, I1, I2, Rule, Save, each, joint_by};
use crate::formula::{Expr, along};

const I3: Save = Save::Input(3);
/// A function that has no slope, or whose slope is a constant by parts.
const ZERO: Option<Formula> = Some(|d| d.zeros(1));
const BY_X: &[(Save, &[usize])] = &[(I0, &[1]), (I1, &[0, 1])];
const BY_X_ALONE: &[(Save, &[usize])] = &[(I1, &[0])];
const OF_LOSS: &[(Save, &[usize])] = &[(I0, &[1, 2]), (I1, &[0, 1, 2]), (I2, &[0, 1, 2])];
const CLASSES: &[(Save, &[usize])] = &[(I2, &[0]), (I3, &[0])];
const ELU: &[&str] = &["alpha", "scale", "input_scale", "is_result"];
const LEAKY: &[&str] = &["negative_slope", "self_is_result"];

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
                let s = d.input(1).sigmoid();
                Ok(both(d) * (s * (s - 1)))
            }),
        ],
    ),
    each(
        "hardswish_backward",
        BY_X,
        &[Some(|d| again(d, &[])), Some(|d| Ok(d.input(1).abs().lt(3).choose(both(d) / 3, 0)))],
    ),
    each(
        "logit_backward",
        BY_X,
        &[
            Some(|d| again(d, &["eps"])),
            Some(|d| {
                let x = d.input(1);
                let product = x * (-x + 1);
                let slope = both(d) * ((x * 2 - 1) / (product * product));
                Ok(match d.attrs.float("eps")?.filter(|eps| *eps >= 0.0) {
                    Some(eps) => x.ge(eps).logical_and(x.le(1.0 - eps)).choose(slope, 0),
                    None => slope,
                })
            }),
        ],
    ),
    each("hardsigmoid_backward", BY_X_ALONE, &[Some(|d| again(d, &[])), ZERO]),
    each("leaky_relu_backward", BY_X_ALONE, &[Some(|d| again(d, LEAKY)), ZERO]),
    each("softshrink_backward", BY_X_ALONE, &[Some(|d| again(d, &["lambd"])), ZERO]),
    each("hardshrink_backward", BY_X_ALONE, &[Some(|d| again(d, &["lambd"])), ZERO]),
    each("native_dropout_backward", BY_X_ALONE, &[Some(|d| again(d, &["scale"])), None]),
    each("select_backward", &[], &[Some(|d| Ok(d.one("select", &[d.g()], &["dim", "index"])))])
        .complex(),
    each(
        "slice_backward",
        &[],
        &[Some(|d| Ok(d.one("slice", &[d.g()], &["dim", "start", "end", "step"])))],
    )
    .complex(),
    each(
        "diagonal_backward",
        &[],
        &[Some(|d| Ok(d.one("diagonal", &[d.g()], &["offset", "dim1", "dim2"])))],
    )
    .complex(),
    each("embedding_dense_backward", &[(I1, &[0])], &[Some(embedded), None]),
    each(
        "avg_pool2d_backward",
        &[],
        &[
            Some(|d| {
                let names = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"];
                let names = [names.as_slice(), &["divisor_override"]].concat();
                Ok(d.one("avg_pool2d", &[d.g()], &names))
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
                let attrs = Attrs::new().with("output_size", shape[shape.len() - 2..].to_vec());
                Ok(d.g().op("_adaptive_avg_pool2d", attrs))
            }),
            ZERO,
        ],
    ),
    each(
        "max_pool2d_with_indices_backward",
        &[(I2, &[0])],
        &[
            Some(|d| Ok(flat(d.g())?.gather(-1, flat(d.input(2))?).reshape(&d.shape(0)?))),
            ZERO,
            None,
        ],
    ),
    joint_by("convolution_backward", &[(I0, &[1, 2]), (I1, &[0, 2]), (I2, &[0, 1])], convolution),
    each("nll_loss_backward", CLASSES, &[Some(|d| classes(d, "nll_loss_forward")), ZERO]),
    each("nll_loss2d_backward", CLASSES, &[Some(|d| classes(d, "nll_loss2d_forward")), ZERO]),
    each(
        "smooth_l1_loss_backward",
        OF_LOSS,
        &[Some(of_loss), Some(smooth_l1), Some(|d| Ok(-smooth_l1(d)?))],
    ),
    each("huber_loss_backward", OF_LOSS, &[Some(of_loss), Some(huber), Some(|d| Ok(-huber(d)?))]),
    each(
        "binary_cross_entropy_backward",
        &[(I0, &[1, 2]), (I1, &[0, 1, 2]), (I2, &[0, 1]), (I3, &[0, 1, 2])],
        &[
            Some(|d| {
                let (x, y) = (d.input(1), d.input(2));
                averaged(d, d.g() * ((x - y) / variance(x)))
            }),
            Some(|d| {
                let (x, y) = (d.input(1), d.input(2));
                // x² − 2 x y + y, over the square of x (1 − x).
                let above = x * x - x * y * 2 + y;
                let below = variance(x);
                averaged(d, both(d) * (above / (below * below)))
            }),
            Some(|d| averaged(d, -(both(d) / variance(d.input(1))))),
        ],
    ),
];

/// Calls the same op with the gradient of its result, since that is linear in its first operand.
fn again<'a>(d: Derivative<'a>, names: &[&'static str]) -> Result<Expr<'a>> {
    Ok(d.one(d.op, &[d.g(), d.input(1)], names))
}

/// Returns the product of the gradient and the first operand, which is a gradient, too.
fn both(d: Derivative<'_>) -> Expr<'_> {
    d.g() * d.input(0)
}

/// The second derivative of x Φ(x) is (2 − x²) φ(x).
fn gelu(d: Derivative<'_>) -> Result<Expr<'_>> {
    let x = d.input(1);
    let square = x * x;
    if !matches!(d.attrs.get("approximate"), Some(Str(name)) if name == "tanh") {
        let density = (square * -0.5).exp() * (1.0 / (2.0 * PI).sqrt());
        return Ok(both(d) * ((-square + 2) * density));
    }
    // x (1 + tanh u) / 2 with u = k (x + c x³).
    let (k, c) = ((2.0 / PI).sqrt(), 0.044715);
    let t = ((x + square * x * c) * k).tanh();
    let (du, ddu) = ((square * (3.0 * c) + 1) * k, x * (6.0 * k * c));
    let dt = -(t * t) + 1;
    let bend = ddu - t * du * du * 2;
    Ok(both(d) * (dt * (du + x * bend * 0.5)))
}

/// With the sigmoid s, the second derivative of x s is s (1 − s) (2 + x (1 − 2 s)).
fn silu(d: Derivative<'_>) -> Result<Expr<'_>> {
    let x = d.input(1);
    let s = x.sigmoid();
    let bend = x * (s * -2 + 1) + 2;
    Ok(both(d) * ((s - s * s) * bend))
}

/// With t the hyperbolic tangent of softplus and s the sigmoid, the second derivative of x t is
/// (1 − t²) s (2 + x (1 − s) − 2 x t s).
fn mish(d: Derivative<'_>) -> Result<Expr<'_>> {
    let x = d.input(1);
    let (s, t) = (x.sigmoid(), x.op("softplus", Attrs::new()).tanh());
    let bend = x * (-(s + t * s * 2) + 1) + 2;
    Ok(both(d) * ((-(t * t) + 1) * s * bend))
}

fn elu(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (x, both) = (d.input(1), both(d));
    let (scale, input) = (d.number("scale", 1.0)?, d.number("input_scale", 1.0)?);
    let slope = match d.flag("is_result", false)? {
        true => both * input,
        false => {
            let factor = d.number("alpha", 1.0)? * scale * input * input;
            // Positive elements are not used, and their exponentials may be infinite.
            let below = x.op("clamp_max", Attrs::new().with("max", 0));
            both * ((below * input).exp() * factor)
        }
    };
    Ok(x.lt(0).choose(slope, 0))
}

fn softplus(d: Derivative<'_>) -> Result<Expr<'_>> {
    let beta = d.number("beta", 1.0)?;
    let scaled = d.input(1) * beta;
    let s = scaled.sigmoid();
    let slope = both(d) * ((s - s * s) * beta);
    Ok(scaled.ge(d.number("threshold", 20.0)?).choose(0, slope))
}

/// The rows at the indices; divided by how often each index occurs, if the gradient was.
fn embedded(d: Derivative<'_>) -> Result<Expr<'_>> {
    let (g, index) = (d.g(), d.input(1));
    let count = index.numel()? as i64;
    let flat = index.reshape(&[count]);
    let mut taken = g.index_select(0, flat);
    if d.flag("scale_grad_by_freq", false)? {
        let ones = d.calls.full(vec![count], 1i64, g.dtype());
        let zeros = d.calls.full(vec![g.shape()?[0]], 0i64, g.dtype());
        let counts = d.calls.one("index_add", &[zeros, flat, ones], along(0));
        taken = taken / counts.index_select(0, flat).unsqueeze(-1);
    }
    if let Some(padding) = d.attrs.int("padding_idx")?.filter(|&row| row >= 0) {
        taken = taken.filled(flat.eq(padding).unsqueeze(-1), 0);
    }
    Ok(taken.reshape(&d.shape(0)?))
}

/// Returns the tensor with its last two dimensions as one.
fn flat(x: Expr<'_>) -> Result<Expr<'_>> {
    let shape = x.shape()?;
    let (images, sizes) = shape.split_at(shape.len() - 2);
    Ok(x.reshape(&[images, &[sizes.iter().product()]].concat()))
}

/// The op is linear in the gradient and in each of the two operands: what each result gives to one
/// of them is the convolution's own gradient, with the gradient of that result in its place.
fn convolution<'a>(d: Derivative<'a>) -> Result<Vec<Option<Expr<'a>>>> {
    let mask = d.attrs.ints("output_mask")?.unwrap_or_else(|| vec![1, 1, 1]);
    // The results are those that the mask asked for, in order.
    let mut results = (0..).map(|at| d.optional_gradient(at));
    let [of_x, of_weight, of_bias] = [0, 1, 2].map(|k| match mask.get(k) {
        None | Some(0) => None,
        Some(_) => results.next().flatten(),
    });
    let names = ["stride", "padding", "dilation", "transposed", "output_padding", "groups"];
    let backward = |x, weight, mask: [i64; 3]| {
        let attrs = d.passed(&names).with("output_mask", mask.to_vec());
        Some(d.calls.one("convolution_backward", &[d.input(0), x, weight], attrs))
    };
    let mut gradients = vec![None; 3];
    let plus = |sum: Option<Expr<'a>>, part: Expr<'a>| Some(sum.map_or(part, |sum| sum + part));
    if let Some(gx) = of_x {
        if d.needs(0) {
            gradients[0] = Some(d.one("convolution", &[gx, d.input(2)], &names));
        }
        if d.needs(2) {
            gradients[2] = backward(gx, d.zeros(2)?, [0, 1, 0]);
        }
    }
    if let Some(gw) = of_weight {
        if d.needs(0) {
            gradients[0] = plus(gradients[0], d.one("convolution", &[d.input(1), gw], &names));
        }
        if d.needs(1) {
            gradients[1] = backward(d.zeros(1)?, gw, [1, 0, 0]);
        }
    }
    if let Some(gb) = of_bias.filter(|_| d.needs(0)) {
        let shape = d.shape(0)?;
        let mut channels = vec![1; shape.len()];
        channels[1] = gb.numel()? as i64;
        gradients[0] = plus(gradients[0], gb.reshape(&channels).expand(&shape));
    }
    Ok(gradients)
}

fn classes<'a>(d: Derivative<'a>, op: &str) -> Result<Expr<'a>> {
    let mut given = vec![d.g(), d.input(2)];
    given.extend(d.optional(3));
    Ok(d.one(op, &given, &["reduction", "ignore_index"]))
}

/// Returns a product with the slope of a loss that the gradient has divided: by the number of
/// elements, if the loss is their mean, and times the weight, which is input 3.
fn averaged<'a>(d: Derivative<'a>, product: Expr<'a>) -> Result<Expr<'a>> {
    let product = d.optional(3).map_or(product, |weight| product * weight);
    Ok(match d.attrs.get("reduction") {
        Some(Str(name)) if name != "mean" => product,
        _ => product / d.output_spec(0)?.numel() as f64,
    })
}

/// Returns x (1 − x), as far from 0 as the loss itself has it.
fn variance(x: Expr<'_>) -> Expr<'_> {
    (x * (-x + 1)).clamp_min(1e-12)
}

/// A gradient of a loss is linear in its first operand, which may be one number.
fn of_loss(d: Derivative<'_>) -> Result<Expr<'_>> {
    let x = d.input(1);
    let attrs = d.passed(&["beta", "delta"]).with("reduction", "none");
    let slope = d.calls.one(d.op, &[x.full_like(1i64)?, x, d.input(2)], attrs);
    averaged(d, d.g() * slope)
}

/// Returns whether x is closer to the target than a bound.
fn is_near(d: Derivative<'_>, bound: f64) -> Expr<'_> {
    (d.input(1) - d.input(2)).abs().lt(bound)
}

fn smooth_l1(d: Derivative<'_>) -> Result<Expr<'_>> {
    match d.number("beta", 1.0)? {
        0.0 => d.zeros(1),
        beta => averaged(d, is_near(d, beta).choose(both(d) / beta, 0)),
    }
}

fn huber(d: Derivative<'_>) -> Result<Expr<'_>> {
    averaged(d, is_near(d, d.number("delta", 1.0)?).choose(both(d), 0))
}
