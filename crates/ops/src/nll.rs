//! The negative log-likelihood of classes, and its gradient.
//!
//! | op | results |
//! |---|---|
//! | `nll_loss_forward(x, target, weight?; reduction, ignore_index=-100)` | the loss, the total weight |
//! | `nll_loss_backward(grad, x, target, weight?, total_weight; reduction, ignore_index=-100)` | the gradient for x |
//! | `nll_loss2d_forward`, `nll_loss2d_backward` | the same over places |
//!
//! x holds the logarithms of the classes' probabilities, `[n,c]` or `[c]`, in 2d `[n,c,h,w]`; the
//! target their numbers, `[n]` or `[]`, in 2d `[n,h,w]`. The loss of one is -x at its class, times
//! the weight of the class; one of the class `ignore_index` does not count. The mean is the sum
//! divided by the total weight. Losses that are not reduced have a total weight of 0. A class that
//! there is not is an error of the kernel.
//!
//! Source: <https://docs.pytorch.org/docs/stable/generated/torch.nn.NLLLoss.html>.

use millstream_types::{DType, Result, TensorSpec};

use crate::def::{Arity, Def, arg, refused};
use crate::expect;
use crate::loss::{REDUCTION, Reduction};
use crate::schema::{ArgDoc, CallSpec, OutputSpec, Signature};

const X: ArgDoc = arg("x", "logarithms of probabilities, classes in dimension 1, or the only one");
const TARGET: ArgDoc = arg("target", "classes; x's shape without them, of i64 or u8");
const WEIGHT: ArgDoc = arg("weight", "weights of the classes, of x's dtype");
const ATTRS: &[ArgDoc] =
    &[REDUCTION, arg("ignore_index", "the class that does not count; -100 unless given")];
const FORWARD: &[ArgDoc] = &[X, TARGET, WEIGHT];
const BACKWARD: &[ArgDoc] = &[
    arg("grad", "the gradient of the loss"),
    X,
    TARGET,
    WEIGHT,
    arg("total_weight", "the second result, of one element"),
];

pub(crate) const OPS: &[Def] = &[
    Def {
        name: "nll_loss_forward",
        summary: "the negative log-likelihood of classes, and the total weight",
        inputs: FORWARD,
        attrs: ATTRS,
        arity: Arity::Optional(2),
        rule: |call| forward(call, "nll_loss_forward", false),
    },
    Def {
        name: "nll_loss_backward",
        summary: "the gradient of nll_loss_forward",
        inputs: BACKWARD,
        attrs: ATTRS,
        arity: Arity::Optional(3),
        rule: |call| backward(call, "nll_loss_backward", false),
    },
    Def {
        name: "nll_loss2d_forward",
        summary: "the negative log-likelihood of classes of places, and the total weight",
        inputs: FORWARD,
        attrs: ATTRS,
        arity: Arity::Optional(2),
        rule: |call| forward(call, "nll_loss2d_forward", true),
    },
    Def {
        name: "nll_loss2d_backward",
        summary: "the gradient of nll_loss2d_forward",
        inputs: BACKWARD,
        attrs: ATTRS,
        arity: Arity::Optional(3),
        rule: |call| backward(call, "nll_loss2d_backward", true),
    },
];

/// Checks the tensors that both ways have, and the arguments.
fn check(
    call: CallSpec<'_>,
    op: &str,
    places: bool,
    [x, target]: [&TensorSpec; 2],
    weight: Option<&TensorSpec>,
) -> Result<Reduction> {
    expect::floats(op, x)?;
    if !matches!(target.dtype, DType::I64 | DType::U8) {
        let message = format!("target: expected i64 or u8, got {}", target.brief());
        return Err(refused(op, message));
    }
    let fits = match (places, x.shape(), target.shape()) {
        (false, [_], [] | [1]) => true,
        (false, [n, _], [m]) => n == m,
        (true, [n, _, h, w], [m, i, j]) => n == m && h == i && w == j,
        _ => false,
    };
    let (Some(&classes), true) = (x.shape().get(usize::from(x.layout.rank() > 1)), fits) else {
        let message = format!("x and target do not fit: {} and {}", x.brief(), target.brief());
        return Err(refused(op, message));
    };
    expect::like(op, "weight", weight, x.dtype, &[classes])?;
    call.attrs.int("ignore_index")?;
    Reduction::of(call.attrs)
}

/// The shape of the loss.
fn loss<'a>(x: &TensorSpec, target: &'a TensorSpec, reduction: Reduction) -> &'a [usize] {
    match reduction == Reduction::None && x.layout.rank() > 1 {
        true => target.shape(),
        false => &[],
    }
}

fn forward(call: CallSpec<'_>, op: &str, places: bool) -> Result<Signature> {
    let listed = expect::listed(call, 3)?;
    let [Some(x), Some(target), weight] = listed[..] else {
        return Err(refused(op, "expected x and target"));
    };
    let reduction = check(call, op, places, [x, target], weight)?;
    let output = TensorSpec::contiguous(x.dtype, loss(x, target, reduction))?;
    let mut signature = Signature::reads(call.inputs.len(), output);
    signature.outputs.push(OutputSpec::Fresh(TensorSpec::contiguous(x.dtype, &[])?));
    Ok(signature)
}

fn backward(call: CallSpec<'_>, op: &str, places: bool) -> Result<Signature> {
    let listed = expect::listed(call, 5)?;
    let [Some(grad), Some(x), Some(target), weight, Some(total)] = listed[..] else {
        return Err(refused(op, "expected grad, x, target and total_weight"));
    };
    let reduction = check(call, op, places, [x, target], weight)?;
    expect::dtype(op, "grad", grad, x.dtype)?;
    let shape = loss(x, target, reduction);
    let fits = grad.shape() == shape || shape.is_empty() && grad.numel() == 1;
    if !fits {
        let message = format!("grad: expected the shape {shape:?}, got {}", grad.brief());
        return Err(refused(op, message));
    }
    expect::dtype(op, "total_weight", total, x.dtype)?;
    if total.numel() != 1 {
        let message = format!("total_weight: expected one element, got {}", total.brief());
        return Err(refused(op, message));
    }
    Ok(Signature::reads(call.inputs.len(), TensorSpec::contiguous(x.dtype, x.shape())?))
}
