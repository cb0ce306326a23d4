//! The free blocks of one stream: idle, or pending until the stream's clock covers their last uses.
//!
//! # Rules
//! 1. A block belongs to the stream that it was last placed for.
//! 2. A block is *idle* once its stream's clock covers all its last uses. Clocks never shrink, so
//!    the block stays idle.
//! 3. Until then a block is *pending*. It is in one queue: that of the first of its last uses that
//!    the stream does not know. A queue is examined from its lowest point on, and only after the
//!    stream's clock has grown. So a block moves at most once for each of its last uses, and
//!    nothing polls.
//! 4. A block that leaves takes its stamp along. Queue entries with another stamp are ignored.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use millstream_types::{Point, StreamId};

use super::arena::{Block, State};
use super::bins::Bins;
use super::{Knowledge, Search};

/// The most resting blocks of a stream, so that the memory between them is found again.
const RESTING: usize = 64;

/// A queue has at most this many entries for each pending block, and a few more.
const STALE: usize = 2;

/// The free blocks of one stream.
#[derive(Debug, Default)]
pub(super) struct FreeBlocks {
    /// Blocks of chunks for small requests, and of chunks for large ones.
    pub(super) idle: [Bins; 2],
    /// Blocks that were released a moment ago: idle, and not merged with their neighbours yet.
    pub(super) resting: Bins,
    /// The number of resting blocks.
    rested: usize,
    pub(super) pending: Bins,
    /// The number of pending blocks.
    waiting: usize,
    queues: Vec<Queue>,
    /// The version of the stream's clock when the queues were last examined.
    version: u64,
    pub(super) in_use: u64,
    pub(super) peak: u64,
}

/// Pending blocks by the sequence number on `source` that they wait for.
#[derive(Debug)]
struct Queue {
    source: StreamId,
    entries: BinaryHeap<Reverse<Entry>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    seq: u64,
    stamp: u64,
    block: u32,
}

impl FreeBlocks {
    /// Finds the best idle block of at least `want` bytes that `accept` takes.
    pub(super) fn fit_idle(
        &self,
        blocks: &[Block],
        want: u64,
        large: bool,
        search: Search,
        mut accept: impl FnMut(&Block) -> bool,
    ) -> Option<u32> {
        let own = self.idle[usize::from(large)].fit(blocks, want, search, &mut accept);
        // Only an exhaustive search cuts up chunks for large requests to serve small ones.
        own.or_else(|| match search {
            Search::Exhaustive => self.idle[usize::from(!large)].fit(blocks, want, search, accept),
            Search::Bounded => None,
        })
    }

    /// Whether there is neither an idle block nor a pending one.
    pub(super) fn is_empty(&self) -> bool {
        let [small, large] = &self.idle;
        small.bytes + large.bytes + self.pending.bytes == 0
    }

    /// Adds an idle block.
    pub(super) fn add_idle(&mut self, blocks: &mut [Block], at: u32) {
        let block = &mut blocks[at as usize];
        block.state = State::Idle;
        let large = block.large;
        self.idle[usize::from(large)].insert(blocks, at);
    }

    /// Adds an idle block whose neighbours stay as they are. Returns whether there may be more.
    #[inline]
    pub(super) fn add_resting(&mut self, blocks: &mut [Block], at: u32) -> bool {
        blocks[at as usize].state = State::Resting;
        self.resting.insert(blocks, at);
        self.rested += 1;
        self.rested < RESTING
    }

    /// Takes out a resting block of this size, the one that was released last.
    #[inline]
    pub(super) fn take_resting(&mut self, blocks: &mut [Block], want: u64) -> Option<u32> {
        let at = self.resting.take_exact(blocks, want)?;
        self.rested -= 1;
        Some(at)
    }

    /// Adds a block that is pending until at least `open` is known to have completed.
    pub(super) fn add_pending(&mut self, blocks: &mut [Block], at: u32, open: Point, stamp: u64) {
        let block = &mut blocks[at as usize];
        (block.state, block.stamp) = (State::Pending, stamp);
        self.pending.insert(blocks, at);
        self.waiting += 1;
        self.enqueue(blocks, at, open);
    }

