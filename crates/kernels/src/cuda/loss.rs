//! Elementwise losses, their sums and means, and their gradients. Sums are computed in the host's
//! order: each block adds a part of fixed size, then the parts are added.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::Result;
use millstream_ops::reduce::SUM_PART;
use millstream_types::DType;
use millstream_types::layout::numel;

use super::strided::{FailureFlag, StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use super::{SAMPLE_FLOATS, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::loss::{self, FAILURE, Loss, LossCall};
use crate::cpu::memory::Workspace;
use crate::registry::KernelRegistry;

/// The kernels of a [`Loss`].
struct LossKernels {
    op: &'static str,
    /// The kernel that writes the loss of each element.
    each: KernelTemplate,
    /// The kernel that sums parts.
    parts: KernelTemplate,
}

macro_rules! loss {
    ($op:literal, $inputs:literal, $function:literal) => {
        LossKernels {
            op: $op,
            each: loss!($op, "", $inputs, $function, "loss_each.cu"),
            parts: loss!($op, "_parts", $inputs, $function, "loss_parts.cu"),
        }
    };
    ($op:literal, $suffix:literal, $inputs:literal, $function:literal, $file:literal) => {
        KernelTemplate {
            name: concat!($op, $suffix),
            body: concat!(
                "#define INPUTS ",
                $inputs,
                "\n#define FUNCTION ",
                $function,
                "\n",
                include_str!("pairwise.cu"),
                include_str!("loss.cu"),
                include_str!($file)
            ),
        }
    };
}

/// The ops, their numbers of inputs, and the functions of the host's kernels in CUDA C: of the
/// inputs `x`, the scalar argument `a` and the divisor `b`.
const LOSSES: &[LossKernels] = &[
    loss!("mse_loss", 2, "(x[0] - x[1]) * (x[0] - x[1])"),
    loss!("mse_loss_backward", 3, "(T)2 / b * (x[1] - x[2]) * x[0]"),
    loss!(
        "smooth_l1_loss",
        2,
        "fabs(x[0] - x[1]) < a ? (T)0.5 * fabs(x[0] - x[1]) * fabs(x[0] - x[1]) / a \
         : fabs(x[0] - x[1]) - (T)0.5 * a"
    ),
    loss!(
        "smooth_l1_loss_backward",
        3,
        "x[1] - x[2] <= -a ? -(x[0] / b) : x[1] - x[2] >= a ? x[0] / b \
         : (x[1] - x[2]) * (x[0] / b) / a"
    ),
    loss!(
        "huber_loss",
        2,
        "fabs(x[0] - x[1]) <= a ? (T)0.5 * fabs(x[0] - x[1]) * fabs(x[0] - x[1]) \
         : a * (fabs(x[0] - x[1]) - (T)0.5 * a)"
    ),
    loss!(
        "huber_loss_backward",
        3,
        "x[1] - x[2] <= -a ? -(x[0] / b) * a : x[1] - x[2] >= a ? x[0] / b * a \
         : (x[1] - x[2]) * (x[0] / b)"
    ),
    loss!(
        "binary_cross_entropy",
        3,
        "(x[0] >= 0 && x[0] <= 1 ? (void)0 : fail(args, FAILURE)), \
         ((x[1] - 1) * greater(log1p(-x[0]), -100) - x[1] * greater(log(x[0]), -100)) * x[2]"
    ),
    loss!(
        "binary_cross_entropy_backward",
        4,
        "x[0] * (x[1] - x[2]) / greater((1 - x[1]) * x[1], (T)1e-12) * x[3] / b"
    ),
    loss!(
        "binary_cross_entropy_with_logits",
        4,
        "((1 - x[1]) * x[0] + ((x[3] - 1) * x[1] + 1) \
         * (log1p(exp(-fabs(x[0]))) + greater(-x[0], 0))) * x[2]"
    ),
];

const TOTAL: KernelTemplate = template!("loss_total", "pairwise.cu");

pub(super) fn sources() -> Vec<(String, CString)> {
    let templates = LOSSES.iter().flat_map(|loss| [loss.each, loss.parts]).chain([TOTAL]);
    templates.flat_map(|template| template.typed_sources(SAMPLE_FLOATS)).collect()
}

/// Registers the kernels.
pub(super) fn register(kernels: &mut KernelRegistry) {
    for (op, loss) in loss::LOSSES {
        if let Some(own) = LOSSES.iter().find(|own| own.op == *op) {
            let kernel = |ctx: &KernelCtx<'_>| own.run(ctx, loss);
            kernels.register(super::KIND, op, Arc::new(kernel));
        }
    }
}

impl LossKernels {
    fn run(&self, ctx: &KernelCtx<'_>, loss: &Loss) -> Result<()> {
        let LossCall { inputs, out, shape, is_reduced, divisor, scalar } = loss.call(ctx)?;
        let absent = (0..loss.inputs).filter(|&k| inputs[k].is_none());
        let absent = absent.fold(0i64, |bits, k| bits | 1 << k);
        let input = |input: &Option<_>| match *input {
            Some(input) => StridedOperand::broadcast(input, &shape),
            None => StridedOperand::fixed(out, shape.len()),
        };
        let mut operands: Vec<StridedOperand<'_>> =
            inputs[..loss.inputs].iter().map(input).collect();
        let native = native(ctx)?;
        let failure = FailureFlag::new(native, anyhow::anyhow!(FAILURE))?.operand(shape.len());
        let args = |operands: &[StridedOperand<'_>]| {
            StridedArgs::new(&shape, 0, operands)?.scalars(&[scalar, divisor]).integers(&[absent])
        };
        if !is_reduced {
            operands.extend([StridedOperand::new(out), failure]);
            // SAFETY: the kernel writes the call's output and the call's failure flag, and reads
            // its inputs.
            return unsafe { self.each.launch_typed(native, out.dtype, args(&operands)?) };
        }
        let blocks = [numel(&shape).div_ceil(SUM_PART)];
        let words = Workspace::of(ctx).take(blocks[0] * size_of::<u64>(), align_of::<u64>())?;
        let words = RawTensor { data: words, dtype: DType::I64, shape: &blocks, strides: &[1] };
        operands.extend([StridedOperand::fixed(words, shape.len()), failure]);
        let total = [StridedOperand::fixed(words, 1), StridedOperand::fixed(out, 1)];
        let total = StridedArgs::new(&[1], 0, &total)?;
        let total = total.scalars(&[divisor]).integers(&[blocks[0] as i64])?;
        // SAFETY: the kernels write the call's workspace, its output and its failure flag. They
        // read its inputs, and the workspace after it has been written.
        unsafe {
            self.parts.launch_blocks(native, out.dtype, blocks[0] as u64, args(&operands)?)?;
            TOTAL.launch_typed(native, out.dtype, total)
        }
    }
}
