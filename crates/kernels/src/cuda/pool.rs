//! Pooling and its gradient: one thread to an element of the result, which goes through a window, or
//! through the windows that a place is in, in the host's order.

use std::ffi::CString;

use anyhow::{Result, ensure};
use millstream_ops::pooling::{Windows, windows};
use millstream_types::{DType, Dims};

use super::walk::{Failed, Step, Text, Walk};
use super::{SOME_FLOATS, native};
use crate::context::{KernelCtx, RawTensor};

pub(super) const KERNELS: &[super::Kernel] = &[
    ("max_pool2d_with_indices", max),
    ("max_pool2d_with_indices_backward", max_backward),
    ("avg_pool2d", average),
    ("avg_pool2d_backward", average_backward),
    ("_adaptive_avg_pool2d", adaptive),
    ("_adaptive_avg_pool2d_backward", adaptive_backward),
];

macro_rules! windows {
    ($name:literal) => {
        Text {
            name: $name,
            text: concat!(include_str!("windows.cu"), include_str!(concat!($name, ".cu"))),
        }
    };
}

const MAX: Text = windows!("max_pool");
const MAX_BACKWARD: Text = windows!("max_pool_backward");
const MAX_CHECK: Text = windows!("max_pool_check");
const MEAN: Text = windows!("mean_pool");
const MEAN_BACKWARD: Text = windows!("mean_pool_backward");

pub(super) fn sources() -> Vec<(String, CString)> {
    let texts = [MAX, MAX_BACKWARD, MEAN, MEAN_BACKWARD].map(|text| text.typed(SOME_FLOATS));
    [texts.concat(), MAX_CHECK.typed(&[DType::I64])].concat()
}

/// The strides of a tensor along the places of an image.
fn last(tensor: &RawTensor<'_>) -> Result<[i64; 2]> {
    let rank = tensor.shape.len();
    ensure!(rank >= 3, "{tensor:?}: schema and kernel disagree");
    Ok([tensor.strides[rank - 2] as i64, tensor.strides[rank - 1] as i64])
}

/// A tensor that moves from image to image only.
fn image(tensor: RawTensor<'_>) -> Step<'_> {
    let images = tensor.shape.len().saturating_sub(2);
    let strides: Dims = tensor.strides[..images].iter().copied().chain([0, 0]).collect();
    Step::by(tensor, strides)
}

/// How windows are summed: whether they share out the image, whether padding counts, the divisor.
#[derive(Clone, Copy, Default)]
struct Means {
    shares: bool,
    padded: bool,
    divisor: i64,
}

/// What the kernels are told of windows over `images` with a place each in `maps`.
fn told(
    sides: [Windows; 2],
    images: &RawTensor<'_>,
    maps: &RawTensor<'_>,
    means: Means,
) -> Result<Vec<i64>> {
    let side = |w: Windows| {
        [w.length, w.count, w.kernel, w.stride, w.padding, w.dilation].map(|v| v as i64)
    };
    let mut told: Vec<i64> = sides.into_iter().flat_map(side).collect();
    told.extend(last(images)?);
    told.extend(last(maps)?);
    told.extend([i64::from(means.shares), i64::from(means.padded), means.divisor]);
    Ok(told)
}

/// `max_pool2d_with_indices(x; ..)`.
fn max(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, out, places) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let integers = told(windows(ctx.attrs(), x.shape)?, &x, &out, Means::default())?;
    let steps = [image(x), Step::own(out), Step::own(places)];
    let walk = Walk::new(out.shape, Walk::WHOLE, &steps)?.integers(&integers)?;
    // SAFETY: the kernel writes the elements of the call's outputs, and reads those of its input that
    // lie in windows.
    unsafe { MAX.of_dtype(native(ctx)?, x.dtype, walk) }
}

