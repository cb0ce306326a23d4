//! The memory of one device: chunks, cut into neighbouring blocks.
//!
//! Long because blocks move between all their states here.
//!
//! # Rules
//! 1. The blocks of a chunk fill it without gaps and are linked in the order of their offsets.
//!    Nothing merges across chunks.
//! 2. A used block is in no list. A free block is in its stream's [`FreeBlocks`], idle or pending.
//! 3. Neighbouring idle blocks of one stream are merged, but for *resting* ones. Those were
//!    released a moment ago, and most programs ask for the same sizes again. They are merged when a
//!    request finds no block of its size, or when a stream has many. Pending ones stay apart, so
//!    that one slow use does not delay its neighbours.
//! 4. An idle block without last uses is *unused*, and belongs to no stream: any may take it. It is
//!    merged with unused blocks alone. Otherwise the first small block that a stream releases would
//!    bind the rest of a chunk to that stream.

use millstream_types::{DeviceId, Point, StreamId};

use crate::frontier::Frontier;
use crate::instruction::Placement;

use super::free_blocks::FreeBlocks;
use super::stream_set::StreamSet;
use super::usage::Steps;
use super::{ArenaId, GRANULARITY, Knowledge, LARGE, Search, rounded};

/// No block.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Held by a tensor or a workspace.
    Used,
    /// Free, and its stream knows its last uses.
    Idle,
    /// As idle, and not merged with its neighbours yet.
    Resting,
    /// Free once its stream knows its last uses.
    Pending,
    /// No memory: a free entry of the table.
    Spare,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) state: State,
    /// Whether it lies in a chunk for large requests.
    pub(super) large: bool,
    /// Whether it was pending before it became idle.
    pub(super) was_pending: bool,
    /// The stream that it was last placed for.
    pub(super) stream: StreamId,
    /// The neighbours within the chunk.
    pub(super) left: u32,
    pub(super) right: u32,
    /// The neighbours in a list of free blocks.
    pub(super) before: u32,
    pub(super) after: u32,
    /// The stamp of a pending block's queue entry.
    pub(super) stamp: u64,
    /// The number of its release: the lower, the longer it has been free.
    pub(super) age: u64,
    /// The points of its last uses. For a used block, the uses before it was placed.
    pub(super) last_uses: Frontier,
}

/// Memory taken from the device in one piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) start: u64,
    pub(super) size: u64,
    /// Its first block.
    pub(super) first: u32,
}

#[derive(Debug)]
pub(super) struct Arena {
    pub(super) id: ArenaId,
    pub(super) device: DeviceId,
    /// The most bytes that may be taken from the device, once known.
    pub(super) limit: Option<u64>,
    pub(super) blocks: Vec<Block>,
    spare: Vec<u32>,
    /// Sorted by start.
    pub(super) chunks: Vec<Chunk>,
    /// By stream.
    pub(super) free_blocks: Vec<FreeBlocks>,
    /// The streams that may have idle or pending blocks, and resting ones.
    pub(super) with_free: StreamSet,
    with_resting: StreamSet,
    /// The unused blocks.
    pub(super) unused: FreeBlocks,
    pub(super) steps: Steps,
    pub(super) reserved: u64,
    pub(super) reserved_peak: u64,
    pub(super) in_use: u64,
    pub(super) peak: u64,
    placed: u64,
    released: u64,
    stamps: u64,
}

impl Arena {
    pub(super) fn new(id: ArenaId, device: DeviceId) -> Arena {
        Arena {
            id,
            device,
            limit: None,
            blocks: Vec::new(),
            spare: Vec::new(),
            chunks: Vec::new(),
            free_blocks: Vec::new(),
            with_free: StreamSet::default(),
            with_resting: StreamSet::default(),
            unused: FreeBlocks::default(),
            steps: Steps::default(),
            reserved: 0,
            reserved_peak: 0,
            in_use: 0,
            peak: 0,
            placed: 0,
            released: 0,
            stamps: 0,
        }
    }

    /// Returns the free blocks of a stream. The first call for a stream adds an empty set.
    #[inline]
    pub(super) fn free_of(&mut self, stream: StreamId) -> &mut FreeBlocks {
        if self.free_blocks.len() <= stream.index() {
            self.add_streams(stream);
        }
        &mut self.free_blocks[stream.index()]
    }

    #[cold]
    fn add_streams(&mut self, last: StreamId) {
        self.free_blocks.resize_with(last.index() + 1, FreeBlocks::default);
    }

