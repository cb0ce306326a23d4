//! The negative log-likelihood of classes, and its gradient. A target out of range reads nothing;
//! the call fails when it completes.

use std::ffi::CString;

use anyhow::{Result, ensure};
use millstream_ops::args::Scalar;
use millstream_ops::loss::LossReduction as Reduction;
use millstream_types::Dims;

use super::create::fill;
use super::strided::{FailureFlag, StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use super::{SAMPLE_FLOATS, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::optional_inputs::{operands, required};

pub(super) const KERNELS: &[super::Kernel] = &[
    ("nll_loss_forward", forward),
    ("nll_loss_backward", backward),
    ("nll_loss2d_forward", forward),
    ("nll_loss2d_backward", backward),
];

const EACH: KernelTemplate = template!("nll_each", "nll.cu");
const SUM: KernelTemplate = template!("nll_sum", "pairwise.cu", "nll.cu");
const BACKWARD: KernelTemplate = template!("nll_backward", "nll.cu");

pub(super) fn sources() -> Vec<(String, CString)> {
    [EACH, SUM, BACKWARD].map(|template| template.typed_sources(SAMPLE_FLOATS)).concat()
}

/// Returns the arguments of a kernel that iterates over the targets. The first operand is x or its
/// gradient.
fn target_args<'a>(
    ctx: &KernelCtx<'_>,
    x: RawTensor<'a>,
    target: RawTensor<'a>,
    weight: Option<RawTensor<'a>>,
    others: Vec<StridedOperand<'a>>,
    mean: bool,
) -> Result<StridedArgs> {
    let class_dim = usize::from(x.shape.len() > 1);
    let (Some(&classes), Some(&stride)) = (x.shape.get(class_dim), x.strides.get(class_dim)) else {
        anyhow::bail!("{x:?} has no classes: schema and kernel disagree");
    };
    // If the classes are the only dimension of x, there is one target, of any shape.
    let strides: Dims = match class_dim {
        0 => target.shape.iter().map(|_| 0).collect(),
        _ => super::scan::without(x.strides, 1),
    };
    ensure!(strides.len() == target.shape.len(), "{target:?}: schema and kernel disagree");
    let native = native(ctx)?;
    let range = classes as i64 - 1;
    let failure = FailureFlag::new(
        native,
        anyhow::anyhow!("target: a class is out of range: expected 0 to {range}"),
    )?;
    let rank = target.shape.len();
    let mut operands = vec![
        StridedOperand::with_strides(x, strides),
        StridedOperand::new(target),
        StridedOperand::fixed(weight.unwrap_or(x), rank),
        failure.operand(rank),
    ];
    operands.extend(others);
    let ignored = ctx.attrs().int("ignore_index")?.unwrap_or(-100);
    let weight_stride = weight.map_or(0, |weight| weight.strides.first().copied().unwrap_or(0));
    StridedArgs::new(target.shape, 0, &operands)?.integers(&[
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
    let per_target = reduction == Reduction::None && x.shape.len() > 1;
    let agree = out.numel() == if per_target { target.numel() } else { 1 } && total.numel() == 1;
    ensure!(agree, "{out:?}: schema and kernel disagree");
    if per_target {
        let args = target_args(ctx, x, target, weight, vec![StridedOperand::new(out)], false)?;
        fill(ctx, total, Scalar::Int(0))?;
        // SAFETY: the kernel writes the call's output and the call's failure flag. It reads its
        // inputs at classes that exist.
        return unsafe { EACH.launch_typed(native(ctx)?, x.dtype, args) };
    }
    let others = vec![StridedOperand::fixed(out, rank), StridedOperand::fixed(total, rank)];
    let args = target_args(ctx, x, target, weight, others, reduction == Reduction::Mean)?;
    // SAFETY: as above.
    unsafe { SUM.launch_blocks(native(ctx)?, x.dtype, 1, args) }
}

/// `nll_loss_backward(grad, x, target, weight?, total_weight; reduction, ignore_index)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, x, target, weight, total], results) = operands::<5>(ctx, 1)?;
    let (grad, target, total) = (required(grad)?, required(target)?, required(total)?);
    let (out, rank) = (results[0], target.shape.len());
    ensure!(required(x)?.shape == out.shape, "{out:?}: schema and kernel disagree");
    let mean = Reduction::of(ctx.attrs())? == Reduction::Mean;
    let grad = match grad.numel() > 1 {
        true => StridedOperand::new(grad),
        false => StridedOperand::fixed(grad, rank),
    };
    ensure!(grad.strides.len() == rank, "{target:?}: schema and kernel disagree");
    let args = target_args(
        ctx,
        out,
        target,
        weight,
        vec![grad, StridedOperand::fixed(total, rank)],
        mean,
    )?;
    fill(ctx, out, Scalar::Int(0))?;
    // SAFETY: the kernel writes an element of the call's output per target, and the call's failure
    // flag. It reads its inputs at classes that exist.
    unsafe { BACKWARD.launch_typed(native(ctx)?, out.dtype, args) }
}
