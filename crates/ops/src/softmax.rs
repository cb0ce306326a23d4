//! Softmax, log-softmax and their gradients, along one dimension.
//!
//! | op | result |
//! |---|---|
//! | `_softmax(x; dim, half_to_float)` | e^x / Σ e^x |
//! | `_log_softmax(x; dim, half_to_float)` | x - log Σ e^x |
//! | `_softmax_backward_data(grad, y; dim, input_dtype)` | y · (grad - Σ grad · y) |
//! | `_log_softmax_backward_data(grad, y; dim, input_dtype)` | grad - e^y · Σ grad |
//!
//! `y` is the result of the op whose gradient is computed. Floats only. The maximum is subtracted
//! before the exponential, so that nothing overflows. Results are contiguous.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.Softmax.html>,
//! <https://docs.pytorch.org/docs/stable/generated/torch.nn.LogSoftmax.html>.

use millstream_types::{Result, TensorSpec};

use crate::args::{dimension, required};
use crate::def::{Def, arg, refused};
use crate::schema::{ArgDoc, CallSpec, Signature};

const DIM: ArgDoc = arg("dim", "the dimension, negative from the end").int();
const X: &[ArgDoc] = &[arg("x", "any shape")];
const FORWARD: &[ArgDoc] =
    &[DIM, arg("half_to_float", "must be false: no device supports it").flag().ignored()];
const GRAD: &[ArgDoc] = &[
    arg("grad", "the gradient of the result"),
    arg("y", "the result of the op, of grad's shape and dtype"),
];
const BACKWARD: &[ArgDoc] = &[
    DIM,
    arg("input_dtype", "the dtype of the op's input; must be that of grad, the default")
        .dtype()
        .ignored(),
];

pub(crate) const OPS: &[Def] = &[
    Def::new("_softmax", "the softmax along a dimension", X, FORWARD, |call| {
        forward(call, "_softmax")
    }),
    Def::new(
        "_log_softmax",
        "the logarithm of the softmax along a dimension",
        X,
        FORWARD,
        |call| forward(call, "_log_softmax"),
    ),
    Def::new("_softmax_backward_data", "the gradient of _softmax", GRAD, BACKWARD, |call| {
        backward(call, "_softmax_backward_data")
    }),
    Def::new(
        "_log_softmax_backward_data",
        "the gradient of _log_softmax",
        GRAD,
        BACKWARD,
        |call| backward(call, "_log_softmax_backward_data"),
    ),
];

/// Checks the tensor and the dimension, and returns the signature.
fn result(call: CallSpec<'_>, op: &str, x: &TensorSpec) -> Result<Signature> {
    if !x.dtype.is_float() {
        return Err(refused(op, format!("expected floats, got {}", x.brief())));
    }
    dimension(required("dim", call.attrs.int("dim")?)?, x.layout.rank())?;
    Ok(Signature::reads(call.inputs.len(), TensorSpec::contiguous(x.dtype, x.shape())?))
}

fn forward(call: CallSpec<'_>, op: &str) -> Result<Signature> {
    if call.attrs.bool("half_to_float")?.unwrap_or(false) {
        return Err(refused(op, "half_to_float: expected false, got true"));
    }
    result(call, op, &call.inputs[0])
}

fn backward(call: CallSpec<'_>, op: &str) -> Result<Signature> {
    let (grad, y) = (&call.inputs[0], &call.inputs[1]);
    if grad.dtype != y.dtype || grad.shape() != y.shape() {
        let message = format!(
            "expected grad and y of one shape and dtype, got {} and {}",
            grad.brief(),
            y.brief()
        );
        return Err(refused(op, message));
    }
    match call.attrs.dtype("input_dtype")? {
        Some(dtype) if dtype != grad.dtype => {
            Err(refused(op, format!("input_dtype: expected {}, got {dtype}", grad.dtype)))
        }
        _ => result(call, op, y),
    }
}
