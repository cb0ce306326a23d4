//! Kernels of the ops of `millstream_ops::conv`. cuBLAS multiplies the weight with unfolded columns
//! of windows. Scratch memory for the columns is bounded: it holds the columns of several images,
//! or of a part of one image.
//!
//! A convolution computes the map from the image. The gradient of the image, and a transposed
//! convolution, compute the image from the map. Sums over several parts are added in the type that
//! the dtype is computed in, and rounded once; sums of integers wrap in their own dtype.
//!
//! Long because the three products share the chunks of columns and the views of their operands.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};

use millstream_ep::cuda::{NativeStream, Scratch};
use millstream_ops::checks;
use millstream_ops::conv::{Conv, SPATIAL_DIMS};
use millstream_types::layout::contiguous_strides;
use millstream_types::{DType, Dims};

use super::gemm::{dense, multiply};
use super::im2col::{Columns, Images, col2im, im2col, summed};
use super::{KIND, channel_sum, copy, native};
use crate::context::{KernelCtx, RawTensor};
use crate::cpu::optional_inputs::{operands, required};
use crate::registry::KernelRegistry;

pub(super) fn register(kernels: &mut KernelRegistry) {
    kernels.register(KIND, "convolution", Arc::new(forward));
    kernels.register(KIND, "convolution_backward", Arc::new(backward));
}

/// The maximal bytes of columns in memory, unless one position or one channel needs more.
const MAX_COLUMN_BYTES: usize = 256 << 20;

/// The divisor of the device's memory that also limits the columns.
const MEMORY_SHARE: u64 = 64;

/// A call: its native stream, its scratch memory, and the convolution.
struct ConvCall<'a> {
    native: &'a NativeStream,
    scratch: Scratch<'a>,
    conv: Conv,
    /// Dense and row-major; for each group, map channels by image channels and kernel positions.
    weight: *mut u8,
    dtype: DType,
}

/// A map or image whose spatial dimensions can be iterated as one.
#[derive(Clone, Copy)]
struct FlatTensor {
    data: *mut u8,
    dtype: DType,
    /// The strides by number, channel and position, in elements.
    strides: [usize; 3],
}

