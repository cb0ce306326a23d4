//! The order in which strided tensors are walked: rows of equal steps.

use millstream_types::layout::numel;
use smallvec::SmallVec;

/// In which order a walk visits the elements of its shape.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Row-major.
    RowMajor,
    /// Any; the last operand's smallest steps innermost.
    Any,
}

/// One dimension of a walk over `N` operands.
#[derive(Clone, Copy)]
struct Dim<const N: usize> {
    length: usize,
    /// The distance in bytes from one element to the next, for each operand.
    steps: [usize; N],
}

/// A row: where it begins in each operand, in bytes from the operand's first element; the steps
/// along it in bytes; and its length.
pub(crate) struct Row<const N: usize> {
    pub(crate) offsets: [usize; N],
    pub(crate) steps: [usize; N],
    pub(crate) length: usize,
}

/// The positions of one shape in `N` operands, as few and as long rows as their strides allow.
pub(crate) struct Walk<const N: usize> {
    /// Outermost first; never empty. None has length 1 but a lone one.
    dims: SmallVec<[Dim<N>; 4]>,
    count: usize,
}

impl<const N: usize> Walk<N> {
    /// A walk over `shape`; `dim(k)` gives the steps of dimension `k` in bytes, and is asked only
    /// for dimensions longer than 1.
    pub(crate) fn new(
        shape: &[usize],
        mut dim: impl FnMut(usize) -> [usize; N],
        order: Order,
    ) -> Walk<N> {
        let count = numel(shape);
        let mut dims: SmallVec<[Dim<N>; 4]> = SmallVec::new();
        if count > 1 {
            for (k, &length) in shape.iter().enumerate().filter(|(_, length)| **length != 1) {
                dims.push(Dim { length, steps: dim(k) });
            }
        }
        if order == Order::Any {
            dims.sort_by_key(|d| {
                let mut steps = d.steps;
                steps.reverse();
                std::cmp::Reverse(steps)
            });
        }
        // A dimension whose every step spans the one inside it is one with it.
        let mut merged: SmallVec<[Dim<N>; 4]> = SmallVec::new();
        for inner in dims {
            match merged.last_mut() {
                Some(outer) if (0..N).all(|i| outer.steps[i] == inner.steps[i] * inner.length) => {
                    *outer = Dim { length: outer.length * inner.length, steps: inner.steps };
                }
                _ => merged.push(inner),
            }
        }
        if merged.is_empty() {
            merged.push(Dim { length: 1, steps: [0; N] });
        }
        Walk { dims: merged, count }
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Visits the elements numbered `from` up to `to` in the walk's order, row by row.
    pub(crate) fn rows(&self, from: usize, to: usize, mut visit: impl FnMut(Row<N>)) {
        let to = to.min(self.count);
        if from >= to {
            return;
        }
        let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.dims.len());
        let mut offsets = [0; N];
        let mut rest = from;
        for (at, dim) in index.iter_mut().zip(&self.dims).rev() {
            *at = rest % dim.length;
            rest /= dim.length;
            for (offset, step) in offsets.iter_mut().zip(dim.steps) {
                *offset += *at * step;
            }
        }
        let inner = self.dims.len() - 1;
        let Dim { length, steps } = self.dims[inner];
        let mut left = to - from;
        loop {
            let row = left.min(length - index[inner]);
            visit(Row { offsets, steps, length: row });
            left -= row;
            if left == 0 {
                return;
            }
            // To the start of the next row: back along this one, one on further out, with carry.
            for (offset, step) in offsets.iter_mut().zip(steps) {
                *offset -= index[inner] * step;
            }
            index[inner] = 0;
            for k in (0..inner).rev() {
                let dim = self.dims[k];
                index[k] += 1;
                if index[k] < dim.length {
                    for (offset, step) in offsets.iter_mut().zip(dim.steps) {
                        *offset += step;
                    }
                    break;
                }
                index[k] = 0;
                for (offset, step) in offsets.iter_mut().zip(dim.steps) {
                    *offset -= (dim.length - 1) * step;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(walk: &Walk<1>, from: usize, to: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        walk.rows(from, to, |row| {
            seen.extend((0..row.length).map(|i| row.offsets[0] + i * row.steps[0]));
        });
        seen
    }

    #[test]
    fn any_range_is_the_same_part_of_the_whole() {
        for (shape, strides) in [
            (&[2, 3, 4][..], &[12, 4, 1][..]),
            (&[2, 3, 4], &[1, 2, 6]),
            (&[3, 1, 4], &[0, 99, 2]),
            (&[2, 2, 2, 3], &[100, 50, 3, 1]),
            (&[], &[]),
            (&[5], &[3]),
            (&[2, 0], &[1, 1]),
        ] {
            let walk = Walk::new(shape, |k| [strides[k]], Order::RowMajor);
            let mut expected = vec![0];
            for (&length, &stride) in shape.iter().zip(strides) {
                expected = expected
                    .iter()
                    .flat_map(|base| (0..length).map(move |i| base + i * stride))
                    .collect();
            }
            assert_eq!(walk.count(), expected.len());
            for from in 0..=expected.len() {
                for to in from..=expected.len() + 1 {
                    let end = to.min(expected.len());
                    assert_eq!(visited(&walk, from, to), expected[from..end], "{shape:?}");
                }
            }
        }
    }

    #[test]
    fn dense_tensors_are_one_row_in_any_order() {
        let strides = [1, 2, 6];
        let walk = Walk::new(&[2, 3, 4], |k| [strides[k]], Order::Any);
        assert_eq!(visited(&walk, 0, 24), (0..24).collect::<Vec<_>>());
        let mut rows = 0;
        walk.rows(0, 24, |_| rows += 1);
        assert_eq!(rows, 1);
    }
}
