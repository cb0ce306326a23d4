//! Unfolds the windows of an image to the columns of a matrix (im2col), and folds columns to an
//! image (col2im). Both turn convolutions into matrix products.
//!
//! Each position of the map has one column. Row `channel · kernel size + kernel position` holds the
//! element of the image that this position of the kernel reads there, or zero outside of the image.
//!
//! Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for
//! document processing", 2006.

use std::ffi::CString;
use std::mem::offset_of;

use anyhow::Result;

use millstream_ep::cuda::NativeStream;
use millstream_ops::conv::{Conv, SPATIAL_DIMS};
use millstream_types::DType;

use super::args::{ArgsHeader, KernelArgs, MemoryRange};
use super::{Unsupported, launch, source};

/// The argument block, passed by value. [`args_source`] declares the same type in CUDA C.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Im2colArgs {
    header: ArgsHeader,
    /// The number of work items.
    count: u64,
    /// The selected channels of an image, in all groups.
    channels: u64,
    /// The selected channels of a group.
    group_channels: u64,
    /// The first selected position of the map, and the number of selected positions.
    first: u64,
    positions: u64,
    /// The strides of the columns from row to row, and from image to image, in elements.
    row: u64,
    step: u64,
    /// The stride of the bias from group to group, in elements.
    bias: u64,
    conv: [[u64; SPATIAL_DIMS]; 6],
    /// The strides of the image: number, group, channel, spatial dimensions.
    strides: [u64; 3 + SPATIAL_DIMS],
    /// The image, the columns, the bias.
    operand: [MemoryRange; 3],
}

// SAFETY: `repr(C)`; after the header all fields are words, so there is no padding.
unsafe impl KernelArgs for Im2colArgs {
    fn header(&self) -> ArgsHeader {
        self.header
    }
}

/// Images with a selection of channels: consecutive channels of each group.
#[derive(Clone, Copy)]
pub(super) struct Images {
    /// The first element of the first channel of the first image.
    pub(super) data: *mut u8,
    pub(super) dtype: DType,
    /// The number of images.
    pub(super) count: usize,
    /// The number of selected channels of each group.
    pub(super) group_channels: usize,
    /// The strides by image, group, channel and spatial dimension, in elements.
    pub(super) strides: [usize; 3 + SPATIAL_DIMS],
}

/// Columns for consecutive positions of the map.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub(super) data: *mut u8,
    /// The first position.
    pub(super) first: usize,
    /// The number of positions.
    pub(super) positions: usize,
    /// The stride from row to row, in elements.
    pub(super) row: usize,
    /// The stride from image to image, in elements.
    pub(super) step: usize,
}

impl Im2colArgs {
    fn new(conv: &Conv, images: &Images, columns: &Columns, column_bytes: usize) -> Im2colArgs {
        let channels = conv.groups * images.group_channels;
        let shapes = [conv.image, conv.map, conv.kernel, conv.stride, conv.padding, conv.dilation];
        let words = |of: [usize; SPATIAL_DIMS]| of.map(|v| v as u64);
        let rows = channels * conv.kernel.iter().product::<usize>();
        let end = |steps: &[(usize, usize)]| -> u64 {
            let last: usize = steps.iter().map(|&(length, stride)| (length - 1) * stride).sum();
            last as u64 + 1
        };
        let [number, group, channel, spatial @ ..] = images.strides;
        let mut steps =
            vec![(images.count, number), (conv.groups, group), (images.group_channels, channel)];
        steps.extend(conv.image.into_iter().zip(spatial));
        let range = |data: *mut u8, elements: u64, bytes: usize| MemoryRange {
            data: data.addr() as u64,
            bytes: elements * bytes as u64,
        };
        let column_steps =
            [(images.count, columns.step), (rows, columns.row), (columns.positions, 1)];
        Im2colArgs {
            header: ArgsHeader {
                size: size_of::<Im2colArgs>() as u32,
                operands: 3,
                offset: offset_of!(Im2colArgs, operand) as u32,
                stride: size_of::<MemoryRange>() as u32,
            },
            channels: channels as u64,
            group_channels: images.group_channels as u64,
            first: columns.first as u64,
            positions: columns.positions as u64,
            row: columns.row as u64,
            step: columns.step as u64,
            conv: shapes.map(words),
            strides: images.strides.map(|stride| stride as u64),
            operand: [
                range(images.data, end(&steps), images.dtype.size()),
                range(columns.data, end(&column_steps), column_bytes),
                MemoryRange::default(),
            ],
            ..Im2colArgs::default()
        }
    }
}