/// `max_pool2d_with_indices_backward(grad, x, indices; ..)`.
fn max_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, places, out) = (ctx.operand(0)?, ctx.operand(2)?, ctx.operand(3)?);
    ensure!(places.shape == grad.shape, "{places:?}: schema and kernel disagree");
    let sides = windows(ctx.attrs(), out.shape)?;
    let mut integers = told(sides, &out, &grad, Means::default())?;
    integers.extend(last(&places)?);
    let native = native(ctx)?;
    let most = sides[0].length * sides[1].length;
    let error = anyhow::anyhow!(
        "indices: one is not in its window: expected those that the op gave, of 0 to {}",
        most.saturating_sub(1)
    );
    let failed = Failed::with(native, error)?;
    let rank = places.shape.len();
    let check = Walk::new(places.shape, Walk::WHOLE, &[Step::own(places), failed.step(rank)])?;
    let steps = [Step::own(out), image(grad), image(places), failed.step(rank)];
    let walk = Walk::new(out.shape, Walk::WHOLE, &steps)?.integers(&integers)?;
    // SAFETY: the kernels write the elements of the call's output and a word of their own, and read
    // those of its inputs that belong to windows.
    unsafe {
        MAX_CHECK.of_dtype(native, DType::I64, check.integers(&integers)?)?;
        MAX_BACKWARD.of_dtype(native, grad.dtype, walk)
    }
}

fn forward(ctx: &KernelCtx<'_>, sides: [Windows; 2], means: Means) -> Result<()> {
    let (x, out) = (ctx.operand(0)?, ctx.operand(1)?);
    let integers = told(sides, &x, &out, means)?;
    let steps = [image(x), Step::own(out)];
    let walk = Walk::new(out.shape, Walk::WHOLE, &steps)?.integers(&integers)?;
    // SAFETY: as for `max`.
    unsafe { MEAN.of_dtype(native(ctx)?, x.dtype, walk) }
}

fn backward(ctx: &KernelCtx<'_>, sides: [Windows; 2], means: Means) -> Result<()> {
    let (grad, out) = (ctx.operand(0)?, ctx.operand(2)?);
    let integers = told(sides, &out, &grad, means)?;
    let steps = [Step::own(out), image(grad)];
    let walk = Walk::new(out.shape, Walk::WHOLE, &steps)?.integers(&integers)?;
    // SAFETY: as for `max_backward`.
    unsafe { MEAN_BACKWARD.of_dtype(native(ctx)?, grad.dtype, walk) }
}

fn means(ctx: &KernelCtx<'_>) -> Result<Means> {
    Ok(Means {
        shares: false,
        padded: ctx.attrs().bool("count_include_pad")?.unwrap_or(true),
        divisor: ctx.attrs().int("divisor_override")?.unwrap_or(0),
    })
}

/// `avg_pool2d(x; ..)`.
fn average(ctx: &KernelCtx<'_>) -> Result<()> {
    forward(ctx, windows(ctx.attrs(), ctx.operand(0)?.shape)?, means(ctx)?)
}

/// `avg_pool2d_backward(grad, x; ..)`.
fn average_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    backward(ctx, windows(ctx.attrs(), ctx.operand(2)?.shape)?, means(ctx)?)
}

/// Windows that share out what they are made of.
const SHARES: Means = Means { shares: true, padded: false, divisor: 0 };

fn shares(images: &RawTensor<'_>, maps: &RawTensor<'_>) -> Result<[Windows; 2]> {
    let rank = images.shape.len();
    ensure!(rank >= 3 && maps.shape.len() == rank, "{maps:?}: schema and kernel disagree");
    Ok([rank - 2, rank - 1].map(|k| Windows {
        length: images.shape[k],
        count: maps.shape[k],
        kernel: 1,
        stride: 1,
        padding: 0,
        dilation: 1,
    }))
}

/// `_adaptive_avg_pool2d(x; output_size)`.
fn adaptive(ctx: &KernelCtx<'_>) -> Result<()> {
    forward(ctx, shares(&ctx.operand(0)?, &ctx.operand(1)?)?, SHARES)
}

/// `_adaptive_avg_pool2d_backward(grad, x)`.
fn adaptive_backward(ctx: &KernelCtx<'_>) -> Result<()> {
    backward(ctx, shares(&ctx.operand(2)?, &ctx.operand(0)?)?, SHARES)
}
