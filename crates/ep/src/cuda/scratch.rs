//! Scratch memory of a stream, for kernels that want more than their op's workspace: an op's schema
//! knows no device, and what a kernel wants here depends on how its operands lie.
//!
//! Calls of one stream run one after another, so each may use the same bytes. They are kept for the
//! stream's life, beside the memory that arenas count: to give memory back would wait for the device.

use std::sync::{Arc, MutexGuard};

use anyhow::Context as _;

use crate::cuda::driver::{Context, DeviceBlock};

/// The least that a stream is given at once, in bytes.
const LEAST: usize = 1 << 20;

/// How pieces are aligned, in bytes: enough for every load and every library.
const ALIGN: usize = 256;

/// The scratch memory of one call. What is launched by other calls on the stream before this is
/// dropped has none.
pub struct Scratch<'a> {
    /// Each at least twice as long as the one before.
    blocks: MutexGuard<'a, Vec<DeviceBlock>>,
    context: &'a Arc<Context>,
    /// What the next piece is taken from, and how much of it has been.
    block: usize,
    used: usize,
}

impl<'a> Scratch<'a> {
    pub(super) fn new(
        blocks: MutexGuard<'a, Vec<DeviceBlock>>,
        context: &'a Arc<Context>,
    ) -> Scratch<'a> {
        Scratch { blocks, context, block: 0, used: 0 }
    }

    /// A piece of `bytes` bytes of the device's memory, aligned to 256 bytes, of unspecified content. It
    /// is the call's until the stream has run what the call launches.
    ///
    /// # Errors
    /// The driver's: there is no memory.
    pub fn take(&mut self, bytes: usize) -> anyhow::Result<*mut u8> {
        let bytes = bytes.checked_next_multiple_of(ALIGN).context("scratch of too many bytes")?;
        while let Some(block) = self.blocks.get(self.block) {
            if block.bytes() - self.used >= bytes {
                let at = block.address() + self.used;
                self.used += bytes;
                return Ok(at as *mut u8);
            }
            (self.block, self.used) = (self.block + 1, 0);
        }
        let twice = self.blocks.last().map_or(LEAST, |last| last.bytes().saturating_mul(2));
        let block = DeviceBlock::new(self.context.clone(), bytes.max(twice))?;
        let at = block.address();
        self.blocks.push(block);
        self.used = bytes;
        Ok(at as *mut u8)
    }
}

/// How far scratch memory has been taken.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize, usize);

impl Scratch<'_> {
    /// What has been taken so far.
    pub fn mark(&self) -> Mark {
        Mark(self.block, self.used)
    }

    /// Gives back what was taken since: what the call launches from here on may use it again, as it runs
    /// after what was launched before.
    pub fn back(&mut self, to: Mark) {
        (self.block, self.used) = (to.0, to.1);
    }
}

impl std::fmt::Debug for Scratch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scratch memory in {} blocks", self.blocks.len())
    }
}
