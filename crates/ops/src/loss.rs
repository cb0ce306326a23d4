//! Elementwise losses and their gradients.
//!
//! | op | loss of x and target t |
//! |---|---|
//! | `mse_loss(x, target)` | (x - t)² |
//! | `smooth_l1_loss(x, target; beta=1)` | d² / 2β if d = abs(x - t) < β, else d - β/2 |
//! | `huber_loss(x, target; delta=1)` | d² / 2 if d ≤ δ, else δ (d - δ/2) |
//! | `binary_cross_entropy(x, target, weight?)` | -w (t log x + (1 - t) log (1 - x)) |
//! | `binary_cross_entropy_with_logits(x, target, weight?, pos_weight?)` | with p · t for t |
//! | `mse_loss_backward(grad, x, target)`, … | the gradient for x |
//!
//! Every op takes `reduction`: "none", "mean" (the default) or "sum". `…_with_logits` is the cross
//! entropy of the sigmoid of x. All tensors have one float dtype; f16 and bf16 are computed and
//! added in f32. `binary_cross_entropy` clamps its logarithms at -100 and requires x between 0 and
//! 1, which its kernel checks.
//!
//! Sources: the losses in <https://docs.pytorch.org/docs/stable/nn.html#loss-functions>.

use millstream_types::{AttrValue, Attrs, Error, Layout, Result, TensorSpec};

use crate::broadcast::broadcast;
use crate::checks;
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::reduce::SUM_PART;
use crate::schema::{ArgDoc, CallSpec, Signature};

/// The reduction of the losses of all elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReduction {
    /// No reduction: the result has one loss for each element.
    None,
    /// The mean.
    Mean,
    /// The sum.
    Sum,
}

impl LossReduction {
    /// Returns the reduction that the argument `reduction` names; the mean by default.
    ///
    /// # Errors
    /// Fails if it is not one of the three names.
    pub fn of(attrs: &Attrs) -> Result<LossReduction> {
        match attrs.get("reduction") {
            None => Ok(LossReduction::Mean),
            Some(AttrValue::Str(name)) if name == "none" => Ok(LossReduction::None),
            Some(AttrValue::Str(name)) if name == "mean" => Ok(LossReduction::Mean),
            Some(AttrValue::Str(name)) if name == "sum" => Ok(LossReduction::Sum),
            Some(other) => Err(Error::Invalid {
                what: "argument",
                message: format!("reduction: expected none, mean or sum, got {other}"),
            }),
        }
    }
}

pub(crate) const REDUCTION: ArgDoc =
    arg("reduction", "\"none\", \"mean\" or \"sum\"").text().or("\"mean\"");
const BETA: ArgDoc =
    arg("beta", "the distance at which the loss becomes linear, 0 or more").float().or("1");
const DELTA: ArgDoc =
    arg("delta", "the distance at which the loss becomes linear, positive").float().or("1");
const X: ArgDoc = arg("x", "any shape");
const TARGET: ArgDoc = arg("target", "x's dtype; a shape that broadcasts with x");
const LIKE_X: ArgDoc = arg("target", "x's shape and dtype");
const WEIGHT: ArgDoc = arg("weight", "factor of the losses; a shape that broadcasts to x's");
const POSITIVE: ArgDoc =
    arg("pos_weight", "factor of the loss of positive targets; a shape that broadcasts to x's");
const GRAD: ArgDoc = arg("grad", "the gradient of the result; a shape that broadcasts to x's");

