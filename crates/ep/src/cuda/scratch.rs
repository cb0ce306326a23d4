//! Scratch memory of a stream, for kernels that need more than their op's workspace: an op's schema
//! is independent of the device, and a kernel's need depends on the layout of its operands.
//!
//! The calls of one stream run one after another, so all may use the same bytes. The stream keeps
//! them until it is dropped, in addition to the memory of arenas: freeing would wait for the
//! device.

use std::sync::{Arc, MutexGuard};

use anyhow::{Context as _, ensure};

use crate::cuda::driver::{Context, DeviceBlock};

/// The size of a stream's first block in bytes, and the minimum of later ones.
const MIN_BLOCK: usize = 1 << 20;

/// The alignment of every allocation in bytes: enough for every load and every library.
const ALIGN: usize = 256;

/// An aligned address of no memory.
pub(super) const NOWHERE: usize = 1 << 62;

/// What a call may do with scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Take some, and allocate more.
    Growing,
    /// Take what there is: the call is captured.
    Fixed,
    /// Nothing: the call is planned.
    Refused,
    /// Take addresses of no memory: nothing runs.
    Nowhere,
}

/// The scratch memory of one call. It holds the stream's lock on scratch memory: other calls on the
/// stream get none until it is dropped.
pub struct Scratch<'a> {
    /// Each is at least twice as long as the one before.
    blocks: MutexGuard<'a, Vec<DeviceBlock>>,
    context: &'a Arc<Context>,
    access: Access,
    /// The index of the block of the next allocation.
    block: usize,
    /// The bytes of that block in use.
    used: usize,
}

impl<'a> Scratch<'a> {
    pub(super) fn new(
        blocks: MutexGuard<'a, Vec<DeviceBlock>>,
        context: &'a Arc<Context>,
        access: Access,
    ) -> Scratch<'a> {
        Scratch { blocks, context, access, block: 0, used: 0 }
    }

    /// Allocates `bytes` bytes of device memory of unspecified content, aligned to 256 bytes. They
    /// belong to the call until the stream has run the work that the call launches.
    ///
    /// # Errors
    /// The driver is out of memory; the call is captured and the stream has too little; or the call
    /// is planned.
    pub fn take(&mut self, bytes: usize) -> anyhow::Result<*mut u8> {
        ensure!(self.access != Access::Refused, "a planned call cannot take scratch memory");
        let bytes = bytes.checked_next_multiple_of(ALIGN).context("scratch of too many bytes")?;
        if self.access == Access::Nowhere {
            self.used = self.used.saturating_add(bytes);
            return Ok(NOWHERE.wrapping_add(self.used) as *mut u8);
        }
        while let Some(block) = self.blocks.get(self.block) {
            if block.bytes() - self.used >= bytes {
                let address = block.address() + self.used;
                self.used += bytes;
                return Ok(address as *mut u8);
            }
            (self.block, self.used) = (self.block + 1, 0);
        }
        ensure!(self.access != Access::Fixed, "a captured call cannot allocate scratch memory");
        let twice = self.blocks.last().map_or(MIN_BLOCK, |last| last.bytes().saturating_mul(2));
        let block = DeviceBlock::new(self.context.clone(), bytes.max(twice))?;
        let address = block.address();
        self.blocks.push(block);
        self.used = bytes;
        Ok(address as *mut u8)
    }
}

/// A position of [`Scratch`], to which it can be released.
#[derive(Clone, Copy, Debug)]
pub struct ScratchMark {
    block: usize,
    used: usize,
}

impl Scratch<'_> {
    /// Returns the current position.
    pub fn mark(&self) -> ScratchMark {
        ScratchMark { block: self.block, used: self.used }
    }

    /// Releases the memory that was allocated since `mark`. Later launches of the call may reuse
    /// it, because they run after the earlier ones.
    pub fn release(&mut self, mark: ScratchMark) {
        (self.block, self.used) = (mark.block, mark.used);
    }
}

impl std::fmt::Debug for Scratch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "scratch memory in {} blocks", self.blocks.len())
    }
}
