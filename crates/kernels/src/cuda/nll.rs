//! The negative log-likelihood of classes, and its gradient. A class that there is not reads nothing;
//! the call has failed when it completes.

use std::ffi::CString;

use anyhow::{Result, ensure};
use millstream_ops::args::Scalar;
use millstream_ops::loss::LossReduction as Reduction;
use millstream_types::Dims;

use super::create::set;
use super::walk::{Failed, Step, Text, Walk};
use super::{SOME_FLOATS, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::optional_inputs::{operands, required};

pub(super) const KERNELS: &[super::Kernel] = &[
    ("nll_loss_forward", forward),
    ("nll_loss_backward", backward),
    ("nll_loss2d_forward", forward),
    ("nll_loss2d_backward", backward),
];

const EACH: Text =
    Text { name: "nll_each", text: concat!(include_str!("nll.cu"), include_str!("nll_each.cu")) };
const SUM: Text = Text {
    name: "nll_sum",
    text: concat!(include_str!("pairwise.cu"), include_str!("nll.cu"), include_str!("nll_sum.cu")),
};
const BACKWARD: Text = Text {
    name: "nll_backward",
    text: concat!(include_str!("nll.cu"), include_str!("nll_backward.cu")),
};

pub(super) fn sources() -> Vec<(String, CString)> {
    [EACH, SUM, BACKWARD].map(|text| text.typed(SOME_FLOATS)).concat()
}

/// Puts a walk over the targets together, with x or the gradient for it first.
fn over<'a>(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'a>,
    target: RawTensor<'a>,
    weight: Option<RawTensor<'a>>,
    others: Vec<Step<'a>>,
    mean: bool,
) -> Result<Walk> {
    let classes_at = usize::from(x.shape.len() > 1);
    let (Some(&classes), Some(&stride)) = (x.shape.get(classes_at), x.strides.get(classes_at))
    else {
        anyhow::bail!("{x:?}: no classes: schema and kernel disagree");
    };
    // Where x has no dimension but the classes, the target is one, of whatever shape.
    let strides: Dims = match classes_at {
        0 => target.shape.iter().map(|_| 0).collect(),
        _ => super::scan::without(x.strides, 1),
    };
    ensure!(strides.len() == target.shape.len(), "{target:?}: schema and kernel disagree");
    let native = native(ctx)?;
    let range = classes as i64 - 1;
    let failed = Failed::with(
        native,
        anyhow::anyhow!("target: a class is not there: expected 0 to {range}"),
    )?;
    let rank = target.shape.len();
    let mut steps = vec![
        Step::by(x, strides),
        Step::own(target),
        Step::still(weight.unwrap_or(x), rank),
        failed.step(rank),
    ];
    steps.extend(others);
    let ignored = ctx.attrs().int("ignore_index")?.unwrap_or(-100);
    let weight_stride = weight.map_or(0, |weight| weight.strides.first().copied().unwrap_or(0));
    Walk::new(target.shape, 0, &steps)?.integers(&[
        classes as i64,
        stride as i64,
        target.dtype.size() as i64,
        ignored,
        i64::from(weight.is_some()),
        weight_stride as i64,
        i64::from(mean),
    ])
}

/// `nll_loss_forward(x, target, weight?; reduction, ignore_index)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([x, target, weight], results) = operands::<3>(ctx, 2)?;
    let (x, target) = (required(x)?, required(target)?);
    let (out, total, rank) = (results[0], results[1], target.shape.len());
    let reduction = Reduction::of(ctx.attrs())?;
    let each = reduction == Reduction::None && x.shape.len() > 1;
    let agree = out.numel() == if each { target.numel() } else { 1 } && total.numel() == 1;
    ensure!(agree, "{out:?}: schema and kernel disagree");
    if each {
        let walk = over(ctx, x, target, weight, vec![Step::own(out)], false)?;
        set(ctx, total, Scalar::Int(0))?;
        // SAFETY: the kernel writes the elements of the call's output and a word of its own, and reads
        // its inputs where classes are there.
        return unsafe { EACH.of_dtype(native(ctx)?, x.dtype, walk) };
    }
    let others = vec![Step::still(out, rank), Step::still(total, rank)];
    let walk = over(ctx, x, target, weight, others, reduction == Reduction::Mean)?;
    // SAFETY: as above.
    unsafe { SUM.in_one_block(native(ctx)?, x.dtype, walk) }
}

/// `nll_loss_backward(grad, x, target, weight?, total_weight; reduction, ignore_index)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, x, target, weight, total], results) = operands::<5>(ctx, 1)?;
    let (grad, target, total) = (required(grad)?, required(target)?, required(total)?);
    let (out, rank) = (results[0], target.shape.len());
    ensure!(required(x)?.shape == out.shape, "{out:?}: schema and kernel disagree");
    let mean = Reduction::of(ctx.attrs())? == Reduction::Mean;
    let grad = match grad.numel() > 1 {
        true => Step::own(grad),
        false => Step::still(grad, rank),
    };
    ensure!(grad.strides.len() == rank, "{target:?}: schema and kernel disagree");
    let walk = over(ctx, out, target, weight, vec![grad, Step::still(total, rank)], mean)?;
    set(ctx, out, Scalar::Int(0))?;
    // SAFETY: the kernel writes an element of the call's output for each target and a word of its own,
    // and reads its inputs where classes are there.
    unsafe { BACKWARD.of_dtype(native(ctx)?, out.dtype, walk) }
}
