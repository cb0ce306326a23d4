//! How a kernel says that its call has failed: by setting a word that the host looks at once the
//! kernel has run.
//!
//! # Rules
//! 1. A word is given out for one launch, zero, and comes back when the host has looked at it, which
//!    is after all that was launched with it has completed. So no two launches share one.
//! 2. The words lie in pinned memory, which devices reach under the host's own address. A kernel only
//!    ever stores one value, so that threads that do so at once do not disturb one another.
//! 3. A stream keeps its words for as long as it lives: a failure costs nothing where none happens
//!    but a look at a word.

use std::ptr::NonNull;
use std::sync::Arc;

use crate::cuda::driver::{Answer, Context, PinnedBlock};

/// Words in a block of pinned memory.
const WORDS: usize = 512;

/// A word, and what it means if it is set.
pub(super) struct Verdict {
    word: Word,
    error: anyhow::Error,
}

/// The address of a word in a block that the stream keeps.
struct Word(NonNull<u64>);

// SAFETY: the address is used by one verdict at a time; the block that it lies in lives as long as the
// stream's `Verdicts`, which are kept for good where a stream is dropped with work on its way.
unsafe impl Send for Word {}

/// The words of a stream.
#[derive(Default)]
pub(super) struct Verdicts {
    blocks: Vec<PinnedBlock>,
    free: Vec<Word>,
    /// Those of the work that is being launched.
    asked: Vec<Verdict>,
}

impl Verdicts {
    /// A word for what is being launched, and the failure that it stands for.
    ///
    /// # Errors
    /// The driver's: there is no pinned memory.
    pub(super) fn ask(
        &mut self,
        context: &Arc<Context>,
        error: anyhow::Error,
    ) -> Answer<NonNull<u64>> {
        let word = match self.free.pop() {
            Some(word) => word,
            None => self.grow(context)?,
        };
        let address = word.0;
        self.asked.push(Verdict { word, error });
        Ok(address)
    }

    /// A word of a new block, whose others are free.
    fn grow(&mut self, context: &Arc<Context>) -> Answer<Word> {
        let block = PinnedBlock::new(context.clone(), WORDS * size_of::<u64>())?;
        let first = block.base().cast::<u64>();
        // SAFETY: the block is so many words long, aligned by the driver to more than a word's, and
        // nobody else knows it yet.
        unsafe { first.write_bytes(0, WORDS) };
        // SAFETY: as above.
        self.free.extend((1..WORDS).map(|k| Word(unsafe { first.add(k) })));
        self.blocks.push(block);
        Ok(Word(first))
    }

    /// The words of what was launched since the last call.
    pub(super) fn take(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.asked)
    }

    /// What has run has failed with the first error whose word is set, if any is. The words are then
    /// free again.
    pub(super) fn judge(&mut self, verdicts: Vec<Verdict>) -> anyhow::Result<()> {
        let mut result = Ok(());
        for Verdict { word, error } in verdicts {
            // SAFETY: the word lies in a block of this value's. All that was launched with it has
            // completed, so that no device writes it; it is read as is, since one has.
            let set = unsafe { word.0.read_volatile() } != 0;
            if set {
                // SAFETY: as above.
                unsafe { word.0.write_volatile(0) };
                result = result.and(Err(error));
            }
            self.free.push(word);
        }
        result
    }
}
