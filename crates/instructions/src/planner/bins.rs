//! Free blocks by size: lists in bins of powers of two, each cut into eight.
//!
//! Finding a bin takes constant time, whatever the bins hold, as in TLSF (Masmano, Ripoll, Crespo
//! and Real, 2004). Below 4 KiB a bin holds one size. Within a bin a search takes the best of the
//! blocks that were freed last.

use super::arena::{Block, NONE};
use super::{GRANULARITY, Search};

/// The number of bins for sizes up to 2^63 bytes: eight of one size each, and eight for each
/// further power of two.
const BINS: usize = 8 * 53;
const WORDS: usize = BINS.div_ceil(64);

/// Lists of free blocks. A block is in at most one list of one `Bins`.
#[derive(Debug, Default)]
pub(super) struct Bins {
    /// The first block of each bin, up to the largest bin that ever had one.
    heads: Vec<u32>,
    occupied: [u64; WORDS],
    /// The bytes of all blocks in the bins.
    pub(super) bytes: u64,
}

/// Returns the bin of blocks of this size, a multiple of [`GRANULARITY`].
const fn bin(size: u64) -> usize {
    let units = size / GRANULARITY;
    if units < 8 {
        return units as usize;
    }
    let power = units.ilog2();
    8 * (power as usize - 2) + ((units >> (power - 3)) & 7) as usize
}

impl Bins {
    /// Adds a block as the first of its bin.
    pub(super) fn insert(&mut self, blocks: &mut [Block], at: u32) {
        let size = blocks[at as usize].size;
        let bin = bin(size);
        if self.heads.len() <= bin {
            self.heads.resize(bin + 1, NONE);
        }
        let next = std::mem::replace(&mut self.heads[bin], at);
        (blocks[at as usize].before, blocks[at as usize].after) = (NONE, next);
        if next != NONE {
            blocks[next as usize].before = at;
        }
        self.occupied[bin / 64] |= 1 << (bin % 64);
        self.bytes += size;
    }

    /// Takes out a block that is in the bins.
    pub(super) fn remove(&mut self, blocks: &mut [Block], at: u32) {
        let Block { size, before, after, .. } = blocks[at as usize];
        if before == NONE {
            let bin = bin(size);
            debug_assert_eq!(self.heads[bin], at, "the block is in another list");
            self.heads[bin] = after;
            if after == NONE {
                self.occupied[bin / 64] &= !(1 << (bin % 64));
            }
        } else {
            blocks[before as usize].after = after;
        }
        if after != NONE {
            blocks[after as usize].before = before;
        }
        self.bytes -= size;
    }

    /// Returns the first block of the first bin that has one.
    pub(super) fn first(&self) -> Option<u32> {
        self.occupied_from(0).map(|bin| self.heads[bin])
    }

    /// Takes out the first block of the bin of `want` bytes, if it is of that size: what
    /// [`Bins::fit`] would find.
    #[inline]
    pub(super) fn take_exact(&mut self, blocks: &mut [Block], want: u64) -> Option<u32> {
        let bin = bin(want);
        let at = *self.heads.get(bin)?;
        let &Block { size, after, .. } = blocks.get(at as usize)?;
        if size != want {
            return None;
        }
        self.heads[bin] = after;
        match blocks.get_mut(after as usize) {
            Some(next) => next.before = NONE,
            None => self.occupied[bin / 64] &= !(1 << (bin % 64)),
        }
        self.bytes -= size;
        Some(at)
    }

    /// Finds the smallest block of at least `want` bytes that `accept` takes, in the first bin that
    /// has one. `search` bounds the blocks examined in each bin.
    pub(super) fn fit(
        &self,
        blocks: &[Block],
        want: u64,
        search: Search,
        mut accept: impl FnMut(&Block) -> bool,
    ) -> Option<u32> {
        if self.bytes < want {
            return None;
        }
        let mut bin = self.occupied_from(bin(want))?;
        loop {
            let mut best: Option<(u64, u32)> = None;
            for (at, block) in self.list(blocks, bin).take(search.most()) {
                if block.size >= want
                    && best.is_none_or(|(size, _)| block.size < size)
                    && accept(block)
                {
                    best = Some((block.size, at));
                    if block.size == want {
                        break;
                    }
                }
            }
            if let Some((_, at)) = best {
                return Some(at);
            }
            bin = self.occupied_from(bin + 1)?;
        }
    }

    /// Returns all blocks of at least `want` bytes.
    pub(super) fn at_least<'a>(
        &'a self,
        blocks: &'a [Block],
        want: u64,
    ) -> impl Iterator<Item = (u32, &'a Block)> {
        let first = self.occupied_from(bin(want));
        std::iter::successors(first, |&bin| self.occupied_from(bin + 1))
            .flat_map(move |bin| self.list(blocks, bin))
            .filter(move |(_, block)| block.size >= want)
    }

    fn list<'a>(&self, blocks: &'a [Block], bin: usize) -> impl Iterator<Item = (u32, &'a Block)> {
        let mut at = self.heads[bin];
        std::iter::from_fn(move || {
            let block = blocks.get(at as usize)?;
            Some((std::mem::replace(&mut at, block.after), block))
        })
    }

    /// Returns the first bin from `bin` on that has a block.
    fn occupied_from(&self, bin: usize) -> Option<usize> {
        let mut word = bin / 64;
        let mut bits = self.occupied.get(word)? & (u64::MAX << (bin % 64));
        while bits == 0 {
            word += 1;
            bits = *self.occupied.get(word)?;
        }
        Some(64 * word + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_grow_with_sizes_and_hold_an_eighth_of_a_power_each() {
        let mut last = 0;
        for units in 1..100_000u64 {
            let bin = bin(units * GRANULARITY);
            assert!(bin == last || bin == last + 1, "{units}");
            last = bin;
        }
        assert_eq!(bin(8 * GRANULARITY), 8);
        assert_eq!((bin(1023 * GRANULARITY), bin(1024 * GRANULARITY)), (63, 64));
        assert!(bin(u64::MAX / GRANULARITY * GRANULARITY) < BINS);
    }
}
