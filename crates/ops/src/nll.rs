//! The negative log-likelihood of classes and its gradient.
//!
//! | op | results |
//! |---|---|
//! | `nll_loss_forward(x, target, weight?)` | the loss, the total weight |
//! | `nll_loss_backward(grad, x, target, weight?, total_weight)` | the gradient for x |
//! | `nll_loss2d_forward`, `nll_loss2d_backward` | the same for each pixel |
//!
//! All take `reduction` and `ignore_index=-100`. x holds log-probabilities: `[n,c]` or `[c]`, or
//! `[n,c,h,w]` for 2d. The target holds class numbers: `[n]` or `[]`, or `[n,h,w]` for 2d. The loss
//! of a target is -x at its class times the weight of the class; targets of class `ignore_index`
//! are ignored. The mean is the sum divided by the total weight. Without reduction, the total
//! weight is 0. The kernel fails on a class out of range.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html>.

use millstream_types::{DType, Result, TensorSpec};

use crate::checks;
use crate::def::{Def, arg, refused};
use crate::loss::{LossReduction, REDUCTION};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const X: ArgDoc = arg("x", "log-probabilities; the classes are dimension 1, or the only one");
const TARGET: ArgDoc =
    arg("target", "class numbers, i64 or u8; x's shape without the dimension of classes");
const WEIGHT: ArgDoc = arg("weight", "the weights of the classes, of x's dtype");
const ATTRS: &[ArgDoc] =
    &[REDUCTION, arg("ignore_index", "the class whose targets are ignored").int().or("-100")];
const FORWARD: &[ArgDoc] = &[X, TARGET, WEIGHT];
const BACKWARD: &[ArgDoc] = &[
    arg("grad", "the gradient of the loss"),
    X,
    TARGET,
    WEIGHT,
    arg("total_weight", "the second result of the op, of one element"),
];

pub(crate) const OPS: &[Def] = &[
    Def::new(
        "nll_loss_forward",
        "the negative log-likelihood of classes, and the total weight",
        FORWARD,
        ATTRS,
        |call| forward(call, "nll_loss_forward", false),
    )
    .optional(2),
    Def::new("nll_loss_backward", "the gradient of nll_loss_forward", BACKWARD, ATTRS, |call| {
        backward(call, "nll_loss_backward", false)
    })
    .optional(3),
    Def::new(
        "nll_loss2d_forward",
        "the negative log-likelihood of a class for each pixel, and the total weight",
        FORWARD,
        ATTRS,
        |call| forward(call, "nll_loss2d_forward", true),
    )
    .optional(2),
    Def::new(
        "nll_loss2d_backward",
        "the gradient of nll_loss2d_forward",
        BACKWARD,
        ATTRS,
        |call| backward(call, "nll_loss2d_backward", true),
    )
    .optional(3),
];

/// Checks the tensors and arguments that both directions share.
fn check(
    call: CallSpec<'_>,
    op: &str,
    two_d: bool,
    [x, target]: [&TensorSpec; 2],
    weight: Option<&TensorSpec>,
) -> Result<LossReduction> {
    checks::floats(op, x)?;
    if !matches!(target.dtype, DType::I64 | DType::U8) {
        let message = format!("target: expected i64 or u8, got {}", target.brief());
        return Err(refused(op, message));
    }
    let fits = match (two_d, x.shape(), target.shape()) {
        (false, [_], [] | [1]) => true,
        (false, [n, _], [m]) => n == m,
        (true, [n, _, h, w], [m, i, j]) => n == m && h == i && w == j,
        _ => false,
    };
    let (Some(&classes), true) = (x.shape().get(usize::from(x.layout.rank() > 1)), fits) else {
        let message = format!(
            "target: expected the shape of x without its classes, got x {} and target {}",
            x.brief(),
            target.brief()
        );
        return Err(refused(op, message));
    };
    checks::dtype_and_shape(op, "weight", weight, x.dtype, &[classes])?;
    call.attrs.int("ignore_index")?;
    LossReduction::of(call.attrs)
}

/// Returns the shape of the loss.
fn loss<'a>(x: &TensorSpec, target: &'a TensorSpec, reduction: LossReduction) -> &'a [usize] {
    match reduction == LossReduction::None && x.layout.rank() > 1 {
        true => target.shape(),
        false => &[],
    }
}

fn forward(call: CallSpec<'_>, op: &str, two_d: bool) -> Result<Signature> {
    let listed = checks::listed_inputs(call, 3)?;
    let [Some(x), Some(target), weight] = listed[..] else {
        return Err(refused(op, "expected x and target"));
    };
    let reduction = check(call, op, two_d, [x, target], weight)?;
    let output = TensorSpec::contiguous(x.dtype, loss(x, target, reduction))?;
    let mut signature = Signature::reads(call.inputs.len(), output);
    signature.outputs.push(OutputSpec::Fresh(TensorSpec::contiguous(x.dtype, &[])?));
    Ok(signature)
}

fn backward(call: CallSpec<'_>, op: &str, two_d: bool) -> Result<Signature> {
    let listed = checks::listed_inputs(call, 5)?;
    let [Some(grad), Some(x), Some(target), weight, Some(total)] = listed[..] else {
        return Err(refused(op, "expected grad, x, target and total_weight"));
    };
    let reduction = check(call, op, two_d, [x, target], weight)?;
    checks::dtype(op, "grad", grad, x.dtype)?;
    let shape = loss(x, target, reduction);
    let fits = grad.shape() == shape || shape.is_empty() && grad.numel() == 1;
    if !fits {
        let message = format!("grad: expected the shape {shape:?}, got {}", grad.brief());
        return Err(refused(op, message));
    }
    checks::dtype(op, "total_weight", total, x.dtype)?;
    if total.numel() != 1 {
        let message = format!("total_weight: expected one element, got {}", total.brief());
        return Err(refused(op, message));
    }
    Ok(Signature::reads(call.inputs.len(), TensorSpec::contiguous(x.dtype, x.shape())?))
}
