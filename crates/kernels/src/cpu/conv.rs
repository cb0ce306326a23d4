//! Kernels of the ops in `millstream_ops::conv`: matrix products of the weight with the columns of
//! [`im2col`](super::im2col), for one part of the feature map at a time, so that the columns stay
//! small.
//!
//! A convolution goes from the image to the map. Its gradient for the image and a transposed
//! convolution go from the map to the image.

use anyhow::{Result, ensure};
use millstream_ops::checks;
use millstream_ops::conv::Conv;
use millstream_ops::matmul::WORKSPACE_ALIGN;

use super::Kernel;
use super::conv_integer;
use super::im2col::Im2Col;
use super::memory::Workspace;
use super::norm::load_all;
use super::optional_inputs::{operands, required};
use super::pairwise::{Sum, pairwise_sum};
use super::real::{Real, reals};
use super::slice_matmul::{Matrix, multiply, multiply_to};
use super::strided::{Address, Sequence, is_dense};
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
            (weight, load_all::<T>(bias), Sequence::new(x), Sequence::new(out))
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
    for (out, wanted) in outs.iter_mut().zip(checks::mask(ctx.attrs(), 3)?) {
        if wanted {
            *out = Some(ctx.operand(at)?);
            at += 1;
        }
    }
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
    let column = conv.image_channels * im2col.kernel();
    let parts = im2col.parts(column).len();
    // SAFETY: the image is an operand that this call only reads.
    let plain = unsafe { image.slice::<T>() }.filter(|_| im2col.is_plain());
    let direct = map.direct::<T>().map(|map| Address(map.cast()));
    let blocks = conv.map_channels.div_ceil(CHANNELS);
    ctx.for_each(conv.batch * conv.groups * blocks * parts, |task| {
        let (task, part) = (task / parts, task % parts);
        let (group, block) = (task / blocks, task % blocks);
        let Some(part) = im2col.parts(column).nth(part) else { return };
        let positions = part.len() * im2col.width();
        // Groups are numbered in memory order over all images: `group` counts across images.
        let first = group * conv.image_channels * im2col.image();
        let mut columns = Vec::new();
        let columns = match plain {
            Some(image) => {
                let from = first + part.start * im2col.width();
                Matrix::new(&image[from..], column, positions, im2col.image())
            }
            None => {
                columns.resize(column * positions, T::ZERO);
                im2col.load(image, first, conv.image_channels, &part, &mut columns);
                Matrix::new(&columns, column, positions, positions)
            }
        };
        let from = block * CHANNELS;
        let channels = CHANNELS.min(conv.map_channels - from);
        let of_weight = group % conv.groups * conv.map_channels + from;
        let weight = Matrix::new(&weight[of_weight * column..], channels, column, column);
        let add_bias = |c: usize, sums: &mut [T]| {
            if let Some(bias) = bias {
                sums.iter_mut().for_each(|v| *v += bias[of_weight + c]);
            }
        };
        let place = |c: usize| {
            (group * conv.map_channels + from + c) * im2col.map() + part.start * im2col.width()
        };
        if let Some(Address(map)) = &direct {
            let map = map.cast::<T>();
            // SAFETY: each task has its own channels and positions of the map, an output of the
            // call whose elements follow one another.
            unsafe {
                multiply_to(map.add(place(0)), im2col.map(), weight, columns, false);
                for c in 0..channels {
                    add_bias(c, std::slice::from_raw_parts_mut(map.add(place(c)), positions));
                }
            }
            return;
        }
        let mut sums = vec![T::ZERO; channels * positions];
        multiply(&mut sums, weight, columns, false);
        for (c, sums) in sums.chunks_exact_mut(positions).enumerate() {
            add_bias(c, sums);
            map.store(place(c), sums);
        }
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
    let (kernel, positions) = (im2col.kernel(), im2col.image());
    let most = (ROWS / kernel).min(IMAGE / positions).clamp(1, conv.image_channels);
    let blocks = conv.image_channels.div_ceil(most);
    let column = conv.image_channels * kernel;
    ctx.for_each(conv.batch * conv.groups * blocks, |task| {
        let (group, block) = (task / blocks, task % blocks);
        let from = block * most;
        let channels = most.min(conv.image_channels - from);
        let mut sums = vec![T::ZERO; channels * positions];
        let of_weight = group % conv.groups * conv.map_channels * column + from * kernel;
        let rows = channels * kernel;
        let weight = Matrix::new(&weight[of_weight..], conv.map_channels, rows, column);
        for part in im2col.parts(rows.max(conv.map_channels)) {
            let map_values =
                load_map(&im2col, map, group * conv.map_channels, conv.map_channels, &part);
            let width = part.len() * im2col.width();
            let mut columns = vec![T::ZERO; rows * width];
            let map_values = Matrix::new(&map_values, conv.map_channels, width, width);
            multiply(&mut columns, weight.transposed(), map_values, false);
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

/// Loads a part of some channels of a map.
fn load_map<T: Real>(
    im2col: &Im2Col<'_>,
    map: &Sequence,
    first: usize,
    channels: usize,
    part: &std::ops::Range<usize>,
) -> Vec<T> {
    let positions = part.len() * im2col.width();
    let mut map_values = vec![T::ZERO; channels * positions];
    for (c, map_values) in map_values.chunks_exact_mut(positions).enumerate() {
        map.load((first + c) * im2col.map() + part.start * im2col.width(), map_values);
    }
    map_values
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
    let kernel = im2col.kernel();
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
            for part in im2col.parts(rows.max(map_channels)) {
                let positions = part.len() * im2col.width();
                let mut columns = vec![T::ZERO; rows * positions];
                let first = image_first * im2col.image();
                im2col.load(image, first, channels, &part, &mut columns);
                let map_values = load_map(&im2col, map, map_first, map_channels, &part);
                let map_values = Matrix::new(&map_values, map_channels, positions, positions);
                let columns = Matrix::new(&columns, rows, positions, positions);
                multiply(&mut sums, map_values, columns.transposed(), true);
            }
        }
        for (c, sums) in sums.chunks_exact(rows).enumerate() {
            out.store(((map_from + c) * conv.image_channels + from) * kernel, sums);
        }
    });
}

/// Computes the gradient for the bias: the sums over images and positions.
fn to_bias<T: Real>(ctx: &KernelCtx<'_>, conv: &Conv, grad: &Sequence, out: &Sequence) {
    let im2col = Im2Col(conv);
    let positions = if conv.transposed { im2col.image() } else { im2col.map() };
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
