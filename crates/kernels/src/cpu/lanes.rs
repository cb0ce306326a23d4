//! Parts of several blocks or slices at once.
//!
//! They are functions because closures in a generic caller would be compiled again for each
//! function that it is generic over.

use std::ops::Range;

/// Returns the element of each block at a position.
#[inline(always)]
pub(crate) fn lane<T: Copy, const LANES: usize, const N: usize>(
    blocks: &[[T; LANES]; N],
    at: usize,
) -> [T; N] {
    std::array::from_fn(|k| blocks[k][at])
}

/// Returns the element of each slice at a position.
#[inline(always)]
pub(crate) fn element<T: Copy, const N: usize>(slices: &[&[T]; N], at: usize) -> [T; N] {
    std::array::from_fn(|k| slices[k][at])
}

/// Returns a range of each slice.
#[inline(always)]
pub(crate) fn range<T, const N: usize>(slices: [&[T]; N], range: Range<usize>) -> [&[T]; N] {
    slices.map(|values| &values[range.clone()])
}

/// Returns the whole blocks of each slice.
#[inline(always)]
pub(crate) fn blocks<T, const LANES: usize, const N: usize>(
    slices: [&[T]; N],
) -> [&[[T; LANES]]; N] {
    slices.map(|values| values.as_chunks::<LANES>().0)
}
