//! Dropout that drops nothing. Any other is refused: two programs do not draw the same random
//! numbers, so results could not be compared.
//!
//! | op | results |
//! |---|---|
//! | `native_dropout(x; p, train)` | x, and a mask of true; p must be 0 or train false |
//! | `native_dropout_backward(grad, mask; scale)` | grad · mask · scale |
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html>.

use millstream_types::{DType, Result, TensorSpec};

use crate::args::required;
use crate::checks;
use crate::def::{Arity, Def, arg, refused};
use crate::layouts;
use crate::schema::{CallSpec, OutputSpec, Signature};

pub(crate) const OPS: &[Def] = &[
    Def {
        name: "native_dropout",
        summary: "x unchanged, and a mask of the elements kept: all of them",
        inputs: &[arg("x", "any shape")],
        attrs: &[
            arg("p", "the probability that an element is dropped; must be 0 unless train is false"),
            arg("train", "whether elements are dropped; default true"),
        ],
        arity: Arity::Listed,
        rule: dropout,
    },
    Def {
        name: "native_dropout_backward",
        summary: "the gradient of native_dropout: grad * mask * scale",
        inputs: &[
            arg("grad", "the gradient of the result"),
            arg("mask", "bool, of the shape of grad"),
        ],
        attrs: &[arg("scale", "the scale of the elements kept")],
        arity: Arity::Listed,
        rule: backward,
    },
];

fn dropout(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_dropout";
    let x = &call.inputs[0];
    checks::floats(op, x)?;
    let p = required("p", call.attrs.float("p")?)?;
    if call.attrs.bool("train")?.unwrap_or(true) && p != 0.0 {
        let message = format!("p: expected 0, got {p}: random ops are not supported");
        return Err(refused(op, message));
    }
    let layout = layouts::preserved(x)?;
    let mut signature = Signature::reads(1, TensorSpec::new(x.dtype, layout.clone())?);
    // As in PyTorch, the mask of an empty tensor has the dtype of x.
    let dtype = if x.numel() == 0 { x.dtype } else { DType::Bool };
    signature.outputs.push(OutputSpec::Fresh(TensorSpec::new(dtype, layout)?));
    Ok(signature)
}

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_dropout_backward";
    let (grad, mask) = (&call.inputs[0], &call.inputs[1]);
    checks::floats(op, grad)?;
    let dtype = if grad.numel() == 0 { mask.dtype } else { DType::Bool };
    checks::dtype_and_shape(op, "mask", Some(mask), dtype, grad.shape())?;
    required("scale", call.attrs.float("scale")?)?;
    let layout = layouts::elementwise(&[grad, mask], grad.shape())?;
    Ok(Signature::reads(2, TensorSpec::new(grad.dtype, layout)?))
}
