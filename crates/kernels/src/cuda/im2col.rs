//! Unfolds the windows of an image to the columns of a matrix (im2col), and folds columns to an
//! image (col2im). Both turn convolutions into matrix products.
//!
//! Each position of the map has one column. Row `channel · kernel size + kernel position` holds the
//! element of the image that this position of the kernel reads there, or zero outside of the image.
//!
//! Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for
//! document processing", 2006.

use std::ffi::CString;

use anyhow::Result;

use millstream_ep::cuda::NativeStream;
use millstream_ops::conv::{Conv, SPATIAL_DIMS};
use millstream_types::DType;

use super::source;
use super::strided::{StridedArgs, StridedOperand, TensorView};
use super::template::{KernelTemplate, template};

const IM2COL: KernelTemplate = template!("im2col", "columns.cu");
const COL2IM: KernelTemplate = template!("col2im", "columns.cu");

pub(super) fn sources() -> Vec<(String, CString)> {
    [IM2COL.sized_sources(), COL2IM.typed_sources(super::SAMPLE_DTYPES)].concat()
}

/// Images with a selection of consecutive channels of each group, by image, group, channel and
/// spatial dimension.
pub(super) type Images = TensorView<{ 3 + SPATIAL_DIMS }>;

/// Columns of consecutive positions of the map, by image, group, row and position. Groups follow
/// one another without a gap.
pub(super) type Columns = TensorView<4>;

/// Returns the arguments of the kernels for columns from position `first` of the map on.
fn args(
    conv: &Conv,
    images: &Images,
    (first, columns): (usize, &Columns),
    bias: Option<&TensorView<2>>,
) -> Result<StridedArgs> {
    let rank = images.shape.len();
    let mut operands =
        vec![StridedOperand::new(images.raw()), StridedOperand::fixed(columns.raw(), rank)];
    if let Some(bias) = bias {
        let [group, channel] = bias.strides;
        operands.push(StridedOperand::with_strides(bias.raw(), [0, group, channel, 0, 0, 0]));
    }
    let ([.., positions], [step, _, row, _]) = (columns.shape, columns.strides);
    let geometry = [conv.map, conv.kernel, conv.stride, conv.padding, conv.dilation].concat();
    let integers = [first, positions, row, step].into_iter().chain(geometry);
    let integers: Vec<i64> = integers.map(|v| v as i64).collect();
    StridedArgs::new(&images.shape, StridedArgs::KEEP_DIMENSIONS, &operands)?.integers(&integers)
}

/// Returns the dtype that products are added in: integers wrap in their own.
pub(super) fn summed(dtype: DType) -> DType {
    if dtype.is_float() { source::computed(dtype) } else { dtype }
}

/// Unfolds images to columns of the images' dtype, from position `first` of the map on.
///
/// # Errors
/// An error of the compiler or the driver.
///
/// # Safety
/// Images and columns are valid until the kernel has run, which is ordered against all other uses
/// of them. The columns are in the call's own memory.
pub(super) unsafe fn im2col(
    native: &NativeStream,
    conv: &Conv,
    images: &Images,
    first: usize,
    columns: &Columns,
) -> Result<()> {
    let mut args = args(conv, images, (first, columns), None)?;
    let [count, groups, channels, ..] = images.shape;
    args.count = (count * groups * channels * columns.shape[3]) as u64;
    // SAFETY: the kernel accesses only images and columns, as the caller promises.
    unsafe { IM2COL.launch_sized(native, images.dtype, args) }
}

/// Folds columns of all positions, in the type that images are computed in, to images, and adds a
/// bias, by group and channel.
///
/// # Errors
/// An error of the compiler or the driver.
///
/// # Safety
/// As for [`im2col`]; the bias has an element for each channel, of the images' dtype.
pub(super) unsafe fn col2im(
    native: &NativeStream,
    conv: &Conv,
    columns: &Columns,
    bias: Option<&TensorView<2>>,
    images: &Images,
) -> Result<()> {
    let args = args(conv, images, (0, columns), bias)?;
    // SAFETY: the kernel accesses only images, columns and bias, as the caller promises.
    unsafe { COL2IM.launch_typed(native, images.dtype, args) }
}
