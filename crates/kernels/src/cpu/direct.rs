//! Direct convolutions, for groups of so few channels that a product of matrices would have hardly
//! a row, such as depthwise ones.
//!
//! The rows of the operand that a part of the result needs are copied to a buffer, with zeros
//! around them. Forward, with a stride greater than 1, each row becomes a line for every remainder
//! of the position by the stride; backward, results are computed remainder by remainder. In both
//! directions, consecutive results then meet consecutive elements of a line with each element of
//! the weight.
//!
//! Long because all of it depends on the layout of that buffer.
//!
//! A product with one of these zeros is zero only if the other factor is finite. Else the caller
//! computes the convolution by im2col.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use millstream_ops::conv::Conv;

use super::memory::Buffer;
use super::pairwise::Sum;
use super::real::Real;
use super::strided::Sequence;
use super::vectorised::vectorised;
use crate::context::KernelCtx;

/// The most pairs of channels in a group.
const PAIRS: usize = 4;

/// The number of results that are computed side by side.
const LANES: usize = 16;

/// The number of results in a part, unless a row has more.
const PART: usize = 1 << 13;

/// The most elements of a buffer.
const BUFFER: usize = 1 << 19;

/// A convolution of groups of few channels, from the image to the map, or backward.
pub(crate) struct Direct<'a> {
    conv: &'a Conv,
    backward: bool,
    /// The number of results in a row of one remainder, in whole lanes.
    width: usize,
    /// The elements of a line, and the zeros before its first element, backward.
    line: usize,
    margin: usize,
    /// The quotient by the stride of the padded position of the first result, backward.
    first: usize,
    /// The rows of results in a part.
    rows: usize,
}

/// Some rows of results in one plane of a channel, and the rows of the operand for them, of which
/// the first ones may lie before the operand.
struct Part {
    plane: usize,
    rows: Range<usize>,
    from: isize,
    count: usize,
}

