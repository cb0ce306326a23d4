//! Blocks for a stream that has none of its own: from other streams, by waiting, or by giving
//! memory back to the device.

use smallvec::SmallVec;

use millstream_types::{Point, StreamId};

use super::arena::{Arena, Block, Chunk, NONE, State};
use super::{Knowledge, LARGE, Look};

/// The points that a stream has to wait for before it may use a block.
pub type Points = SmallVec<[Point; 2]>;

/// Free blocks that lie side by side.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    last: u32,
    /// How many points the stream has to wait for.
    open: usize,
    /// When the youngest of them was released.
    age: u64,
}

impl Arena {
    /// A block that `stream` may use as it is: of its own, or of another stream's.
    pub(super) fn known_free(
        &mut self,
        stream: StreamId,
        want: u64,
        look: Look,
        known: &impl Knowledge,
    ) -> Option<u32> {
        let large = want >= LARGE;
        let pool = &self.pools[stream.index()];
        if let Some(at) = pool.fit_idle(&self.blocks, want, large, look, |_| true) {
            let heard = self.blocks[at as usize].was_pending;
            *(if heard { &mut self.steps.covered } else { &mut self.steps.idle }) += 1;
            return Some(at);
        }
        let at = self.fit_elsewhere(stream, want, large, look, known)?;
        self.steps.elsewhere += 1;
        Some(at)
    }

    /// The best block of another stream whose death `stream` knows.
    fn fit_elsewhere(
        &self,
        stream: StreamId,
        want: u64,
        large: bool,
        look: Look,
        known: &impl Knowledge,
    ) -> Option<u32> {
        let knows = |b: &Block| known.open(stream, &b.death).is_none();
        let others = self.pools.iter().enumerate().filter(|(k, _)| *k != stream.index());
        others
            .filter_map(|(_, pool)| {
                let idle = pool.fit_idle(&self.blocks, want, large, look, knows);
                idle.or_else(|| pool.pending.fit(&self.blocks, want, look, knows))
            })
            .min_by_key(|&at| (self.blocks[at as usize].size, at))
    }

    /// The block that `stream` has with the fewest waits, then the one that was released first, and
    /// the points to wait for. Blocks that lie side by side count as one where no single one is
    /// large enough, and are one afterwards.
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

    /// The bytes that are pending.
    pub(super) fn pending(&self) -> u64 {
        self.pools.iter().map(|p| p.pending.bytes).sum()
    }

    /// A point whose passing frees about half of what is pending for the stream that has most of
    /// it, if more than `bound` bytes are pending in all.
    pub(super) fn older_half(&self, bound: u64) -> Option<Point> {
        if self.pending() <= bound {
            return None;
        }
        self.pools.iter().max_by_key(|p| p.pending.bytes)?.older_half(&self.blocks)
    }

    /// The points of a block's death that a stream does not know.
    fn open(&self, stream: StreamId, at: u32, known: &impl Knowledge) -> Points {
        let death = &self.blocks[at as usize].death;
        death.iter().filter(|&p| !known.knows(stream, p)).collect()
    }

    fn cheapest_block(&self, stream: StreamId, want: u64, known: &impl Knowledge) -> Option<u32> {
        let all = self.pools.iter().flat_map(|pool| {
            let [small, large] = &pool.idle;
            [small, large, &pool.pending].into_iter().flat_map(|b| b.at_least(&self.blocks, want))
        });
        let price = |b: &Block| b.death.iter().filter(|&p| !known.knows(stream, p)).count();
        all.min_by_key(|&(at, b)| (price(b), b.age, at)).map(|(at, _)| at)
    }

    /// The cheapest of the shortest runs that hold `want` bytes.
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
                    block.death.iter().filter(|&p| !known.knows(stream, p)).for_each(|p| {
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

    /// Makes one free block of `stream`'s of a run.
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

    /// Whether giving free chunks back would make room for `want` bytes, where there is room for
    /// `room` now.
    pub(super) fn could_return(&self, want: u64, room: u64) -> bool {
        let free = self.chunks.iter().filter(|c| self.is_free(c)).map(|c| c.size);
        free.fold(room, u64::saturating_add) >= want
    }

    /// The free chunk that was used longest ago, and the points of its last uses.
    pub(super) fn next_return(&self) -> Option<(u64, Points)> {
        let free = self.chunks.iter().filter(|c| self.is_free(c));
        let age = |c: &&Chunk| self.blocks_of(c).map(|(_, b)| b.age).max();
        let chunk = free.min_by_key(age)?;
        let mut death = crate::Frontier::new();
        for (_, block) in self.blocks_of(chunk) {
            death.join(&block.death);
        }
        Some((chunk.start, death.iter().collect()))
    }

    /// Takes out the chunk that starts at `start`, if it is still free and the host has seen all of
    /// its uses pass.
    pub(super) fn give_back(&mut self, start: u64, known: &impl Knowledge) -> Option<Chunk> {
        let at = self.chunks.iter().position(|c| c.start == start)?;
        let chunk = self.chunks[at];
        let over = |b: &Block| b.state != State::Used && b.death.iter().all(|p| known.seen(p));
        let over = self.blocks_of(&chunk).all(|(_, b)| over(b));
        over.then(|| self.shrink(at))
    }

    fn is_free(&self, chunk: &Chunk) -> bool {
        chunk.first != NONE && self.blocks_of(chunk).all(|(_, b)| b.state != State::Used)
    }
}
