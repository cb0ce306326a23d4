//! Kernels of the ops in `millstream_ops::conv`: matrix products of the weight with the columns of
//! [`im2col`](super::im2col), for one part of the feature map at a time, so that the columns stay
//! small.
//!
//! A convolution goes from the image to the map. Its gradient for the image and a transposed
//! convolution go from the map to the image. With weights of one element both are products with the
//! elements in place; many with weights of 3 × 3 are computed by [`winograd`](super::winograd), and
//! groups of few channels by [`direct`](super::direct).

use std::ops::Range;

use anyhow::{Result, ensure};
use millstream_ops::conv::{Conv, WORKSPACE_ALIGN};

use super::Kernel;
use super::conv_integer;
use super::direct::Direct;
use super::im2col::Im2Col;
use super::memory::{Buffer, Workspace};
use super::optional_inputs::{gradient_operands, operands, required};
use super::pairwise::{Sum, pairwise_sum};
use super::real::{Real, reals};
use super::slice_matmul::{Matrix, multiply, multiply_to};
use super::strided::{Sequence, is_dense, load_all};
use super::winograd::Winograd;
use crate::context::{KernelCtx, RawTensor};

pub(crate) const KERNELS: &[Kernel] =
    &[("convolution", forward), ("convolution_backward", backward)];

/// The number of channels of the map that one product computes.
const CHANNELS: usize = 256;

/// The number of rows of columns, and of elements of the image, in one task, unless a channel has
/// more.
const ROWS: usize = 1 << 10;
const IMAGE: usize = 1 << 18;

