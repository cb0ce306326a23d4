//! Blocks for a stream that has no free block of its own: from other streams, by waiting, or by
//! giving memory back to the device.

use smallvec::SmallVec;

use millstream_types::{Point, StreamId};

use super::arena::{Arena, Block, Chunk, NONE, State};
use super::{Knowledge, LARGE, Search};

/// The points that a stream has to wait for before it may use a block.
pub type Points = SmallVec<[Point; 2]>;

/// Free blocks that lie side by side.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    last: u32,
    /// How many points the stream has to wait for.
    open: usize,
    /// The age of the block that was released last.
    age: u64,
}

impl Arena {
    /// Finds a block that `stream` may use without a wait: its own, an unused one, or another
    /// stream's.
    pub(super) fn known_free(
        &mut self,
        stream: StreamId,
        want: u64,
        search: Search,
        known: &impl Knowledge,
    ) -> Option<u32> {
        if let Some(at) = self.own_idle(stream, want, search) {
            return Some(at);
        }
        if let Some(at) = self.extend(stream, want).or_else(|| self.fit_unused(want, search)) {
            self.steps.idle += 1;
            return Some(at);
        }
        let at = self.fit_elsewhere(stream, want, want >= LARGE, search, known)?;
        self.steps.elsewhere += 1;
        Some(at)
    }

    /// Counts a request that an idle block serves.
    #[inline]
    pub(super) fn count_idle(&mut self, at: u32) {
        let covered = self.blocks[at as usize].was_pending;
        *(if covered { &mut self.steps.covered } else { &mut self.steps.idle }) += 1;
    }

    /// Finds the best idle block of the stream itself.
    pub(super) fn own_idle(&mut self, stream: StreamId, want: u64, search: Search) -> Option<u32> {
        let free = &self.free_blocks[stream.index()];
        let at = free.fit_idle(&self.blocks, want, want >= LARGE, search, |_| true)?;
        self.count_idle(at);
        Some(at)
    }

    /// Finds the best idle block of the stream itself. Merges its resting ones if there is none.
    #[cold]
    pub(super) fn own_idle_merged(&mut self, stream: StreamId, want: u64) -> Option<u32> {
        if let Some(at) = self.own_idle(stream, want, Search::Bounded) {
            return Some(at);
        }
        if !self.merge_resting(stream) {
            return None;
        }
        self.own_idle(stream, want, Search::Bounded)
    }

    fn fit_unused(&self, want: u64, search: Search) -> Option<u32> {
        self.unused.fit_idle(&self.blocks, want, want >= LARGE, search, |_| true)
    }

    /// Finds the best block of another stream whose last uses `stream` knows. The streams before it
    /// come first, as work often moves from one stream to the next. A block of the exact size ends
    /// the search: no other stream has a better one.
    fn fit_elsewhere(
        &mut self,
        stream: StreamId,
        want: u64,
        large: bool,
        search: Search,
        known: &impl Knowledge,
    ) -> Option<u32> {
        let knows = |b: &Block| known.open(stream, &b.last_uses).is_none();
        let all = self.free_blocks.len();
        let (mut best, mut examined): (Option<(u64, u32)>, _) = (None, 0);
        for (mut end, first) in [(stream.index(), 0), (all, stream.index() + 1)] {
            while examined < search.most()
                && let Some(other) = self.with_free.last_before(end).filter(|s| s.index() >= first)
            {
                end = other.index();
                let free = &self.free_blocks[end];
                if free.is_empty() {
                    self.with_free.remove(other);
                    continue;
                }
                examined += 1;
                let idle = free.fit_idle(&self.blocks, want, large, search, knows);
                let at = idle.or_else(|| free.pending.fit(&self.blocks, want, search, knows));
                let Some(at) = at else { continue };
                let size = self.blocks[at as usize].size;
                if size == want {
                    return Some(at);
                }
                best = best.into_iter().chain([(size, at)]).min();
            }
        }
        best.map(|(_, at)| at)
    }

    /// Finds the block that costs `stream` the fewest waits, and of these the one that was released
    /// first. Returns it with the points to wait for. Where no single block is large enough,
    /// neighbouring blocks count as one, and are merged.
    pub(super) fn with_waits(
        &mut self,
        stream: StreamId,
        want: u64,
        known: &impl Knowledge,
    ) -> Option<(u32, Points)> {
        let single = self.cheapest_block(stream, want, known);
        let at = match single {
            Some(at) => at,
            None => {
                self.cheapest_run(stream, want, known).map(|run| self.fuse(&run, stream, known))?
            }
        };
        Some((at, self.open(stream, at, known)))
    }

    /// Returns the bytes of all pending blocks.
    pub(super) fn pending(&self) -> u64 {
        self.free_blocks.iter().map(|p| p.pending.bytes).sum()
    }