impl<'a> Direct<'a> {
    /// Returns the convolution; none if groups have many channels, if a weight is not finite, or if
    /// the rows of a part, with the distances within a window, are too long for the buffer.
    pub(crate) fn new<T: Real>(conv: &'a Conv, weight: &[T], backward: bool) -> Option<Direct<'a>> {
        let few = conv.image_channels * conv.map_channels <= PAIRS;
        if !few || !weight.iter().all(is_finite) {
            return None;
        }
        let [.., stride] = conv.stride;
        let [.., padding] = conv.padding;
        let reach = (conv.kernel[2] - 1).checked_mul(conv.dilation[2])? / stride;
        let (margin, first, results) = match backward {
            false => (0, 0, conv.map[2]),
            true => {
                let (first, last) = (padding / stride, (conv.image[2] - 1 + padding) / stride);
                (reach, first, last - first + 1)
            }
        };
        let width = results.checked_next_multiple_of(LANES)?;
        let line = reach.checked_add(first)?.checked_add(width)?;
        let rows = (PART / width).max(1);
        let direct = Direct { conv, backward, width, line, margin, first, rows };
        let [from, _] = direct.channels();
        // Another part may have a row more.
        let count = direct.source_rows(&(0..rows.min(direct.to()[1])))?.1;
        let size = (from * conv.kernel[0]).checked_mul(count)?.checked_mul(direct.pitch()?)?;
        (size <= BUFFER).then_some(direct)
    }

    /// Returns the channels of a group of the operand and of the result.
    fn channels(&self) -> [usize; 2] {
        let Conv { image_channels, map_channels, .. } = *self.conv;
        if self.backward { [map_channels, image_channels] } else { [image_channels, map_channels] }
    }

    /// Returns the size of a channel of the operand.
    fn from(&self) -> [usize; 3] {
        if self.backward { self.conv.map } else { self.conv.image }
    }

    /// Returns the size of a channel of the result.
    fn to(&self) -> [usize; 3] {
        if self.backward { self.conv.image } else { self.conv.map }
    }

    /// Returns the numbers of remainders that the operand's rows and that rows and columns of
    /// results are divided by.
    fn remainders(&self) -> (usize, [usize; 2]) {
        let [_, down, across] = self.conv.stride;
        if self.backward { (1, [down, across]) } else { (across, [1, 1]) }
    }

    /// Returns the elements of the buffer between rows; none if they are too many.
    fn pitch(&self) -> Option<usize> {
        self.line.checked_mul(self.remainders().0)
    }

    /// Returns the quotient and the remainder by the stride of the place of an element of the
    /// weight.
    fn place(&self, k: usize, tap: usize) -> (usize, usize) {
        let shift = tap * self.conv.dilation[k];
        (shift / self.conv.stride[k], shift % self.conv.stride[k])
    }

    /// Returns the first row of the operand for rows of results, and their number; none if they are
    /// too many.
    fn source_rows(&self, rows: &Range<usize>) -> Option<(isize, usize)> {
        let Conv { kernel, stride, padding, dilation, .. } = self.conv;
        let reach = (kernel[1] - 1).checked_mul(dilation[1])?;
        let (from, count) = if self.backward {
            let first = (rows.start + padding[1]) / stride[1];
            let reach = reach / stride[1];
            let last = (rows.end - 1 + padding[1]) / stride[1];
            (difference(first, reach)?, (last - first + 1).checked_add(reach)?)
        } else {
            let first = difference(rows.start * stride[1], padding[1])?;
            (first, ((rows.len() - 1) * stride[1]).checked_add(reach)?.checked_add(1)?)
        };
        Some((from, count))
    }

    /// Returns the number of parts of a channel of the result.
    fn parts(&self) -> usize {
        self.to()[0] * self.to()[1].div_ceil(self.rows)
    }

    fn part(&self, number: usize) -> Part {
        let [_, down, _] = self.to();
        let of_plane = down.div_ceil(self.rows);
        let first = number % of_plane * self.rows;
        let rows = first..down.min(first + self.rows);
        // No part has more rows than the one that `new` has checked.
        let (from, count) = self.source_rows(&rows).expect("the rows of a part");
        Part { plane: number / of_plane, rows, from, count }
    }

    /// Returns the plane of the operand that a plane of the weight covers for one of results.
    fn source_plane(&self, plane: usize, tap: usize) -> Option<usize> {
        let (stride, padding) = (self.conv.stride[0], self.conv.padding[0]);
        let shift = tap * self.conv.dilation[0];
        if !self.backward {
            let at = (plane * stride + shift).checked_sub(padding)?;
            return (at < self.conv.image[0]).then_some(at);
        }
        let at = (plane + padding).checked_sub(shift)?;
        (at % stride == 0 && at / stride < self.conv.map[0]).then_some(at / stride)
    }

    /// Loads the rows of a part from the channels of a group of the operand, of which `first` is
    /// the number of the first one.
    fn load<T: Real>(&self, x: &Sequence, first: usize, part: &Part, to: &mut Buffer<T>) {
        let Conv { kernel: [planes, ..], padding, .. } = *self.conv;
        let [depth, height, width] = self.from();
        let (remainders, _) = self.remainders();
        let channels = self.channels()[0];
        let pitch = self.line * remainders;
        to.resize(channels * planes * part.count * pitch);
        let inside = |at: isize| at.clamp(0, height as isize) as usize;
        let rows = inside(part.from)..inside(part.from + part.count as isize);
        let before = (rows.start as isize - part.from) as usize;
        let mut buffer = Vec::new();
        for (number, to) in to.chunks_exact_mut(part.count * pitch).enumerate() {
            let (channel, plane) = (number / planes, number % planes);
            let Some(plane) = self.source_plane(part.plane, plane) else { continue };
            let from = (((first + channel) * depth + plane) * height + rows.start) * width;
            // SAFETY: an operand that the call only reads.
            let from = unsafe { x.elements(from, rows.len() * width, &mut buffer) };
            to.fill(T::ZERO);
            for (from, to) in from.chunks_exact(width).zip(to.chunks_exact_mut(pitch).skip(before))
            {
                for (remainder, to) in to.chunks_exact_mut(self.line).enumerate() {
                    // Element t of the line has the padded position remainder + t · remainders.
                    let (skipped, at) = if self.backward {
                        (self.margin, 0)
                    } else {
                        let skipped = padding[2].saturating_sub(remainder).div_ceil(remainders);
                        (skipped, remainder + skipped * remainders - padding[2])
                    };
                    let skipped = skipped.min(to.len());
                    let (from, to) = (&from[at.min(width)..], &mut to[skipped..]);
                    if remainders == 1 {
                        let count = from.len().min(to.len());
                        to[..count].copy_from_slice(&from[..count]);
                    } else {
                        let from = from.iter().step_by(remainders);
                        to.iter_mut().zip(from).for_each(|(to, &v)| *to = v);
                    }
                }
            }
        }
    }

    /// Returns what a part's results of these remainders are made of: `value` of a channel of the
    /// operand and an element of the weight, and the element that the weight meets for the first
    /// result, whose row has this quotient.
    fn taps<V>(
        &self,
        part: &Part,
        [row, column]: [usize; 2],
        first: usize,
        value: impl Fn(usize, usize) -> V,
    ) -> Vec<(V, usize)> {
        let Conv { kernel: [planes, down, across], dilation, .. } = *self.conv;
        let pitch = self.line * self.remainders().0;
        let covered = |k, at, wanted| {
            let (quotient, remainder) = self.place(k, at);
            (!self.backward || remainder == wanted).then_some((quotient, remainder))
        };
        let mut taps = Vec::new();
        for channel in 0..self.channels()[0] {
            for plane in (0..planes).filter(|&a| self.source_plane(part.plane, a).is_some()) {
                for b in 0..down {
                    let Some((quotient, _)) = covered(1, b, row) else { continue };
                    let at = match self.backward {
                        false => b * dilation[1],
                        // The part's rows begin before those of any result.
                        true => (first as isize - part.from) as usize - quotient,
                    };
                    let at = ((channel * planes + plane) * part.count + at) * pitch;
                    for d in 0..across {
                        let Some((quotient, remainder)) = covered(2, d, column) else { continue };
                        let at = match self.backward {
                            false => at + remainder * self.line + quotient,
                            true => at + self.margin + self.first - quotient,
                        };
                        taps.push((value(channel, (plane * down + b) * across + d), at));
                    }
                }
            }
        }
        taps
    }

    /// Computes the result. The weights are those of the convolution, dense.
    pub(crate) fn run<T: Real>(
        &self,
        ctx: &KernelCtx<'_>,
        x: &Sequence,
        weight: &[T],
        bias: Option<&[T]>,
        out: &Sequence,
    ) {
        let Conv { stride, groups, batch, .. } = *self.conv;
        let kernel: usize = self.conv.kernel.iter().product();
        let [from, to] = self.channels();
        let [depth, height, length] = self.to();
        let (remainders, [down, across]) = self.remainders();
        let (step, parts) = (self.line * remainders, self.parts());
        let step = if self.backward { step } else { step * stride[1] };
        ctx.for_each(batch * groups * parts, |task| {
            let (group, part) = (task / parts, self.part(task % parts));
            let (mut rows, mut sums) = (Buffer::<T>::new(0), Buffer::<T>::new(0));
            self.load(x, group * from, &part, &mut rows);
            let weight = &weight[group % groups * from * to * kernel..][..from * to * kernel];
            let mut buffer = Vec::new();
            for channel in 0..to {
                let first = ((group * to + channel) * depth + part.plane) * height;
                let (first, count) = ((first + part.rows.start) * length, part.rows.len() * length);
                let bias = bias.map_or(T::ZERO, |bias| bias[group % groups * to + channel]);
                let mut fill = |target: &mut [T]| {
                    for remainder in (0..down * across).map(|r| [r / across, r % across]) {
                        let results = self.results(&part, remainder[0]);
                        let taps =
                            self.taps(&part, remainder, results.start, |from_channel, tap| {
                                let pair = match self.backward {
                                    false => channel * from + from_channel,
                                    true => from_channel * to + channel,
                                };
                                weight[pair * kernel + tap]
                            });
                        sums.resize(results.len() * self.width);
                        weigh(&mut sums, self.width, &rows, step, &taps, bias);
                        self.spread(&sums, &part, remainder, results.start, target);
                    }
                };
                // SAFETY: each task has its own channels and rows of the output.
                unsafe { out.compute(first, count, &mut buffer, &mut fill) };
            }
        });
    }

    /// Returns the quotients by the stride of a part's rows of results of a remainder; forward, the
    /// rows themselves.
    fn results(&self, part: &Part, remainder: usize) -> Range<usize> {
        if !self.backward {
            return part.rows.clone();
        }
        let (stride, padding) = (self.conv.stride[1], self.conv.padding[1]);
        let quotient = |row: usize| (row + padding).saturating_sub(remainder).div_ceil(stride);
        quotient(part.rows.start)..quotient(part.rows.end)
    }

    /// Moves the results of these remainders to their places in the part. Their first row has this
    /// quotient.
    fn spread<T: Real>(
        &self,
        sums: &[T],
        part: &Part,
        [row, column]: [usize; 2],
        first: usize,
        target: &mut [T],
    ) {
        let Conv { stride, padding, .. } = *self.conv;
        let length = self.to()[2];
        for (number, sums) in sums.chunks_exact(self.width).enumerate() {
            if !self.backward {
                target[number * length..(number + 1) * length].copy_from_slice(&sums[..length]);
                continue;
            }
            let at = (first + number) * stride[1] + row - padding[1] - part.rows.start;
            let target = &mut target[at * length..(at + 1) * length];
            // Result t has the padded position column + (first + t) · stride.
            let begin = self.first * stride[2] + column;
            let skipped = usize::from(begin < padding[2]);
            let target = target.iter_mut().skip(begin + skipped * stride[2] - padding[2]);
            target.step_by(stride[2]).zip(&sums[skipped..]).for_each(|(to, &v)| *to = v);
        }
    }

    /// Computes the gradient for the weight from the image and the map. Returns whether all of it
    /// is finite: if not, zeros may have met elements that are not, and nothing of it counts.
    pub(crate) fn weight_gradient<T: Real>(
        &self,
        ctx: &KernelCtx<'_>,
        image: &Sequence,
        map: &Sequence,
        out: &Sequence,
    ) -> bool {
        assert!(!self.backward, "the windows of the image");
        let Conv { stride, groups, batch, .. } = *self.conv;
        let kernel: usize = self.conv.kernel.iter().product();
        let [from, to] = self.channels();
        let [depth, height, length] = self.to();
        let step = self.line * self.remainders().0 * stride[1];
        let finite = AtomicBool::new(true);
        ctx.for_each(groups, |group| {
            let (mut rows, mut buffer) = (Buffer::<T>::new(0), Vec::new());
            let mut of_map = Buffer::<T>::new(0);
            let mut totals: Vec<Sum<T>> = (0..to * from * kernel).map(|_| Sum::new()).collect();
            for number in 0..batch * self.parts() {
                let (image_number, part) =
                    (number / self.parts(), self.part(number % self.parts()));
                let group = image_number * groups + group;
                self.load(image, group * from, &part, &mut rows);
                of_map.resize(part.rows.len() * self.width);
                for channel in 0..to {
                    let first = ((group * to + channel) * depth + part.plane) * height;
                    let first = (first + part.rows.start) * length;
                    // SAFETY: an operand that the call only reads.
                    let given =
                        unsafe { map.elements(first, part.rows.len() * length, &mut buffer) };
                    let lines = of_map.chunks_exact_mut(self.width).zip(given.chunks_exact(length));
                    for (line, given) in lines {
                        line[..length].copy_from_slice(given);
                        line[length..].fill(T::ZERO);
                    }
                    let number = |from_channel, tap| (channel * from + from_channel) * kernel + tap;
                    let taps = self.taps(&part, [0, 0], part.rows.start, number);
                    let mut sums = vec![[T::ZERO; LANES]; taps.len()];
                    correlate(&mut sums, &of_map, self.width, &rows, step, &taps);
                    for (&(number, _), lanes) in taps.iter().zip(&sums) {
                        totals[number].push(lanes.iter().fold(T::ZERO, |sum, &v| sum + v));
                    }
                }
            }
            let totals: Vec<T> = totals.iter().map(Sum::total).collect();
            if !totals.iter().all(is_finite) {
                finite.store(false, Ordering::Relaxed);
            }
            out.store(group * to * from * kernel, &totals);
        });
        finite.into_inner()
    }
}

fn is_finite<T: Real>(v: &T) -> bool {
    *v * T::ZERO == T::ZERO
}

fn difference(a: usize, b: usize) -> Option<isize> {
    isize::try_from(a).ok()?.checked_sub_unsigned(b)
}

vectorised! {
    /// Computes rows of weighted sums. Each tap is a weight, and the element that it meets for the
    /// first sum; that of the next row lies `step` elements further on.
    fn weigh<T: Real>(
        sums: &mut [T],
        width: usize,
        from: &[T],
        step: usize,
        taps: &[(T, usize)],
        bias: T,
    ) {
        for (row, sums) in sums.chunks_exact_mut(width).enumerate() {
            for (chunk, to) in sums.chunks_exact_mut(LANES).enumerate() {
                let from = &from[row * step + chunk * LANES..];
                let mut sums = [T::ZERO; LANES];
                for &(weight, at) in taps {
                    for (sum, &v) in sums.iter_mut().zip(&from[at..at + LANES]) {
                        *sum += weight * v;
                    }
                }
                to.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum + bias);
            }
        }
    }

    /// Adds, for each tap and in lanes, the products of the elements of the map with those that the
    /// tap meets.
    fn correlate<T: Real>(
        sums: &mut [[T; LANES]],
        map: &[T],
        width: usize,
        from: &[T],
        step: usize,
        taps: &[(usize, usize)],
    ) {
        for (row, map) in map.chunks_exact(width).enumerate() {
            for (chunk, map) in map.chunks_exact(LANES).enumerate() {
                let from = &from[row * step + chunk * LANES..];
                for (sums, &(_, at)) in sums.iter_mut().zip(taps) {
                    for ((sum, &m), &v) in sums.iter_mut().zip(map).zip(&from[at..at + LANES]) {
                        *sum += m * v;
                    }
                }
            }
        }
    }
}