    /// Moves a stream's pending blocks whose last uses the stream knows by now to its idle ones.
    #[inline]
    pub(super) fn collect_covered(&mut self, stream: StreamId, known: &impl Knowledge) {
        if self.free_blocks[stream.index()].may_have_covered(stream, known) {
            self.collect_covered_now(stream, known);
        }
    }

    fn collect_covered_now(&mut self, stream: StreamId, known: &impl Knowledge) {
        let next = |a: &mut Arena| {
            let Arena { blocks, free_blocks, .. } = a;
            free_blocks[stream.index()].next_covered(blocks, stream, known)
        };
        while let Some(at) = next(self) {
            self.blocks[at as usize].was_pending = true;
            self.idle(at);
        }
    }

    /// Does the same as [`Arena::collect_covered`] for all streams.
    pub(super) fn collect_all_covered(&mut self, known: &impl Knowledge) {
        for stream in 0..self.free_blocks.len() {
            self.collect_covered(StreamId(stream as u16), known);
        }
    }

    /// Places `want` bytes of a free block for `stream`. The rest of the block keeps its state.
    pub(super) fn take(&mut self, at: u32, want: u64, bytes: u64, stream: StreamId) -> Placement {
        let size = self.blocks[at as usize].size;
        self.remove(at);
        if size > want {
            self.split(at, want);
        }
        self.placed(at, want, bytes, stream)
    }

    /// Places `want` bytes for `stream` in an idle block of its own that has this size and that a
    /// search would find first.
    #[inline]
    pub(super) fn take_exact(
        &mut self,
        want: u64,
        bytes: u64,
        stream: StreamId,
    ) -> Option<(u32, Placement)> {
        let free = &mut self.free_blocks[stream.index()];
        let rested = free.take_resting(&mut self.blocks, want);
        let idle = &mut free.idle[usize::from(want >= LARGE)];
        let at = rested.or_else(|| idle.take_exact(&mut self.blocks, want))?;
        self.count_idle(at);
        Some((at, self.placed(at, want, bytes, stream)))
    }

    /// Releases a used block and places it again, as [`Arena::release`] and [`Arena::take_exact`]
    /// after it would. Returns none where they might place another one.
    #[inline]
    pub(super) fn take_over(
        &mut self,
        at: u32,
        bytes: u64,
        last_use: Point,
        version: u64,
    ) -> Option<Placement> {
        let block = &mut self.blocks[at as usize];
        let stream = block.stream;
        let is_same = rounded(bytes) == Some(block.size)
            && block.state == State::Used
            && stream == last_use.stream;
        if !is_same || self.free_blocks[stream.index()].was_examined_before(version) {
            return None;
        }
        self.released += 1;
        self.placed += 1;
        block.age = self.released;
        block.last_uses = Frontier::of(last_use);
        block.was_pending = false;
        let (offset, generation) = (block.offset, self.placed);
        self.count_idle(at);
        Some(Placement { arena: self.id, offset, size: bytes, generation })
    }

    /// Notes that a block of `want` bytes, which is in no list, was placed for `stream`.
    #[inline]
    fn placed(&mut self, at: u32, want: u64, bytes: u64, stream: StreamId) -> Placement {
        self.placed += 1;
        self.in_use += want;
        self.peak = self.peak.max(self.in_use);
        let free = self.free_of(stream);
        free.in_use += want;
        free.peak = free.peak.max(free.in_use);
        let block = &mut self.blocks[at as usize];
        (block.state, block.stream, block.was_pending) = (State::Used, stream, false);
        Placement { arena: self.id, offset: block.offset, size: bytes, generation: self.placed }
    }

    /// Returns the placement of a used block's next owner, which takes the whole block.
    pub(super) fn renew(&mut self, at: u32) -> Placement {
        self.placed += 1;
        let Block { offset, size, .. } = self.blocks[at as usize];
        Placement { arena: self.id, offset, size, generation: self.placed }
    }

    /// Cuts a block that is in no list to `want` bytes, and adds the rest to the list that the
    /// block was in.
    fn split(&mut self, at: u32, want: u64) {
        let block = &mut self.blocks[at as usize];
        let rest = Block {
            offset: block.offset + want,
            size: block.size - want,
            left: at,
            last_uses: block.last_uses.clone(),
            ..*block
        };
        block.size = want;
        let (state, stream, right) = (rest.state, rest.stream, rest.right);
        let new = self.new_block(rest);
        self.blocks[at as usize].right = new;
        if right != NONE {
            self.blocks[right as usize].left = new;
        }
        match state {
            State::Idle => self.add_idle(new),
            _ => {
                // Any of the last uses will do: the queue moves the block on.
                let open = self.blocks[new as usize].last_uses.iter().next();
                let Some(open) = open else { unreachable!("a pending block has a last use") };
                self.pend(new, open);
                self.free_blocks[stream.index()].recheck();
            }
        }
    }

