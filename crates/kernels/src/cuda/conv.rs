//! Kernels of the ops of `millstream_ops::conv`. cuBLAS multiplies the weight with unfolded columns
//! of windows. Scratch memory for the columns is bounded: it holds the columns of several images,
//! or of a part of one image.
//!
//! A convolution computes the map from the image. The gradient of the image, and a transposed
//! convolution, compute the image from the map. Sums over several parts are added in the type that
//! the dtype is computed in, and rounded once; sums of integers wrap in their own dtype.
//!
//! Long because the three products share the chunks of columns and the views of their operands.

use anyhow::{Context, Result, ensure};

use millstream_ep::cuda::{NativeStream, Scratch};
use millstream_ops::conv::{Conv, SPATIAL_DIMS};
use millstream_types::layout::contiguous_strides;
use millstream_types::{DType, Dims};

use super::gemm::{dense, max_scratch, multiply};
use super::im2col::{Images, col2im, im2col, summed};
use super::strided::TensorView;
use super::{channel_sum, copy, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::optional_inputs::{gradient_operands, operands, required};

pub(super) const KERNELS: &[super::Kernel] =
    &[("convolution", forward), ("convolution_backward", backward)];

/// A call: its native stream, its scratch memory, and the convolution.
struct ConvCall<'a> {
    native: &'a NativeStream,
    scratch: Scratch<'a>,
    conv: Conv,
    /// Dense and row-major; for each group, map channels by image channels and kernel positions.
    weight: *mut u8,
    dtype: DType,
}

/// Matrices, one per image and group.
type Matrix = TensorView<4>;

/// A map by image, channel and position.
type FlatMap = TensorView<3>;

/// Returns `[n,c,..]` with its spatial dimensions as one, if its strides allow it.
fn flat(tensor: &RawTensor<'_>) -> Option<FlatMap> {
    let mut joined: Option<(usize, usize)> = None;
    for (&length, &stride) in tensor.shape.iter().zip(tensor.strides).skip(2).rev() {
        joined = match joined {
            _ if length == 1 => joined,
            None => Some((length, stride)),
            Some((all, first)) if stride == all * first => Some((all * length, first)),
            Some(_) => return None,
        };
    }
    let (positions, stride) = joined.unwrap_or((1, 1));
    Some(FlatMap {
        data: tensor.data,
        dtype: tensor.dtype,
        shape: [tensor.shape[0], tensor.shape[1], positions],
        strides: [tensor.strides[0], tensor.strides[1], stride],
    })
}

/// `convolution(x, weight, bias?; ..)`.
fn forward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([x, weight, bias], results) = operands::<3>(ctx, 1)?;
    let (x, weight, out) = (required(x)?, required(weight)?, results[0]);
    // SAFETY: operands of the call; the last one is its output.
    unsafe {
        let mut call = ConvCall::new(ctx, x, weight)?;
        ensure!(
            out.shape[..2] == [call.conv.batch, call.conv.channels()],
            "{out:?}: schema and kernel disagree"
        );
        match call.conv.transposed {
            false => call.image_to_map(x, bias, out),
            true => call.map_to_image(x, bias, out),
        }
    }
}

/// `convolution_backward(grad, x, weight; ..)`.
fn backward(ctx: &KernelCtx<'_>) -> Result<()> {
    let ([grad, x, weight], outs) = gradient_operands::<3>(ctx)?;
    let (grad, x, weight) = (required(grad)?, required(x)?, required(weight)?);
    // SAFETY: operands of the call; the last ones are its outputs.
    unsafe {
        let mut call = ConvCall::new(ctx, x, weight)?;
        let transposed = call.conv.transposed;
        ensure!(
            grad.shape[..2] == [call.conv.batch, call.conv.channels()],
            "{grad:?}: schema and kernel disagree"
        );
        if let Some(out) = outs[0] {
            match transposed {
                false => call.map_to_image(grad, None, out)?,
                true => call.image_to_map(grad, None, out)?,
            }
        }
        if let Some(out) = outs[1] {
            let (image, map) = if transposed { (grad, x) } else { (x, grad) };
            call.weight_gradient(image, map, out)?;
        }
        if let Some(out) = outs[2] {
            channel_sum::channel_sum(call.native, grad, out)?;
        }
    }
    Ok(())
}

