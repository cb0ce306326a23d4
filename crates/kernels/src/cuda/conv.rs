//! Kernels of the ops of `millstream_ops::conv`: products of the weight with columns of windows, by
//! cuBLAS. Columns are made for as many images at once as scratch memory of a bounded size holds, and
//! for parts of an image where one has more.
//!
//! A convolution goes from image to map; its gradient for the image, and a transposed convolution, go
//! back. What is added up over parts is added up in the type that is computed in, and rounded once.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use millstream_ep::cuda::{Native, Scratch};
use millstream_ops::checks;
use millstream_ops::conv::{Conv, SPATIAL_DIMS as PLACES};
use millstream_types::layout::contiguous_strides;
use millstream_types::{DType, Dims};

use super::matrices::{dense, multiply};
use super::windows::{Columns, Images, fold, unfold};
use super::{KIND, copy, native, source, sums};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::optional_inputs::{operands, required};
use crate::registry::KernelRegistry;

pub(super) fn register(kernels: &mut KernelRegistry) {
    kernels.register(KIND, "convolution", Arc::new(forward));
    kernels.register(KIND, "convolution_backward", Arc::new(backward));
}

/// The most bytes of columns at once, unless one place, or one channel, has more.
const COLUMNS: usize = 256 << 20;

/// The same as a share of the device's memory.
const SHARE: u64 = 64;

/// A call: what launches, its memory, and the convolution.
struct Call<'a> {
    native: &'a Native,
    scratch: Scratch<'a>,
    conv: Conv,
    /// Dense and row-major, of a group: map channels by image channels and places of the weight.
    weight: *mut u8,
    dtype: DType,
}

/// A map, or an image, whose places can be walked as one dimension.
#[derive(Clone, Copy)]
struct Flat {
    data: *mut u8,
    dtype: DType,
    /// Of number, channel and place, in elements.
    strides: [usize; 3],
}

/// The stride by which all places of `[n,c,..]` are walked, if there is one.
fn place(tensor: &RawTensor<'_>) -> Option<usize> {
    let mut joined: Option<(usize, usize)> = None;
    for (&length, &stride) in tensor.shape.iter().zip(tensor.strides).skip(2).rev() {
        joined = match joined {
            _ if length == 1 => joined,
            None => Some((length, stride)),
            Some((all, first)) if stride == all * first => Some((all * length, first)),
            Some(_) => return None,
        };
    }
    Some(joined.map_or(1, |(_, stride)| stride))
}

/// `convolution(x, weight, bias?; ..)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([x, weight, bias], results) = operands::<3>(ctx, 1)?;
    let (x, weight, out) = (required(x)?, required(weight)?, results[0]);
    // SAFETY: operands of the call, of which the last is its output.
    unsafe {
        let mut call = Call::new(ctx, x, weight)?;
        ensure!(
            out.shape[..2] == [call.conv.batch, call.conv.channels()],
            "{out:?}: another shape"
        );
        match call.conv.transposed {
            false => call.onto_map(x, bias, out),
            true => call.onto_image(x, bias, out),
        }
    }
}

/// `convolution_backward(grad, x, weight; ..)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, x, weight) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let mut at = 3;
    let mut outs = [None; 3];
    for (out, wanted) in outs.iter_mut().zip(checks::mask(ctx.attrs(), 3)?) {
        if wanted {
            *out = Some(ctx.operand(at)?);
            at += 1;
        }
    }
    // SAFETY: operands of the call, of which the last ones are its outputs.
    unsafe {
        let mut call = Call::new(ctx, x, weight)?;
        let transposed = call.conv.transposed;
        ensure!(
            grad.shape[..2] == [call.conv.batch, call.conv.channels()],
            "{grad:?}: another shape"
        );
        if let Some(out) = outs[0] {
            match transposed {
                false => call.onto_image(grad, None, out)?,
                true => call.onto_map(grad, None, out)?,
            }
        }
        if let Some(out) = outs[1] {
            let (image, map) = if transposed { (grad, x) } else { (x, grad) };
            call.onto_weight(image, map, out)?;
        }
        if let Some(out) = outs[2] {
            sums::channels(call.native, grad, out)?;
        }
    }
    Ok(())
}