/// `convolution(x, weight, bias?; ..)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([x, weight, bias], results) = operands::<3>(ctx, 1)?;
    let (x, weight, out) = (required(x)?, required(weight)?, results[0]);
    let conv = Conv::new(ctx.attrs(), x.shape, weight.shape)?;
    ensure!(out.shape[..2] == [conv.batch, conv.channels()], "{out:?}: schema and kernel disagree");
    if x.dtype.is_int() {
        // SAFETY: operands of the call; only its output, which is new, is written.
        return unsafe { conv_integer::forward(ctx, &conv, [x, weight, out], bias) };
    }
    reals!(x.dtype, T => {
        // SAFETY: operands of the call; only its output is written.
        let (weight, bias, x, out) = unsafe {
            let weight = load_weight::<T>(ctx, weight)?;
            (weight, bias.map(load_all::<T>), Sequence::new(x), Sequence::new(out))
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
    let ([grad, x, weight], outs) = gradient_operands::<3>(ctx)?;
    let (grad, x, weight) = (required(grad)?, required(x)?, required(weight)?);
    let conv = Conv::new(ctx.attrs(), x.shape, weight.shape)?;
    let agree = grad.shape[..2] == [conv.batch, conv.channels()];
    ensure!(agree, "{grad:?}: schema and kernel disagree");
    reals!(x.dtype, T => {
        // SAFETY: operands of the call; only its outputs are written.
        let (weight, grad, x, [x_grad, weight_grad, bias_grad]) = unsafe {
            let outs = outs.map(|t| t.map(|t| Sequence::new(t)));
            (load_weight::<T>(ctx, weight)?, Sequence::new(grad), Sequence::new(x), outs)
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

/// Returns the weight, dense and row-major: itself if it is, else a copy in the workspace.
///
/// # Safety
/// `weight` is an operand of the call that nothing writes; the workspace has no other use.
unsafe fn load_weight<'a, T: Real>(
    ctx: &'a KernelCtx<'_>,
    weight: RawTensor<'_>,
) -> Result<&'a [T]> {
    let count = weight.numel();
    if weight.dtype == T::DTYPE && is_dense(&weight) {
        // SAFETY: the operand is valid while the context lives, and only read, by the contract.
        return Ok(unsafe { std::slice::from_raw_parts(weight.data.cast::<T>(), count) });
    }
    // SAFETY: guaranteed by the caller.
    let weight = unsafe { Sequence::new(weight) };
    Workspace::of(ctx).slice::<T>(ctx, count, WORKSPACE_ALIGN, |to| weight.load(0, to))
}

/// Computes the map from the image.
fn to_map<T: Real>(
    ctx: &KernelCtx<'_>,
    conv: &Conv,
    image: &Sequence,
    weight: &[T],
    bias: Option<&[T]>,
    map: &Sequence,
) {
    let im2col = Im2Col(conv);
    if conv.is_pointwise() {
        return by_element(ctx, conv, image, weight, bias, map, false);
    }
    if let Some(direct) = Direct::new(conv, weight, false) {
        return direct.run(ctx, image, weight, bias, map);
    }
    if let Some(winograd) = Winograd::new::<T>(conv, false)
        && winograd.run(ctx, image, weight, bias, map)
    {
        return;
    }
    let column = conv.image_channels * conv.kernel_size();
    let parts = im2col.parts(column).len();
    let blocks = conv.map_channels.div_ceil(CHANNELS);
    ctx.for_each(conv.batch * conv.groups * blocks * parts, |task| {
        let (task, part) = (task / parts, task % parts);
        let (group, block) = (task / blocks, task % blocks);
        let Some(part) = im2col.parts(column).nth(part) else { return };
        let positions = part.len() * im2col.width();
        // Groups are numbered in memory order over all images: `group` counts across images.
        let first = group * conv.image_channels * conv.image_size();
        let mut columns = Buffer::new(column * positions);
        im2col.load(image, first, conv.image_channels, &part, &mut columns);
        let columns = Matrix::new(&columns, column, positions, positions);
        let from = block * CHANNELS;
        let channels = CHANNELS.min(conv.map_channels - from);
        let of_weight = group % conv.groups * conv.map_channels + from;
        let weight = Matrix::new(&weight[of_weight * column..], channels, column, column);
        let place = Place {
            first: (group * conv.map_channels + from) * conv.map_size()
                + part.start * im2col.width(),
            step: conv.map_size(),
        };
        let bias = bias.map(|bias| &bias[of_weight..]);
        // SAFETY: each task has its own channels and positions of the map, an output of the call.
        unsafe { multiply_to_channels(weight, columns, bias, map, place) };
    });
}

/// Where channels of a result are: the number of the first element, and the elements between
/// channels.
struct Place {
    first: usize,
    step: usize,
}

/// Computes a product, plus a bias for each row, whose rows are parts of channels of the result.
///
/// # Safety
/// Nothing else accesses this part of `out`, an output of the call.
unsafe fn multiply_to_channels<T: Real>(
    x: Matrix<'_, T>,
    y: Matrix<'_, T>,
    bias: Option<&[T]>,
    out: &Sequence,
    Place { first, step }: Place,
) {
    let (channels, positions) = (x.rows(), y.columns());
    let add_bias = |c: usize, sums: &mut [T]| {
        if let Some(bias) = bias {
            sums.iter_mut().for_each(|v| *v += bias[c]);
        }
    };
    if let Some(out) = out.direct::<T>() {
        let at = |c: usize| out.wrapping_add(first + c * step);
        // SAFETY: the elements of the output follow one another; the rest is guaranteed by the
        // caller.
        unsafe {
            multiply_to(at(0), step, x, y, false);
            for c in 0..channels {
                add_bias(c, std::slice::from_raw_parts_mut(at(c), positions));
            }
        }
        return;
    }
    let mut sums = Buffer::new(channels * positions);
    multiply(&mut sums, x, y, false);
    for (c, sums) in sums.chunks_exact_mut(positions).enumerate() {
        add_bias(c, sums);
        out.store(first + c * step, sums);
    }
}

/// Computes the map from the image, or backward the image from the map, where an element of the one
/// is made of the channels of the same element of the other.
fn by_element<T: Real>(
    ctx: &KernelCtx<'_>,
    conv: &Conv,
    x: &Sequence,
    weight: &[T],
    bias: Option<&[T]>,
    out: &Sequence,
    backward: bool,
) {
    let im2col = Im2Col(conv);
    let step = conv.map_size();
    let (from, to) = match backward {
        false => (conv.image_channels, conv.map_channels),
        true => (conv.map_channels, conv.image_channels),
    };
    let parts = im2col.parts(from).len();
    let blocks = to.div_ceil(CHANNELS);
    ctx.for_each(conv.batch * conv.groups * blocks * parts, |task| {
        let (task, part) = (task / parts, task % parts);
        let (group, block) = (task / blocks, task % blocks);
        let Some(part) = im2col.parts(from).nth(part) else { return };
        let positions = im2col.positions(&part);
        let mut buffer = Buffer::new(0);
        // SAFETY: an operand that this call only reads.
        let columns = unsafe { rows_of(x, (group * from, from, step), &positions, &mut buffer) };
        let first = block * CHANNELS;
        let channels = CHANNELS.min(to - first);
        let of_group = &weight[group % conv.groups * from * to..][..from * to];
        let weight = match backward {
            false => Matrix::new(&of_group[first * from..], channels, from, from),
            true => Matrix::new(&of_group[first..], from, channels, to).transposed(),
        };
        let bias = bias.map(|bias| &bias[group % conv.groups * to + first..]);
        let place = Place { first: (group * to + first) * step + positions.start, step };
        // SAFETY: each task has its own channels and positions of the output.
        unsafe { multiply_to_channels(weight, columns, bias, out, place) };
    });
}

/// Computes the image from the map: adds up the columns of overlapping windows.
fn to_image<T: Real>(
    ctx: &KernelCtx<'_>,
    conv: &Conv,
    map: &Sequence,
    weight: &[T],
    bias: Option<&[T]>,
    image: &Sequence,
) {
    let im2col = Im2Col(conv);
    if conv.is_pointwise() {
        return by_element(ctx, conv, map, weight, bias, image, true);
    }
    if let Some(direct) = Direct::new(conv, weight, true) {
        return direct.run(ctx, map, weight, bias, image);
    }
    if let Some(winograd) = Winograd::new::<T>(conv, true)
        && winograd.run(ctx, map, weight, bias, image)
    {
        return;
    }
    let (kernel, positions) = (conv.kernel_size(), conv.image_size());
    let most = (ROWS / kernel).min(IMAGE / positions).clamp(1, conv.image_channels);
    let blocks = conv.image_channels.div_ceil(most);
    let column = conv.image_channels * kernel;
    ctx.for_each(conv.batch * conv.groups * blocks, |task| {
        let (group, block) = (task / blocks, task % blocks);
        let from = block * most;
        let channels = most.min(conv.image_channels - from);
        let mut sums = Buffer::new(channels * positions);
        sums.fill(T::ZERO);
        let of_weight = group % conv.groups * conv.map_channels * column + from * kernel;
        let rows = channels * kernel;
        let weight = Matrix::new(&weight[of_weight..], conv.map_channels, rows, column);
        let (mut columns, mut buffer) = (Buffer::new(0), Buffer::new(0));
        for part in im2col.parts(rows.max(conv.map_channels)) {
            let positions = im2col.positions(&part);
            let of_map = (group * conv.map_channels, conv.map_channels, conv.map_size());
            // SAFETY: an operand that this call only reads.
            let map = unsafe { rows_of(map, of_map, &positions, &mut buffer) };
            columns.resize(rows * positions.len());
            multiply(&mut columns, weight.transposed(), map, false);
            im2col.add(&columns, &part, &mut sums);
        }
        if let Some(bias) = bias {
            let first = group % conv.groups * conv.image_channels + from;
            for (sums, &bias) in sums.chunks_exact_mut(positions).zip(&bias[first..]) {
                sums.iter_mut().for_each(|v| *v += bias);
            }
        }
        image.store((group * conv.image_channels + from) * positions, &sums);
    });
}

/// Returns some positions of channels of `size` elements, from channel number `first` on: in place
/// if the elements follow one another, else copies in the buffer.
///
/// # Safety
/// The call only reads `x`.
unsafe fn rows_of<'a, T: Real>(
    x: &'a Sequence,
    (first, channels, size): (usize, usize, usize),
    positions: &Range<usize>,
    buffer: &'a mut Buffer<T>,
) -> Matrix<'a, T> {
    let (from, count) = (first * size + positions.start, positions.len());
    // SAFETY: guaranteed by the caller.
    if let Some(all) = unsafe { x.slice::<T>() } {
        return Matrix::new(&all[from..], channels, count, size);
    }
    buffer.resize(channels * count);
    for (c, to) in buffer.chunks_exact_mut(count).enumerate() {
        x.load(from + c * size, to);
    }
    Matrix::new(buffer, channels, count, count)
}

/// Computes the gradient for the weight from the image and the map.
fn to_weight<T: Real>(
    ctx: &KernelCtx<'_>,
    conv: &Conv,
    image: &Sequence,
    map: &Sequence,
    out: &Sequence,
) {
    let im2col = Im2Col(conv);
    if !conv.is_pointwise()
        && let Some(direct) = Direct::new::<T>(conv, &[], false)
        && direct.weight_gradient::<T>(ctx, image, map, out)
    {
        return;
    }
    let kernel = conv.kernel_size();
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
        let mut sums = Buffer::new(map_channels * rows);
        sums.fill(T::ZERO);
        let (mut columns, mut buffer) = (Buffer::new(0), Buffer::new(0));
        for number in 0..conv.batch {
            let image_first = (number * conv.groups + group) * conv.image_channels + from;
            let map_first = number * conv.groups * conv.map_channels + map_from;
            for part in im2col.parts(rows.max(map_channels)) {
                let positions = im2col.positions(&part);
                let columns = if conv.is_pointwise() {
                    let channels = (image_first, channels, conv.image_size());
                    // SAFETY: an operand that this call only reads.
                    unsafe { rows_of(image, channels, &positions, &mut columns) }
                } else {
                    columns.resize(rows * positions.len());
                    let first = image_first * conv.image_size();
                    im2col.load(image, first, channels, &part, &mut columns);
                    Matrix::new(&columns, rows, positions.len(), positions.len())
                };
                let of_map = (map_first, map_channels, conv.map_size());
                // SAFETY: as above.
                let map = unsafe { rows_of(map, of_map, &positions, &mut buffer) };
                multiply(&mut sums, map, columns.transposed(), true);
            }
        }
        for (c, sums) in sums.chunks_exact(rows).enumerate() {
            out.store(((map_from + c) * conv.image_channels + from) * kernel, sums);
        }
    });
}

/// Computes the gradient for the bias: the sums over images and positions.
fn to_bias<T: Real>(ctx: &KernelCtx<'_>, conv: &Conv, grad: &Sequence, out: &Sequence) {
    let positions = if conv.transposed { conv.image_size() } else { conv.map_size() };
    let channels = conv.channels();
    ctx.for_each(channels, |channel| {
        let mut values = vec![T::ZERO; positions];
        let mut sum = Sum::<T>::new();
        for number in 0..conv.batch {
            grad.load((number * channels + channel) * positions, &mut values);
            sum.push(pairwise_sum(&values));
        }
        out.store(channel, &[sum.total()]);
    });
}
