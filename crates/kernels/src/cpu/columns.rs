//! The windows of an image as columns of a matrix: what turns a convolution into a product.
//!
//! Row `((c · k0 + a) · k1 + b) · k2 + d` of the matrix has, for every place of a part of the map,
//! the element of channel c that the weight's place (a, b, d) meets there, or zero outside of the
//! image. A part of the map is a range of its rows along the last dimension.
//!
//! Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for
//! document processing", 2006.

use std::ops::Range;

use millstream_ops::conv::Conv;

use super::real::Real;
use super::strided::Sequence;

/// Elements that the columns of one part of a map have at most, unless one row has more.
const PART: usize = 1 << 18;

/// A convolution's windows.
pub(crate) struct Windows<'a>(pub(crate) &'a Conv);

impl Windows<'_> {
    /// The places of the weight.
    pub(crate) fn kernel(&self) -> usize {
        self.0.kernel.iter().product()
    }

    /// The places of the image.
    pub(crate) fn image(&self) -> usize {
        self.0.image.iter().product()
    }

    /// The places of the map.
    pub(crate) fn map(&self) -> usize {
        self.0.map.iter().product()
    }

    /// The places of the map in one of its rows.
    pub(crate) fn width(&self) -> usize {
        self.0.map[2]
    }

    /// The parts of the map, as ranges of its rows, for columns of so many elements.
    pub(crate) fn parts(&self, column: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
        let rows = self.0.map[0] * self.0.map[1];
        let at_once = (PART / (column * self.width()).max(1)).clamp(1, rows);
        (0..rows.div_ceil(at_once)).map(move |p| p * at_once..rows.min((p + 1) * at_once))
    }

    /// Whether the columns are the image itself.
    fn is_plain(&self) -> bool {
        let Conv { kernel, stride, padding, .. } = self.0;
        kernel.iter().chain(stride).all(|&v| v == 1) && padding.iter().all(|&v| v == 0)
    }

    /// The places along dimension `k` of the map from which place `at` of the weight meets the
    /// image, and where it meets it first.
    fn meets(&self, k: usize, at: usize) -> (Range<usize>, usize) {
        let conv = self.0;
        let (stride, padding) = (conv.stride[k], conv.padding[k]);
        let shift = at * conv.dilation[k];
        let from = padding.saturating_sub(shift).div_ceil(stride);
        let to = (conv.image[k] + padding).saturating_sub(shift).div_ceil(stride);
        let range = from..to.min(conv.map[k]).max(from);
        let first = (from * stride + shift).saturating_sub(padding);
        (range, first)
    }

    /// Calls `f` for every row of the image that rows of the map meet: with the row of the matrix
    /// of the weight's first place along it, the number of the row of the map within the part, and
    /// that of the row of the image in its channel, none if it lies outside.
    fn rows(&self, part: &Range<usize>, mut f: impl FnMut(usize, usize, Option<usize>)) {
        let conv = self.0;
        for a in 0..conv.kernel[0] {
            let (outer, outer_first) = self.meets(0, a);
            for b in 0..conv.kernel[1] {
                let (inner, inner_first) = self.meets(1, b);
                let first = (a * conv.kernel[1] + b) * conv.kernel[2];
                for (number, row) in part.clone().enumerate() {
                    let (i, j) = (row / conv.map[1], row % conv.map[1]);
                    let inside = outer.contains(&i) && inner.contains(&j);
                    let place = inside.then(|| {
                        let i = outer_first + (i - outer.start) * conv.stride[0];
                        let j = inner_first + (j - inner.start) * conv.stride[1];
                        i * conv.image[1] + j
                    });
                    f(first, number, place);
                }
            }
        }
    }

    /// Loads the columns of `channels` channels, the first of which begins at element `first` of x.
    pub(crate) fn load<T: Real>(
        &self,
        x: &Sequence,
        first: usize,
        channels: usize,
        part: &Range<usize>,
        to: &mut [T],
    ) {
        let (width, places) = (self.width(), part.len() * self.width());
        let (kernel, image) = (self.kernel(), self.image());
        if self.is_plain() {
            for (c, to) in to.chunks_exact_mut(places).enumerate() {
                x.load(first + c * image + part.start * width, to);
            }
            return;
        }
        let length = self.0.image[2];
        let meets: Vec<_> = (0..self.0.kernel[2]).map(|d| self.meets(2, d)).collect();
        let stride = self.0.stride[2];
        let mut line = vec![T::ZERO; length];
        for c in 0..channels {
            let to = &mut to[c * kernel * places..(c + 1) * kernel * places];
            self.rows(part, |row, number, place| {
                if let Some(place) = place {
                    x.load(first + c * image + place * length, &mut line);
                }
                for (d, (range, from)) in meets.iter().enumerate() {
                    let at = (row + d) * places + number * width;
                    let to = &mut to[at..at + width];
                    if place.is_none() || range.is_empty() {
                        to.fill(T::ZERO);
                        continue;
                    }
                    to[..range.start].fill(T::ZERO);
                    to[range.end..].fill(T::ZERO);
                    let to = &mut to[range.clone()];
                    if stride == 1 {
                        to.copy_from_slice(&line[*from..*from + to.len()]);
                    } else {
                        for (to, &v) in to.iter_mut().zip(line[*from..].iter().step_by(stride)) {
                            *to = v;
                        }
                    }
                }
            });
        }
    }

    /// Adds columns to the places of the channels that they have been taken from.
    pub(crate) fn add<T: Real>(&self, columns: &[T], part: &Range<usize>, image: &mut [T]) {
        let (width, places) = (self.width(), part.len() * self.width());
        let length = self.0.image[2];
        let meets: Vec<_> = (0..self.0.kernel[2]).map(|d| self.meets(2, d)).collect();
        let stride = self.0.stride[2];
        let of_channel = columns.chunks_exact(self.kernel() * places);
        for (columns, image) in of_channel.zip(image.chunks_exact_mut(self.image())) {
            self.rows(part, |row, number, place| {
                let Some(place) = place else { return };
                let line = &mut image[place * length..(place + 1) * length];
                for (d, (range, from)) in meets.iter().enumerate() {
                    if range.is_empty() {
                        continue;
                    }
                    let at = (row + d) * places + number * width;
                    let values = &columns[at + range.start..at + range.end];
                    for (to, &v) in line[*from..].iter_mut().step_by(stride).zip(values) {
                        *to += v;
                    }
                }
            });
        }
    }
}