/// Returns the declaration of the argument block in CUDA C.
fn args_source() -> String {
    format!(
        r#"struct MemoryRange {{ u64 data, bytes; }};
struct Im2colArgs {{
    ArgsHeader header; u64 count, channels, group_channels, first, positions, row, step, bias;
    u64 image[{SPATIAL_DIMS}], map[{SPATIAL_DIMS}], kernel[{SPATIAL_DIMS}];
    u64 stride[{SPATIAL_DIMS}], padding[{SPATIAL_DIMS}];
    u64 dilation[{SPATIAL_DIMS}], strides[3 + {SPATIAL_DIMS}];
    MemoryRange operand[3];
}};
"#
    )
}

fn im2col_name(bytes: usize) -> String {
    format!("ms_im2col__{bytes}")
}

/// Returns the source of the im2col kernel. Each thread writes the part of a column that belongs
/// to one channel.
fn im2col_source(bytes: usize) -> Result<CString> {
    let (name, args_source) = (im2col_name(bytes), args_source());
    let element = match bytes {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned",
        _ => "u64",
    };
    let body = format!(
        r#"{args_source}typedef {element} E;
extern "C" __global__ void {name}(const Im2colArgs args) {{
    u64 step = (u64)gridDim.x * blockDim.x, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (u64 index = thread; index < args.count; index += step) {{
        u64 within = index % args.positions, rest = index / args.positions;
        u64 channel = rest % args.channels, number = rest / args.channels;
        u64 position = args.first + within;
        u64 l = position % args.map[2], j = position / args.map[2] % args.map[1];
        u64 i = position / args.map[2] / args.map[1];
        u64 base = number * args.strides[0] + channel / args.group_channels * args.strides[1]
            + channel % args.group_channels * args.strides[2];
        const E* image = (const E*)args.operand[0].data + base;
        u64 kernel = args.kernel[0] * args.kernel[1] * args.kernel[2];
        E* to = (E*)args.operand[1].data + number * args.step + channel * kernel * args.row
            + within;
        for (u64 a = 0; a < args.kernel[0]; ++a) {{
            // In the padding before the image, these wrap to more than its length.
            u64 x = i * args.stride[0] + a * args.dilation[0] - args.padding[0];
            for (u64 b = 0; b < args.kernel[1]; ++b) {{
                u64 y = j * args.stride[1] + b * args.dilation[1] - args.padding[1];
                for (u64 c = 0; c < args.kernel[2]; ++c) {{
                    u64 z = l * args.stride[2] + c * args.dilation[2] - args.padding[2];
                    E value = 0;
                    if (x < args.image[0] && y < args.image[1] && z < args.image[2]) {{
                        const E* from = image + x * args.strides[3] + y * args.strides[4]
                            + z * args.strides[5];
                        MS_TOUCH(from, sizeof(E));
                        value = *from;
                    }}
                    MS_TOUCH(to, sizeof(E));
                    *to = value;
                    to += args.row;
                }}
            }}
        }}
    }}
}}
"#
    );
    source::with_prelude(&body)
}

fn col2im_name(dtype: DType) -> String {
    format!("ms_col2im__{}", dtype.name())
}

/// Returns the dtype that products are added in: integers wrap in their own.
pub(super) fn summed(dtype: DType) -> DType {
    if dtype.is_float() { source::computed(dtype) } else { dtype }
}