    /// Takes back a used block with the points of its last uses.
    pub(super) fn release(&mut self, at: u32, last_uses: Frontier, known: &impl Knowledge) {
        let block = &mut self.blocks[at as usize];
        assert_eq!(block.state, State::Used, "a block is released once");
        block.last_uses = last_uses;
        self.released += 1;
        block.age = self.released;
        let (size, stream) = (block.size, block.stream);
        self.in_use -= size;
        let free = &mut self.free_blocks[stream.index()];
        free.in_use -= size;
        match known.open(stream, &block.last_uses) {
            Some(open) => self.pend(at, open),
            // An unused block belongs to no stream.
            None if block.is_unused() => {
                self.idle(at);
            }
            None if free.add_resting(&mut self.blocks, at) => self.with_resting.insert(stream),
            None => {
                self.merge_resting(stream);
            }
        }
    }

    /// Merges the resting blocks of a stream with their neighbours. Returns whether there were any.
    pub(super) fn merge_resting(&mut self, stream: StreamId) -> bool {
        let mut found = false;
        while let Some(at) = self.free_blocks[stream.index()].resting.first() {
            self.remove(at);
            self.idle(at);
            found = true;
        }
        found
    }

    /// Merges the resting blocks of all streams. Returns whether there were any.
    pub(super) fn merge_all_resting(&mut self) -> bool {
        let mut found = false;
        while let Some(stream) = self.with_resting.pop() {
            found |= self.merge_resting(stream);
        }
        found
    }

    /// Adds a block that is in no list to its stream's free blocks. Returns the block that it is
    /// part of now.
    pub(super) fn free(&mut self, at: u32, known: &impl Knowledge) -> u32 {
        let block = &self.blocks[at as usize];
        let stream = block.stream;
        match known.open(stream, &block.last_uses) {
            Some(open) => {
                self.pend(at, open);
                at
            }
            None => self.idle(at),
        }
    }

    /// Adds a block to its stream's pending ones, in the queue of `open`.
    fn pend(&mut self, at: u32, open: Point) {
        self.stamps += 1;
        let stream = self.blocks[at as usize].stream;
        self.with_free.insert(stream);
        self.free_blocks[stream.index()].add_pending(&mut self.blocks, at, open, self.stamps);
    }

    /// Adds a block to its stream's idle ones, merged with its idle neighbours.
    fn idle(&mut self, mut at: u32) -> u32 {
        let Block { left, right, stream, .. } = self.blocks[at as usize];
        let is_unused = self.blocks[at as usize].is_unused();
        let joins = |a: &Arena, other: u32| {
            a.blocks.get(other as usize).is_some_and(|b| {
                b.state == State::Idle
                    && b.is_unused() == is_unused
                    && (is_unused || b.stream == stream)
            })
        };
        if joins(self, right) {
            self.remove(right);
            self.merge(at, right);
        }
        if joins(self, left) {
            self.remove(left);
            self.merge(left, at);
            at = left;
        }
        self.add_idle(at);
        at
    }

    /// Returns the free blocks that a free block belongs to, and all blocks.
    fn free_with(&mut self, at: u32) -> (&mut FreeBlocks, &mut [Block]) {
        let Block { stream, last_uses, .. } = &self.blocks[at as usize];
        let free = match last_uses.is_empty() {
            true => &mut self.unused,
            false => &mut self.free_blocks[stream.index()],
        };
        (free, &mut self.blocks)
    }

    /// Adds a block that is in no list to the idle ones.
    fn add_idle(&mut self, at: u32) {
        self.with_free.insert(self.blocks[at as usize].stream);
        let (free, blocks) = self.free_with(at);
        free.add_idle(blocks, at);
    }

    /// Takes a block out of the free blocks.
    pub(super) fn remove(&mut self, at: u32) {
        let (free, blocks) = self.free_with(at);
        free.remove(blocks, at);
    }