    /// Returns a point whose completion frees about half of the pending blocks of the stream that
    /// has most of them, if more than `bound` bytes are pending in all.
    pub(super) fn older_half(&self, bound: u64) -> Option<Point> {
        if self.pending() <= bound {
            return None;
        }
        self.free_blocks.iter().max_by_key(|p| p.pending.bytes)?.older_half(&self.blocks)
    }

    /// Returns the last uses of a block that a stream does not know.
    fn open(&self, stream: StreamId, at: u32, known: &impl Knowledge) -> Points {
        let last_uses = &self.blocks[at as usize].last_uses;
        last_uses.iter().filter(|&p| !known.knows(stream, p)).collect()
    }

    fn cheapest_block(&self, stream: StreamId, want: u64, known: &impl Knowledge) -> Option<u32> {
        let all = self.free_blocks.iter().flat_map(|free| {
            let [small, large] = &free.idle;
            [small, large, &free.pending].into_iter().flat_map(|b| b.at_least(&self.blocks, want))
        });
        let price = |b: &Block| b.last_uses.iter().filter(|&p| !known.knows(stream, p)).count();
        all.min_by_key(|&(at, b)| (price(b), b.age, at)).map(|(at, _)| at)
    }

    /// Finds the cheapest of the shortest runs that hold `want` bytes.
    fn cheapest_run(&self, stream: StreamId, want: u64, known: &impl Knowledge) -> Option<Run> {
        let mut best: Option<Run> = None;
        for chunk in &self.chunks {
            let mut run: std::collections::VecDeque<(u32, &Block)> = Default::default();
            let mut size = 0;
            for (at, block) in self.blocks_of(chunk) {
                if block.state == State::Used {
                    run.clear();
                    size = 0;
                    continue;
                }
                run.push_back((at, block));
                size += block.size;
                while let Some(&(_, first)) = run.front()
                    && size - first.size >= want
                {
                    size -= first.size;
                    run.pop_front();
                }
                if size < want {
                    continue;
                }
                let mut open = crate::Frontier::new();
                for (_, block) in &run {
                    block.last_uses.iter().filter(|&p| !known.knows(stream, p)).for_each(|p| {
                        open.add(p);
                    });
                }
                let age = run.iter().map(|(_, b)| b.age).max().unwrap_or(0);
                let open = open.iter().count();
                if best.is_none_or(|b| (open, age) < (b.open, b.age)) {
                    best = Some(Run { first: run[0].0, last: at, open, age });
                }
            }
        }
        best
    }

    /// Merges a run into one free block of `stream`.
    fn fuse(&mut self, run: &Run, stream: StreamId, known: &impl Knowledge) -> u32 {
        self.remove(run.first);
        let mut last = run.first;
        while last != run.last {
            last = self.blocks[run.first as usize].right;
            self.remove(last);
            self.merge(run.first, last);
        }
        self.blocks[run.first as usize].stream = stream;
        self.free(run.first, known)
    }

    /// Whether giving all free chunks back would make room for `want` bytes, with room for `room`
    /// bytes now.
    pub(super) fn could_return(&self, want: u64, room: u64) -> bool {
        let free = self.chunks.iter().filter(|c| self.is_free(c)).map(|c| c.size);
        free.fold(room, u64::saturating_add) >= want
    }

    /// Returns the start of the free chunk that was used longest ago, and the points of its last
    /// uses.
    pub(super) fn next_return(&self) -> Option<(u64, Points)> {
        let free = self.chunks.iter().filter(|c| self.is_free(c));
        let age = |c: &&Chunk| self.blocks_of(c).map(|(_, b)| b.age).max();
        let chunk = free.min_by_key(age)?;
        let mut last_uses = crate::Frontier::new();
        for (_, block) in self.blocks_of(chunk) {
            last_uses.join(&block.last_uses);
        }
        Some((chunk.start, last_uses.iter().collect()))
    }

    /// Takes out the chunk that starts at `start`, if it is still free and the host has observed
    /// all of its last uses.
    pub(super) fn give_back(&mut self, start: u64, known: &impl Knowledge) -> Option<Chunk> {
        let at = self.chunks.iter().position(|c| c.start == start)?;
        let chunk = self.chunks[at];
        let over = |b: &Block| b.state != State::Used && b.last_uses.iter().all(|p| known.seen(p));
        let over = self.blocks_of(&chunk).all(|(_, b)| over(b));
        over.then(|| self.shrink(at))
    }

    fn is_free(&self, chunk: &Chunk) -> bool {
        chunk.first != NONE && self.blocks_of(chunk).all(|(_, b)| b.state != State::Used)
    }
}