impl<'a> Call<'a> {
    /// # Safety
    /// Both are operands of the call.
    unsafe fn new(
        ctx: &KernelCtx<'a>,
        x: RawTensor<'_>,
        weight: RawTensor<'_>,
    ) -> Result<Call<'a>> {
        let conv = Conv::new(ctx.attrs(), x.shape, weight.shape)?;
        let native = native(ctx)?;
        let mut scratch = native.scratch();
        let is_dense = weight.strides == contiguous_strides(weight.shape)?.as_slice();
        let data = match is_dense {
            true => weight.data,
            // SAFETY: the caller's promise.
            false => unsafe { dense(native, &mut scratch, &weight)? },
        };
        Ok(Call { native, scratch, conv, weight: data, dtype: x.dtype })
    }

    /// The places of the weight.
    fn kernel(&self) -> usize {
        self.conv.kernel.iter().product()
    }

    /// The places of the map.
    fn map(&self) -> usize {
        self.conv.map.iter().product()
    }

    /// Cuts images, or else what `parts` of one image are, so that columns of `bytes` bytes for each
    /// part are not too many: how many images at once, and how many parts.
    fn cut(&self, bytes: usize, parts: usize) -> (usize, usize) {
        let share = usize::try_from(self.native.properties().memory / SHARE).unwrap_or(COLUMNS);
        let most = COLUMNS.min(share) / bytes.max(1);
        match most / parts.max(1) {
            0 => (1, most.max(1)),
            images => (images.min(self.conv.batch.max(1)), parts),
        }
    }

    /// A tensor as images, from image `number` on, with `within` channels of each group from the first.
    fn images(&self, tensor: &RawTensor<'_>, number: usize, count: usize) -> Images {
        let within = self.conv.image_channels;
        let mut strides = [0; 3 + PLACES];
        (strides[0], strides[2]) = (tensor.strides[0], tensor.strides[1]);
        strides[1] = within * tensor.strides[1];
        let places = &tensor.strides[2..];
        strides[3 + PLACES - places.len()..].copy_from_slice(places);
        let data = tensor.data.wrapping_add(number * strides[0] * tensor.dtype.size());
        Images { data, dtype: tensor.dtype, count, within, strides }
    }

    /// A tensor with its places as one dimension; a copy if they are none.
    ///
    /// # Safety
    /// It is an operand of the call.
    unsafe fn flat(&mut self, tensor: &RawTensor<'_>) -> Result<Flat> {
        if let Some(place) = place(tensor) {
            let strides = [tensor.strides[0], tensor.strides[1], place];
            return Ok(Flat { data: tensor.data, dtype: tensor.dtype, strides });
        }
        // SAFETY: the caller's promise.
        let data = unsafe { dense(self.native, &mut self.scratch, tensor)? };
        let strides = contiguous_strides(tensor.shape)?;
        let place = place(&RawTensor { data, strides: &strides, ..*tensor }).unwrap_or(1);
        Ok(Flat { data, dtype: tensor.dtype, strides: [strides[0], strides[1], place] })
    }

    /// Whether the columns of an image are the image itself.
    fn is_plain(&self) -> bool {
        let Conv { kernel, stride, padding, .. } = &self.conv;
        kernel.iter().chain(stride).all(|&v| v == 1) && padding.iter().all(|&v| v == 0)
    }

    /// From image to map.
    ///
    /// # Safety
    /// All are operands of the call, and `map` is its output.
    unsafe fn onto_map(
        &mut self,
        image: RawTensor<'_>,
        bias: Option<RawTensor<'_>>,
        map: RawTensor<'_>,
    ) -> Result<()> {
        let Conv { batch, groups, image_channels, map_channels, .. } = self.conv;
        let (kernel, all, size) = (self.kernel(), self.map(), self.dtype.size());
        let column = image_channels * kernel;
        let to = place(&map).context("the places of a new map are one dimension")?;
        let to = Flat {
            data: map.data,
            dtype: map.dtype,
            strides: [map.strides[0], map.strides[1], to],
        };
        if let Some(bias) = bias {
            let mut shape = Dims::from_elem(1, map.shape.len());
            let mut strides = Dims::from_elem(0, map.shape.len());
            (shape[1], strides[1]) = (bias.shape[0], bias.strides[0]);
            let bias = RawTensor { shape: &shape, strides: &strides, ..bias };
            // SAFETY: the caller's promise.
            unsafe { copy::strided(self.native, bias, map)? };
        }
        let beta = if bias.is_some() { 1.0 } else { 0.0 };
        let weight = Matrix {
            data: self.weight,
            dtype: self.dtype,
            shape: [1, groups, map_channels, column],
            strides: [0, map_channels * column, column, 1],
        };
        let (images, parts) = match self.is_plain() && place(&image).is_some() {
            true => (batch.max(1), all),
            false => self.cut(groups * column * size, all),
        };
        let plain = self.is_plain().then(|| place(&image)).flatten();
        let bytes = images * groups * column * parts * size;
        let columns = if plain.is_some() { image.data } else { self.scratch.take(bytes)? };
        for number in (0..batch).step_by(images) {
            let count = images.min(batch - number);
            for first in (0..all).step_by(parts) {
                let places = parts.min(all - first);
                let from = match plain {
                    Some(place) => Matrix {
                        data: image.data,
                        dtype: self.dtype,
                        shape: [count, groups, column, places],
                        strides: [
                            image.strides[0],
                            image_channels * image.strides[1],
                            image.strides[1],
                            place,
                        ],
                    },
                    None => {
                        let step = groups * column * places;
                        let made = Columns { data: columns, first, places, row: places, step };
                        let images = self.images(&image, number, count);
                        // SAFETY: the caller's promise; the columns are scratch memory of the call's.
                        unsafe { unfold(self.native, &self.conv, &images, &made)? };
                        Matrix {
                            data: columns,
                            dtype: self.dtype,
                            shape: [count, groups, column, places],
                            strides: [step, column * places, places, 1],
                        }
                    }
                };
                let out = to.part(&self.conv, number, first, [count, groups, map_channels, places]);
                // SAFETY: as above.
                unsafe { self.multiply(&weight, &from, &out, beta)? };
            }
        }
        Ok(())
    }

    /// From map to image.
    ///
    /// # Safety
    /// All are operands of the call, and `image` is its output.
    unsafe fn onto_image(
        &mut self,
        map: RawTensor<'_>,
        bias: Option<RawTensor<'_>>,
        image: RawTensor<'_>,
    ) -> Result<()> {
        let Conv { batch, groups, image_channels, map_channels, .. } = self.conv;
        let (kernel, all, computed) = (self.kernel(), self.map(), source::computed(self.dtype));
        let column = image_channels * kernel;
        // SAFETY: the caller's promise.
        let from = unsafe { self.flat(&map)? };
        let bias = match bias {
            Some(bias) if bias.strides != [1] => {
                // SAFETY: as above.
                Some(unsafe { dense(self.native, &mut self.scratch, &bias)? })
            }
            bias => bias.map(|bias| bias.data),
        };
        let size = computed.size();
        let (images, within) = self.cut(groups * kernel * all * size, image_channels);
        let columns = self.scratch.take(images * groups * within * kernel * all * size)?;
        for number in (0..batch).step_by(images) {
            let count = images.min(batch - number);
            for first in (0..image_channels).step_by(within) {
                let within = within.min(image_channels - first);
                let rows = within * kernel;
                let weight = Matrix {
                    data: self.weight.wrapping_add(first * kernel * self.dtype.size()),
                    dtype: self.dtype,
                    shape: [1, groups, rows, map_channels],
                    strides: [0, map_channels * column, 1, column],
                };
                let from = from.part(&self.conv, number, 0, [count, groups, map_channels, all]);
                let out = Matrix {
                    data: columns,
                    dtype: computed,
                    shape: [count, groups, rows, all],
                    strides: [groups * rows * all, rows * all, all, 1],
                };
                let made = Columns {
                    data: columns,
                    first: 0,
                    places: all,
                    row: all,
                    step: out.strides[0],
                };
                let mut images = self.images(&image, number, count);
                images.within = within;
                images.data =
                    images.data.wrapping_add(first * image.strides[1] * image.dtype.size());
                let bias = bias.map(|data| data.wrapping_add(first * self.dtype.size()));
                // SAFETY: the caller's promise; the columns are scratch memory of the call's.
                unsafe {
                    self.multiply(&weight, &from, &out, 0.0)?;
                    let bias = bias.map(|data| (data, image_channels));
                    fold(self.native, &self.conv, &made, bias, &images)?;
                }
            }
        }
        Ok(())
    }

    /// The gradient for the weight, from what lies at image and map.
    ///
    /// # Safety
    /// All are operands of the call, and `out` is its output.
    unsafe fn onto_weight(
        &mut self,
        image: RawTensor<'_>,
        map: RawTensor<'_>,
        out: RawTensor<'_>,
    ) -> Result<()> {
        let Conv { batch, groups, image_channels, map_channels, .. } = self.conv;
        let (kernel, all, size) = (self.kernel(), self.map(), self.dtype.size());
        let column = image_channels * kernel;
        if batch == 0 {
            // SAFETY: the caller's promise; a new result lies without gaps.
            return unsafe { self.native.fill(out.data, 0, out.numel() * size) };
        }
        // SAFETY: as above.
        let from = unsafe { self.flat(&map)? };
        let (images, parts) = self.cut(groups * (column + map_channels) * size, all);
        let columns = self.scratch.take(images * groups * column * parts * size)?;
        let gathered = self.scratch.take(images * groups * map_channels * parts * size)?;
        // The sums of several parts are rounded once.
        let direct = images >= batch
            && parts == all
            && out.strides == contiguous_strides(out.shape)?.as_slice();
        let computed = if direct { self.dtype } else { source::computed(self.dtype) };
        let data = match direct {
            true => out.data,
            false => self.scratch.take(out.numel() * computed.size())?,
        };
        let summed = Matrix {
            data,
            dtype: computed,
            shape: [1, groups, map_channels, column],
            strides: [0, map_channels * column, column, 1],
        };
        let mut beta = 0.0;
        for number in (0..batch).step_by(images) {
            let count = images.min(batch - number);
            for first in (0..all).step_by(parts) {
                let places = parts.min(all - first);
                let row = count * places;
                let made = Columns { data: columns, first, places, row, step: places };
                let there = self.images(&image, number, count);
                let part =
                    from.part(&self.conv, number, first, [count, groups, map_channels, places]);
                // SAFETY: the caller's promise; columns and what is gathered are scratch memory of the
                // call's.
                unsafe {
                    unfold(self.native, &self.conv, &there, &made)?;
                    let map = part.gather(self.native, gathered)?;
                    let columns = Matrix {
                        data: columns,
                        dtype: self.dtype,
                        shape: [1, groups, row, column],
                        strides: [0, column * row, 1, row],
                    };
                    self.multiply(&map, &columns, &summed, beta)?;
                }
                beta = 1.0;
            }
        }
        if !direct {
            let strides = contiguous_strides(out.shape)?;
            let summed = RawTensor { data, dtype: computed, shape: out.shape, strides: &strides };
            // SAFETY: as above.
            unsafe { copy::strided(self.native, summed, out)? };
        }
        Ok(())
    }

    /// # Safety
    /// The matrices are of operands of the call, or of its scratch memory.
    unsafe fn multiply(&mut self, x: &Matrix, y: &Matrix, out: &Matrix, beta: f64) -> Result<()> {
        let all = [x.raw(), y.raw(), out.raw()];
        // SAFETY: the caller's promise.
        unsafe { multiply(self.native, &mut self.scratch, all, 1.0, beta) }
    }
}

