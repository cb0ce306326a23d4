//! Normalisation of layers and of groups of channels, and its gradient.
//!
//! | op | results |
//! |---|---|
//! | `native_layer_norm(x, weight?, bias?; normalized_shape, eps=1e-5)` | the result, means, 1 / deviations |
//! | `native_layer_norm_backward(grad, x, mean, rstd, weight?, bias?; normalized_shape, output_mask)` | gradients for x, weight, bias |
//! | `native_group_norm(x, weight?, bias?; N, C, HxW, group, eps=1e-5)` | as above |
//! | `native_group_norm_backward(grad, x, mean, rstd, weight?; N, C, HxW, group, output_mask)` | as above |
//!
//! (x - mean) / √(variance + eps) · weight + bias, with the mean and the variance of each row: the
//! last dimensions, or one group of channels of one image. Weight and bias are of the normalized
//! shape, or one for each channel; they may be f32 beside f16 and bf16, and so are the statistics
//! then. Of the gradients those are results that `output_mask` asks for.
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html>.

use millstream_types::{DType, Dims, Layout, Result, TensorSpec};

use crate::args::required;
use crate::def::{Arity, Def, arg, refused};
use crate::expect;
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const X: ArgDoc = arg("x", "any shape");
const GRAD: ArgDoc = arg("grad", "the gradient of the result, of x's shape and dtype");
const MEAN: ArgDoc = arg("mean", "the means, as given by the op");
const RSTD: ArgDoc = arg("rstd", "one over the deviations, as given by the op");
const WEIGHT: ArgDoc = arg("weight", "factors; 1 unless given");
const BIAS: ArgDoc = arg("bias", "added at the end; 0 unless given");
const NORMALIZED: ArgDoc = arg("normalized_shape", "the shape of a row: x's last dimensions");
const EPS: ArgDoc = arg("eps", "added to the variance; 1e-5 unless given");
const MASK: ArgDoc = arg("output_mask", "three of 0 and 1: the gradients asked for");
const BATCH: ArgDoc = arg("N", "x's first dimension");
const CHANNELS: ArgDoc = arg("C", "x's second dimension");
const PLACES: ArgDoc = arg("HxW", "the product of x's other dimensions");
const GROUP: ArgDoc = arg("group", "the number of groups");

pub(crate) const OPS: &[Def] = &[
    Def {
        name: "native_layer_norm",
        summary: "rows with mean 0 and variance 1, times a weight, plus a bias",
        inputs: &[X, WEIGHT, BIAS],
        attrs: &[NORMALIZED, EPS],
        arity: Arity::Optional(1),
        rule: |call| forward(call, "native_layer_norm", layer),
    },
    Def {
        name: "native_layer_norm_backward",
        summary: "the gradient of native_layer_norm",
        inputs: &[GRAD, X, MEAN, RSTD, WEIGHT, BIAS],
        attrs: &[NORMALIZED, MASK],
        arity: Arity::Optional(4),
        rule: |call| {
            let listed = expect::listed(call, 6)?;
            // A gradient is given only of a parameter that is there.
            for (at, name) in [(4, "weight"), (5, "bias")] {
                if expect::mask(call.attrs, 3)?[at - 3] && listed[at].is_none() {
                    let message = format!("output_mask asks for the gradient of no {name}");
                    return Err(refused("native_layer_norm_backward", message));
                }
            }
            backward(call, "native_layer_norm_backward", layer)
        },
    },
    Def {
        name: "native_group_norm",
        summary: "groups of channels with mean 0 and variance 1, times a weight, plus a bias",
        inputs: &[X, WEIGHT, BIAS],
        attrs: &[BATCH, CHANNELS, PLACES, GROUP, EPS],
        arity: Arity::Optional(1),
        rule: |call| forward(call, "native_group_norm", group),
    },
    Def {
        name: "native_group_norm_backward",
        summary: "the gradient of native_group_norm",
        inputs: &[GRAD, X, MEAN, RSTD, WEIGHT],
        attrs: &[BATCH, CHANNELS, PLACES, GROUP, MASK],
        arity: Arity::Optional(4),
        rule: |call| backward(call, "native_group_norm_backward", group),
    },
];

/// How x is cut: into rows, and its results.
struct Plan {
    /// The shape of the statistics, an element for each row.
    rows: Dims,
    /// The shape of weight and bias.
    parameters: Dims,
    /// The layout of a result like x.
    result: Layout,
}