    fn enqueue(&mut self, blocks: &[Block], at: u32, open: Point) {
        let entry = Entry { seq: open.seq, stamp: blocks[at as usize].stamp, block: at };
        let found = self.queues.iter().position(|q| q.source == open.stream);
        let k = found.unwrap_or_else(|| {
            self.queues.push(Queue { source: open.stream, entries: BinaryHeap::new() });
            self.queues.len() - 1
        });
        let entries = &mut self.queues[k].entries;
        if entries.len() > STALE * self.waiting + 16 {
            entries.retain(|Reverse(e)| e.is_of(blocks));
        }
        entries.push(Reverse(entry));
    }

    /// Has the next call of [`FreeBlocks::next_covered`] examine the queues, even if the stream's
    /// clock has not grown.
    pub(super) fn recheck(&mut self) {
        self.version = u64::MAX;
    }

    /// Takes a free block out.
    pub(super) fn remove(&mut self, blocks: &mut [Block], at: u32) {
        let block = &mut blocks[at as usize];
        match block.state {
            State::Idle => {
                let large = block.large;
                self.idle[usize::from(large)].remove(blocks, at);
            }
            State::Resting => {
                self.resting.remove(blocks, at);
                self.rested -= 1;
            }
            State::Pending => {
                block.stamp = 0;
                self.pending.remove(blocks, at);
                self.waiting -= 1;
            }
            State::Used | State::Spare => unreachable!("the block is not free"),
        }
    }

    /// Returns the point in the middle of the longest queue.
    pub(super) fn older_half(&self, blocks: &[Block]) -> Option<Point> {
        let queue = self.queues.iter().max_by_key(|q| q.entries.len())?;
        let entries = queue.entries.iter().filter(|Reverse(e)| e.is_of(blocks));
        let mut seqs: Vec<u64> = entries.map(|Reverse(e)| e.seq).collect();
        let middle = seqs.len() / 2;
        (middle < seqs.len()).then(|| Point::new(queue.source, *seqs.select_nth_unstable(middle).1))
    }

    /// Whether the stream's clock has grown since all pending blocks that it covered were taken.
    #[inline]
    pub(super) fn may_have_covered(&self, own: StreamId, known: &impl Knowledge) -> bool {
        self.was_examined_before(known.version(own))
    }

    /// Whether the queues were last examined before the stream's clock had this version.
    #[inline]
    pub(super) const fn was_examined_before(&self, version: u64) -> bool {
        self.version != version
    }

    /// Takes out the next pending block whose last uses the stream knows, if the stream's clock has
    /// grown since the last call.
    pub(super) fn next_covered(
        &mut self,
        blocks: &mut [Block],
        own: StreamId,
        known: &impl Knowledge,
    ) -> Option<u32> {
        if !self.may_have_covered(own, known) {
            return None;
        }
        let version = known.version(own);
        for k in 0..self.queues.len() {
            let source = self.queues[k].source;
            while let Some(&Reverse(entry)) = self.queues[k].entries.peek() {
                if !known.knows(own, Point::new(source, entry.seq)) {
                    break;
                }
                self.queues[k].entries.pop();
                if !entry.is_of(blocks) {
                    continue;
                }
                match known.open(own, &blocks[entry.block as usize].last_uses) {
                    // That queue is examined again only after the clock has grown.
                    Some(open) => self.enqueue(blocks, entry.block, open),
                    None => {
                        self.remove(blocks, entry.block);
                        return Some(entry.block);
                    }
                }
            }
        }
        self.queues.retain(|queue| !queue.entries.is_empty());
        self.version = version;
        None
    }
}

impl Entry {
    /// Whether the block is still in the queue by this entry.
    fn is_of(&self, blocks: &[Block]) -> bool {
        blocks[self.block as usize].stamp == self.stamp
    }
}