    /// Extends an idle block of `stream` into the unused memory behind it, up to `want` bytes.
    /// Without it, a stream that asks for more and more would leave its released blocks behind.
    pub(super) fn extend(&mut self, stream: StreamId, want: u64) -> Option<u32> {
        let unused = &self.unused.idle[usize::from(want >= LARGE)];
        let extends = |&(_, block): &(u32, &Block)| {
            self.blocks.get(block.left as usize).is_some_and(|left| {
                left.state == State::Idle
                    && left.stream == stream
                    && left.size < want
                    && want - left.size <= block.size
            })
        };
        let few = Search::Bounded.most();
        let (behind, block) = unused.at_least(&self.blocks, 0).take(few).find(extends)?;
        let (at, size) = (block.left, block.size);
        let more = want - self.blocks[at as usize].size;
        self.remove(at);
        self.remove(behind);
        if size > more {
            self.split(behind, more);
        }
        self.merge(at, behind);
        self.add_idle(at);
        Some(at)
    }

    /// Merges two neighbouring blocks that are in no list.
    pub(super) fn merge(&mut self, left: u32, right: u32) {
        let gone = &mut self.blocks[right as usize];
        gone.state = State::Spare;
        let Block { offset, size, right: next, age, was_pending, .. } = *gone;
        let last_uses = std::mem::take(&mut gone.last_uses);
        self.spare.push(right);
        let block = &mut self.blocks[left as usize];
        debug_assert_eq!(block.offset + block.size, offset, "not neighbours");
        block.size += size;
        block.right = next;
        block.age = block.age.max(age);
        block.was_pending |= was_pending;
        block.last_uses.join(&last_uses);
        if next != NONE {
            self.blocks[next as usize].left = left;
        }
    }

    fn new_block(&mut self, block: Block) -> u32 {
        match self.spare.pop() {
            Some(at) => {
                self.blocks[at as usize] = block;
                at
            }
            None => {
                self.blocks.push(block);
                (self.blocks.len() - 1) as u32
            }
        }
    }

    /// Returns the bytes to ask of the device for a request of `want` bytes, with `room` bytes
    /// left.
    pub(super) fn growth(&self, want: u64, room: u64) -> u64 {
        if want >= LARGE {
            return want;
        }
        // Small requests share chunks that grow with the arena, so that a small arena reserves
        // little in vain and a large one grows seldom.
        let share = self.reserved / 16 / GRANULARITY * GRANULARITY;
        want.max(share.min(LARGE / 2).min(room))
    }

    /// Returns the start of a new chunk: the first gap that holds it, or the end.
    pub(super) fn gap(&self, bytes: u64) -> u64 {
        let mut start = 0;
        for chunk in &self.chunks {
            if chunk.start - start >= bytes {
                break;
            }
            start = chunk.start + chunk.size;
        }
        start
    }

    /// Adds an unused chunk at [`Arena::gap`].
    pub(super) fn grown(&mut self, bytes: u64) {
        let start = self.gap(bytes);
        let large = bytes >= LARGE;
        let first = self.new_block(Block { large, ..Block::new(start, bytes) });
        let at = self.chunks.partition_point(|c| c.start < start);
        self.chunks.insert(at, Chunk { start, size: bytes, first });
        self.reserved += bytes;
        self.reserved_peak = self.reserved_peak.max(self.reserved);
        self.steps.grown += 1;
        self.idle(first);
    }

    /// Takes out a chunk of free blocks.
    pub(super) fn shrink(&mut self, chunk: usize) -> Chunk {
        let gone = self.chunks.remove(chunk);
        let mut at = gone.first;
        while at != NONE {
            self.remove(at);
            let next = self.blocks[at as usize].right;
            self.blocks[at as usize] = Block { state: State::Spare, ..Block::new(0, 0) };
            self.spare.push(at);
            at = next;
        }
        self.reserved -= gone.size;
        self.steps.given_back += 1;
        gone
    }

    /// Returns the blocks of a chunk, from its first on.
    pub(super) fn blocks_of(&self, chunk: &Chunk) -> impl Iterator<Item = (u32, &Block)> {
        let mut at = chunk.first;
        std::iter::from_fn(move || {
            let block = self.blocks.get(at as usize)?;
            Some((std::mem::replace(&mut at, block.right), block))
        })
    }
}

impl Block {
    /// Whether no stream has used it.
    fn is_unused(&self) -> bool {
        self.last_uses.is_empty()
    }

    fn new(offset: u64, size: u64) -> Block {
        debug_assert!(offset.is_multiple_of(GRANULARITY) && size.is_multiple_of(GRANULARITY));
        Block {
            offset,
            size,
            state: State::Used,
            large: false,
            was_pending: false,
            stream: StreamId(0),
            left: NONE,
            right: NONE,
            before: NONE,
            after: NONE,
            stamp: 0,
            age: 0,
            last_uses: Frontier::new(),
        }
    }
}
