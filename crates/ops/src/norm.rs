//! Layer and group normalisation and their gradients.
//!
//! | op | results |
//! |---|---|
//! | `native_layer_norm(x, weight?, bias?; …)` | the result, means, reciprocal deviations |
//! | `native_layer_norm_backward(grad, x, mean, rstd, …)` | gradients for x, weight, bias |
//! | `native_group_norm(x, weight?, bias?; …)` | as `native_layer_norm` |
//! | `native_group_norm_backward(grad, x, mean, rstd, …)` | gradients for x, weight, bias |
//!
//! The result is (x - mean) / √(variance + eps) · weight + bias, with the mean and the variance of
//! each row. A row is the last dimensions, or one group of channels of one image. Weight and bias
//! have the normalised shape, or one element for each channel. Beside f16 and bf16 they may be f32;
//! the statistics then are f32 too. `output_mask` selects the gradients to return.
//!
//! Sources: <https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.nn.GroupNorm.html>.

use millstream_types::{DType, Dims, Layout, Result, TensorSpec};

use crate::args::required;
use crate::checks;
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const X: ArgDoc = arg("x", "any shape");
const GRAD: ArgDoc = arg("grad", "the gradient of the result, of x's shape and dtype");
const MEAN: ArgDoc = arg("mean", "the means, as returned by the op");
const RSTD: ArgDoc = arg("rstd", "the reciprocal standard deviations, as returned by the op");
const WEIGHT: ArgDoc = arg("weight", "scale; default 1");
const BIAS: ArgDoc = arg("bias", "added to the result; default 0");
const NORMALIZED: ArgDoc =
    arg("normalized_shape", "the shape that is normalised over: x's last dimensions").ints();
const EPS: ArgDoc = arg("eps", "added to the variance").float().or("1e-5");
const MASK: ArgDoc =
    arg("output_mask", "three flags, 0 or 1: which gradients to compute, of x, weight and bias")
        .ints()
        .optional();
const BATCH: ArgDoc = arg("N", "the length of x's first dimension").int();
const CHANNELS: ArgDoc = arg("C", "the length of x's second dimension").int();
const PIXELS: ArgDoc = arg("HxW", "the product of the lengths of x's other dimensions").int();
const GROUP: ArgDoc = arg("group", "the number of groups").int();

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "native_layer_norm",
        "normalises rows to mean 0 and variance 1, applies weight and bias",
        &[X, WEIGHT, BIAS],
        &[NORMALIZED, EPS],
        |call| forward(call, "native_layer_norm", layer),
    )
    .optional(1),
    Def::new(
        "native_layer_norm_backward",
        "the gradient of native_layer_norm",
        &[GRAD, X, MEAN, RSTD, WEIGHT, BIAS],
        &[NORMALIZED, MASK],
        |call| {
            let listed = checks::listed_inputs(call, 6)?;
            // Only a present parameter has a gradient.
            for (at, name) in [(4, "weight"), (5, "bias")] {
                if checks::mask(call.attrs, 3)?[at - 3] && listed[at].is_none() {
                    let message =
                        format!("output_mask: expected 0 for {name}, which is absent, got 1");
                    return Err(refused("native_layer_norm_backward", message));
                }
            }
            backward(call, "native_layer_norm_backward", layer)
        },
    )
    .optional(4),
    Def::new(
        "native_group_norm",
        "normalises groups of channels to mean 0 and variance 1, applies weight and bias",
        &[X, WEIGHT, BIAS],
        &[BATCH, CHANNELS, PIXELS, GROUP, EPS],
        |call| forward(call, "native_group_norm", group),
    )
    .optional(1),
    Def::new(
        "native_group_norm_backward",
        "the gradient of native_group_norm",
        &[GRAD, X, MEAN, RSTD, WEIGHT],
        &[BATCH, CHANNELS, PIXELS, GROUP, MASK],
        |call| backward(call, "native_group_norm_backward", group),
    )
    .optional(4),
];

/// The decomposition of x into rows, and the shapes of the results.
struct Plan {
    /// The shape of the statistics: an element for each row.
    rows: Dims,
    /// The shape of weight and bias.
    parameters: Dims,
    /// The layout of a result of the shape of x.
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
    let pixels: usize = x.shape().iter().skip(2).product();
    let (&[n, c, ..], true) = (x.shape(), groups > 0 && pixels > 0) else {
        let message = format!(
            "expected [n,c,..] without dimensions of length 0 after c, and 1 group or more, got {}",
            x.brief()
        );
        return Err(refused(op, message));
    };
    for (name, length) in [("N", n), ("C", c), ("HxW", pixels)] {
        let given = number(name)?;
        if usize::try_from(given) != Ok(length) {
            let message = format!("{name}: expected {length} for {}, got {given}", x.brief());
            return Err(refused(op, message));
        }
    }
    if c as i64 % groups != 0 {
        return Err(refused(
            op,
            format!("group: expected a divisor of {c} channels, got {groups}"),
        ));
    }
    Ok(Plan {
        rows: Dims::from_slice(&[n, groups as usize]),
        parameters: Dims::from_slice(&[c]),
        result: layouts::suggested(x, x.shape())?,
    })
}

type Cut = fn(CallSpec<'_>, &str, &TensorSpec) -> Result<Plan>;

fn forward(call: CallSpec<'_>, op: &str, cut: Cut) -> Result<Signature> {
    let listed = checks::listed_inputs(call, 3)?;
    let [Some(x), weight, bias] = listed[..] else {
        return Err(refused(op, "expected x"));
    };
    checks::floats(op, x)?;
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
    let listed = checks::listed_inputs(call, if op.starts_with("native_layer") { 6 } else { 5 })?;
    let [Some(grad), Some(x), Some(mean), Some(rstd), weight, ..] = listed[..] else {
        return Err(refused(op, "expected grad, x, mean and rstd"));
    };
    checks::floats(op, x)?;
    let plan = cut(call, op, x)?;
    let dtype = parameters(op, x, &plan, [weight, listed.get(5).copied().flatten()])?;
    checks::dtype_and_shape(op, "grad", Some(grad), x.dtype, x.shape())?;
    for (name, spec) in [("mean", mean), ("rstd", rstd)] {
        checks::floats(op, spec)?;
        checks::shape(op, name, spec, &plan.rows)?;
    }
    let of_parameters = TensorSpec::contiguous(dtype, &plan.parameters)?;
    let results = [TensorSpec::new(x.dtype, plan.result)?, of_parameters.clone(), of_parameters];
    Ok(checks::masked_outputs(call, results, &checks::mask(call.attrs, 3)?))
}

/// Checks weight and bias, and returns the dtype of the statistics.
fn parameters(
    op: &str,
    x: &TensorSpec,
    plan: &Plan,
    all: [Option<&TensorSpec>; 2],
) -> Result<DType> {
    let dtype = checks::statistics_dtype(op, x, &all)?;
    for (name, spec) in ["weight", "bias"].into_iter().zip(all) {
        checks::dtype_and_shape(op, name, spec, dtype, &plan.parameters)?;
    }
    Ok(dtype)
}
