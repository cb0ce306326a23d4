//! Convolutions of integers, which wrap. They are rare, so plain loops compute them.

use anyhow::Result;
use millstream_ops::conv::{Conv, SPATIAL_DIMS};

use super::strided::{Sequence, load_all};
use crate::context::{KernelCtx, RawTensor};

type Lengths = [usize; SPATIAL_DIMS];

fn count(lengths: Lengths) -> usize {
    lengths.iter().product()
}

/// Returns the coordinates of an element by its row-major number.
fn coordinates(lengths: Lengths, number: usize) -> Lengths {
    let mut rest = number;
    let mut at = [0; SPATIAL_DIMS];
    for k in (0..SPATIAL_DIMS).rev() {
        (at[k], rest) = (rest % lengths[k], rest / lengths[k]);
    }
    at
}

/// Returns the number of the image's element that an element of the map and one of the weight
/// belong to; `None` in the padding.
fn image_element(conv: &Conv, map: Lengths, kernel: Lengths) -> Option<usize> {
    let mut number = 0;
    for k in 0..SPATIAL_DIMS {
        let padded = map[k] * conv.stride[k] + kernel[k] * conv.dilation[k];
        let at = padded.checked_sub(conv.padding[k]).filter(|at| *at < conv.image[k])?;
        number = number * conv.image[k] + at;
    }
    Some(number)
}

/// `convolution(x, weight, bias?; ..)` of integers.
///
/// # Safety
/// The tensors are operands of the call, of which `out` alone is written, and do not overlap it.
pub(super) unsafe fn forward(
    ctx: &KernelCtx<'_>,
    conv: &Conv,
    [x, weight, out]: [RawTensor<'_>; 3],
    bias: Option<RawTensor<'_>>,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    let (weights, bias, from, to) = unsafe {
        (load_all::<i64>(weight), bias.map(load_all::<i64>), Sequence::new(x), Sequence::new(out))
    };
    let (image, map, kernel) = (count(conv.image), count(conv.map), count(conv.kernel));
    let (read, written) = match conv.transposed {
        false => (conv.image_channels * image, conv.map_channels * map),
        true => (conv.map_channels * map, conv.image_channels * image),
    };
    // Groups are numbered in memory order over all images.
    ctx.for_each(conv.batch * conv.groups, |group| {
        let mut values = vec![0i64; read];
        from.load(group * read, &mut values);
        let mut sums = vec![0i64; written];
        let own = group % conv.groups;
        if let Some(bias) = &bias {
            let channels = conv.channels() / conv.groups;
            for (c, sums) in sums.chunks_exact_mut(written / channels).enumerate() {
                sums.fill(bias[own * channels + c]);
            }
        }
        // What lies below an element of the kernel is the same in all channels.
        for k in 0..kernel {
            let in_kernel = coordinates(conv.kernel, k);
            let pair = |at| Some((at, image_element(conv, coordinates(conv.map, at), in_kernel)?));
            let below: Vec<(usize, usize)> = (0..map).filter_map(pair).collect();
            for channels in 0..conv.map_channels * conv.image_channels {
                let first = own * conv.map_channels * conv.image_channels;
                let weight = weights[(first + channels) * kernel + k];
                let in_map = channels / conv.image_channels * map;
                let in_image = channels % conv.image_channels * image;
                for (at, of_image) in &below {
                    let (to, from) = match conv.transposed {
                        false => (in_map + at, in_image + of_image),
                        true => (in_image + of_image, in_map + at),
                    };
                    sums[to] = sums[to].wrapping_add(weight.wrapping_mul(values[from]));
                }
            }
        }
        to.store(group * written, &sums);
    });
    Ok(())
}
