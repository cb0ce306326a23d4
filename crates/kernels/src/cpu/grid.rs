//! Kernels of samples at the points of a grid, in f64. One thread computes all channels of an
//! image, so that gradients are added in a fixed order.

use anyhow::{Result, ensure};

use super::strided::{Sequence, load_all};
use super::{Kernel, Written};
use crate::context::KernelCtx;

/// The kernels, with the operands that they write.
pub(crate) const KERNELS: &[(Kernel, Written)] = &[
    (("grid_sampler_2d", samples), Written::Last(1)),
    (("grid_sampler_3d", samples), Written::Last(1)),
    (("grid_sampler_2d_backward", gradients), Written::After(3)),
    (("grid_sampler_3d_backward", gradients), Written::After(3)),
];

/// How points are read.
#[derive(Clone, Copy)]
struct Modes {
    interpolation: i64,
    padding: i64,
    aligned: bool,
}

impl Modes {
    fn of(ctx: &KernelCtx<'_>) -> Result<Modes> {
        let attrs = ctx.attrs();
        Ok(Modes {
            interpolation: attrs.int("interpolation_mode")?.unwrap_or(0),
            padding: attrs.int("padding_mode")?.unwrap_or(0),
            aligned: attrs.bool("align_corners")?.unwrap_or(false),
        })
    }

    /// Returns the position of a coordinate along a dimension, and its derivative.
    fn position(self, coordinate: f64, length: usize) -> (f64, f64) {
        let size = length as f64;
        match self.aligned {
            true => ((coordinate + 1.0) / 2.0 * (size - 1.0), (size - 1.0) / 2.0),
            false => (((coordinate + 1.0) * size - 1.0) / 2.0, size / 2.0),
        }
    }

    /// Moves a position into the range that the padding gives, with its derivative.
    fn padded(self, position: f64, length: usize) -> (f64, f64) {
        let last = length as f64 - 1.0;
        let clamp = |(at, slope): (f64, f64)| match at {
            at if at.is_nan() || at <= 0.0 => (0.0, 0.0),
            at if at >= last => (last, 0.0),
            at => (at, slope),
        };
        match self.padding {
            0 => (position, 1.0),
            1 => clamp((position, 1.0)),
            _ => {
                let (low, high) = if self.aligned { (0.0, last) } else { (-0.5, last + 0.5) };
                clamp(reflected(position, low, high))
            }
        }
    }
}

/// Reflects a position at both ends of a range.
fn reflected(position: f64, low: f64, high: f64) -> (f64, f64) {
    let span = high - low;
    if span == 0.0 {
        return (0.0, 0.0);
    }
    let (distance, sign) =
        if position < low { (low - position, -1.0) } else { (position - low, 1.0) };
    let (rest, flips) = (distance % span, (distance / span).floor());
    match flips % 2.0 == 0.0 {
        true => (rest + low, sign),
        false => (span - rest + low, -sign),
    }
}

/// The elements along one dimension that a sample reads: index, weight, and the weight's derivative
/// by the coordinate. An index is `None` outside.
type Taps = Vec<(Option<usize>, f64, f64)>;

fn taps(modes: Modes, coordinate: f64, length: usize) -> Taps {
    let (position, slope) = modes.position(coordinate, length);
    let within = |at: f64| (at >= 0.0 && at < length as f64).then_some(at as usize);
    match modes.interpolation {
        2 => {
            let first = position.floor();
            let t = position - first;
            let each = (0..4).map(|k| {
                let (weight, derivative) = cubic(t, k);
                let at = modes.padded(first + k as f64 - 1.0, length).0;
                (within(at.round_ties_even()), weight, derivative * slope)
            });
            each.collect()
        }
        1 => {
            let at = modes.padded(position, length).0;
            vec![(within(at.round_ties_even()), 1.0, 0.0)]
        }
        _ => {
            let (at, inner) = modes.padded(position, length);
            let (first, slope) = (at.floor(), slope * inner);
            let share = at - first;
            vec![(within(first), 1.0 - share, -slope), (within(first + 1.0), share, slope)]
        }
    }
}

/// Returns the weight of element k - 1 from a position between elements 0 and 1, and its
/// derivative.
///
/// Source: R. Keys, "Cubic convolution interpolation for digital image processing", 1981, with
/// A = -0.75.
fn cubic(t: f64, k: usize) -> (f64, f64) {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A;
    let near_slope = |x: f64| (3.0 * (A + 2.0) * x - 2.0 * (A + 3.0)) * x;
    let far_slope = |x: f64| (3.0 * A * x - 10.0 * A) * x + 8.0 * A;
    match k {
        0 => (far(t + 1.0), far_slope(t + 1.0)),
        1 => (near(t), near_slope(t)),
        2 => (near(1.0 - t), -near_slope(1.0 - t)),
        _ => (far(2.0 - t), -far_slope(2.0 - t)),
    }
}

/// The geometry of a call: batches, channels, elements of an image, points of a grid.
struct Geometry {
    lengths: Vec<usize>,
    batches: usize,
    channels: usize,
    elements: usize,
    points: usize,
    modes: Modes,
}

