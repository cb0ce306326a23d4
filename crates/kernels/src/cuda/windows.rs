//! The windows of an image as columns of a matrix, and columns added up to an image: what turns a
//! convolution into products.
//!
//! Row `(channel · places of the weight + place of the weight)` of the columns has, for each place of
//! the map, the element that the weight's place meets there, or zero outside of the image.
//!
//! Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for
//! document processing", 2006.

use std::ffi::CString;
use std::mem::offset_of;

use anyhow::Result;

use millstream_ep::cuda::Native;
use millstream_ops::conv::{Conv, SPATIAL_DIMS as PLACES};
use millstream_types::DType;

use super::call::{Argument, Head, Place};
use super::{Unsupported, launch, source};

/// What the kernels of this file are given, by value. The same lies in [`argument`], in CUDA C.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Call {
    head: Head,
    /// How many threads have something to do.
    count: u64,
    /// Channels of an image here, those of all groups.
    channels: u64,
    /// Channels of a group here.
    within: u64,
    /// The first place of the map, and how many from there on.
    first: u64,
    places: u64,
    /// Elements from one row of the columns to the next, and from one image's columns to the next.
    row: u64,
    step: u64,
    /// Elements from one group's bias to the next.
    bias: u64,
    conv: [[u64; PLACES]; 6],
    /// Of the image: number, group, channel, places.
    strides: [u64; 3 + PLACES],
    /// The image, the columns, the bias.
    operand: [Place; 3],
}

// SAFETY: `repr(C)`, of words after the head: no gaps.
unsafe impl Argument for Call {
    fn head(&self) -> Head {
        self.head
    }
}

/// Images of which some channels are used: all of each group from the first on.
#[derive(Clone, Copy)]
pub(super) struct Images {
    /// The first element of the first channel of the first image.
    pub(super) data: *mut u8,
    pub(super) dtype: DType,
    /// How many images.
    pub(super) count: usize,
    /// How many channels of each group.
    pub(super) within: usize,
    /// Elements from one image, group, channel and place to the next.
    pub(super) strides: [usize; 3 + PLACES],
}

/// Columns, and which of the map's places they have.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub(super) data: *mut u8,
    /// The first place.
    pub(super) first: usize,
    /// How many.
    pub(super) places: usize,
    /// Elements from one row to the next.
    pub(super) row: usize,
    /// Elements from one image to the next.
    pub(super) step: usize,
}

impl Call {
    fn new(conv: &Conv, images: &Images, columns: &Columns, column_bytes: usize) -> Call {
        let channels = conv.groups * images.within;
        let places = [conv.image, conv.map, conv.kernel, conv.stride, conv.padding, conv.dilation];
        let words = |of: [usize; PLACES]| of.map(|v| v as u64);
        let rows = channels * conv.kernel.iter().product::<usize>();
        let end = |steps: &[(usize, usize)]| -> u64 {
            let last: usize = steps.iter().map(|&(length, stride)| (length - 1) * stride).sum();
            last as u64 + 1
        };
        let [number, group, channel, near @ ..] = images.strides;
        let mut steps =
            vec![(images.count, number), (conv.groups, group), (images.within, channel)];
        steps.extend(conv.image.into_iter().zip(near));
        let place = |data: *mut u8, elements: u64, bytes: usize| Place {
            data: data.addr() as u64,
            bytes: elements * bytes as u64,
        };
        let of_columns = [(images.count, columns.step), (rows, columns.row), (columns.places, 1)];
        Call {
            head: Head {
                size: size_of::<Call>() as u32,
                operands: 3,
                at: offset_of!(Call, operand) as u32,
                step: size_of::<Place>() as u32,
            },
            channels: channels as u64,
            within: images.within as u64,
            first: columns.first as u64,
            places: columns.places as u64,
            row: columns.row as u64,
            step: columns.step as u64,
            conv: places.map(words),
            strides: images.strides.map(|stride| stride as u64),
            operand: [
                place(images.data, end(&steps), images.dtype.size()),
                place(columns.data, end(&of_columns), column_bytes),
                Place::default(),
            ],
            ..Call::default()
        }
    }
}

