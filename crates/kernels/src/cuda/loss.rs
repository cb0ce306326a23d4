//! Losses element by element, their sums and means, and their gradients. Sums are added in the host's
//! order: parts of a fixed size, each in one block, and then the parts.

use std::ffi::CString;
use std::sync::Arc;

use anyhow::{Result, ensure};
use millstream_ops::broadcast::broadcast;
use millstream_ops::loss::LossReduction as Reduction;
use millstream_ops::reduce::SUM_PART;
use millstream_types::{DType, Dims};

use super::walk::{Failed, Step, Text, Walk};
use super::{SOME_FLOATS, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::memory::Workspace;
use crate::cpu::optional_inputs::{operands, required};
use crate::registry::KernelRegistry;

/// A loss or a gradient.
struct Loss {
    op: &'static str,
    /// Its kernels: of elements, and of parts of sums.
    each: Text,
    parts: Option<Text>,
    /// How many tensors it is of; those from `needed` on may be left out and then count as 1.
    inputs: usize,
    needed: usize,
    /// The argument that the kernel knows as `a`, 1 unless given.
    number: Option<&'static str>,
}

macro_rules! loss {
    ($op:literal, $inputs:literal, $needed:literal, $number:expr, $function:literal) => {
        Loss {
            op: $op,
            each: loss!(text $op, "", $inputs, $function, "loss_each.cu"),
            parts: Some(loss!(text $op, "_parts", $inputs, $function, "loss_parts.cu")),
            inputs: $inputs,
            needed: $needed,
            number: $number,
        }
    };
    (gradient $op:literal, $inputs:literal, $needed:literal, $number:expr, $function:literal) => {
        Loss {
            op: $op,
            each: loss!(text $op, "", $inputs, $function, "loss_each.cu"),
            parts: None,
            inputs: $inputs,
            needed: $needed,
            number: $number,
        }
    };
    (text $op:literal, $end:literal, $inputs:literal, $function:literal, $file:literal) => {
        Text {
            name: concat!($op, $end),
            text: concat!(
                "#define INPUTS ", $inputs, "\n#define FUNCTION ", $function, "\n",
                include_str!("pairwise.cu"), include_str!("loss.cu"), include_str!($file)
            ),
        }
    };
}

/// The losses, of x, target and weights, and their gradients, of the result's gradient and those; the
/// number `b` of a gradient is what it is divided by. The functions are those of the host's kernels.
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
        "(x[0] >= 0 && x[0] <= 1 ? (void)0 : fail(walk, FAIL)), \
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

const TOTAL: Text = Text {
    name: "loss_total",
    text: concat!(include_str!("pairwise.cu"), include_str!("loss_total.cu")),
};

pub(super) fn sources() -> Vec<(String, CString)> {
    let of = |loss: &Loss| [Some(loss.each), loss.parts];
    let texts = LOSSES.iter().flat_map(of).flatten().chain([TOTAL]);
    texts.flat_map(|text| text.typed(SOME_FLOATS)).collect()
}

/// Adds the kernels.
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
        for input in &inputs[..self.needed] {
            required(*input)?;
        }
        let reduction = Reduction::of(ctx.attrs())?;
        let summed = self.parts.filter(|_| reduction != Reduction::None);
        let mut shape = Dims::new();
        for input in inputs[..self.inputs].iter().flatten() {
            shape = broadcast(&shape, input.shape)?;
        }
        let a = self.number.map(|name| ctx.attrs().float(name)).transpose()?.flatten();
        let count = match (self.parts.is_some(), reduction) {
            // Of a gradient the losses are as many as x has elements.
            (false, Reduction::Mean) => inputs[1].map_or(1, |x| x.numel()) as f64,
            (true, Reduction::Mean) => shape.iter().product::<usize>() as f64,
            _ => 1.0,
        };
        let absent = (0..self.inputs).filter(|&k| inputs[k].is_none());
        let absent = absent.fold(0i64, |bits, k| bits | 1 << k);
        let input = |k: usize| match inputs[k] {
            Some(input) => Step::broadcast(input, &shape),
            None => Step::still(first, shape.len()),
        };
        let mut steps: Vec<Step<'_>> = (0..self.inputs).map(input).collect();
        let native = native(ctx)?;
        let failed =
            Failed::with(native, anyhow::anyhow!("x: expected every element between 0 and 1"))?;
        let numbers = [a.unwrap_or(1.0), count];
        let Some(parts) = summed else {
            ensure!(*shape == *out.shape, "{shape:?} to {out:?}: schema and kernel disagree");
            steps.extend([Step::own(out), failed.step(shape.len())]);
            let walk = Walk::new(&shape, 0, &steps)?.numbers(&numbers).integers(&[absent])?;
            // SAFETY: the kernel writes the elements of the call's output and a word of its own, and
            // reads those of its inputs.
            return unsafe { self.each.of_dtype(native, out.dtype, walk) };
        };
        ensure!(out.numel() == 1, "{out:?}: schema and kernel disagree");
        let blocks = shape.iter().product::<usize>().div_ceil(SUM_PART);
        let words = Workspace::of(ctx).take(blocks * size_of::<u64>(), align_of::<u64>())?;
        let length = [blocks];
        let words = RawTensor { data: words, dtype: DType::I64, shape: &length, strides: &[1] };
        steps.extend([Step::still(words, shape.len()), failed.step(shape.len())]);
        let walk = Walk::new(&shape, 0, &steps)?.numbers(&numbers).integers(&[absent])?;
        let total = Walk::new(&[1], 0, &[Step::still(words, 1), Step::still(out, 1)])?;
        let total = total.numbers(&[count]).integers(&[blocks as i64])?;
        // SAFETY: the kernels write words of the call's workspace, which are its own, and its output,
        // and read its inputs, and the words after they have been written.
        unsafe {
            parts.in_blocks(native, out.dtype, blocks as u64, walk)?;
            TOTAL.of_dtype(native, out.dtype, total)
        }
    }
}
