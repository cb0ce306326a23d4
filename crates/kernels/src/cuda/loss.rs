//! Elementwise losses, their sums and means, and their gradients. Sums are computed in the host's
//! order: each block adds a part of fixed size, then the parts are added.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Result, ensure};
use millstream_ops::broadcast::broadcast;
use millstream_ops::loss::LossReduction as Reduction;
use millstream_ops::reduce::SUM_PART;
use millstream_types::{DType, Dims};

use super::strided::{FailureFlag, StridedArgs, StridedOperand};
use super::template::KernelTemplate;
use super::{SAMPLE_FLOATS, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::memory::Workspace;
use crate::cpu::optional_inputs::{operands, required};
use crate::registry::KernelRegistry;

/// A loss or the gradient of one.
struct Loss {
    op: &'static str,
    /// The kernel that writes the loss of each element.
    each: KernelTemplate,
    /// The kernel that sums parts; none for a gradient.
    parts: Option<KernelTemplate>,
    /// The number of input tensors. Those from `required` on may be absent and then count as 1.
    inputs: usize,
    required: usize,
    /// The name of the scalar argument `a`, which defaults to 1.
    scalar: Option<&'static str>,
}

macro_rules! loss {
    ($op:literal, $inputs:literal, $required:literal, $scalar:expr, $function:literal) => {
        Loss {
            op: $op,
            each: loss!(template $op, "", $inputs, $function, "loss_each.cu"),
            parts: Some(loss!(template $op, "_parts", $inputs, $function, "loss_parts.cu")),
            inputs: $inputs,
            required: $required,
            scalar: $scalar,
        }
    };
    (gradient $op:literal, $inputs:literal, $required:literal, $scalar:expr, $function:literal) => {
        Loss {
            op: $op,
            each: loss!(template $op, "", $inputs, $function, "loss_each.cu"),
            parts: None,
            inputs: $inputs,
            required: $required,
            scalar: $scalar,
        }
    };
    (template $op:literal, $suffix:literal, $inputs:literal, $function:literal, $file:literal) => {
        KernelTemplate {
            name: concat!($op, $suffix),
            body: concat!(
                "#define INPUTS ", $inputs, "\n#define FUNCTION ", $function, "\n",
                include_str!("pairwise.cu"), include_str!("loss.cu"), include_str!($file)
            ),
        }
    };
}

/// The losses and their gradients. A loss takes x, target and weights; a gradient takes the
/// result's gradient before them, and `b` is its divisor. The functions are those of the host's
/// kernels.
const LOSSES: &[Loss] = &[
    loss!("mse_loss", 2, 2, None, "(x[0] - x[1]) * (x[0] - x[1])"),
    loss!(gradient "mse_loss_backward", 3, 3, None, "(T)2 / b * (x[1] - x[2]) * x[0]"),
    loss!(
        "smooth_l1_loss",
        2,
        2,
        Some("beta"),
        "fabs(x[0] - x[1]) < a ? (T)0.5 * fabs(x[0] - x[1]) * fabs(x[0] - x[1]) / a \
         : fabs(x[0] - x[1]) - (T)0.5 * a"
    ),
    loss!(
        gradient "smooth_l1_loss_backward", 3, 3, Some("beta"),
        "x[1] - x[2] <= -a ? -(x[0] / b) : x[1] - x[2] >= a ? x[0] / b \
         : (x[1] - x[2]) * (x[0] / b) / a"
    ),
    loss!(
        "huber_loss",
        2,
        2,
        Some("delta"),
        "fabs(x[0] - x[1]) <= a ? (T)0.5 * fabs(x[0] - x[1]) * fabs(x[0] - x[1]) \
         : a * (fabs(x[0] - x[1]) - (T)0.5 * a)"
    ),
    loss!(
        gradient "huber_loss_backward", 3, 3, Some("delta"),
        "x[1] - x[2] <= -a ? -(x[0] / b) * a : x[1] - x[2] >= a ? x[0] / b * a \
         : (x[1] - x[2]) * (x[0] / b)"
    ),
    loss!(
        "binary_cross_entropy",
        3,
        2,
        None,
        "(x[0] >= 0 && x[0] <= 1 ? (void)0 : fail(args, FAILURE)), \
         ((x[1] - 1) * greater(log1p(-x[0]), -100) - x[1] * greater(log(x[0]), -100)) * x[2]"
    ),
    loss!(
        gradient "binary_cross_entropy_backward", 4, 3, None,
        "x[0] * (x[1] - x[2]) / greater((1 - x[1]) * x[1], (T)1e-12) * x[3] / b"
    ),
    loss!(
        "binary_cross_entropy_with_logits",
        4,
        2,
        None,
        "((1 - x[1]) * x[0] + ((x[3] - 1) * x[1] + 1) \
         * (log1p(exp(-fabs(x[0]))) + greater(-x[0], 0))) * x[2]"
    ),
];

const TOTAL: KernelTemplate = KernelTemplate {
    name: "loss_total",
    body: concat!(include_str!("pairwise.cu"), include_str!("loss_total.cu")),
};

pub(super) fn sources() -> Vec<(String, CString)> {
    let kernels = |loss: &Loss| [Some(loss.each), loss.parts];
    let templates = LOSSES.iter().flat_map(kernels).flatten().chain([TOTAL]);
    templates.flat_map(|template| template.typed_sources(SAMPLE_FLOATS)).collect()
}

/// Registers the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for loss in LOSSES {
        kernels.register(super::KIND, loss.op, Arc::new(|ctx: &KernelCtx<'_>| loss.run(ctx)));
    }
}

impl Loss {
    fn run(&self, ctx: &KernelCtx<'_>) -> Result<()> {
        let (inputs, results) = operands::<4>(ctx, 1)?;
        let (first, out) = (required(inputs[0])?, results[0]);
        ensure!(first.dtype == out.dtype, "{first:?} to {out:?}: schema and kernel disagree");
        for input in &inputs[..self.required] {
            required(*input)?;
        }
        let reduction = Reduction::of(ctx.attrs())?;
        let summed = self.parts.filter(|_| reduction != Reduction::None);
        let mut shape = Dims::new();
        for input in inputs[..self.inputs].iter().flatten() {
            shape = broadcast(&shape, input.shape)?;
        }
        let a = self.scalar.map(|name| ctx.attrs().float(name)).transpose()?.flatten();
        let count = match (self.parts.is_some(), reduction) {
            // A gradient divides by the number of losses, which is the number of elements of x.
            (false, Reduction::Mean) => inputs[1].map_or(1, |x| x.numel()) as f64,
            (true, Reduction::Mean) => shape.iter().product::<usize>() as f64,
            _ => 1.0,
        };
        let absent = (0..self.inputs).filter(|&k| inputs[k].is_none());
        let absent = absent.fold(0i64, |bits, k| bits | 1 << k);
        let input = |k: usize| match inputs[k] {
            Some(input) => StridedOperand::broadcast(input, &shape),
            None => StridedOperand::fixed(first, shape.len()),
        };
        let mut operands: Vec<StridedOperand<'_>> = (0..self.inputs).map(input).collect();
        let native = native(ctx)?;
        let failure =
            FailureFlag::new(native, anyhow::anyhow!("x: expected every element between 0 and 1"))?;
        let scalars = [a.unwrap_or(1.0), count];
        let Some(parts) = summed else {
            ensure!(*shape == *out.shape, "{shape:?} to {out:?}: schema and kernel disagree");
            operands.extend([StridedOperand::new(out), failure.operand(shape.len())]);
            let args =
                StridedArgs::new(&shape, 0, &operands)?.scalars(&scalars).integers(&[absent])?;
            // SAFETY: the kernel writes the call's output and the call's failure flag, and reads
            // its inputs.
            return unsafe { self.each.launch_typed(native, out.dtype, args) };
        };
        ensure!(out.numel() == 1, "{out:?}: schema and kernel disagree");
        let blocks = shape.iter().product::<usize>().div_ceil(SUM_PART);
        let words = Workspace::of(ctx).take(blocks * size_of::<u64>(), align_of::<u64>())?;
        let length = [blocks];
        let words = RawTensor { data: words, dtype: DType::I64, shape: &length, strides: &[1] };
        operands.extend([StridedOperand::fixed(words, shape.len()), failure.operand(shape.len())]);
        let args = StridedArgs::new(&shape, 0, &operands)?.scalars(&scalars).integers(&[absent])?;
        let total = StridedArgs::new(
            &[1],
            0,
            &[StridedOperand::fixed(words, 1), StridedOperand::fixed(out, 1)],
        )?;
        let total = total.scalars(&[count]).integers(&[blocks as i64])?;
        // SAFETY: the kernels write the call's workspace, its output and its failure flag. They
        // read its inputs, and the workspace after it has been written.
        unsafe {
            parts.launch_blocks(native, out.dtype, blocks as u64, args)?;
            TOTAL.launch_typed(native, out.dtype, total)
        }
    }
}
