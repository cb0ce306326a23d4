//! Normalisation over a batch, and its gradient.
//!
//! | op | results |
//! |---|---|
//! | `native_batch_norm(x, weight?, bias?, running_mean?, running_var?; training, momentum=0.1, eps=1e-5)` | the result, means, 1 / deviations |
//! | `native_batch_norm_backward(grad, x, weight?, running_mean?, running_var?, save_mean?, save_invstd?; train, eps=1e-5, output_mask)` | gradients for x, weight, bias |
//!
//! (x - mean) / √(variance + eps) · weight + bias for each channel, which is dimension 1. With
//! `training`, mean and variance are those of x, and the running ones, if they are there, become
//! (1 - momentum) · running + momentum · new, the variance corrected by n / (n - 1). Without, the
//! running ones are taken, and the second and third results have no elements. The parameters may
//! be f32 beside f16 and bf16, and so are the statistics then.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html>.

use millstream_types::{Access, Result, TensorSpec};
use smallvec::SmallVec;

use crate::args::{present, required};
use crate::def::{Arity, Def, arg, refused};
use crate::expect;
use crate::layouts;
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const X: ArgDoc = arg("x", "[n,c,..]");
const WEIGHT: ArgDoc = arg("weight", "[c]: factors; 1 unless given");
const EPS: ArgDoc = arg("eps", "added to the variance; 1e-5 unless given");

pub(crate) const OPS: &[Def] = &[
    Def {
        name: "native_batch_norm",
        summary: "channels with mean 0 and variance 1, times a weight, plus a bias",
        inputs: &[
            X,
            WEIGHT,
            arg("bias", "[c]: added at the end; 0 unless given"),
            arg("running_mean", "[c]; changed in place with training"),
            arg("running_var", "[c]; changed in place with training"),
        ],
        attrs: &[
            arg("training", "whether mean and variance are those of x"),
            arg("momentum", "the part of the new in the running ones; 0.1 unless given"),
            EPS,
        ],
        arity: Arity::Optional(1),
        rule: forward,
    },
    Def {
        name: "native_batch_norm_backward",
        summary: "the gradient of native_batch_norm",
        inputs: &[
            arg("grad", "the gradient of the result, of x's shape and dtype"),
            X,
            WEIGHT,
            arg("running_mean", "[c]; what counts without train"),
            arg("running_var", "[c]; what counts without train"),
            arg("save_mean", "[c], as given by the op; what counts with train"),
            arg("save_invstd", "[c], as given by the op; what counts with train"),
        ],
        attrs: &[
            arg("train", "whether mean and variance were those of x"),
            EPS,
            arg("output_mask", "three of 0 and 1: the gradients asked for, x, weight and bias"),
        ],
        arity: Arity::Optional(2),
        rule: backward,
    },
];

/// The number of channels.
fn channels(op: &str, x: &TensorSpec) -> Result<usize> {
    expect::floats(op, x)?;
    match x.shape() {
        &[_, channels, ..] => Ok(channels),
        _ => Err(refused(op, format!("expected two dimensions or more, got {}", x.brief()))),
    }
}

fn forward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_batch_norm";
    let listed = expect::listed(call, 5)?;
    let [Some(x), weight, bias, mean, var] = listed[..] else {
        return Err(refused(op, "expected x"));
    };
    let channels = channels(op, x)?;
    let dtype = expect::statistics(op, x, &listed[1..])?;
    let names = ["weight", "bias", "running_mean", "running_var"];
    for (name, spec) in names.into_iter().zip([weight, bias, mean, var]) {
        expect::like(op, name, spec, dtype, &[channels])?;
    }
    let training = required("training", call.attrs.bool("training")?)?;
    for name in ["momentum", "eps"] {
        call.attrs.float(name)?;
    }
    if mean.is_some() != var.is_some() {
        return Err(refused(op, "expected running_mean and running_var, or neither, got one"));
    }
    if !training && mean.is_none() {
        return Err(refused(op, "without training: expected running_mean and running_var"));
    }
    let mut accesses: SmallVec<[Access; 4]> = SmallVec::from_elem(Access::Read, call.inputs.len());
    if training {
        let places = present(call.attrs, 5, call.inputs.len())?;
        for at in places[3..].iter().copied().flatten() {
            let running = &call.inputs[at];
            if running.layout.may_overlap_itself() {
                let message = format!("{running} names elements more than once");
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

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_batch_norm_backward";
    let listed = expect::listed(call, 7)?;
    let [Some(grad), Some(x), weight, ref statistics @ ..] = listed[..] else {
        return Err(refused(op, "expected grad and x"));
    };
    let channels = channels(op, x)?;
    expect::like(op, "grad", Some(grad), x.dtype, x.shape())?;
    let dtype = expect::statistics(op, x, &[weight])?;
    expect::like(op, "weight", weight, dtype, &[channels])?;
    let train = required("train", call.attrs.bool("train")?)?;
    call.attrs.float("eps")?;
    let names = ["running_mean", "running_var", "save_mean", "save_invstd"];
    for (at, (name, spec)) in names.into_iter().zip(statistics).enumerate() {
        // Of those that do not count, PyTorch gives some without elements.
        if (at >= 2) != train {
            continue;
        }
        let Some(spec) = spec else {
            return Err(refused(op, format!("{name}: expected, and not given")));
        };
        expect::floats(op, spec)?;
        expect::shape(op, name, spec, &[channels])?;
    }
    let parameters = TensorSpec::contiguous(dtype, &[channels])?;
    let x_grad = TensorSpec::new(x.dtype, layouts::suggested(x, x.shape())?)?;
    let mask = expect::mask(call.attrs, 3)?;
    Ok(expect::masked(call, [x_grad, parameters.clone(), parameters], &mask))
}
