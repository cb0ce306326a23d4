//! Pooling and its gradients. One thread per element of the result iterates over a window, or over
//! the windows that contain an element, in the host's order.

use std::ffi::CString;

use anyhow::{Result, ensure};
use millstream_ops::pooling::{Windows, windows};
use millstream_types::{DType, Dims};

use super::strided::{FailureFlag, StridedArgs, StridedOperand};
use super::template::{KernelTemplate, template};
use super::{SAMPLE_FLOATS, native};
use crate::context::{KernelCtx, RawTensor};

pub(super) const KERNELS: &[super::Kernel] = &[
    ("max_pool2d_with_indices", max),
    ("max_pool2d_with_indices_backward", max_backward),
    ("avg_pool2d", |ctx| means(ctx, false)),
    ("avg_pool2d_backward", |ctx| mean_gradients(ctx, false)),
    ("_adaptive_avg_pool2d", |ctx| means(ctx, true)),
    ("_adaptive_avg_pool2d_backward", |ctx| mean_gradients(ctx, true)),
];

const MAX: KernelTemplate = template!("max_pool", "pooling_windows.cu");
const MAX_BACKWARD: KernelTemplate = template!("max_pool_backward", "pooling_windows.cu");
const MAX_CHECK: KernelTemplate = template!("max_pool_check", "pooling_windows.cu");
const MEAN: KernelTemplate = template!("mean_pool", "pooling_windows.cu");
const MEAN_BACKWARD: KernelTemplate = template!("mean_pool_backward", "pooling_windows.cu");

pub(super) fn sources() -> Vec<(String, CString)> {
    let kernels =
        [MAX, MAX_BACKWARD, MEAN, MEAN_BACKWARD].map(|kernel| kernel.typed_sources(SAMPLE_FLOATS));
    [kernels.concat(), MAX_CHECK.typed_sources(&[DType::I64])].concat()
}

/// Returns the strides of a tensor along the rows and the columns of an image.
fn image_strides(tensor: &RawTensor<'_>) -> Result<[i64; 2]> {
    let rank = tensor.shape.len();
    ensure!(rank >= 3, "{tensor:?}: schema and kernel disagree");
    Ok([tensor.strides[rank - 2] as i64, tensor.strides[rank - 1] as i64])
}

/// Returns a tensor as an operand that varies from image to image only.
fn per_image(tensor: RawTensor<'_>) -> StridedOperand<'_> {
    let images = tensor.shape.len().saturating_sub(2);
    let strides: Dims = tensor.strides[..images].iter().copied().chain([0, 0]).collect();
    StridedOperand::with_strides(tensor, strides)
}

/// The divisor of a window's sum: whether pooling is adaptive, whether padding counts, and the
/// value, or 0 for the size of the window.
#[derive(Clone, Copy, Default)]
struct Divisor {
    adaptive: bool,
    counts_padding: bool,
    value: i64,
}

/// Returns the integers that describe the windows over `images` to kernels.
fn window_integers(
    axes: [Windows; 2],
    images: &RawTensor<'_>,
    outputs: &RawTensor<'_>,
    divisor: Divisor,
) -> Result<Vec<i64>> {
    let axis = |w: Windows| {
        [w.length, w.count, w.kernel, w.stride, w.padding, w.dilation].map(|v| v as i64)
    };
    let mut integers: Vec<i64> = axes.into_iter().flat_map(axis).collect();
    integers.extend(image_strides(images)?);
    integers.extend(image_strides(outputs)?);
    integers.extend([
        i64::from(divisor.adaptive),
        i64::from(divisor.counts_padding),
        divisor.value,
    ]);
    Ok(integers)
}

/// `max_pool2d_with_indices(x; ..)`.
fn max(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out, indices) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let integers = window_integers(windows(ctx.attrs(), x.shape)?, &x, &out, Divisor::default())?;
    let operands = [per_image(x), StridedOperand::new(out), StridedOperand::new(indices)];
    let args = StridedArgs::new(out.shape, StridedArgs::KEEP_DIMENSIONS, &operands)?
        .integers(&integers)?;
    // SAFETY: the kernel writes the call's outputs, and reads the elements of its input that lie in
    // windows.
    unsafe { MAX.launch_typed(native(ctx)?, x.dtype, args) }
}

