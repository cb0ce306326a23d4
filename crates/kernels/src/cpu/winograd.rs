//! Convolutions with weights of 3 × 3 by Winograd's minimal filtering, F(2 × 2, 3 × 3): for a pair
//! of channels, a tile of 2 × 2 results takes 16 multiplications instead of 36.
//!
//! The 4 × 4 elements d of the image below a tile become Bᵀ d B, and the weights g become G g Gᵀ.
//! The products of both are summed over the channels, by 16 matrix products, to m. The tile is
//! Aᵀ m A, with
//!
//! ```text
//!      1  0 -1  0         1   0   0
//! Bᵀ = 0  1  1  0    G = 1/2 1/2 1/2    Aᵀ = 1  1  1  0
//!      0 -1  1  0        1/2 -1/2 1/2        0  1 -1 -1
//!      0  1  0 -1         0   0   1
//! ```
//!
//! An infinite element would reach all results of its tile: then nothing of the result counts, and
//! the caller computes it in another way.
//!
//! Long because the transformations and the division of the work are of one algorithm.
//!
//! Source: A. Lavin, S. Gray, "Fast algorithms for convolutional neural networks", CVPR 2016,
//! section 4.1.

use std::array::from_fn;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_ops::conv::Conv;
use millstream_types::DType;

use super::memory::Buffer;
use super::real::Real;
use super::slice_matmul::{Matrix, multiply};
use super::strided::Sequence;
use super::vectorised::vectorised;
use crate::context::KernelCtx;

/// The least number of channels on each side: with fewer, the transformations take longer than the
/// multiplications that they save.
const LEAST: usize = 32;

/// The least number of tiles, for the same reason.
const LEAST_TILES: usize = 96;

/// The elements of the transformed tiles that are computed together, unless a row has more.
const ELEMENTS: usize = 1 << 19;

/// The number of tasks that the channels of the result are divided for.
const SHARES: usize = 2;

/// The number of tasks for the tiles.
const TASKS: usize = 16;

/// The elements of a transformed tile.
const POINTS: usize = 16;

/// The number of tiles that are computed side by side.
const LANES: usize = 16;

/// A convolution with weights of 3 × 3 whose windows are all adjacent.
pub(crate) struct Winograd {
    batch: usize,
    /// The channels of the image and of the result.
    channels: [usize; 2],
    image: [usize; 2],
    padding: [usize; 2],
    result: [usize; 2],
    /// Whether it goes from the map to the image: then the weights are turned by half a circle.
    backward: bool,
}

/// Some rows of tiles of one image, and the number of the first tile among all that are computed
/// together.
struct Segment {
    image: usize,
    rows: Range<usize>,
    tile: usize,
}

/// The rows of tiles of one channel of an image.
struct Plane {
    /// The number of tiles in a row.
    across: usize,
    /// The number of rows of tiles.
    rows: usize,
    /// The length of the image's rows, and the number of padded elements before them.
    width: usize,
    padding: usize,
    /// The number of padded rows before the elements of the image.
    above: usize,
}

impl Winograd {
    /// Returns the convolution from the image to the map, or backward; none if it has another
    /// form, or is computed faster in another way.
    pub(crate) fn new<T: Real>(conv: &Conv, backward: bool) -> Option<Winograd> {
        let fits = T::DTYPE == DType::F32
            && conv.groups == 1
            && conv.kernel == [1, 3, 3]
            && conv.stride == [1; 3]
            && conv.dilation == [1; 3]
            && conv.image[0] == 1
            && conv.map[0] == 1
            && conv.padding[1..].iter().all(|&v| v <= 2);
        let pair = |all: [usize; 3]| [all[1], all[2]];
        let (padding, image, map) = (pair(conv.padding), pair(conv.image), pair(conv.map));
        let channels = [conv.image_channels, conv.map_channels];
        if !fits || channels.iter().any(|&c| c < LEAST) {
            return None;
        }
        let [from, to] = channels;
        let batch = conv.batch;
        let winograd = match backward {
            false => Winograd { batch, channels, image, padding, result: map, backward },
            true => Winograd {
                batch,
                channels: [to, from],
                image: map,
                padding: padding.map(|v| 2 - v),
                result: image,
                backward,
            },
        };
        let [down, across] = winograd.tiles();
        (batch * down * across >= LEAST_TILES).then_some(winograd)
    }

