//! Iteration over the elements of a layout, in row-major order of their indices.

use millstream_types::{Dims, Layout};

/// An iterator over the offset of each element in its storage, in elements.
pub(crate) struct ElementIter<'a> {
    layout: &'a Layout,
    index: Dims,
    offset: usize,
    remaining: usize,
}

impl<'a> ElementIter<'a> {
    pub(crate) fn new(layout: &'a Layout) -> ElementIter<'a> {
        ElementIter {
            layout,
            index: Dims::from_elem(0, layout.rank()),
            offset: layout.offset(),
            remaining: layout.numel(),
        }
    }
}

impl Iterator for ElementIter<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.remaining = self.remaining.checked_sub(1)?;
        let current = self.offset;
        let (shape, strides) = (self.layout.shape(), self.layout.strides());
        for k in (0..shape.len()).rev() {
            self.index[k] += 1;
            if self.index[k] < shape[k] {
                self.offset += strides[k];
                break;
            }
            self.offset -= strides[k] * (shape[k] - 1);
            self.index[k] = 0;
        }
        Some(current)
    }
}

/// Returns the index of element number `n`, in row-major order, of a tensor of this shape.
pub(crate) fn unravel_index(mut n: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (coordinate, &length) in index.iter_mut().zip(shape).rev() {
        *coordinate = n % length.max(1);
        n /= length.max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_strides() {
        let all = |l: &Layout| ElementIter::new(l).collect::<Vec<_>>();
        assert_eq!(all(&Layout::contiguous(&[2, 2]).unwrap()), [0, 1, 2, 3]);
        assert_eq!(all(&Layout::strided(&[3, 2], &[1, 3], 1).unwrap()), [1, 4, 2, 5, 3, 6]);
        assert_eq!(all(&Layout::contiguous(&[]).unwrap()), [0]);
        assert!(all(&Layout::contiguous(&[3, 0]).unwrap()).is_empty());
        assert_eq!(unravel_index(5, &[2, 3]), [1, 2]);
    }
}
