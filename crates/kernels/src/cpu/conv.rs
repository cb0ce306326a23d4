//! Kernels of the ops of `millstream_ops::conv`: products of the weight with columns of windows,
//! part by part of the map, so that what is unfolded stays small.
//!
//! A convolution goes from image to map; its gradient for the image, and a transposed convolution,
//! go back.

use anyhow::{Result, ensure};
use millstream_ops::conv::Conv;
use millstream_ops::expect;
use millstream_ops::matmul::WORKSPACE_ALIGN;

use super::Kernel;
use super::columns::Windows;
use super::memory::Workspace;
use super::norm::all;
use super::optional::{operands, required};
use super::pairwise::{Sum, pairwise_sum};
use super::product::{Matrix, multiply};
use super::real::{Real, reals};
use super::strided::Sequence;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] =
    &[("convolution", forward), ("convolution_backward", backward)];

/// Channels of the map computed together.
const CHANNELS: usize = 256;

/// Rows of columns, and elements of an image, that one task has at most, unless a channel has more.
const ROWS: usize = 1 << 10;
const IMAGE: usize = 1 << 18;

/// `convolution(x, weight, bias?; ..)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([x, weight, bias], results) = operands::<3>(ctx, 1)?;
    let (x, weight, out) = (required(x)?, required(weight)?, results[0]);
    let conv = Conv::new(ctx.attrs(), x.shape, weight.shape)?;
    ensure!(out.shape[..2] == [conv.batch, conv.channels()], "{out:?}: schema and kernel disagree");
    reals!(x.dtype, T => {
        // SAFETY: operands of the call; the one that is stored to is its output.
        let (weight, bias, x, out) = unsafe {
            (wide::<T>(ctx, weight)?, all::<T>(bias), Sequence::new(x), Sequence::new(out))
        };
        match conv.transposed {
            false => to_map(ctx, &conv, &x, weight, bias.as_deref(), &out),
            true => to_image(ctx, &conv, &x, weight, bias.as_deref(), &out),
        }
    });
    Ok(())
}

/// `convolution_backward(grad, x, weight; ..)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, x, weight) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let conv = Conv::new(ctx.attrs(), x.shape, weight.shape)?;
    let agree = grad.shape[..2] == [conv.batch, conv.channels()];
    ensure!(agree, "{grad:?}: schema and kernel disagree");
    let mut at = 3;
    let mut outs = [None; 3];
    for (out, wanted) in outs.iter_mut().zip(expect::mask(ctx.attrs(), 3)?) {
        if wanted {
            *out = Some(ctx.operand(at)?);
            at += 1;
        }
    }
    reals!(x.dtype, T => {
        // SAFETY: operands of the call; those that are stored to are its outputs.
        let (weight, grad, x, [x_grad, weight_grad, bias_grad]) = unsafe {
            let outs = outs.map(|t| t.map(|t| Sequence::new(t)));
            (wide::<T>(ctx, weight)?, Sequence::new(grad), Sequence::new(x), outs)
        };
        if let Some(out) = &x_grad {
            match conv.transposed {
                false => to_image(ctx, &conv, &grad, weight, None, out),
                true => to_map(ctx, &conv, &grad, weight, None, out),
            }
        }
        let (image, map) = if conv.transposed { (&grad, &x) } else { (&x, &grad) };
        if let Some(out) = &weight_grad {
            to_weight::<T>(ctx, &conv, image, map, out);
        }
        if let Some(out) = &bias_grad {
            to_bias::<T>(ctx, &conv, &grad, out);
        }
    });
    Ok(())
}

/// The weight in the workspace, dense and row-major.
///
/// # Safety
/// It is an operand of the call, the workspace of which is used for nothing else.
unsafe fn wide<'a, T: Real>(ctx: &'a KernelCtx<'_>, weight: RawTensor<'_>) -> Result<&'a [T]> {
    let count = weight.numel();
    // SAFETY: the caller's promise.
    let weight = unsafe { Sequence::new(weight) };
    Workspace::of(ctx).slice::<T>(ctx, count, WORKSPACE_ALIGN, |to| weight.load(0, to))
}

/// From image to map.
fn to_map<T: Real>(
    ctx: &KernelCtx<'_>,
    conv: &Conv,
    image: &Sequence,
    weight: &[T],
    bias: Option<&[T]>,
    map: &Sequence,
) {
    let windows = Windows(conv);
    let column = conv.image_channels * windows.kernel();
    let parts = windows.parts(column).len();
    let blocks = conv.map_channels.div_ceil(CHANNELS);
    ctx.for_each(conv.batch * conv.groups * blocks * parts, |task| {
        let (task, part) = (task / parts, task % parts);
        let (group, block) = (task / blocks, task % blocks);
        let Some(part) = windows.parts(column).nth(part) else { return };
        let places = part.len() * windows.width();
        let mut columns = vec![T::ZERO; column * places];
        // Images and groups are numbered as they lie: this is also the group's number in all.
        let first = group * conv.image_channels * windows.image();
        windows.load(image, first, conv.image_channels, &part, &mut columns);
        let from = block * CHANNELS;
        let channels = CHANNELS.min(conv.map_channels - from);
        let mut sums = vec![T::ZERO; channels * places];
        let of_weight = group % conv.groups * conv.map_channels + from;
        let weight = Matrix::new(&weight[of_weight * column..], channels, column, column);
        multiply(&mut sums, weight, Matrix::new(&columns, column, places, places), false);
        for (c, sums) in sums.chunks_exact_mut(places).enumerate() {
            if let Some(bias) = bias {
                sums.iter_mut().for_each(|v| *v += bias[of_weight + c]);
            }
            let channel = group * conv.map_channels + from + c;
            map.store(channel * windows.map() + part.start * windows.width(), sums);
        }
    });
}