impl<'a> ConvCall<'a> {
    /// Prepares a call. Copies the weight to scratch memory if it is not dense.
    ///
    /// # Safety
    /// Both are operands of the call.
    unsafe fn new(
        ctx: &KernelCtx<'a>,
        x: RawTensor<'_>,
        weight: RawTensor<'_>,
    ) -> Result<ConvCall<'a>> {
        let conv = Conv::new(ctx.attrs(), x.shape, weight.shape)?;
        let native = native(ctx)?;
        let mut scratch = native.scratch();
        let is_dense = weight.strides == contiguous_strides(weight.shape)?.as_slice();
        let data = match is_dense {
            true => weight.data,
            // SAFETY: the caller's promise.
            false => unsafe { dense(native, &mut scratch, &weight)? },
        };
        Ok(ConvCall { native, scratch, conv, weight: data, dtype: x.dtype })
    }

    /// Returns the number of images to process at once, and the number of `parts` of each, so that
    /// the columns fit into the bound: at least one part. Each needs columns of `bytes` bytes.
    fn chunk(&self, bytes: usize, parts: usize) -> (usize, usize) {
        let most = max_scratch(self.native) / bytes.max(1);
        match most / parts.max(1) {
            0 => (1, most.max(1)),
            images => (images.min(self.conv.batch.max(1)), parts),
        }
    }

    /// Returns `count` images of a tensor from image `number` on, with all channels of each group.
    fn images(&self, tensor: &RawTensor<'_>, number: usize, count: usize) -> Images {
        let Conv { groups, image_channels, image, .. } = self.conv;
        let [mut shape, mut strides] = [[1; 3 + SPATIAL_DIMS], [0; 3 + SPATIAL_DIMS]];
        shape[..3].copy_from_slice(&[count, groups, image_channels]);
        shape[3..].copy_from_slice(&image);
        let (of_image, of_channel) = (tensor.strides[0], tensor.strides[1]);
        strides[..3].copy_from_slice(&[of_image, image_channels * of_channel, of_channel]);
        let positions = &tensor.strides[2..];
        strides[3 + SPATIAL_DIMS - positions.len()..].copy_from_slice(positions);
        let images = Images { data: tensor.data, dtype: tensor.dtype, shape, strides };
        images.offset_by([number, 0, 0, 0, 0, 0])
    }

    /// Returns a map with its spatial dimensions as one, copied if its strides do not allow it.
    ///
    /// # Safety
    /// `map` is an operand of the call.
    unsafe fn flat(&mut self, map: &RawTensor<'_>) -> Result<FlatMap> {
        if let Some(flat) = flat(map) {
            return Ok(flat);
        }
        // SAFETY: the caller's promise.
        let data = unsafe { dense(self.native, &mut self.scratch, map)? };
        let strides = contiguous_strides(map.shape)?;
        flat(&RawTensor { data, strides: &strides, ..*map }).context("a copy is dense")
    }

    /// Returns matrices of a map, from image `number` and position `first` on: `count` images with
    /// `positions` positions each.
    fn part(
        &self,
        map: &FlatMap,
        [number, first]: [usize; 2],
        [count, positions]: [usize; 2],
    ) -> Matrix {
        let Conv { groups, map_channels, .. } = self.conv;
        let FlatMap { data, dtype, strides: [image, channel, position], .. } =
            map.offset_by([number, 0, first]);
        let strides = [image, map_channels * channel, channel, position];
        Matrix { data, dtype, shape: [count, groups, map_channels, positions], strides }
    }

    /// Computes the map from the image.
    ///
    /// # Safety
    /// All are operands of the call, and `map` is its output.
    unsafe fn image_to_map(
        &mut self,
        image: RawTensor<'_>,
        bias: Option<RawTensor<'_>>,
        map: RawTensor<'_>,
    ) -> Result<()> {
        let Conv { batch, groups, image_channels, map_channels, .. } = self.conv;
        let (all, size) = (self.conv.map_size(), self.dtype.size());
        let column = image_channels * self.conv.kernel_size();
        let to = flat(&map).context("a new map is dense")?;
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
        // The columns of a pointwise convolution are the image itself.
        let pointwise = flat(&image).filter(|_| self.conv.is_pointwise());
        let (images, parts) = match pointwise {
            Some(_) => (batch.max(1), all),
            None => self.chunk(groups * column * size, all),
        };
        let columns = match pointwise {
            Some(image) => image.data,
            None => self.scratch.take(images * groups * column * parts * size)?,
        };
        for number in (0..batch).step_by(images) {
            let count = images.min(batch - number);
            for first in (0..all).step_by(parts) {
                let positions = parts.min(all - first);
                let strides = match pointwise {
                    Some(FlatMap { strides: [image, channel, position], .. }) => {
                        [image, image_channels * channel, channel, position]
                    }
                    None => [groups * column * positions, column * positions, positions, 1],
                };
                let shape = [count, groups, column, positions];
                let from = Matrix { data: columns, dtype: self.dtype, shape, strides };
                if pointwise.is_none() {
                    let images = self.images(&image, number, count);
                    // SAFETY: the caller's promise; the columns are scratch memory of the call.
                    unsafe { im2col(self.native, &self.conv, &images, first, &from)? };
                }
                let out = self.part(&to, [number, first], [count, positions]);
                // SAFETY: as above.
                unsafe { self.multiply(&weight, &from, &out, beta)? };
            }
        }
        Ok(())
    }

    /// Computes the image from the map.
    ///
    /// # Safety
    /// All are operands of the call, and `image` is its output.
    unsafe fn map_to_image(
        &mut self,
        map: RawTensor<'_>,
        bias: Option<RawTensor<'_>>,
        image: RawTensor<'_>,
    ) -> Result<()> {
        let Conv { batch, groups, image_channels, map_channels, .. } = self.conv;
        let (kernel, all) = (self.conv.kernel_size(), self.conv.map_size());
        let (column, computed) = (image_channels * kernel, summed(self.dtype));
        // SAFETY: the caller's promise.
        let from = unsafe { self.flat(&map)? };
        let size = computed.size();
        let (images, channels) = self.chunk(groups * kernel * all * size, image_channels);
        let columns = self.scratch.take(images * groups * channels * kernel * all * size)?;
        for number in (0..batch).step_by(images) {
            let count = images.min(batch - number);
            for first in (0..image_channels).step_by(channels) {
                let channels = channels.min(image_channels - first);
                let rows = channels * kernel;
                let weight = Matrix {
                    data: self.weight.wrapping_add(first * kernel * self.dtype.size()),
                    dtype: self.dtype,
                    shape: [1, groups, rows, map_channels],
                    strides: [0, map_channels * column, 1, column],
                };
                let from = self.part(&from, [number, 0], [count, all]);
                let out = Matrix {
                    data: columns,
                    dtype: computed,
                    shape: [count, groups, rows, all],
                    strides: [groups * rows * all, rows * all, all, 1],
                };
                let mut selected =
                    self.images(&image, number, count).offset_by([0, 0, first, 0, 0, 0]);
                selected.shape[2] = channels;
                let bias = bias.map(|RawTensor { data, dtype, strides, .. }| {
                    let strides = [image_channels * strides[0], strides[0]];
                    TensorView { data, dtype, shape: [groups, channels], strides }
                        .offset_by([0, first])
                });
                // SAFETY: the caller's promise; the columns are scratch memory of the call.
                unsafe {
                    self.multiply(&weight, &from, &out, 0.0)?;
                    col2im(self.native, &self.conv, &out, bias.as_ref(), &selected)?;
                }
            }
        }
        Ok(())
    }

    /// Computes the gradient of the weight from the tensors that have the shapes of image and map.
    ///
    /// # Safety
    /// All are operands of the call, and `out` is its output.
    unsafe fn weight_gradient(
        &mut self,
        image: RawTensor<'_>,
        map: RawTensor<'_>,
        out: RawTensor<'_>,
    ) -> Result<()> {
        let Conv { batch, groups, image_channels, map_channels, .. } = self.conv;
        let (all, size) = (self.conv.map_size(), self.dtype.size());
        let column = image_channels * self.conv.kernel_size();
        if batch == 0 {
            // SAFETY: the caller's promise; a new result is dense.
            return unsafe { self.native.fill(out.data, 0, out.numel() * size) };
        }
        // SAFETY: as above.
        let from = unsafe { self.flat(&map)? };
        let (images, parts) = self.chunk(groups * (column + map_channels) * size, all);
        let columns = self.scratch.take(images * groups * column * parts * size)?;
        let packed_map = self.scratch.take(images * groups * map_channels * parts * size)?;
        // Sums over several parts are added in scratch memory and rounded once.
        let direct = images >= batch
            && parts == all
            && out.strides == contiguous_strides(out.shape)?.as_slice();
        let computed = if direct { self.dtype } else { summed(self.dtype) };
        let data = match direct {
            true => out.data,
            false => self.scratch.take(out.numel() * computed.size())?,
        };
        let sum = Matrix {
            data,
            dtype: computed,
            shape: [1, groups, map_channels, column],
            strides: [0, map_channels * column, column, 1],
        };
        let mut beta = 0.0;
        for number in (0..batch).step_by(images) {
            let count = images.min(batch - number);
            for first in (0..all).step_by(parts) {
                let positions = parts.min(all - first);
                let row = count * positions;
                let unfolded = Matrix {
                    data: columns,
                    dtype: self.dtype,
                    shape: [count, groups, column, positions],
                    strides: [positions, column * row, row, 1],
                };
                let images = self.images(&image, number, count);
                let part = self.part(&from, [number, first], [count, positions]);
                // SAFETY: the caller's promise; columns and the packed map are scratch memory of
                // the call.
                unsafe {
                    im2col(self.native, &self.conv, &images, first, &unfolded)?;
                    let map = part.side_by_side(self.native, packed_map)?;
                    let columns = Matrix {
                        shape: [1, groups, row, column],
                        strides: [0, column * row, 1, row],
                        ..unfolded
                    };
                    self.multiply(&map, &columns, &sum, beta)?;
                }
                beta = 1.0;
            }
        }
        if !direct {
            let strides = contiguous_strides(out.shape)?;
            let sum = RawTensor { data, dtype: computed, shape: out.shape, strides: &strides };
            // SAFETY: as above.
            unsafe { copy::strided(self.native, sum, out)? };
        }
        Ok(())
    }

    /// Launches `out = x y + beta · out`.
    ///
    /// # Safety
    /// The matrices are in operands of the call, or in its scratch memory.
    unsafe fn multiply(&mut self, x: &Matrix, y: &Matrix, out: &Matrix, beta: f64) -> Result<()> {
        let all = [x.raw(), y.raw(), out.raw()];
        // SAFETY: the caller's promise.
        unsafe { multiply(self.native, &mut self.scratch, all, 1.0, beta) }
    }
}

impl Matrix {
    /// Returns the matrices of all images of a group side by side. Copies them to `data` if there
    /// are several.
    ///
    /// # Safety
    /// The matrices are of an operand of the call, and `data` is scratch memory that is as large.
    unsafe fn side_by_side(&self, native: &NativeStream, data: *mut u8) -> Result<Matrix> {
        let ([count, groups, rows, positions], [number, group, row, position_stride]) =
            (self.shape, self.strides);
        let (data, strides) = match count {
            1 => (self.data, [0, group, row, position_stride]),
            _ => {
                let (shape, strides) =
                    ([groups, rows, count, positions], [group, row, number, position_stride]);
                let from = RawTensor { shape: &shape, strides: &strides, ..self.raw() };
                let dense = contiguous_strides(&shape)?;
                // SAFETY: the caller's promise.
                unsafe {
                    copy::strided(native, from, RawTensor { data, strides: &dense, ..from })?
                };
                (data, [0, rows * count * positions, count * positions, 1])
            }
        };
        let shape = [1, groups, rows, count * positions];
        Ok(Matrix { data, dtype: self.dtype, shape, strides })
    }
}
