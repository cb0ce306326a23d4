//! Traversals: the order in which loops visit strided tensors, in rows of equal steps.

use millstream_types::layout::numel;
use smallvec::SmallVec;

/// The order in which a traversal visits the elements of its shape.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Row-major.
    RowMajor,
    /// Any order; the smallest steps of the last operand are innermost.
    Any,
}

/// One dimension of a traversal over `N` operands.
#[derive(Clone, Copy)]
struct Dim<const N: usize> {
    length: usize,
    /// The step in bytes between neighbouring elements, for each operand.
    steps: [usize; N],
}

/// A row: its offset in each operand in bytes from the operand's first element, the steps along it
/// in bytes, and its length.
pub(crate) struct Row<const N: usize> {
    pub(crate) offsets: [usize; N],
    pub(crate) steps: [usize; N],
    pub(crate) length: usize,
}

/// A traversal of one shape in `N` operands, in rows as few and as long as the strides allow.
pub(crate) struct Traversal<const N: usize> {
    /// Outermost first; never empty. A dimension has length 1 only if it is the only one.
    dims: SmallVec<[Dim<N>; 4]>,
    count: usize,
}

impl<const N: usize> Traversal<N> {
    /// Returns a traversal of `shape`. `dim(k)` returns the steps of dimension `k` in bytes and is
    /// called only for dimensions longer than 1.
    pub(crate) fn new(
        shape: &[usize],
        mut dim: impl FnMut(usize) -> [usize; N],
        order: Order,
    ) -> Traversal<N> {
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
        // An outer dimension that steps over exactly the inner one merges with it.
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
        Traversal { dims: merged, count }
    }

    /// Returns the traversal of `count` elements in one row with these steps in bytes.
    pub(crate) fn one_row(count: usize, steps: [usize; N]) -> Traversal<N> {
        let mut dims = SmallVec::new();
        dims.push(Dim { length: count, steps });
        Traversal { dims, count }
    }

    /// Returns the steps of the innermost dimension in bytes, which all rows have.
    pub(crate) fn steps(&self) -> [usize; N] {
        self.dims[self.dims.len() - 1].steps
    }

    /// Iterates over the lengths of the dimensions and their steps in bytes, outermost first.
    pub(crate) fn dims(&self) -> impl Iterator<Item = (usize, [usize; N])> {
        self.dims.iter().map(|dim| (dim.length, dim.steps))
    }

    /// Returns whether all elements are in one row.
    pub(crate) fn is_one_row(&self) -> bool {
        self.dims.len() == 1
    }

    /// Returns the number of elements.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Visits the elements from number `from` up to `to` in the order of the traversal, row by row.
    pub(crate) fn rows(&self, from: usize, to: usize, mut visit: impl FnMut(Row<N>)) {
        let to = to.min(self.count);
        if from >= to {
            return;
        }
        if self.is_one_row() {
            return visit(self.only_row(from, to));
        }
        let mut cursor = self.cursor(from);
        let mut left = to - from;
        loop {
            let row = cursor.row(left);
            left -= row.length;
            visit(row);
            if left == 0 {
                return;
            }
            cursor.advance();
        }
    }

    /// Returns the elements from number `from` up to `to` of a traversal in one row.
    fn only_row(&self, from: usize, to: usize) -> Row<N> {
        let steps = self.steps();
        Row { offsets: steps.map(|step| from * step), steps, length: to - from }
    }

    /// Returns a cursor at the element with this number.
    fn cursor(&self, number: usize) -> Cursor<'_, N> {
        let mut index: SmallVec<[usize; 4]> = SmallVec::from_elem(0, self.dims.len());
        let mut offsets = [0; N];
        let mut rest = number;
        for (at, dim) in index.iter_mut().zip(&self.dims).rev() {
            *at = rest % dim.length;
            rest /= dim.length;
            for (offset, step) in offsets.iter_mut().zip(dim.steps) {
                *offset += *at * step;
            }
        }
        Cursor { dims: &self.dims, index, offsets }
    }
}

/// The place of a visit. Its code does not depend on the visitor, so it is compiled once.
struct Cursor<'a, const N: usize> {
    dims: &'a [Dim<N>],
    /// The position along each dimension.
    index: SmallVec<[usize; 4]>,
    /// The offset in each operand in bytes.
    offsets: [usize; N],
}

impl<const N: usize> Cursor<'_, N> {
    /// Returns the rest of the row, at most `most` elements.
    fn row(&self, most: usize) -> Row<N> {
        let inner = self.dims.len() - 1;
        let Dim { length, steps } = self.dims[inner];
        Row { offsets: self.offsets, steps, length: most.min(length - self.index[inner]) }
    }

    /// Moves to the start of the next row: rewinds this one and increments the outer index, with
    /// carry.
    fn advance(&mut self) {
        let Cursor { dims, index, offsets } = self;
        let inner = dims.len() - 1;
        for (offset, step) in offsets.iter_mut().zip(dims[inner].steps) {
            *offset -= index[inner] * step;
        }
        index[inner] = 0;
        for k in (0..inner).rev() {
            let dim = dims[k];
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

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(traversal: &Traversal<1>, from: usize, to: usize) -> Vec<usize> {
        let mut seen = Vec::new();
        traversal.rows(from, to, |row| {
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
            let traversal = Traversal::new(shape, |k| [strides[k]], Order::RowMajor);
            let mut expected = vec![0];
            for (&length, &stride) in shape.iter().zip(strides) {
                expected = expected
                    .iter()
                    .flat_map(|base| (0..length).map(move |i| base + i * stride))
                    .collect();
            }
            assert_eq!(traversal.count(), expected.len());
            for from in 0..=expected.len() {
                for to in from..=expected.len() + 1 {
                    let end = to.min(expected.len());
                    assert_eq!(visited(&traversal, from, to), expected[from..end], "{shape:?}");
                }
            }
        }
    }

    #[test]
    fn dense_tensors_are_one_row_in_any_order() {
        let strides = [1, 2, 6];
        let traversal = Traversal::new(&[2, 3, 4], |k| [strides[k]], Order::Any);
        assert_eq!(visited(&traversal, 0, 24), (0..24).collect::<Vec<_>>());
        let mut rows = 0;
        traversal.rows(0, 24, |_| rows += 1);
        assert_eq!(rows, 1);
    }
}