/// Returns the stride of all spatial dimensions of `[n,c,..]` iterated as one, if there is one.
fn spatial_stride(tensor: &RawTensor<'_>) -> Option<usize> {
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
    let (grad, x, weight) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let mut at = 3;
    let mut outs = [None; 3];
    for (out, wanted) in outs.iter_mut().zip(checks::mask(ctx.attrs(), 3)?) {
        if wanted {
            *out = Some(ctx.operand(at)?);
            at += 1;
        }
    }
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

    /// Returns the number of kernel positions.
    fn kernel_size(&self) -> usize {
        self.conv.kernel.iter().product()
    }

    /// Returns the number of positions of the map.
    fn map_size(&self) -> usize {
        self.conv.map.iter().product()
    }

    /// Returns the number of images to process at once, and the number of `parts` of each, so that
    /// the columns fit into the bound. Each part needs columns of `bytes` bytes.
    fn chunk(&self, bytes: usize, parts: usize) -> (usize, usize) {
        let share = usize::try_from(self.native.properties().memory / MEMORY_SHARE)
            .unwrap_or(MAX_COLUMN_BYTES);
        let most = MAX_COLUMN_BYTES.min(share) / bytes.max(1);
        match most / parts.max(1) {
            0 => (1, most.max(1)),
            images => (images.min(self.conv.batch.max(1)), parts),
        }
    }

    /// Returns `count` images of a tensor from image `number` on, with all channels of each group.
    fn images(&self, tensor: &RawTensor<'_>, number: usize, count: usize) -> Images {
        let group_channels = self.conv.image_channels;
        let mut strides = [0; 3 + SPATIAL_DIMS];
        (strides[0], strides[2]) = (tensor.strides[0], tensor.strides[1]);
        strides[1] = group_channels * tensor.strides[1];
        let positions = &tensor.strides[2..];
        strides[3 + SPATIAL_DIMS - positions.len()..].copy_from_slice(positions);
        let data = tensor.data.wrapping_add(number * strides[0] * tensor.dtype.size());
        Images { data, dtype: tensor.dtype, count, group_channels, strides }
    }

    /// Returns a tensor with its spatial dimensions as one, copied if its strides do not allow it.
    ///
    /// # Safety
    /// `tensor` is an operand of the call.
    unsafe fn flat(&mut self, tensor: &RawTensor<'_>) -> Result<FlatTensor> {
        if let Some(position_stride) = spatial_stride(tensor) {
            let strides = [tensor.strides[0], tensor.strides[1], position_stride];
            return Ok(FlatTensor { data: tensor.data, dtype: tensor.dtype, strides });
        }
        // SAFETY: the caller's promise.
        let data = unsafe { dense(self.native, &mut self.scratch, tensor)? };
        let strides = contiguous_strides(tensor.shape)?;
        let position_stride =
            spatial_stride(&RawTensor { data, strides: &strides, ..*tensor }).unwrap_or(1);
        Ok(FlatTensor {
            data,
            dtype: tensor.dtype,
            strides: [strides[0], strides[1], position_stride],
        })
    }

    /// Returns whether the columns of an image are the image itself.
    fn is_pointwise(&self) -> bool {
        let Conv { kernel, stride, padding, .. } = &self.conv;
        kernel.iter().chain(stride).all(|&v| v == 1) && padding.iter().all(|&v| v == 0)
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
        let (kernel, all, size) = (self.kernel_size(), self.map_size(), self.dtype.size());
        let column = image_channels * kernel;
        let to = spatial_stride(&map).context("a new map is dense")?;
        let to = FlatTensor {
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
        let (images, parts) = match self.is_pointwise() && spatial_stride(&image).is_some() {
            true => (batch.max(1), all),
            false => self.chunk(groups * column * size, all),
        };
        let pointwise = self.is_pointwise().then(|| spatial_stride(&image)).flatten();
        let bytes = images * groups * column * parts * size;
        let columns = if pointwise.is_some() { image.data } else { self.scratch.take(bytes)? };
        for number in (0..batch).step_by(images) {
            let count = images.min(batch - number);
            for first in (0..all).step_by(parts) {
                let positions = parts.min(all - first);
                let from = match pointwise {
                    Some(position_stride) => Matrix {
                        data: image.data,
                        dtype: self.dtype,
                        shape: [count, groups, column, positions],
                        strides: [
                            image.strides[0],
                            image_channels * image.strides[1],
                            image.strides[1],
                            position_stride,
                        ],
                    },
                    None => {
                        let step = groups * column * positions;
                        let unfolded =
                            Columns { data: columns, first, positions, row: positions, step };
                        let images = self.images(&image, number, count);
                        // SAFETY: the caller's promise; the columns are scratch memory of the call.
                        unsafe { im2col(self.native, &self.conv, &images, &unfolded)? };
                        Matrix {
                            data: columns,
                            dtype: self.dtype,
                            shape: [count, groups, column, positions],
                            strides: [step, column * positions, positions, 1],
                        }
                    }
                };
                let out =
                    to.part(&self.conv, number, first, [count, groups, map_channels, positions]);
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
        let (kernel, all, computed) = (self.kernel_size(), self.map_size(), summed(self.dtype));
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
        let (images, group_channels) = self.chunk(groups * kernel * all * size, image_channels);
        let columns = self.scratch.take(images * groups * group_channels * kernel * all * size)?;
        for number in (0..batch).step_by(images) {
            let count = images.min(batch - number);
            for first in (0..image_channels).step_by(group_channels) {
                let group_channels = group_channels.min(image_channels - first);
                let rows = group_channels * kernel;
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
                let unfolded = Columns {
                    data: columns,
                    first: 0,
                    positions: all,
                    row: all,
                    step: out.strides[0],
                };
                let mut selected = self.images(&image, number, count);
                selected.group_channels = group_channels;
                selected.data =
                    selected.data.wrapping_add(first * image.strides[1] * image.dtype.size());
                let bias = bias.map(|data| data.wrapping_add(first * self.dtype.size()));
                // SAFETY: the caller's promise; the columns are scratch memory of the call.
                unsafe {
                    self.multiply(&weight, &from, &out, 0.0)?;
                    let bias = bias.map(|data| (data, image_channels));
                    col2im(self.native, &self.conv, &unfolded, bias, &selected)?;
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
        let (kernel, all, size) = (self.kernel_size(), self.map_size(), self.dtype.size());
        let column = image_channels * kernel;
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
                let unfolded = Columns { data: columns, first, positions, row, step: positions };
                let images = self.images(&image, number, count);
                let part =
                    from.part(&self.conv, number, first, [count, groups, map_channels, positions]);
                // SAFETY: the caller's promise; columns and the packed map are scratch memory of
                // the call.
                unsafe {
                    im2col(self.native, &self.conv, &images, &unfolded)?;
                    let map = part.side_by_side(self.native, packed_map)?;
                    let columns = Matrix {
                        data: columns,
                        dtype: self.dtype,
                        shape: [1, groups, row, column],
                        strides: [0, column * row, 1, row],
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

impl FlatTensor {
    /// Returns a part of a map, from image `number` and position `first` on. `shape` holds the
    /// numbers of images, groups, channels of a group, and positions.
    fn part(&self, conv: &Conv, number: usize, first: usize, shape: [usize; 4]) -> Matrix {
        let [image_stride, channel, position_stride] = self.strides;
        let offset = (number * image_stride + first * position_stride) * self.dtype.size();
        let strides = [image_stride, conv.map_channels * channel, channel, position_stride];
        Matrix { data: self.data.wrapping_add(offset), dtype: self.dtype, shape, strides }
    }
}

/// Matrices, one per image and group.
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
