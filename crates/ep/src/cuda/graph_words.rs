//! The words of a graph: integers in pinned memory, which the work of the graph reads under the
//! host's own address.

use std::sync::Arc;

use crate::cuda::driver::{Context, DriverResult, PinnedBlock};

/// The words of a graph.
pub(super) struct GraphWords {
    block: PinnedBlock,
    count: usize,
}

impl GraphWords {
    /// Allocates `count` words, which are zero; none for 0.
    ///
    /// # Errors
    /// The driver has no pinned memory.
    pub(super) fn new(context: &Arc<Context>, count: usize) -> DriverResult<Option<GraphWords>> {
        if count == 0 {
            return Ok(None);
        }
        let block = PinnedBlock::new(context.clone(), count * size_of::<i64>())?;
        let mut words = GraphWords { block, count };
        words.set(&vec![0; count]);
        Ok(Some(words))
    }

    pub(super) const fn len(&self) -> usize {
        self.count
    }

    pub(super) fn address(&self) -> usize {
        self.block.base().addr().get()
    }

    /// Sets the words. No launch of the graph is outstanding, so no device reads them.
    pub(super) fn set(&mut self, words: &[i64]) {
        let first = self.block.base().cast::<i64>();
        for (k, word) in words.iter().take(self.count).enumerate() {
            // SAFETY: the block holds `count` words, and the driver aligns it to more than a word.
            // No launch is outstanding. The write is volatile because a device reads it.
            unsafe { first.add(k).write_volatile(*word) };
        }
    }
}