impl Flat {
    /// The part of a map with these images, groups, channels of a group, and places, from an image and
    /// a place on.
    fn part(&self, conv: &Conv, number: usize, first: usize, shape: [usize; 4]) -> Matrix {
        let [of_number, channel, place] = self.strides;
        let offset = (number * of_number + first * place) * self.dtype.size();
        let strides = [of_number, conv.map_channels * channel, channel, place];
        Matrix { data: self.data.wrapping_add(offset), dtype: self.dtype, shape, strides }
    }
}

/// Matrices by image and group.
struct Matrix {
    data: *mut u8,
    dtype: DType,
    shape: [usize; 4],
    strides: [usize; 4],
}

impl Matrix {
    fn raw(&self) -> RawTensor<'_> {
        RawTensor { data: self.data, dtype: self.dtype, shape: &self.shape, strides: &self.strides }
    }

    /// The matrices of all images of a group side by side, copied to `data` if there are several.
    ///
    /// # Safety
    /// The matrices are of an operand of the call, and `data` is scratch memory that is as large.
    unsafe fn gather(&self, native: &Native, data: *mut u8) -> Result<Matrix> {
        let ([count, groups, rows, places], [number, group, row, place]) =
            (self.shape, self.strides);
        let (data, strides) = match count {
            1 => (self.data, [0, group, row, place]),
            _ => {
                let (shape, strides) = ([groups, rows, count, places], [group, row, number, place]);
                let from = RawTensor { shape: &shape, strides: &strides, ..self.raw() };
                let dense = contiguous_strides(&shape)?;
                // SAFETY: the caller's promise.
                unsafe {
                    copy::strided(native, from, RawTensor { data, strides: &dense, ..from })?
                };
                (data, [0, rows * count * places, count * places, 1])
            }
        };
        let shape = [1, groups, rows, count * places];
        Ok(Matrix { data, dtype: self.dtype, shape, strides })
    }
}