fn layer(call: CallSpec<'_>, op: &str, x: &TensorSpec) -> Result<Plan> {
    let shape = required("normalized_shape", call.attrs.ints("normalized_shape")?)?;
    let shape: Option<Dims> = shape.iter().map(|&d| usize::try_from(d).ok()).collect();
    let parameters = match shape {
        Some(shape) if !shape.is_empty() && x.shape().ends_with(&shape) => shape,
        _ => {
            let given = call.attrs.ints("normalized_shape")?.unwrap_or_default();
            let message = format!(
                "normalized_shape: expected the last dimensions of {}, got {given:?}",
                x.brief()
            );
            return Err(refused(op, message));
        }
    };
    let mut rows = Dims::from_slice(x.shape());
    let kept = rows.len() - parameters.len();
    rows[kept..].fill(1);
    Ok(Plan { rows, parameters, result: Layout::contiguous(x.shape())? })
}

fn group(call: CallSpec<'_>, op: &str, x: &TensorSpec) -> Result<Plan> {
    let number = |name| required(name, call.attrs.int(name)?);
    let groups = number("group")?;
    let places: usize = x.shape().iter().skip(2).product();
    let (&[n, c, ..], true) = (x.shape(), groups > 0 && places > 0) else {
        let message =
            format!("expected [n,c,..] with places, and one group or more, got {}", x.brief());
        return Err(refused(op, message));
    };
    for (name, length) in [("N", n), ("C", c), ("HxW", places)] {
        let given = number(name)?;
        if usize::try_from(given) != Ok(length) {
            let message = format!("{name}: expected {length} for {}, got {given}", x.brief());
            return Err(refused(op, message));
        }
    }
    if c as i64 % groups != 0 {
        return Err(refused(op, format!("group: {groups} do not divide {c} channels")));
    }
    Ok(Plan {
        rows: Dims::from_slice(&[n, groups as usize]),
        parameters: Dims::from_slice(&[c]),
        result: layouts::suggested(x, x.shape())?,
    })
}

type Cut = fn(CallSpec<'_>, &str, &TensorSpec) -> Result<Plan>;

fn forward(call: CallSpec<'_>, op: &str, cut: Cut) -> Result<Signature> {
    let listed = expect::listed(call, 3)?;
    let [Some(x), weight, bias] = listed[..] else {
        return Err(refused(op, "expected x"));
    };
    expect::floats(op, x)?;
    call.attrs.float("eps")?;
    let plan = cut(call, op, x)?;
    let dtype = parameters(op, x, &plan, [weight, bias])?;
    let output = TensorSpec::new(x.dtype, plan.result)?;
    let mut signature = Signature::reads(call.inputs.len(), output);
    let statistics = OutputSpec::Fresh(TensorSpec::contiguous(dtype, &plan.rows)?);
    signature.outputs.extend([statistics.clone(), statistics]);
    Ok(signature)
}

fn backward(call: CallSpec<'_>, op: &str, cut: Cut) -> Result<Signature> {
    let listed = expect::listed(call, if op.starts_with("native_layer") { 6 } else { 5 })?;
    let [Some(grad), Some(x), Some(mean), Some(rstd), weight, ..] = listed[..] else {
        return Err(refused(op, "expected grad, x, mean and rstd"));
    };
    expect::floats(op, x)?;
    let plan = cut(call, op, x)?;
    let dtype = parameters(op, x, &plan, [weight, listed.get(5).copied().flatten()])?;
    expect::like(op, "grad", Some(grad), x.dtype, x.shape())?;
    for (name, spec) in [("mean", mean), ("rstd", rstd)] {
        expect::floats(op, spec)?;
        expect::shape(op, name, spec, &plan.rows)?;
    }
    let of_parameters = TensorSpec::contiguous(dtype, &plan.parameters)?;
    let results = [TensorSpec::new(x.dtype, plan.result)?, of_parameters.clone(), of_parameters];
    Ok(expect::masked(call, results, &expect::mask(call.attrs, 3)?))
}

/// Checks weight and bias; gives the dtype of the statistics.
fn parameters(
    op: &str,
    x: &TensorSpec,
    plan: &Plan,
    all: [Option<&TensorSpec>; 2],
) -> Result<DType> {
    let dtype = expect::statistics(op, x, &all)?;
    for (name, spec) in ["weight", "bias"].into_iter().zip(all) {
        expect::like(op, name, spec, dtype, &plan.parameters)?;
    }
    Ok(dtype)
}