/// Returns the definitions of a loss of x and target, and of its gradient.
const fn pair(
    names: [&'static str; 2],
    summaries: [&'static str; 2],
    attrs: &'static [ArgDoc],
    rules: [fn(CallSpec<'_>) -> Result<Signature>; 2],
) -> [Def; 2] {
    let [name, backward] = names;
    let [summary, gradient] = summaries;
    [
        Def::new(name, summary, &[X, TARGET], attrs, rules[0]),
        Def::new(backward, gradient, &[GRAD, X, TARGET], attrs, rules[1]),
    ]
}

const MSE: [Def; 2] = pair(
    ["mse_loss", "mse_loss_backward"],
    ["the squared difference of x and target", "the gradient of mse_loss"],
    &[REDUCTION],
    [|call| forward(call, "mse_loss"), |call| backward(call, "mse_loss_backward")],
);
const SMOOTH_L1: [Def; 2] = pair(
    ["smooth_l1_loss", "smooth_l1_loss_backward"],
    ["the distance of x and target, quadratic where it is small", "the gradient of smooth_l1_loss"],
    &[REDUCTION, BETA],
    [
        |call| {
            bound(call, "smooth_l1_loss", "beta", 0.0)?;
            forward(call, "smooth_l1_loss")
        },
        |call| {
            bound(call, "smooth_l1_loss_backward", "beta", 0.0)?;
            backward(call, "smooth_l1_loss_backward")
        },
    ],
);
const HUBER: [Def; 2] = pair(
    ["huber_loss", "huber_loss_backward"],
    ["the distance of x and target, quadratic where it is small", "the gradient of huber_loss"],
    &[REDUCTION, DELTA],
    [
        |call| {
            bound(call, "huber_loss", "delta", f64::MIN_POSITIVE)?;
            forward(call, "huber_loss")
        },
        |call| {
            bound(call, "huber_loss_backward", "delta", f64::MIN_POSITIVE)?;
            backward(call, "huber_loss_backward")
        },
    ],
);

const CROSS_ENTROPY: Def = Def::new(
    "binary_cross_entropy",
    "the binary cross entropy of probabilities x and targets between 0 and 1",
    &[X, LIKE_X, WEIGHT],
    &[REDUCTION],
    |call| {
        let op = "binary_cross_entropy";
        let listed = checks::listed_inputs(call, 3)?;
        let [Some(x), Some(target), weight] = listed[..] else {
            return Err(refused(op, "expected x and target"));
        };
        checks::floats(op, x)?;
        checks::dtype_and_shape(op, "target", Some(target), x.dtype, x.shape())?;
        factor(op, "weight", weight, x)?;
        reduced(call, x, layouts::preserved(x)?)
    },
)
.optional(2);

const CROSS_ENTROPY_BACKWARD: Def = Def::new(
    "binary_cross_entropy_backward",
    "the gradient of binary_cross_entropy",
    &[GRAD, X, LIKE_X, WEIGHT],
    &[REDUCTION],
    |call| {
        let op = "binary_cross_entropy_backward";
        let listed = checks::listed_inputs(call, 4)?;
        let [Some(grad), Some(x), Some(target), weight] = listed[..] else {
            return Err(refused(op, "expected grad, x and target"));
        };
        checks::floats(op, x)?;
        checks::dtype_and_shape(op, "target", Some(target), x.dtype, x.shape())?;
        factor(op, "grad", Some(grad), x)?;
        factor(op, "weight", weight, x)?;
        LossReduction::of(call.attrs)?;
        let output = TensorSpec::new(x.dtype, layouts::preserved(x)?)?;
        Ok(Signature::reads(call.inputs.len(), output))
    },
)
.optional(3);

const LOGITS: Def = Def::new(
    "binary_cross_entropy_with_logits",
    "the binary cross entropy of the sigmoid of x and targets between 0 and 1",
    &[X, LIKE_X, WEIGHT, POSITIVE],
    &[REDUCTION],
    |call| {
        let op = "binary_cross_entropy_with_logits";
        let listed = checks::listed_inputs(call, 4)?;
        let [Some(x), Some(target), weight, positive] = listed[..] else {
            return Err(refused(op, "expected x and target"));
        };
        checks::floats(op, x)?;
        checks::dtype_and_shape(op, "target", Some(target), x.dtype, x.shape())?;
        factor(op, "weight", weight, x)?;
        factor(op, "pos_weight", positive, x)?;
        reduced(call, x, layouts::elementwise(&[target], x.shape())?)
    },
)
.optional(2);

pub(crate) const OPS: &[Def] = &[
    MSE[0],
    MSE[1],
    SMOOTH_L1[0],
    SMOOTH_L1[1],
    HUBER[0],
    HUBER[1],
    CROSS_ENTROPY,
    CROSS_ENTROPY_BACKWARD,
    LOGITS,
];

/// Checks a factor of the losses of `x`, if it is present.
fn factor(op: &str, name: &str, spec: Option<&TensorSpec>, x: &TensorSpec) -> Result<()> {
    let Some(spec) = spec else { return Ok(()) };
    checks::dtype(op, name, spec, x.dtype)?;
    match broadcast(spec.shape(), x.shape()) {
        Ok(shape) if shape.as_slice() == x.shape() => Ok(()),
        _ => {
            let message = format!("{name}: {} does not broadcast to {}", spec.brief(), x.brief());
            Err(refused(op, message))
        }
    }
}

fn bound(call: CallSpec<'_>, op: &str, name: &str, least: f64) -> Result<()> {
    match call.attrs.float(name)? {
        Some(v) if v < least || v.is_nan() => {
            let expected = if least > 0.0 { "a positive number" } else { "0 or more" };
            Err(refused(op, format!("{name}: expected {expected}, got {v}")))
        }
        _ => Ok(()),
    }
}

/// Returns the signature of losses of layout `each`, with the workspace for their partial sums.
fn reduced(call: CallSpec<'_>, x: &TensorSpec, each: Layout) -> Result<Signature> {
    let count = each.numel();
    let (output, workspace) = match LossReduction::of(call.attrs)? {
        LossReduction::None => (TensorSpec::new(x.dtype, each)?, 0),
        _ => {
            let words = count.div_ceil(SUM_PART) + 1;
            (TensorSpec::contiguous(x.dtype, &[])?, words * size_of::<u64>())
        }
    };
    Ok(Signature { workspace, ..Signature::reads(call.inputs.len(), output) })
}

fn forward(call: CallSpec<'_>, op: &str) -> Result<Signature> {
    let (x, target) = (&call.inputs[0], &call.inputs[1]);
    checks::floats(op, x)?;
    checks::dtype(op, "target", target, x.dtype)?;
    let shape = broadcast(x.shape(), target.shape())?;
    // The broadcast shape may exceed the size of a tensor.
    TensorSpec::contiguous(x.dtype, &shape)?;
    reduced(call, x, layouts::elementwise(&[x, target], &shape)?)
}

fn backward(call: CallSpec<'_>, op: &str) -> Result<Signature> {
    let (grad, x, target) = (&call.inputs[0], &call.inputs[1], &call.inputs[2]);
    checks::floats(op, x)?;
    factor(op, "target", Some(target), x)?;
    factor(op, "grad", Some(grad), x)?;
    LossReduction::of(call.attrs)?;
    Ok(Signature::reads(3, TensorSpec::contiguous(x.dtype, x.shape())?))
}