    /// Returns the number of rows of tiles, and of tiles in a row.
    fn tiles(&self) -> [usize; 2] {
        self.result.map(|length| length.div_ceil(2))
    }

    /// Computes the result, and returns whether all of it is finite. The weights are those of the
    /// convolution, dense.
    pub(crate) fn run<T: Real>(
        &self,
        ctx: &KernelCtx<'_>,
        image: &Sequence,
        weight: &[T],
        bias: Option<&[T]>,
        out: &Sequence,
    ) -> bool {
        // Relaxed: read once all tasks have ended.
        let is_finite = AtomicBool::new(true);
        let ([from, to], [down, across]) = (self.channels, self.tiles());
        let rows = self.batch * down;
        let at_once = (ELEMENTS / (POINTS * from.max(to) * across)).clamp(1, rows.max(1));
        let blocks = rows.div_ceil(at_once);
        let parts = SHARES.div_ceil(blocks.max(1)).min(to / LEAST);
        let each = to.div_ceil(parts);
        let parts = to.div_ceil(each);
        let of_part = |part: usize| part * each..to.min((part + 1) * each);
        let weights: Vec<OnceLock<Buffer<T>>> = (0..parts).map(|_| OnceLock::new()).collect();
        ctx.for_each(parts, |part| {
            weights[part].get_or_init(|| self.weights(weight, of_part(part)));
        });
        let tasks = blocks.min(TASKS);
        ctx.for_each(tasks * parts, |task| {
            let (part, task) = (task / tasks, task % tasks);
            let channels = of_part(part);
            let weights = weights[part].get_or_init(|| self.weights(weight, channels.clone()));
            let (mut tiles, mut products) = (Buffer::new(0), Buffer::new(0));
            for block in task * blocks / tasks..(task + 1) * blocks / tasks {
                let rows = block * at_once..rows.min((block + 1) * at_once);
                let step = (rows.len() * across).next_multiple_of(LANES);
                let segments = self.segments(rows);
                tiles.resize(POINTS * from * step);
                products.resize(POINTS * channels.len() * step);
                self.load(image, &segments, step, &mut tiles);
                let weights = weights.chunks_exact(channels.len() * from);
                let products_of = products.chunks_exact_mut(channels.len() * step);
                for ((products, tiles), weights) in
                    products_of.zip(tiles.chunks_exact(from * step)).zip(weights)
                {
                    let weights = Matrix::new(weights, channels.len(), from, from);
                    multiply(products, weights, Matrix::new(tiles, from, step, step), false);
                }
                if !self.store(&products, step, &segments, channels.clone(), bias, out) {
                    is_finite.store(false, Ordering::Relaxed);
                }
            }
        });
        is_finite.load(Ordering::Relaxed)
    }

    /// Returns the transformed weights of some channels of the result: for each point, a matrix
    /// with a row for each of these and a column for each channel of the image.
    fn weights<T: Real>(&self, weight: &[T], channels: Range<usize>) -> Buffer<T> {
        let [from, to] = self.channels;
        let matrix = channels.len() * from;
        let mut all = Buffer::new(POINTS * matrix);
        let (mut taps, mut columns) = (vec![T::ZERO; 9 * from], vec![T::ZERO; 12 * from]);
        for (row, channel) in channels.enumerate() {
            for other in 0..from {
                let at = if self.backward { other * to + channel } else { channel * from + other };
                for (k, &v) in weight[at * 9..at * 9 + 9].iter().enumerate() {
                    let k = if self.backward { 8 - k } else { k };
                    taps[k * from + other] = v;
                }
            }
            transform_weights(&taps, &mut columns, &mut all[row * from..], matrix);
        }
        all
    }

    /// Divides rows of tiles, numbered over all images, by image.
    fn segments(&self, rows: Range<usize>) -> Vec<Segment> {
        let [down, across] = self.tiles();
        let first = rows.start;
        let images = rows.start / down..rows.end.div_ceil(down);
        let segment = |image: usize| {
            let rows = rows.start.max(image * down)..rows.end.min((image + 1) * down);
            let tile = (rows.start - first) * across;
            Segment { image, rows: rows.start - image * down..rows.end - image * down, tile }
        };
        images.map(segment).collect()
    }