/// The argument, in CUDA C.
fn argument() -> String {
    format!(
        r#"struct Place {{ u64 data, bytes; }};
struct Windows {{
    Head head; u64 count, channels, within, first, places, row, step, bias;
    u64 image[{PLACES}], map[{PLACES}], kernel[{PLACES}], stride[{PLACES}], padding[{PLACES}];
    u64 dilation[{PLACES}], strides[3 + {PLACES}];
    Place operand[3];
}};
"#
    )
}

fn columns_name(bytes: usize) -> String {
    format!("ms_columns__{bytes}")
}

/// Each thread writes one place's column of one channel.
fn columns_source(bytes: usize) -> Result<CString> {
    let (name, argument) = (columns_name(bytes), argument());
    let element = match bytes {
        2 => "unsigned short",
        4 => "unsigned",
        _ => "u64",
    };
    let body = format!(
        r#"{argument}typedef {element} E;
extern "C" __global__ void {name}(const Windows call) {{
    u64 all = (u64)gridDim.x * blockDim.x;
    for (u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x; index < call.count; index += all) {{
        u64 within = index % call.places, rest = index / call.places;
        u64 channel = rest % call.channels, number = rest / call.channels;
        u64 place = call.first + within;
        u64 l = place % call.map[2], j = place / call.map[2] % call.map[1];
        u64 i = place / call.map[2] / call.map[1];
        u64 base = number * call.strides[0] + channel / call.within * call.strides[1]
            + channel % call.within * call.strides[2];
        const E* image = (const E*)call.operand[0].data + base;
        u64 kernel = call.kernel[0] * call.kernel[1] * call.kernel[2];
        E* to = (E*)call.operand[1].data + number * call.step + channel * kernel * call.row + within;
        for (u64 a = 0; a < call.kernel[0]; ++a) {{
            // Before the image begins these wrap to more than its length.
            u64 x = i * call.stride[0] + a * call.dilation[0] - call.padding[0];
            for (u64 b = 0; b < call.kernel[1]; ++b) {{
                u64 y = j * call.stride[1] + b * call.dilation[1] - call.padding[1];
                for (u64 c = 0; c < call.kernel[2]; ++c) {{
                    u64 z = l * call.stride[2] + c * call.dilation[2] - call.padding[2];
                    E value = 0;
                    if (x < call.image[0] && y < call.image[1] && z < call.image[2]) {{
                        const E* from = image + x * call.strides[3] + y * call.strides[4]
                            + z * call.strides[5];
                        MS_TOUCH(from, sizeof(E));
                        value = *from;
                    }}
                    MS_TOUCH(to, sizeof(E));
                    *to = value;
                    to += call.row;
                }}
            }}
        }}
    }}
}}
"#
    );
    source::with_prelude(&body)
}

fn image_name(dtype: DType) -> String {
    format!("ms_image__{}", dtype.name())
}

