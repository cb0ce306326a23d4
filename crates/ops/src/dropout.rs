//! Dropout.
//!
//! | op | results |
//! |---|---|
//! | `native_dropout(x; p, train, seed, offset)` | x · mask / (1 - p), and the mask |
//! | `native_dropout_backward(grad, mask; scale)` | grad · mask · scale; f32 for integers |
//!
//! An element is kept with probability 1 - p, as by `bernoulli` of [`random`](crate::random) with
//! that probability, also of a part of a larger tensor. Without `train` all are kept, unscaled.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.Dropout.html>.

use millstream_types::{DType, Result, TensorSpec};

use crate::args::required;
use crate::checks;
use crate::def::{Def, arg};
use crate::layouts;
use crate::promotion::floating;
use crate::random::{
    FIRST_DOC, OFFSET_DOC, OFFSET_TENSOR, SEED_DOC, WHOLE_DOC, check_offset, check_part,
    probability,
};
use crate::schema::{CallSpec, OutputSpec, Signature};

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "native_dropout",
        "x with elements set to 0 at random and the rest scaled, and a mask of the rest",
        &[arg("x", "any shape"), OFFSET_TENSOR],
        &[
            arg("p", "the probability that an element is dropped").float(),
            arg("train", "whether elements are dropped").flag().or("true"),
            SEED_DOC,
            OFFSET_DOC,
            WHOLE_DOC,
            FIRST_DOC,
        ],
        dropout,
    )
    .optional(1),
    Def::new(
        "native_dropout_backward",
        "the gradient of native_dropout: grad * mask * scale; f32 for integers",
        &[arg("grad", "the gradient of the result"), arg("mask", "bool, of the shape of grad")],
        &[arg("scale", "the scale of the elements kept").float()],
        backward,
    ),
];

fn dropout(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_dropout";
    let x = &call.inputs[0];
    checks::floats(op, x)?;
    required("p", probability(call)?)?;
    call.attrs.bool("train")?;
    check_offset(call, 1)?;
    check_part(call, x.shape())?;
    let layout = layouts::preserved(x)?;
    let mut signature =
        Signature::reads(call.inputs.len(), TensorSpec::new(x.dtype, layout.clone())?);
    // As in PyTorch, the mask of an empty tensor has the dtype of x.
    let dtype = if x.numel() == 0 { x.dtype } else { DType::Bool };
    signature.outputs.push(OutputSpec::Fresh(TensorSpec::new(dtype, layout)?));
    Ok(signature)
}

fn backward(call: CallSpec<'_>) -> Result<Signature> {
    let op = "native_dropout_backward";
    let (grad, mask) = (&call.inputs[0], &call.inputs[1]);
    let dtype = if grad.numel() == 0 { mask.dtype } else { DType::Bool };
    checks::dtype_and_shape(op, "mask", Some(mask), dtype, grad.shape())?;
    required("scale", call.attrs.float("scale")?)?;
    let layout = layouts::elementwise(&[grad, mask], grad.shape())?;
    let made = TensorSpec::new(floating(grad.dtype), layout)?;
    checks::floats(op, &made)?;
    Ok(Signature::reads(2, made))
}
