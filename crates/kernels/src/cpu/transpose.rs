//! Copies whose source and target follow one another in memory along different dimensions, in
//! tiles: each cache line of both sides is used as a whole.

use std::mem::MaybeUninit;

use millstream_types::DType;
use smallvec::SmallVec;

use super::element::moved;
use super::strided::{Address, BLOCK};
use super::traversal::Traversal;
use crate::context::Threads;

/// The side of a tile in elements.
const TILE: usize = 16;

/// The side of a block whose elements are moved at once.
const SIDE: usize = 4;

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
    // Rows that are far apart in memory may share few lines of the cache: a tile is collected, and
    // each of its rows is then written at once.
    let mut tile = [MaybeUninit::<[T; TILE]>::uninit(); TILE];
    for first in (0..target.length).step_by(TILE) {
        let columns = TILE.min(target.length - first);
        let from = from.wrapping_add(first * target.from);
        let collected = (tile.as_mut_ptr().cast::<u8>(), size_of::<[T; TILE]>());
        // SAFETY: the tile has room for as many elements; the rest is the caller's promise.
        unsafe { transpose::<T>((from, target.from), collected, (rows, columns)) };
        for (row, values) in tile.iter().enumerate().take(rows) {
            let to = to.wrapping_add(row * source.to).cast::<T>().wrapping_add(first);
            // SAFETY: as above.
            unsafe { to.copy_from_nonoverlapping(values.as_ptr().cast(), columns) };
        }
    }
}

/// Copies a matrix of these numbers of rows and columns. The elements of a column follow one
/// another in the source, and those of a row in the target. Each side is an address, and the bytes
/// from one column or row to the next.
///
/// # Safety
/// All elements of both sides are valid and aligned, and the sides do not overlap.
pub(crate) unsafe fn transpose<T: Copy>(
    (from, from_step): (*mut u8, usize),
    (to, to_step): (*mut u8, usize),
    (rows, columns): (usize, usize),
) {
    let source = |row: usize, column: usize| {
        from.wrapping_add(column * from_step + row * size_of::<T>()).cast_const()
    };
    let target =
        |row: usize, column: usize| to.wrapping_add(row * to_step + column * size_of::<T>());
    let (whole_rows, whole_columns) = (rows - rows % SIDE, columns - columns % SIDE);
    // SAFETY: these are elements of the matrix.
    let move_one = |row: usize, column: usize| unsafe {
        *target(row, column).cast::<T>() = *source(row, column).cast::<T>();
    };
    for column in (0..whole_columns).step_by(SIDE) {
        for row in (0..whole_rows).step_by(SIDE) {
            // SAFETY: as above, for a block; an array is aligned as its elements are.
            unsafe {
                let block: [[T; SIDE]; SIDE] =
                    std::array::from_fn(|k| *source(row, column + k).cast());
                for k in 0..SIDE {
                    *target(row + k, column).cast() = block.map(|column| column[k]);
                }
            }
        }
    }
    for column in 0..columns {
        let from_row = if column < whole_columns { whole_rows } else { 0 };
        (from_row..rows).for_each(|row| move_one(row, column));
    }
}