/// Each thread adds up one element of an image, in the order of the weight's places.
fn image_source(dtype: DType) -> Result<CString> {
    let (name, argument) = (image_name(dtype), argument());
    if !dtype.is_float() {
        return Err(Unsupported::of(dtype.name()));
    }
    let (element, computed) = (source::element(dtype), source::element(source::computed(dtype)));
    let body = format!(
        r#"{argument}typedef {element} E;
typedef {computed} T;
// Whether place `at` of the image is met from a place of the map by place `by` of the weight.
__device__ inline bool meets(const Windows& call, int k, u64 at, u64 by, u64& place) {{
    u64 shifted = at + call.padding[k], shift = by * call.dilation[k];
    if (shifted < shift) return false;
    place = (shifted - shift) / call.stride[k];
    return place * call.stride[k] == shifted - shift && place < call.map[k];
}}
extern "C" __global__ void {name}(const Windows call) {{
    u64 all = (u64)gridDim.x * blockDim.x;
    for (u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x; index < call.count; index += all) {{
        u64 z = index % call.image[2], rest = index / call.image[2];
        u64 y = rest % call.image[1];
        rest /= call.image[1];
        u64 x = rest % call.image[0];
        rest /= call.image[0];
        u64 channel = rest % call.channels, number = rest / call.channels;
        u64 kernel = call.kernel[0] * call.kernel[1] * call.kernel[2];
        const T* columns = (const T*)call.operand[1].data + number * call.step
            + channel * kernel * call.row;
        T sum = 0;
        for (u64 a = 0; a < call.kernel[0]; ++a) {{
            u64 i;
            if (!meets(call, 0, x, a, i)) continue;
            for (u64 b = 0; b < call.kernel[1]; ++b) {{
                u64 j;
                if (!meets(call, 1, y, b, j)) continue;
                for (u64 c = 0; c < call.kernel[2]; ++c) {{
                    u64 l;
                    if (!meets(call, 2, z, c, l)) continue;
                    u64 row = (a * call.kernel[1] + b) * call.kernel[2] + c;
                    const T* from = columns + row * call.row + (i * call.map[1] + j) * call.map[2] + l;
                    sum += load(from);
                }}
            }}
        }}
        u64 group = channel / call.within, own = channel % call.within;
        if (call.operand[2].bytes != 0) {{
            const E* bias = (const E*)call.operand[2].data + group * call.bias + own;
            sum += load(bias);
        }}
        E* to = (E*)call.operand[0].data + number * call.strides[0] + group * call.strides[1]
            + own * call.strides[2] + x * call.strides[3] + y * call.strides[4] + z * call.strides[5];
        store(to, sum);
    }}
}}
"#
    );
    source::with_prelude(&body)
}

/// Every source there is, by name.
pub(super) fn sources() -> Vec<(String, CString)> {
    let columns = [2, 4, 8].into_iter();
    let columns = columns.filter_map(|b| Some((columns_name(b), columns_source(b).ok()?)));
    let image = DType::ALL.into_iter();
    columns.chain(image.filter_map(|d| Some((image_name(d), image_source(d).ok()?)))).collect()
}

/// Writes the columns of images, in the images' dtype.
///
/// # Errors
/// The compiler's or the driver's.
///
/// # Safety
/// Images and columns are valid until the kernel has run, which is ordered against all other uses of
/// them. The columns are of the call's own memory.
pub(super) unsafe fn unfold(
    native: &Native,
    conv: &Conv,
    images: &Images,
    columns: &Columns,
) -> Result<()> {
    let bytes = images.dtype.size();
    let mut call = Call::new(conv, images, columns, bytes);
    call.count = images.count as u64 * call.channels * call.places;
    let name = columns_name(bytes);
    // SAFETY: the kernel touches images and columns alone, for which the caller answers.
    unsafe { launch::each(native, &name, || columns_source(bytes), call.count, call) }
}

/// Adds columns, of the type that is computed in, up to images, with a bias for each channel. `bias` is
/// the address of the first channel's, and elements from one group's to the next.
///
/// # Errors
/// The compiler's or the driver's.
///
/// # Safety
/// As for [`unfold`]; the bias has an element for each channel, of the images' dtype.
pub(super) unsafe fn fold(
    native: &Native,
    conv: &Conv,
    columns: &Columns,
    bias: Option<(*mut u8, usize)>,
    images: &Images,
) -> Result<()> {
    let wide = if images.dtype == DType::F64 { 8 } else { 4 };
    let mut call = Call::new(conv, images, columns, wide);
    call.count = images.count as u64 * call.channels * conv.image.iter().product::<usize>() as u64;
    if let Some((data, group)) = bias {
        let elements = (conv.groups - 1) * group + images.within;
        let bytes = (elements * images.dtype.size()) as u64;
        (call.bias, call.operand[2]) = (group as u64, Place { data: data.addr() as u64, bytes });
    }
    let (name, dtype) = (image_name(images.dtype), images.dtype);
    // SAFETY: the kernel touches images, columns and bias alone, for which the caller answers.
    unsafe { launch::each(native, &name, || image_source(dtype), call.count, call) }
}
