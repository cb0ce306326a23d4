//! The numbers of the elements of a part of a random tensor, in row-major order of the whole.

use std::ops::Range;

use anyhow::Result;
use millstream_ops::random::{Part, part};
use millstream_types::Dims;

use super::philox::RandomBits;
use super::strided::CHUNK;
use crate::context::KernelCtx;

/// The numbers of the elements of a part.
pub(super) struct Numbers {
    shape: Dims,
    part: Part,
}

impl Numbers {
    /// Returns the numbers of a call's elements; none if it draws the whole, in which elements are
    /// numbered as they lie.
    pub(super) fn of(ctx: &KernelCtx<'_>, shape: &[usize]) -> Result<Option<Numbers>> {
        let part = part(ctx.attrs(), shape)?;
        Ok(part.map(|part| Numbers { shape: Dims::from_slice(shape), part }))
    }

    /// Returns the number of the element at a position in row-major order of the part, and how many
    /// of those that follow in its line have the next numbers, itself included.
    fn run(&self, mut at: usize) -> (u64, usize) {
        let mut number = self.part.first;
        let mut left = 1;
        for (dim, (&length, &step)) in self.shape.iter().zip(&self.part.steps).enumerate().rev() {
            let index = at % length;
            at /= length;
            number += (index * step) as u64;
            if dim + 1 == self.shape.len() {
                left = length - index;
            }
        }
        (number, left)
    }

    /// Calls a function for the elements from `at` on, as long as they share a block of `N`: with
    /// the number of the block, the range of the elements from `at`, and their range in the block.
    #[inline(always)]
    pub(super) fn blocks<const N: usize>(
        &self,
        at: usize,
        count: usize,
        mut of: impl FnMut(u64, Range<usize>, Range<usize>),
    ) {
        let mut done = 0;
        while done < count {
            let (mut number, left) = self.run(at + done);
            let end = count.min(done + left);
            while done < end {
                let within = (number % N as u64) as usize;
                let length = (end - done).min(N - within);
                of(number / N as u64, done..done + length, within..within + length);
                done += length;
                number += length as u64;
            }
        }
    }
}

/// The random words of a call, one for each element.
pub(super) struct Words {
    bits: RandomBits,
    part: Option<Numbers>,
}

impl Words {
    /// Returns the words of a call whose result has this shape.
    pub(super) fn of(ctx: &KernelCtx<'_>, shape: &[usize], bits: RandomBits) -> Result<Words> {
        Ok(Words { bits, part: Numbers::of(ctx, shape)? })
    }

    /// Calls a function for each of the elements from `at` on, which is a multiple of the length of
    /// a block, with its position from there and its word.
    #[inline(always)]
    pub(super) fn for_each(&self, at: usize, count: usize, mut of: impl FnMut(usize, u32)) {
        debug_assert!(at.is_multiple_of(4) && count <= CHUNK);
        let Some(part) = &self.part else {
            for k in (0..count).step_by(4) {
                let words = self.bits.words(((at + k) / 4) as u64);
                let words = words.into_iter().enumerate().take(count - k);
                words.for_each(|(i, word)| of(k + i, word));
            }
            return;
        };
        part.blocks::<4>(at, count, |block, run, within| {
            let words = self.bits.words(block);
            run.zip(within).for_each(|(k, i)| of(k, words[i]));
        });
    }
}