    /// Loads and transforms the tiles of the image: for each point, a matrix with a row for each
    /// channel and `step` columns for tiles.
    fn load<T: Real>(&self, image: &Sequence, segments: &[Segment], step: usize, tiles: &mut [T]) {
        let ([channels, _], [_, across]) = (self.channels, self.tiles());
        let [height, width] = self.image;
        let (mut elements, mut buffer) = (Vec::new(), Vec::new());
        for Segment { image: number, rows, tile } in segments {
            // The rows of the image below these tiles, counted with padding.
            let top = 2 * rows.start;
            let inside = |row: usize| row.saturating_sub(self.padding[0]).min(height);
            let loaded = inside(top)..inside(2 * rows.end + 2);
            let plane = Plane {
                across,
                rows: rows.len(),
                width,
                padding: self.padding[1],
                above: (loaded.start + self.padding[0]).saturating_sub(top),
            };
            elements.resize(loaded.len() * width, T::ZERO);
            for channel in 0..channels {
                let first = (number * channels + channel) * height + loaded.start;
                image.load(first * width, &mut elements);
                let to = &mut tiles[channel * step + tile..];
                transform_tiles(&elements, &plane, &mut buffer, to, channels * step);
            }
        }
    }

    /// Transforms the products to tiles of the result, and stores them. Returns whether all are
    /// finite.
    fn store<T: Real>(
        &self,
        products: &[T],
        step: usize,
        segments: &[Segment],
        channels: Range<usize>,
        bias: Option<&[T]>,
        out: &Sequence,
    ) -> bool {
        let mut is_finite = true;
        let ([_, all], [_, across]) = (self.channels, self.tiles());
        let [height, width] = self.result;
        let (mut tiles, mut elements) = (vec![T::ZERO; 4 * step], Vec::new());
        let matrix = channels.len() * step;
        for (row, channel) in channels.enumerate() {
            let bias = bias.map_or(T::ZERO, |bias| bias[channel]);
            transform_products(&products[row * step..], matrix, bias, &mut tiles);
            for Segment { image, rows, tile } in segments {
                let lines = 2 * rows.start..height.min(2 * rows.end);
                elements.resize(lines.len() * width, T::ZERO);
                for (line, elements) in elements.chunks_exact_mut(width).enumerate() {
                    let at = tile + line / 2 * across;
                    let pair = &tiles[line % 2 * 2 * step..];
                    interleave(&pair[at..at + across], &pair[step + at..], elements);
                }
                // Only finite numbers times zero are zero.
                is_finite &= elements.iter().all(|&v| v * T::ZERO == T::ZERO);
                let first = (image * all + channel) * height + lines.start;
                out.store(first * width, &elements);
            }
        }
        is_finite
    }
}

/// Computes a function of the elements of two slices.
#[inline(always)]
fn each<T: Real>(out: &mut [T], a: &[T], b: &[T], f: impl Fn(T, T) -> T) {
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = f(a, b);
    }
}

/// Computes G g for columns g of three slices, as four slices.
#[inline(always)]
fn weighted<T: Real>([a, b, c]: [&[T]; 3], out: [&mut [T]; 4]) {
    let half = T::from_f64(0.5);
    let [first, second, third, last] = out;
    first.copy_from_slice(a);
    last.copy_from_slice(c);
    for ((((second, third), &a), &b), &c) in second.iter_mut().zip(third).zip(a).zip(b).zip(c) {
        *second = (a + c + b) * half;
        *third = (a + c - b) * half;
    }
}

/// Returns four slices of a buffer, `step` elements apart from the one at `first` on.
#[inline(always)]
fn four<T>(buffer: &mut [T], first: usize, step: usize, count: usize) -> [&mut [T]; 4] {
    let mut rest = &mut buffer[first..];
    from_fn(|_| {
        let all = std::mem::take(&mut rest);
        let (slice, after) = all.split_at_mut(step.min(all.len()));
        rest = after;
        &mut slice[..count]
    })
}