/// `max_pool2d_with_indices_backward(grad, x, indices; ..)`.
fn max_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, indices, out) = (ctx.operand(0)?, ctx.operand(2)?, ctx.operand(3)?);
    ensure!(indices.shape == grad.shape, "{indices:?}: schema and kernel disagree");
    let axes = windows(ctx.attrs(), out.shape)?;
    let mut integers = window_integers(axes, &out, &grad, Divisor::default())?;
    integers.extend(image_strides(&indices)?);
    let native = native(ctx)?;
    let most = axes[0].length * axes[1].length;
    let error = anyhow::anyhow!(
        "indices: an index is not in its window: expected the result of max pooling, from 0 to {}",
        most.saturating_sub(1)
    );
    let failure = FailureFlag::new(native, error)?;
    let rank = indices.shape.len();
    let check = StridedArgs::new(
        indices.shape,
        StridedArgs::KEEP_DIMENSIONS,
        &[StridedOperand::new(indices), failure.operand(rank)],
    )?;
    let operands =
        [StridedOperand::new(out), per_image(grad), per_image(indices), failure.operand(rank)];
    let args = StridedArgs::new(out.shape, StridedArgs::KEEP_DIMENSIONS, &operands)?
        .integers(&integers)?;
    // SAFETY: the kernels write the call's output and the call's failure flag, and read the
    // elements of its inputs that belong to windows.
    unsafe {
        MAX_CHECK.launch_typed(native, DType::I64, check.integers(&integers)?)?;
        MAX_BACKWARD.launch_typed(native, grad.dtype, args)
    }
}

/// Returns the integers that describe the windows and divisors of means.
fn mean_integers(
    ctx: &KernelCtx<'_>,
    adaptive: bool,
    images: &RawTensor<'_>,
    outputs: &RawTensor<'_>,
) -> Result<Vec<i64>> {
    if !adaptive {
        let divisor = Divisor {
            adaptive,
            counts_padding: ctx.attrs().bool("count_include_pad")?.unwrap_or(true),
            value: ctx.attrs().int("divisor_override")?.unwrap_or(0),
        };
        return window_integers(windows(ctx.attrs(), images.shape)?, images, outputs, divisor);
    }
    let rank = images.shape.len();
    ensure!(rank >= 3 && outputs.shape.len() == rank, "{outputs:?}: schema and kernel disagree");
    // The kernel derives the bounds of windows from length and count.
    let axes = [rank - 2, rank - 1].map(|k| Windows {
        length: images.shape[k],
        count: outputs.shape[k],
        kernel: 1,
        stride: 1,
        padding: 0,
        dilation: 1,
    });
    window_integers(axes, images, outputs, Divisor { adaptive, ..Divisor::default() })
}

/// `avg_pool2d(x; ..)` and `_adaptive_avg_pool2d(x; output_size)`.
fn means(ctx: &KernelCtx<'_>, adaptive: bool) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let integers = mean_integers(ctx, adaptive, &x, &out)?;
    let operands = [per_image(x), StridedOperand::new(out)];
    let args = StridedArgs::new(out.shape, StridedArgs::KEEP_DIMENSIONS, &operands)?
        .integers(&integers)?;
    // SAFETY: as for `max`.
    unsafe { MEAN.launch_typed(native(ctx)?, x.dtype, args) }
}

/// `avg_pool2d_backward(grad, x; ..)` and `_adaptive_avg_pool2d_backward(grad, x)`.
fn mean_gradients(ctx: &KernelCtx<'_>, adaptive: bool) -> Result<()> {
    let (grad, out) = (ctx.operand(0)?, ctx.operand(2)?);
    let integers = mean_integers(ctx, adaptive, &out, &grad)?;
    let operands = [StridedOperand::new(out), per_image(grad)];
    let args = StridedArgs::new(out.shape, StridedArgs::KEEP_DIMENSIONS, &operands)?
        .integers(&integers)?;
    // SAFETY: as for `max_backward`.
    unsafe { MEAN_BACKWARD.launch_typed(native(ctx)?, grad.dtype, args) }
}
