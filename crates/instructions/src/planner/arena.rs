//! The memory of one device: chunks, cut into blocks that lie side by side.
//!
//! # Rules
//! 1. The blocks of a chunk fill it without gaps and are linked in the order of their offsets.
//!    Nothing merges across chunks.
//! 2. A used block is in no list. A free one is in its stream's pool, idle or pending.
//! 3. Two idle blocks of one stream that lie side by side are one block. Pending ones stay apart,
//!    so that one slow use does not hold up its neighbours.

use millstream_types::{DeviceId, Point, StreamId};

use crate::frontier::Frontier;
use crate::instruction::Placement;

use super::pool::Pool;
use super::usage::Steps;
use super::{ArenaId, GRAIN, Knowledge, LARGE};

/// No block.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Held by a tensor or a workspace.
    Used,
    /// Free, and its stream knows.
    Idle,
    /// Free once its stream knows its death.
    Pending,
    /// No memory: an entry of the table that can be used again.
    Spare,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) state: State,
    /// Of a chunk for large requests.
    pub(super) large: bool,
    /// Whether it had to be heard of before its stream could use it again.
    pub(super) was_pending: bool,
    /// The stream that it was last placed for.
    pub(super) stream: StreamId,
    /// The neighbours within the chunk.
    pub(super) left: u32,
    pub(super) right: u32,
    /// The neighbours in a list of free blocks.
    pub(super) before: u32,
    pub(super) after: u32,
    /// Of a pending block: which entry of a queue is its own.
    pub(super) stamp: u64,
    /// Counts releases: the lower, the longer it has been free.
    pub(super) age: u64,
    /// The points of its last uses. Of a used block: those before it was given out.
    pub(super) death: Frontier,
}

