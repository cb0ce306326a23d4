//! Batch normalisation and its gradient.
//!
//! | op | results |
//! |---|---|
//! | `native_batch_norm(x, weight?, …)` | the result, means, reciprocal deviations |
//! | `native_batch_norm_backward(grad, x, weight?, …)` | gradients for x, weight, bias |
//!
//! The result is (x - mean) / √(variance + eps) · weight + bias for each channel; channels are
//! dimension 1. With `training`, mean and variance are those of x, and the running statistics, if
//! present, become (1 - momentum) · running + momentum · new, with the variance corrected by
//! n/(n-1). Without `training`, the running statistics are used, and the second and third results
//! have no elements. Beside f16 and bf16, the parameters may be f32, and the statistics then are
//! f32 too.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html>.

use millstream_types::{Access, Attrs, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::{ABSENT, input_positions, required};
use crate::checks;
use crate::def::{Def, arg, refused};
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const X: ArgDoc = arg("x", "[n,c,..]");
const WEIGHT: ArgDoc = arg("weight", "[c]: scale; default 1");
const EPS: ArgDoc = arg("eps", "added to the variance").float().or("1e-5");

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "native_batch_norm",
        "normalises channels to mean 0 and variance 1, applies weight and bias",
        &[
            X,
            WEIGHT,
            arg("bias", "[c]: added to the result; default 0"),
            arg("running_mean", "[c]; updated in place in training"),
            arg("running_var", "[c]; updated in place in training"),
        ],
        &[
            arg("training", "use the mean and variance of x instead of the running ones").flag(),
            arg("momentum", "the weight of the new statistics in the running ones")
                .float()
                .or("0.1"),
            EPS,
        ],
        forward,
    )
    .optional(1),
    Def::new(
        "native_batch_norm_backward",
        "the gradient of native_batch_norm",
        &[
            arg("grad", "the gradient of the result, of x's shape and dtype"),
            X,
            WEIGHT,
            arg("running_mean", "[c]; used if train is false"),
            arg("running_var", "[c]; used if train is false"),
            arg("save_mean", "[c], as returned by the op; used if train is true"),
            arg("save_invstd", "[c], as returned by the op; used if train is true"),
        ],
        &[
            arg("train", "whether the op ran in training").flag(),
            EPS,
            arg(
                "output_mask",
                "three flags, 0 or 1: which gradients to compute, of x, weight and bias",
            )
            .ints()
            .optional(),
        ],
        backward,
    )
    .optional(2),
];

/// Returns the number of channels.
fn channels(op: &str, x: &TensorSpec) -> Result<usize> {
    checks::floats(op, x)?;
    match x.shape() {
        &[_, channels, ..] => Ok(channels),
        _ => Err(refused(op, format!("expected two or more dimensions, got {}", x.brief()))),
    }
}

fn forward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_batch_norm";
    let listed = checks::listed_inputs(call, 5)?;
    let [Some(x), weight, bias, mean, var] = listed[..] else {
        return Err(refused(op, "expected x"));
    };
    let channels = channels(op, x)?;
    let dtype = checks::statistics_dtype(op, x, &listed[1..])?;
    let names = ["weight", "bias", "running_mean", "running_var"];
    for (name, spec) in names.into_iter().zip([weight, bias, mean, var]) {
        checks::dtype_and_shape(op, name, spec, dtype, &[channels])?;
    }
    let training = required("training", call.attrs.bool("training")?)?;
    for name in ["momentum", "eps"] {
        call.attrs.float(name)?;
    }
    if mean.is_some() != var.is_some() {
        return Err(refused(
            op,
            "expected both running_mean and running_var or neither, got one of them",
        ));
    }
    if !training && mean.is_none() {
        return Err(refused(
            op,
            "training is false: expected running_mean and running_var, got neither",
        ));
    }
    let mut accesses: SmallVec<[Access; 4]> = SmallVec::from_elem(Access::Read, call.inputs.len());
    if training {
        let positions = input_positions(call.attrs, 5, call.inputs.len())?;
        for at in positions[3..].iter().copied().flatten() {
            let running = &call.inputs[at];
            if running.layout.may_overlap_itself() {
                let message = format!(
                    "{running} has overlapping elements and cannot be updated; pass a copy"
                );
                return Err(refused(op, message));
            }
            accesses[at] = Access::ReadWrite;
        }
    }
    let output = TensorSpec::new(x.dtype, layouts::suggested(x, x.shape())?)?;
    let saved = TensorSpec::contiguous(dtype, &[if training { channels } else { 0 }])?;
    let outputs = [output, saved.clone(), saved].map(OutputSpec::Fresh);
    Ok(Signature { accesses, outputs: outputs.into_iter().collect(), workspace: 0 })
}

/// Returns how a call that updates running statistics is made again without updating them twice:
/// the positions of the operands to leave out, and the arguments. The other results depend neither
/// on the statistics nor on whether they are there. None for any other call.
///
/// `operands` is the number of a call's operands, its three results included.
///
/// ```
/// use millstream_ops::batch_norm::again;
/// use millstream_types::Attrs;
///
/// let attrs = Attrs::new().with("training", true);
/// let (left_out, attrs) = again("native_batch_norm", &attrs, 8).expect("it updates statistics");
/// assert_eq!(left_out, [3, 4]);
/// assert_eq!(attrs.ints("absent")?, Some(vec![3, 4]));
/// assert!(again("native_batch_norm", &attrs, 6).is_none());
/// # Ok::<(), millstream_types::Error>(())
/// ```
pub fn again(op: &str, attrs: &Attrs, operands: usize) -> Option<([usize; 2], Attrs)> {
    if op != "native_batch_norm" || attrs.bool("training").ok()? != Some(true) {
        return None;
    }
    let positions = input_positions(attrs, 5, operands.checked_sub(3)?).ok()?;
    let [mean, var] = [positions[3]?, positions[4]?];
    let absent = (0..5).filter(|&at| at > 2 || positions[at].is_none());
    let absent: Vec<i64> = absent.map(|at| at as i64).collect();
    Some(([mean, var], attrs.clone().with(ABSENT, absent)))
}

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_batch_norm_backward";
    let listed = checks::listed_inputs(call, 7)?;
    let [Some(grad), Some(x), weight, ref statistics @ ..] = listed[..] else {
        return Err(refused(op, "expected grad and x"));
    };
    let channels = channels(op, x)?;
    checks::dtype_and_shape(op, "grad", Some(grad), x.dtype, x.shape())?;
    let dtype = checks::statistics_dtype(op, x, &[weight])?;
    checks::dtype_and_shape(op, "weight", weight, dtype, &[channels])?;
    let train = required("train", call.attrs.bool("train")?)?;
    call.attrs.float("eps")?;
    let names = ["running_mean", "running_var", "save_mean", "save_invstd"];
    for (at, (name, spec)) in names.into_iter().zip(statistics).enumerate() {
        // PyTorch passes some of the unused statistics without elements.
        if (at >= 2) != train {
            continue;
        }
        let Some(spec) = spec else {
            return Err(refused(op, format!("{name}: missing; this tensor is required")));
        };
        checks::floats(op, spec)?;
        checks::shape(op, name, spec, &[channels])?;
    }
    let parameters = TensorSpec::contiguous(dtype, &[channels])?;
    let x_grad = TensorSpec::new(x.dtype, layouts::suggested(x, x.shape())?)?;
    let mask = checks::mask(call.attrs, 3)?;
    Ok(checks::masked_outputs(call, [x_grad, parameters.clone(), parameters], &mask))
}
