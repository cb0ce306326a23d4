//! Random ops, as far as nothing in them is random: a dropout that leaves all elements. Any other
//! is refused, since no two programs draw the same numbers.
//!
//! | op | results |
//! |---|---|
//! | `native_dropout(x; p, train)` | x, and a mask of true; p is 0 or train is false |
//! | `native_dropout_backward(grad, mask; scale)` | grad · mask · scale |
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html>.

use millstream_types::{DType, Result, TensorSpec};

use crate::args::required;
use crate::def::{Arity, Def, arg, refused};
use crate::expect;
use crate::layouts;
use crate::schema::{CallSpec, OutputSpec, Signature};

pub(crate) const OPS: &[Def] = &[
    Def {
        name: "native_dropout",
        summary: "x as it is, and a mask of what is left: all",
        inputs: &[arg("x", "any shape")],
        attrs: &[
            arg("p", "the probability of an element to be dropped: 0, unless train is false"),
            arg("train", "whether elements are dropped; true unless given"),
        ],
        arity: Arity::Listed,
        rule: dropout,
    },
    Def {
        name: "native_dropout_backward",
        summary: "the gradient of native_dropout: grad * mask * scale",
        inputs: &[arg("grad", "the gradient"), arg("mask", "grad's shape, of bool")],
        attrs: &[arg("scale", "the factor of what is left")],
        arity: Arity::Listed,
        rule: backward,
    },
];

fn dropout(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_dropout";
    let x = &call.inputs[0];
    expect::floats(op, x)?;
    let p = required("p", call.attrs.float("p")?)?;
    if call.attrs.bool("train")?.unwrap_or(true) && p != 0.0 {
        let message = format!("p: expected 0, got {p}: random ops are not supported");
        return Err(refused(op, message));
    }
    let layout = layouts::preserved(x)?;
    let mut signature = Signature::reads(1, TensorSpec::new(x.dtype, layout.clone())?);
    // As in PyTorch, a mask of nothing is like x.
    let dtype = if x.numel() == 0 { x.dtype } else { DType::Bool };
    signature.outputs.push(OutputSpec::Fresh(TensorSpec::new(dtype, layout)?));
    Ok(signature)
}

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_dropout_backward";
    let (grad, mask) = (&call.inputs[0], &call.inputs[1]);
    expect::floats(op, grad)?;
    let dtype = if grad.numel() == 0 { mask.dtype } else { DType::Bool };
    expect::like(op, "mask", Some(mask), dtype, grad.shape())?;
    required("scale", call.attrs.float("scale")?)?;
    let layout = layouts::elementwise(&[grad, mask], grad.shape())?;
    Ok(Signature::reads(2, TensorSpec::new(grad.dtype, layout)?))
}
