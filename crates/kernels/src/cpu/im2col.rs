//! im2col: the windows of an image as the columns of a matrix, which turns a convolution into a
//! matrix product.
//!
//! The columns of the matrix are the positions of a part of the feature map. Row `((c · k0 + a) ·
//! k1 + b) · k2 + d` holds the elements of channel c that the weight's position (a, b, d) covers
//! there, or zero outside of the image. A part of the map is a range of its rows along the last
//! dimension.
//!
//! Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for
//! document processing", 2006.

use std::ops::Range;

use millstream_ops::conv::Conv;

use super::real::Real;
use super::strided::Sequence;

/// The greatest number of elements in the columns of one part of a map, unless one row has more.
const PART: usize = 1 << 18;

/// The im2col transformation of a convolution.
pub(crate) struct Im2Col<'a>(pub(crate) &'a Conv);

impl Im2Col<'_> {
    /// Returns the number of positions in one row of the map.
    pub(crate) fn width(&self) -> usize {
        self.0.map[2]
    }

    /// Returns the parts of the map, as ranges of its rows, for columns of `column` elements.
    pub(crate) fn parts(&self, column: usize) -> impl ExactSizeIterator<Item = Range<usize>> {
        let rows = self.0.map[0] * self.0.map[1];
        let at_once = (PART / (column * self.width()).max(1)).clamp(1, rows);
        (0..rows.div_ceil(at_once)).map(move |p| p * at_once..rows.min((p + 1) * at_once))
    }

    /// Returns the positions of a part of the map.
    pub(crate) fn positions(&self, part: &Range<usize>) -> Range<usize> {
        part.start * self.width()..part.end * self.width()
    }

    /// Returns the range of positions along dimension `k` of the map at which position `at` of the
    /// weight is inside the image, and the first image position it covers.
    fn overlap(&self, k: usize, at: usize) -> (Range<usize>, usize) {
        let conv = self.0;
        let (stride, padding) = (conv.stride[k], conv.padding[k]);
        let shift = at * conv.dilation[k];
        let from = padding.saturating_sub(shift).div_ceil(stride);
        let to = (conv.image[k] + padding).saturating_sub(shift).div_ceil(stride);
        let range = from..to.min(conv.map[k]).max(from);
        let first = (from * stride + shift).saturating_sub(padding);
        (range, first)
    }

    /// Calls `f` for every pair of a row of the weight and a row of the map in `part`. The
    /// arguments are the matrix row of the first position in the row of the weight, the index of
    /// the map row within the part, and the index of the covered image row in its channel, `None`
    /// outside of the image.
    fn rows(&self, part: &Range<usize>, mut f: impl FnMut(usize, usize, Option<usize>)) {
        let conv = self.0;
        for a in 0..conv.kernel[0] {
            let (outer, outer_first) = self.overlap(0, a);
            for b in 0..conv.kernel[1] {
                let (inner, inner_first) = self.overlap(1, b);
                let first = (a * conv.kernel[1] + b) * conv.kernel[2];
                for (number, row) in part.clone().enumerate() {
                    let (i, j) = (row / conv.map[1], row % conv.map[1]);
                    let inside = outer.contains(&i) && inner.contains(&j);
                    let image_row = inside.then(|| {
                        let i = outer_first + (i - outer.start) * conv.stride[0];
                        let j = inner_first + (j - inner.start) * conv.stride[1];
                        i * conv.image[1] + j
                    });
                    f(first, number, image_row);
                }
            }
        }
    }

    /// Loads the columns of `channels` channels; the first channel begins at element `first` of x.
    pub(crate) fn load<T: Real>(
        &self,
        x: &Sequence,
        first: usize,
        channels: usize,
        part: &Range<usize>,
        to: &mut [T],
    ) {
        let (width, positions) = (self.width(), part.len() * self.width());
        let (kernel, image) = (self.0.kernel_size(), self.0.image_size());
        let length = self.0.image[2];
        let overlaps: Vec<_> = (0..self.0.kernel[2]).map(|d| self.overlap(2, d)).collect();
        let stride = self.0.stride[2];
        // SAFETY: the image of a convolution is an operand that the call only reads.
        let dense = unsafe { x.slice::<T>() };
        let mut buffer = vec![T::ZERO; length];
        for c in 0..channels {
            let to = &mut to[c * kernel * positions..(c + 1) * kernel * positions];
            self.rows(part, |row, number, image_row| {
                let at = first + c * image + image_row.unwrap_or_default() * length;
                let line = match dense {
                    Some(image) => &image[at..at + length],
                    None => {
                        if image_row.is_some() {
                            x.load(at, &mut buffer);
                        }
                        &buffer
                    }
                };
                for (d, (range, from)) in overlaps.iter().enumerate() {
                    let at = (row + d) * positions + number * width;
                    let to = &mut to[at..at + width];
                    if image_row.is_none() || range.is_empty() {
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

    /// Adds columns to the image positions that they cover.
    pub(crate) fn add<T: Real>(&self, columns: &[T], part: &Range<usize>, image: &mut [T]) {
        let (width, positions) = (self.width(), part.len() * self.width());
        let length = self.0.image[2];
        let overlaps: Vec<_> = (0..self.0.kernel[2]).map(|d| self.overlap(2, d)).collect();
        let stride = self.0.stride[2];
        let of_channel = columns.chunks_exact(self.0.kernel_size() * positions);
        for (columns, image) in of_channel.zip(image.chunks_exact_mut(self.0.image_size())) {
            self.rows(part, |row, number, image_row| {
                let Some(image_row) = image_row else { return };
                let line = &mut image[image_row * length..(image_row + 1) * length];
                for (d, (range, from)) in overlaps.iter().enumerate() {
                    if range.is_empty() {
                        continue;
                    }
                    let at = (row + d) * positions + number * width;
                    let values = &columns[at + range.start..at + range.end];
                    for (to, &v) in line[*from..].iter_mut().step_by(stride).zip(values) {
                        *to += v;
                    }
                }
            });
        }
    }
}