vectorised! {
    /// Computes G g Gᵀ for weights of one channel of the result and all of the image; the points
    /// are `step` elements apart.
    fn transform_weights<T: Real>(
        taps: &[T],
        columns: &mut [T],
        to: &mut [T],
        step: usize,
    ) {
        let count = taps.len() / 9;
        for column in 0..3 {
            let taps: [&[T]; 3] = from_fn(|row| &taps[(3 * row + column) * count..][..count]);
            weighted(taps, four(columns, column * 4 * count, count, count));
        }
        for row in 0..4 {
            let columns = from_fn(|column| &columns[(4 * column + row) * count..][..count]);
            weighted(columns, four(to, 4 * row * step, step, count));
        }
    }

    /// Computes Bᵀ d B for all tiles of a plane of the image, whose rows follow one another; the
    /// points are `step` elements apart.
    fn transform_tiles<T: Real>(
        image: &[T],
        plane: &Plane,
        buffer: &mut Vec<T>,
        to: &mut [T],
        step: usize,
    ) {
        let &Plane { across, rows, width, padding, above } = plane;
        // One line with its padding, its elements at even and at odd places, and then d B: a matrix
        // for each column of B and even and odd lines, so that all tiles are one row.
        let (line, places, matrix) = (2 * across + 2, across + 1, (rows + 1) * across);
        buffer.clear();
        buffer.resize(line + 2 * places + 8 * matrix, T::ZERO);
        let (line, rest) = buffer.split_at_mut(line);
        let (even, rest) = rest.split_at_mut(places);
        let (odd, lines) = rest.split_at_mut(places);
        for (number, image) in (above..2 * rows + 2).zip(image.chunks_exact(width)) {
            line[padding..padding + width].copy_from_slice(image);
            for ((pair, even), odd) in line.as_chunks::<2>().0.iter().zip(&mut *even).zip(&mut *odd)
            {
                (*even, *odd) = (pair[0], pair[1]);
            }
            let first = number % 2 * 4 * matrix + number / 2 * across;
            let [a, b, c, d] = four(lines, first, matrix, across);
            each(a, even, &even[1..], |v, w| v - w);
            each(b, odd, &even[1..], |v, w| v + w);
            each(c, odd, &even[1..], |v, w| w - v);
            each(d, odd, &odd[1..], |v, w| v - w);
        }
        let count = rows * across;
        for column in 0..4 {
            let even = &lines[column * matrix..(column + 1) * matrix];
            let odd = &lines[(4 + column) * matrix..(5 + column) * matrix];
            let at = |row: usize| (4 * row + column) * step..(4 * row + column) * step + count;
            each(&mut to[at(0)], even, &even[across..], |v, w| v - w);
            each(&mut to[at(1)], odd, &even[across..], |v, w| v + w);
            each(&mut to[at(2)], odd, &even[across..], |v, w| w - v);
            each(&mut to[at(3)], odd, &odd[across..], |v, w| v - w);
        }
    }

    /// Computes Aᵀ m A, plus the bias, for a row of tiles whose points are `step` elements apart:
    /// four rows, one for each element of the tiles.
    fn transform_products<T: Real>(products: &[T], step: usize, bias: T, out: &mut [T]) {
        let count = out.len() / 4;
        let points: [&[[T; LANES]]; POINTS] =
            from_fn(|k| products[k * step..][..count].as_chunks().0);
        let [a, b, c, d] = four(out, 0, count, count).map(|row| row.as_chunks_mut::<LANES>().0);
        let out = a.iter_mut().zip(b).zip(c).zip(d);
        for (at, (((a, b), c), d)) in out.enumerate() {
            let m: [[T; LANES]; POINTS] = from_fn(|k| points[k][at]);
            for lane in 0..LANES {
                let upper: [T; 4] =
                    from_fn(|k| m[k][lane] + m[4 + k][lane] + m[8 + k][lane]);
                let lower: [T; 4] =
                    from_fn(|k| m[4 + k][lane] - m[8 + k][lane] - m[12 + k][lane]);
                a[lane] = upper[0] + upper[1] + upper[2] + bias;
                b[lane] = upper[1] - upper[2] - upper[3] + bias;
                c[lane] = lower[0] + lower[1] + lower[2] + bias;
                d[lane] = lower[1] - lower[2] - lower[3] + bias;
            }
        }
    }

    /// Writes the elements of two slices in turns.
    fn interleave<T: Real>(even: &[T], odd: &[T], out: &mut [T]) {
        let (pairs, rest) = out.as_chunks_mut::<2>();
        for ((pair, &even), &odd) in pairs.iter_mut().zip(even).zip(odd) {
            *pair = [even, odd];
        }
        if let ([last], Some(&value)) = (rest, even.last()) {
            *last = value;
        }
    }
}
