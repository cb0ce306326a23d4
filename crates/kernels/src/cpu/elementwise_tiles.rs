//! Elementwise calls with transposed inputs: the elements of such an input follow one another in
//! memory along another dimension than those of the output. They are computed in tiles, with a
//! transposed copy of each tile of such an input, so that each cache line is read once.

use std::mem::MaybeUninit;

use millstream_types::DType;
use smallvec::SmallVec;

use super::element::moved;
use super::function::{MAX_INPUTS, Word};
use super::row_plan::{OPERANDS, OUT};
use super::strided::{Address, BLOCK};
use super::transpose::transpose;
use super::traversal::Traversal;
use crate::context::Threads;

/// The rows of a tile: a cache line of f32.
const ROWS: usize = 16;

/// The bytes of a row of the copy of a tile.
const ROW_BYTES: usize = 1 << 10;

/// The shortest side that is computed in tiles.
const LEAST: usize = 8;

type Copy = MaybeUninit<[Word; ROWS * ROW_BYTES / size_of::<Word>()]>;

/// A dimension: its length, and the steps of the operands in bytes.
type Dim = (usize, [usize; OPERANDS]);

/// The order in which tiles are computed.
pub(crate) struct Tiles {
    outer: SmallVec<[Dim; 4]>,
    /// The dimension along which the elements of transposed inputs follow one another.
    down: Dim,
    /// The dimension along which those of the output do.
    across: Dim,
    dtypes: [DType; OPERANDS],
    transposed: [bool; MAX_INPUTS],
    /// The columns of a tile.
    columns: usize,
}

impl Tiles {
    /// Returns the tiles along a traversal of this many inputs and the output; none if no input
    /// is transposed.
    pub(crate) fn new(
        traversal: &Traversal<OPERANDS>,
        dtypes: [DType; OPERANDS],
        inputs: usize,
    ) -> Option<Tiles> {
        let mut outer: SmallVec<[Dim; 4]> = traversal.dims().collect();
        let across = outer.pop()?;
        if across.0 < LEAST || across.1[OUT] != dtypes[OUT].size() {
            return None;
        }
        let is_transposed = |(length, steps): &Dim, k: usize| {
            let size = dtypes[k].size();
            *length >= LEAST && steps[k] == size && across.1[k] > size
        };
        let down = outer.iter().position(|dim| (0..inputs).any(|k| is_transposed(dim, k)))?;
        let down = outer.remove(down);
        let transposed = std::array::from_fn(|k| k < inputs && is_transposed(&down, k));
        let sizes = (0..inputs).filter(|&k| transposed[k]).map(|k| dtypes[k].size());
        let columns = ROW_BYTES / sizes.max()?;
        Some(Tiles { outer, down, across, dtypes, transposed, columns })
    }

    /// Returns the steps of the operands along a row, in bytes.
    pub(crate) fn steps(&self) -> [usize; OPERANDS] {
        let mut steps = self.across.1;
        for k in (0..MAX_INPUTS).filter(|&k| self.transposed[k]) {
            steps[k] = self.dtypes[k].size();
        }
        steps
    }

    /// Calls `row` with the addresses of the operands in each row, and its length, on several
    /// threads. Each element of the output is in one row.
    ///
    /// # Safety
    /// The operands at these addresses are those of the traversal, valid and aligned. Nothing
    /// writes the transposed inputs meanwhile.
    pub(crate) unsafe fn for_each_row(
        &self,
        data: [Address; OPERANDS],
        threads: Option<&Threads>,
        row: impl Fn(&[*mut u8; OPERANDS], usize) + Sync + Send,
    ) {
        let strips = self.down.0.div_ceil(ROWS);
        let pieces = self.across.0.div_ceil(self.columns);
        let outer: usize = self.outer.iter().map(|dim| dim.0).product();
        let count = outer * pieces * strips;
        let at_once = BLOCK.div_ceil(ROWS * self.columns.min(self.across.0));
        Threads::for_each(threads, count.div_ceil(at_once), |task| {
            let mut copies: [Copy; MAX_INPUTS] = [MaybeUninit::uninit(); MAX_INPUTS];
            for tile in task * at_once..count.min((task + 1) * at_once) {
                // Tiles that follow one another are in the same pages of the transposed inputs.
                let (first, piece) = (tile % strips * ROWS, tile / strips % pieces);
                let mut rest = tile / strips / pieces;
                let mut data = data.map(|address| address.0);
                let mut advance = |(_, steps): &Dim, by: usize| {
                    for (data, step) in data.iter_mut().zip(steps) {
                        *data = data.wrapping_add(by * step);
                    }
                };
                for dim in self.outer.iter().rev() {
                    advance(dim, rest % dim.0);
                    rest /= dim.0;
                }
                advance(&self.down, first);
                advance(&self.across, piece * self.columns);
                let rows = ROWS.min(self.down.0 - first);
                let columns = self.columns.min(self.across.0 - piece * self.columns);
                let mut steps = self.down.1;
                for (k, copy) in copies.iter_mut().enumerate().filter(|(k, _)| self.transposed[*k])
                {
                    let copy = copy.as_mut_ptr().cast::<u8>();
                    // SAFETY: the tile lies in the operand. The copy has room for `ROWS` rows of
                    // `ROW_BYTES` bytes, and `columns` elements fit into one.
                    unsafe {
                        moved!(self.dtypes[k], T => transpose::<T>(
                            (data[k], self.across.1[k]),
                            (copy, ROW_BYTES),
                            (rows, columns),
                        ));
                    }
                    (data[k], steps[k]) = (copy, ROW_BYTES);
                }
                for at in 0..rows {
                    let addresses = std::array::from_fn(|k| data[k].wrapping_add(at * steps[k]));
                    row(&addresses, columns);
                }
            }
        });
    }
}