/// From map to image: the windows' columns, added up where they overlap.
fn to_image<T: Real>(
    ctx: &KernelCtx<'_>,
    conv: &Conv,
    map: &Sequence,
    weight: &[T],
    bias: Option<&[T]>,
    image: &Sequence,
) {
    let windows = Windows(conv);
    let (kernel, places) = (windows.kernel(), windows.image());
    let most = (ROWS / kernel).min(IMAGE / places).clamp(1, conv.image_channels);
    let blocks = conv.image_channels.div_ceil(most);
    let column = conv.image_channels * kernel;
    ctx.for_each(conv.batch * conv.groups * blocks, |task| {
        let (group, block) = (task / blocks, task % blocks);
        let from = block * most;
        let channels = most.min(conv.image_channels - from);
        let mut sums = vec![T::ZERO; channels * places];
        let of_weight = group % conv.groups * conv.map_channels * column + from * kernel;
        let rows = channels * kernel;
        let weight = Matrix::new(&weight[of_weight..], conv.map_channels, rows, column);
        for part in windows.parts(rows.max(conv.map_channels)) {
            let there =
                load_map(&windows, map, group * conv.map_channels, conv.map_channels, &part);
            let width = part.len() * windows.width();
            let mut columns = vec![T::ZERO; rows * width];
            let there = Matrix::new(&there, conv.map_channels, width, width);
            multiply(&mut columns, weight.transposed(), there, false);
            windows.add(&columns, &part, &mut sums);
        }
        if let Some(bias) = bias {
            let first = group % conv.groups * conv.image_channels + from;
            for (sums, &bias) in sums.chunks_exact_mut(places).zip(&bias[first..]) {
                sums.iter_mut().for_each(|v| *v += bias);
            }
        }
        image.store((group * conv.image_channels + from) * places, &sums);
    });
}

/// A part of channels of a map.
fn load_map<T: Real>(
    windows: &Windows<'_>,
    map: &Sequence,
    first: usize,
    channels: usize,
    part: &std::ops::Range<usize>,
) -> Vec<T> {
    let places = part.len() * windows.width();
    let mut there = vec![T::ZERO; channels * places];
    for (c, there) in there.chunks_exact_mut(places).enumerate() {
        map.load((first + c) * windows.map() + part.start * windows.width(), there);
    }
    there
}

/// The gradient for the weight, from what lies at image and map.
fn to_weight<T: Real>(
    ctx: &KernelCtx<'_>,
    conv: &Conv,
    image: &Sequence,
    map: &Sequence,
    out: &Sequence,
) {
    let windows = Windows(conv);
    let kernel = windows.kernel();
    let most = (ROWS / kernel).clamp(1, conv.image_channels);
    let across = conv.image_channels.div_ceil(most);
    let down = conv.map_channels.div_ceil(CHANNELS);
    ctx.for_each(conv.groups * down * across, |task| {
        let (task, from) = (task / across, task % across * most);
        let (group, block) = (task / down, task % down);
        let channels = most.min(conv.image_channels - from);
        let map_from = group * conv.map_channels + block * CHANNELS;
        let map_channels = CHANNELS.min(conv.map_channels - block * CHANNELS);
        let rows = channels * kernel;
        let mut sums = vec![T::ZERO; map_channels * rows];
        for number in 0..conv.batch {
            let image_first = (number * conv.groups + group) * conv.image_channels + from;
            let map_first = number * conv.groups * conv.map_channels + map_from;
            for part in windows.parts(rows.max(map_channels)) {
                let places = part.len() * windows.width();
                let mut columns = vec![T::ZERO; rows * places];
                let first = image_first * windows.image();
                windows.load(image, first, channels, &part, &mut columns);
                let there = load_map(&windows, map, map_first, map_channels, &part);
                let there = Matrix::new(&there, map_channels, places, places);
                let columns = Matrix::new(&columns, rows, places, places);
                multiply(&mut sums, there, columns.transposed(), true);
            }
        }
        for (c, sums) in sums.chunks_exact(rows).enumerate() {
            out.store(((map_from + c) * conv.image_channels + from) * kernel, sums);
        }
    });
}

/// The gradient for the bias: the sums over images and places.
fn to_bias<T: Real>(ctx: &KernelCtx<'_>, conv: &Conv, grad: &Sequence, out: &Sequence) {
    let windows = Windows(conv);
    let places = if conv.transposed { windows.image() } else { windows.map() };
    let channels = conv.channels();
    ctx.for_each(channels, |channel| {
        let mut values = vec![T::ZERO; places];
        let mut sum = Sum::<T>::new();
        for number in 0..conv.batch {
            grad.load((number * channels + channel) * places, &mut values);
            sum.push(pairwise_sum(&values));
        }
        out.store(channel, &[sum.total()]);
    });
}