impl Geometry {
    fn of(ctx: &KernelCtx<'_>, x: &[usize], grid: &[usize]) -> Result<Geometry> {
        let dims = x.len().saturating_sub(2);
        ensure!(dims > 0 && grid.len() == dims + 2, "schema and kernel disagree");
        Ok(Geometry {
            lengths: x[2..].to_vec(),
            batches: x[0],
            channels: x[1],
            elements: x[2..].iter().product(),
            points: grid[1..=dims].iter().product(),
            modes: Modes::of(ctx)?,
        })
    }

    /// Calls `f` for each combination of taps: the offset of the element, if it is inside, the
    /// weight, and the derivatives by each coordinate.
    fn visit(&self, point: &[f64], mut f: impl FnMut(Option<usize>, f64, &[f64])) {
        let dims = self.lengths.len();
        let all: Vec<Taps> =
            (0..dims).map(|k| taps(self.modes, point[dims - 1 - k], self.lengths[k])).collect();
        let count: usize = all.iter().map(Vec::len).product();
        for number in 0..count {
            let (mut rest, mut offset, mut weight) = (number, Some(0), 1.0);
            let mut chosen = vec![0; dims];
            for k in (0..dims).rev() {
                chosen[k] = rest % all[k].len();
                rest /= all[k].len();
            }
            for k in 0..dims {
                let (index, share, _) = all[k][chosen[k]];
                offset = offset.zip(index).map(|(o, index)| o * self.lengths[k] + index);
                weight *= share;
            }
            let slopes: Vec<f64> = (0..dims)
                .map(|k| {
                    let others = (0..dims).filter(|&j| j != k).map(|j| all[j][chosen[j]].1);
                    others.product::<f64>() * all[k][chosen[k]].2
                })
                .collect();
            f(offset, weight, &slopes);
        }
    }
}

/// `grid_sampler_2d(x, grid; interpolation_mode, padding_mode, align_corners)`.
fn samples(ctx: &KernelCtx<'_>) -> Result<()> {
    let (x, grid, out) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let geometry = Geometry::of(ctx, x.shape, grid.shape)?;
    let Geometry { batches, channels, elements, points, .. } = geometry;
    let dims = geometry.lengths.len();
    // SAFETY: operands of the call; each image of the output is stored by one thread.
    let (from, grid, to) = unsafe { (Sequence::new(x), Sequence::new(grid), Sequence::new(out)) };
    ctx.for_each(batches, |batch| {
        let mut image = vec![0f64; channels * elements];
        let mut places = vec![0f64; points * dims];
        from.load(batch * channels * elements, &mut image);
        grid.load(batch * points * dims, &mut places);
        let mut made = vec![0f64; channels * points];
        for (at, point) in places.chunks(dims).enumerate() {
            geometry.visit(point, |offset, weight, _| {
                let Some(offset) = offset else { return };
                for channel in 0..channels {
                    made[channel * points + at] += weight * image[channel * elements + offset];
                }
            });
        }
        to.store(batch * channels * points, &made);
    });
    Ok(())
}

/// `grid_sampler_2d_backward(grad, x, grid; …, output_mask)`.
fn gradients(ctx: &KernelCtx<'_>) -> Result<()> {
    let (grad, x, grid) = (ctx.operand(0)?, ctx.operand(1)?, ctx.operand(2)?);
    let geometry = Geometry::of(ctx, x.shape, grid.shape)?;
    let Geometry { batches, channels, elements, points, .. } = geometry;
    let dims = geometry.lengths.len();
    let mask = ctx.attrs().ints("output_mask")?.unwrap_or_else(|| vec![1, 1]);
    let mut next = 3;
    let mut output = |k: usize| {
        let wanted = mask.get(k).is_some_and(|&m| m != 0);
        next += usize::from(wanted);
        // SAFETY: an output of the call; each image is stored by one thread.
        wanted.then(|| ctx.operand(next - 1).map(|out| unsafe { Sequence::new(out) })).transpose()
    };
    let (of_x, of_grid) = (output(0)?, output(1)?);
    let (grads, images, grids): (Vec<f64>, Vec<f64>, Vec<f64>) =
        (load_all(grad), load_all(x), load_all(grid));
    ctx.for_each(batches, |batch| {
        let image = &images[batch * channels * elements..];
        let grads = &grads[batch * channels * points..];
        let places = &grids[batch * points * dims..(batch + 1) * points * dims];
        let mut made = vec![0f64; channels * elements];
        let mut moved = vec![0f64; points * dims];
        for (at, point) in places.chunks(dims).enumerate() {
            geometry.visit(point, |offset, weight, slopes| {
                let Some(offset) = offset else { return };
                for channel in 0..channels {
                    let grad = grads[channel * points + at];
                    let value = image[channel * elements + offset];
                    made[channel * elements + offset] += weight * grad;
                    for (k, slope) in slopes.iter().enumerate() {
                        moved[at * dims + dims - 1 - k] += slope * value * grad;
                    }
                }
            });
        }
        if let Some(of_x) = &of_x {
            of_x.store(batch * channels * elements, &made);
        }
        if let Some(of_grid) = &of_grid {
            of_grid.store(batch * points * dims, &moved);
        }
    });
    Ok(())
}