/// Returns the source of the col2im kernel. Each thread sums one element of an image, in the order
/// of the kernel positions.
fn col2im_source(dtype: DType) -> Result<CString> {
    let (name, args_source) = (col2im_name(dtype), args_source());
    if dtype == DType::Bool {
        return Err(Unsupported::of(dtype.name()));
    }
    let (element, computed) = (source::element(dtype), source::element(summed(dtype)));
    let body = format!(
        r#"{args_source}typedef {element} E;
typedef {computed} T;
// Whether the kernel position `tap` reads `position` of the image for some `output` position.
__device__ inline bool taps(const Im2colArgs& args, int k, u64 position, u64 tap, u64& output) {{
    u64 shifted = position + args.padding[k], shift = tap * args.dilation[k];
    if (shifted < shift) return false;
    output = (shifted - shift) / args.stride[k];
    return output * args.stride[k] == shifted - shift && output < args.map[k];
}}
extern "C" __global__ void {name}(const Im2colArgs args) {{
    u64 step = (u64)gridDim.x * blockDim.x, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (u64 index = thread; index < args.count; index += step) {{
        u64 z = index % args.image[2], rest = index / args.image[2];
        u64 y = rest % args.image[1];
        rest /= args.image[1];
        u64 x = rest % args.image[0];
        rest /= args.image[0];
        u64 channel = rest % args.channels, number = rest / args.channels;
        u64 kernel = args.kernel[0] * args.kernel[1] * args.kernel[2];
        const T* columns = (const T*)args.operand[1].data + number * args.step
            + channel * kernel * args.row;
        T sum = 0;
        for (u64 a = 0; a < args.kernel[0]; ++a) {{
            u64 i;
            if (!taps(args, 0, x, a, i)) continue;
            for (u64 b = 0; b < args.kernel[1]; ++b) {{
                u64 j;
                if (!taps(args, 1, y, b, j)) continue;
                for (u64 c = 0; c < args.kernel[2]; ++c) {{
                    u64 l;
                    if (!taps(args, 2, z, c, l)) continue;
                    u64 row = (a * args.kernel[1] + b) * args.kernel[2] + c;
                    u64 position = (i * args.map[1] + j) * args.map[2] + l;
                    sum += load(columns + row * args.row + position);
                }}
            }}
        }}
        u64 group = channel / args.group_channels, channel_in_group = channel % args.group_channels;
        if (args.operand[2].bytes != 0) {{
            const E* bias = (const E*)args.operand[2].data + group * args.bias + channel_in_group;
            sum += load(bias);
        }}
        E* to = (E*)args.operand[0].data + number * args.strides[0] + group * args.strides[1]
            + channel_in_group * args.strides[2] + x * args.strides[3] + y * args.strides[4]
            + z * args.strides[5];
        store(to, sum);
    }}
}}
"#
    );
    source::with_prelude(&body)
}

/// Returns all sources with their names.
pub(super) fn sources() -> Vec<(String, CString)> {
    let columns = [1, 2, 4, 8].into_iter();
    let columns = columns.filter_map(|b| Some((im2col_name(b), im2col_source(b).ok()?)));
    let image = DType::REAL.into_iter();
    columns.chain(image.filter_map(|d| Some((col2im_name(d), col2im_source(d).ok()?)))).collect()
}

/// Unfolds images to columns of the images' dtype.
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
    columns: &Columns,
) -> Result<()> {
    let bytes = images.dtype.size();
    let mut args = Im2colArgs::new(conv, images, columns, bytes);
    args.count = images.count as u64 * args.channels * args.positions;
    let name = im2col_name(bytes);
    // SAFETY: the kernel accesses only images and columns, as the caller promises.
    unsafe { launch::launch_items(native, &name, || im2col_source(bytes), args.count, args) }
}

/// Folds columns, in the type that images are computed in, to images, and adds a bias for each
/// channel. `bias` is the address of the first channel's bias and the stride from group to group,
/// in elements.
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
    bias: Option<(*mut u8, usize)>,
    images: &Images,
) -> Result<()> {
    let mut args = Im2colArgs::new(conv, images, columns, summed(images.dtype).size());
    args.count = images.count as u64 * args.channels * conv.image.iter().product::<usize>() as u64;
    if let Some((data, group)) = bias {
        let elements = (conv.groups - 1) * group + images.group_channels;
        let bytes = (elements * images.dtype.size()) as u64;
        (args.bias, args.operand[2]) =
            (group as u64, MemoryRange { data: data.addr() as u64, bytes });
    }
    let (name, dtype) = (col2im_name(images.dtype), images.dtype);
    // SAFETY: the kernel accesses only images, columns and bias, as the caller promises.
    unsafe { launch::launch_items(native, &name, || col2im_source(dtype), args.count, args) }
}
