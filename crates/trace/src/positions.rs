//! The places of a layout's elements, in row-major order of their indices.

use millstream_types::{Dims, Layout};

/// An iterator over the place of each element in its storage, in elements.
pub(crate) struct Positions<'a> {
    layout: &'a Layout,
    index: Dims,
    at: usize,
    left: usize,
}

impl<'a> Positions<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Positions<'a> {
        Positions {
            layout,
            index: Dims::from_elem(0, layout.rank()),
            at: layout.offset(),
            left: layout.numel(),
        }
    }
}

impl Iterator for Positions<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let here = self.at;
        let (shape, strides) = (self.layout.shape(), self.layout.strides());
        for k in (0..shape.len()).rev() {
            self.index[k] += 1;
            if self.index[k] < shape[k] {
                self.at += strides[k];
                break;
            }
            self.at -= strides[k] * (shape[k] - 1);
            self.index[k] = 0;
        }
        Some(here)
    }
}

/// The index of element number `n` of a tensor of this shape, in row-major order.
pub(crate) fn index_of(mut n: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (place, &length) in index.iter_mut().zip(shape).rev() {
        *place = n % length.max(1);
        n /= length.max(1);
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_strides() {
        let all = |l: &Layout| Positions::new(l).collect::<Vec<_>>();
        assert_eq!(all(&Layout::contiguous(&[2, 2]).unwrap()), [0, 1, 2, 3]);
        assert_eq!(all(&Layout::strided(&[3, 2], &[1, 3], 1).unwrap()), [1, 4, 2, 5, 3, 6]);
        assert_eq!(all(&Layout::contiguous(&[]).unwrap()), [0]);
        assert!(all(&Layout::contiguous(&[3, 0]).unwrap()).is_empty());
        assert_eq!(index_of(5, &[2, 3]), [1, 2]);
    }
}