/// Memory that was had from the device in one piece.
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
    /// The most bytes that may be taken from the device, once it is known.
    pub(super) limit: Option<u64>,
    pub(super) blocks: Vec<Block>,
    spare: Vec<u32>,
    /// By their start.
    pub(super) chunks: Vec<Chunk>,
    /// By stream.
    pub(super) pools: Vec<Pool>,
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
            pools: Vec::new(),
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

    /// The pool of a stream, made on first asking.
    pub(super) fn pool(&mut self, stream: StreamId) -> &mut Pool {
        if self.pools.len() <= stream.index() {
            self.pools.resize_with(stream.index() + 1, Pool::default);
        }
        &mut self.pools[stream.index()]
    }

    /// Lets the blocks join a stream's idle ones that it knows to be free by now.
    pub(super) fn hear(&mut self, stream: StreamId, known: &impl Knowledge) {
        let pool = |a: &mut Arena| {
            let Arena { blocks, pools, .. } = a;
            pools[stream.index()].next_covered(blocks, stream, known)
        };
        while let Some(at) = pool(self) {
            self.blocks[at as usize].was_pending = true;
            self.idle(at);
        }
    }

    /// As [`Arena::hear`], for all streams.
    pub(super) fn hear_all(&mut self, known: &impl Knowledge) {
        for stream in 0..self.pools.len() {
            self.hear(StreamId(stream as u16), known);
        }
    }

    /// Gives `want` bytes of a free block to `stream`. The rest of it stays what it was.
    pub(super) fn take(&mut self, at: u32, want: u64, bytes: u64, stream: StreamId) -> Placement {
        let size = self.blocks[at as usize].size;
        self.remove(at);
        if size > want {
            self.split(at, want);
        }
        self.placed += 1;
        self.in_use += want;
        self.peak = self.peak.max(self.in_use);
        let pool = self.pool(stream);
        pool.in_use += want;
        pool.peak = pool.peak.max(pool.in_use);
        let block = &mut self.blocks[at as usize];
        (block.state, block.stream, block.was_pending) = (State::Used, stream, false);
        Placement { arena: self.id, offset: block.offset, size: bytes, generation: self.placed }
    }

    /// The next owner's place in a used block, all of it.
    pub(super) fn hand_on(&mut self, at: u32) -> Placement {
        self.placed += 1;
        let Block { offset, size, .. } = self.blocks[at as usize];
        Placement { arena: self.id, offset, size, generation: self.placed }
    }

    /// Cuts a block that is in no list to `want` bytes, and adds the rest where the block was.
    fn split(&mut self, at: u32, want: u64) {
        let block = &mut self.blocks[at as usize];
        let rest = Block {
            offset: block.offset + want,
            size: block.size - want,
            left: at,
            death: block.death.clone(),
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
            State::Idle => self.pools[stream.index()].add_idle(&mut self.blocks, new),
            _ => {
                // Which point of its death comes first does not matter: the queue looks on.
                let open = self.blocks[new as usize].death.iter().next();
                let Some(open) = open else { unreachable!("a pending block waits for something") };
                self.pend(new, open);
                self.pools[stream.index()].look_again();
            }
        }
    }

    /// Takes back a used block with the points of its last uses.
    pub(super) fn release(&mut self, at: u32, death: Frontier, known: &impl Knowledge) {
        let block = &mut self.blocks[at as usize];
        assert_eq!(block.state, State::Used, "a block is released once");
        block.death = death;
        self.released += 1;
        block.age = self.released;
        let (size, stream) = (block.size, block.stream);
        self.in_use -= size;
        self.pools[stream.index()].in_use -= size;
        self.free(at, known);
    }

    /// Adds a block that is in no list to its stream's pool. Returns the block that it is part of
    /// now.
    pub(super) fn free(&mut self, at: u32, known: &impl Knowledge) -> u32 {
        let block = &self.blocks[at as usize];
        let stream = block.stream;
        match known.open(stream, &block.death) {
            Some(open) => {
                self.pend(at, open);
                at
            }
            None => self.idle(at),
        }
    }

    /// Adds a block to its stream's pending ones, which waits for `open` first.
    fn pend(&mut self, at: u32, open: Point) {
        self.stamps += 1;
        let stream = self.blocks[at as usize].stream;
        self.pools[stream.index()].add_pending(&mut self.blocks, at, open, self.stamps);
    }

    /// Adds a block to its stream's idle ones, and its idle neighbours to it.
    fn idle(&mut self, mut at: u32) -> u32 {
        let Block { left, right, stream, .. } = self.blocks[at as usize];
        let joins = |a: &Arena, other: u32| {
            let other = a.blocks.get(other as usize);
            other.is_some_and(|b| b.state == State::Idle && b.stream == stream)
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
        self.pools[stream.index()].add_idle(&mut self.blocks, at);
        at
    }

    /// Takes a free block out of its pool.
    pub(super) fn remove(&mut self, at: u32) {
        let stream = self.blocks[at as usize].stream;
        self.pools[stream.index()].remove(&mut self.blocks, at);
    }

    /// Makes one block of two that lie side by side and are in no list.
    pub(super) fn merge(&mut self, left: u32, right: u32) {
        let gone = &mut self.blocks[right as usize];
        gone.state = State::Spare;
        let Block { offset, size, right: next, age, was_pending, .. } = *gone;
        let death = std::mem::take(&mut gone.death);
        self.spare.push(right);
        let block = &mut self.blocks[left as usize];
        debug_assert_eq!(block.offset + block.size, offset, "not side by side");
        block.size += size;
        block.right = next;
        block.age = block.age.max(age);
        block.was_pending |= was_pending;
        block.death.join(&death);
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

    /// How many bytes to ask of the device for a request of `want`, where `room` are left.
    pub(super) fn growth(&self, want: u64, room: u64) -> u64 {
        if want >= LARGE {
            return want;
        }
        // Small requests share chunks that grow with the arena: little is reserved in vain, and
        // a large arena grows seldom.
        let share = self.reserved / 16 / GRAIN * GRAIN;
        want.max(share.min(LARGE / 2).min(room))
    }

    /// Where a new chunk begins: the first gap that holds it, or the end.
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

    /// Adds a chunk at [`Arena::gap`]. It is idle on `stream`.
    pub(super) fn grown(&mut self, bytes: u64, stream: StreamId) {
        let start = self.gap(bytes);
        let large = bytes >= LARGE;
        self.pool(stream);
        let first = self.new_block(Block { stream, large, ..Block::new(start, bytes) });
        let at = self.chunks.partition_point(|c| c.start < start);
        self.chunks.insert(at, Chunk { start, size: bytes, first });
        self.reserved += bytes;
        self.reserved_peak = self.reserved_peak.max(self.reserved);
        self.steps.grown += 1;
        self.idle(first);
    }

    /// Takes out a chunk that is one free block, or several.
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

    /// The blocks of a chunk, from its first on.
    pub(super) fn blocks_of(&self, chunk: &Chunk) -> impl Iterator<Item = (u32, &Block)> {
        let mut at = chunk.first;
        std::iter::from_fn(move || {
            let block = self.blocks.get(at as usize)?;
            Some((std::mem::replace(&mut at, block.right), block))
        })
    }
}

impl Block {
    fn new(offset: u64, size: u64) -> Block {
        debug_assert!(offset.is_multiple_of(GRAIN) && size.is_multiple_of(GRAIN));
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
            death: Frontier::new(),
        }
    }
}
