//! Copies whose source and target follow one another in memory along different dimensions, in
//! tiles: each cache line of both sides is used as a whole.

use millstream_types::DType;
use smallvec::SmallVec;

use super::element::moved;
use super::strided::{Address, BLOCK};
use super::traversal::Traversal;
use crate::context::Threads;

/// The side of a tile in elements.
const TILE: usize = 32;

/// The shortest side that is copied in tiles.
const LEAST: usize = 8;

/// A dimension of a copy: its length, and its steps in bytes in the source and the target.
#[derive(Clone, Copy)]
struct Dim {
    length: usize,
    from: usize,
    to: usize,
}

/// A copy in tiles.
pub(crate) struct TiledCopy {
    outer: SmallVec<[Dim; 4]>,
    /// The dimension along which the elements of the source follow one another.
    of_source: Dim,
    /// The dimension along which the elements of the target follow one another.
    of_target: Dim,
}

impl TiledCopy {
    /// Returns the copy along a traversal of the source and the target, of elements of `size`
    /// bytes; none if it is not one between two such dimensions.
    pub(crate) fn new(traversal: &Traversal<2>, size: usize) -> Option<TiledCopy> {
        if traversal.is_one_row() {
            return None;
        }
        let dim = |(length, [from, to]): (usize, [usize; 2])| Dim { length, from, to };
        let mut outer: SmallVec<[Dim; 4]> = traversal.dims().map(dim).collect();
        let mut take = |wanted: &dyn Fn(&Dim) -> bool| {
            let at = outer.iter().position(|d| d.length >= LEAST && wanted(d))?;
            Some(outer.remove(at))
        };
        let of_target = take(&|d| d.to == size && d.from > size)?;
        let of_source = take(&|d| d.from == size && d.to > size)?;
        Some(TiledCopy { outer, of_source, of_target })
    }

    /// Copies elements of a dtype.
    ///
    /// # Safety
    /// Both are operands of the traversal at these addresses, valid and aligned, which do not
    /// overlap; nothing else accesses the target.
    pub(crate) unsafe fn run(
        &self,
        dtype: DType,
        addresses: [Address; 2],
        threads: Option<&Threads>,
    ) {
        let (source, target) = (self.of_source, self.of_target);
        let strips = source.length.div_ceil(TILE);
        let outer: usize = self.outer.iter().map(|d| d.length).product();
        let at_once = (BLOCK / (TILE * target.length)).max(1);
        let count = outer * strips;
        Threads::for_each(threads, count.div_ceil(at_once), |task| {
            for strip in task * at_once..count.min((task + 1) * at_once) {
                let (mut rest, first) = (strip / strips, strip % strips * TILE);
                let [mut from, mut to] = addresses.map(|address| address.0);
                for dim in self.outer.iter().rev() {
                    from = from.wrapping_add(rest % dim.length * dim.from);
                    to = to.wrapping_add(rest % dim.length * dim.to);
                    rest /= dim.length;
                }
                let from = from.wrapping_add(first * source.from);
                let to = to.wrapping_add(first * source.to);
                let rows = TILE.min(source.length - first);
                // SAFETY: a strip of the operands; strips are disjoint.
                unsafe {
                    moved!(dtype, T => copy_strip::<T>([from, to], rows, (source, target)));
                }
            }
        });
    }
}

/// Copies `rows` rows of the target.
///
/// # Safety
/// That of [`TiledCopy::run`], for these rows.
unsafe fn copy_strip<T: Copy>([from, to]: [*mut u8; 2], rows: usize, (source, target): (Dim, Dim)) {
    for first in (0..target.length).step_by(TILE) {
        for row in 0..rows {
            let to = to.wrapping_add(row * source.to).cast::<T>();
            let from = from.cast::<T>().wrapping_add(row).cast::<u8>();
            for at in first..target.length.min(first + TILE) {
                // SAFETY: guaranteed by the caller.
                unsafe { *to.add(at) = *from.add(at * target.from).cast::<T>() };
            }
        }
    }
}
