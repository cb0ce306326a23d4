//! The placement of tensors in memory, decided in program order and from frontiers alone.
//!
//! A released block carries its last-use frontier: the points of all its last uses. A stream may
//! use the block again once the stream's clock covers that frontier. The planner never asks a
//! device: the same requests get the same placements.
//!
//! Each stream keeps the blocks that were placed for it, free ones in bins by size. The planner
//! serves a request by the first of these steps that succeeds:
//!
//! 1. an idle block of the stream, or memory that no stream has used;
//! 2. a pending block of the stream, whose last uses the stream's clock covers by now;
//! 3. a block of another stream of the device, whose last uses the stream's clock covers; of many
//!    streams the search examines those with the ids before;
//! 4. more memory from the device, while the limit allows. If more is pending than in use, and more
//!    than [`PENDING`], the host first waits for the older half of the pending blocks, most of
//!    which have long been free on the device;
//! 5. the block that costs the stream the fewest waits, and of these the oldest. A pool cannot wait
//!    for itself, so the host waits instead;
//! 6. memory given back to the device, to get it again in one piece;
//! 7. a wait of the host for everything, which releases more memory.
//!
//! A request that no step serves is refused. [`Steps`] counts each step.
//!
//! | module | holds |
//! |---|---|
//! | `arena` | a device's memory: chunks, cut into blocks |
//! | `bins` | free blocks by size |
//! | `free_blocks` | a stream's free blocks, idle and pending |
//! | `reclaim` | blocks for a stream that has none |
//! | `stream_set` | sets of streams |
//! | `usage` | counts |

mod arena;
mod bins;
mod free_blocks;
mod reclaim;
mod stream_set;
mod usage;

use std::fmt;

use millstream_types::{DeviceId, Point, StreamId};

use crate::frontier::Frontier;
use crate::instruction::Placement;

use arena::Arena;

pub use reclaim::Points;
pub use usage::{ArenaUse, Steps, StreamUse};

/// An arena: the memory of one device that the planner manages. Written `a0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArenaId(pub u16);

impl ArenaId {
    /// Returns the id as an index into a dense table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ArenaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}", self.0)
    }
}

/// The identity of a placed block, which names the block when it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId {
    arena: ArenaId,
    block: u32,
}

impl BlockId {
    /// Returns the arena.
    pub(crate) const fn arena(self) -> ArenaId {
        self.arena
    }

    /// Returns the number of the block in its arena, as an index into a dense table.
    pub(crate) const fn index(self) -> usize {
        self.block as usize
    }
}

/// Memory for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where the memory lies.
    pub placement: Placement,
    /// The block to release.
    pub block: BlockId,
    /// The points that the stream has to wait for before it uses the memory.
    pub after: Points,
}

/// The planner's answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request is served.
    Placed(Placed),
    /// A block is free once these points have completed. The caller waits for them on the host,
    /// tells the builder, and asks again.
    NeedWait(Points),
    /// The arena must grow. The caller grows it, tells the planner, and asks again.
    NeedGrow {
        /// The preferred growth in bytes.
        bytes: u64,
        /// The smallest growth that serves the request, if the device has less.
        least: u64,
    },
    /// There is enough free memory, but not in one piece. The caller gives back the chunks that
    /// [`Planner::next_return`] names until there is room for this many bytes, and asks again.
    NeedReturn(u64),
    /// The limit is reached, and no memory can be given back.
    Full,
}

/// The points that streams know to have completed. Knowledge only grows.
pub trait Knowledge {
    /// Whether the next instruction of `stream` may use memory that was last used at `point`. An
    /// in-order stream knows its own points, a pool does not.
    fn knows(&self, stream: StreamId, point: Point) -> bool;

    /// Returns a number that changes whenever the clock of `stream` grows.
    fn version(&self, stream: StreamId) -> u64;

    /// Whether a wait on `stream` orders all its later instructions. On a pool it does not.
    fn keeps_waits(&self, stream: StreamId) -> bool;

    /// Whether the host has observed that `point` completed.
    fn seen(&self, point: Point) -> bool;

    /// Returns the first point of `last_uses` that `stream` does not know.
    fn open(&self, stream: StreamId, last_uses: &Frontier) -> Option<Point> {
        last_uses.iter().find(|&p| !self.knows(stream, p))
    }
}

/// The unit of sizes and offsets, in bytes.
pub const GRANULARITY: u64 = 512;

/// The size in bytes from which a request gets a chunk of its own, so that small, long-lived blocks
/// do not cut up large ones.
pub const LARGE: u64 = 1 << 20;

/// The bytes that may always be pending while an arena grows.
pub const PENDING: u64 = 32 << 20;

/// How many blocks of a bin a search examines, and how many other streams with free blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// A few, because another step may serve the request.
    Bounded,
    Exhaustive,
}

impl Search {
    const fn most(self) -> usize {
        match self {
            Search::Bounded => 16,
            Search::Exhaustive => usize::MAX,
        }
    }
}

/// The placement of storages and workspaces in arenas.
#[derive(Debug, Default)]
pub struct Planner {
    arenas: Vec<Arena>,
}

/// Returns the bytes that a request takes; none if they do not fit in 64 bits.
///
/// ```
/// use millstream_instructions::planner::rounded;
///
/// assert_eq!([0, 1, 512, 513].map(rounded), [512, 512, 512, 1024].map(Some));
/// ```
pub const fn rounded(bytes: u64) -> Option<u64> {
    match bytes.checked_next_multiple_of(GRANULARITY) {
        Some(0) => Some(GRANULARITY),
        other => other,
    }
}

impl Planner {
    /// Returns a planner without arenas.
    pub fn new() -> Planner {
        Planner::default()
    }

    /// Returns the arena of `device`'s memory. The first call for a device adds an empty one.
    pub fn arena(&mut self, device: &DeviceId) -> ArenaId {
        if let Some(found) = self.arenas.iter().find(|a| a.device == *device) {
            return found.id;
        }
        let id = ArenaId(self.arenas.len() as u16);
        self.arenas.push(Arena::new(id, device.clone()));
        id
    }

    /// Returns the device whose memory an arena manages.
    pub fn device(&self, arena: ArenaId) -> &DeviceId {
        &self.arenas[arena.index()].device
    }

    /// Returns the devices of all arenas, by arena.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceId> {
        self.arenas.iter().map(|a| &a.device)
    }

    /// Returns the limit of `device`, if it is known.
    pub fn limit(&self, device: &DeviceId) -> Option<u64> {
        self.arenas.iter().find(|a| a.device == *device)?.limit
    }

    /// Returns the bytes that an arena has taken from its device.
    pub fn reserved(&self, arena: ArenaId) -> u64 {
        self.arenas[arena.index()].reserved
    }

    /// Returns the bytes of an arena that tensors and workspaces hold.
    pub fn in_use(&self, arena: ArenaId) -> u64 {
        self.arenas[arena.index()].in_use
    }

    /// Sets the most bytes that `device`'s arena may take.
    pub fn set_limit(&mut self, device: &DeviceId, bytes: u64) {
        let arena = self.arena(device);
        self.arenas[arena.index()].limit = Some(bytes);
    }

    /// Finds `bytes` bytes for `stream`, or says what has to happen first.
    pub fn place(
        &mut self,
        arena: ArenaId,
        bytes: u64,
        stream: StreamId,
        known: &impl Knowledge,
    ) -> Answer {
        let a = &mut self.arenas[arena.index()];
        let Some(want) = rounded(bytes) else { return Answer::Full };
        a.free_of(stream);
        a.collect_covered(stream, known);
        let placed = |a: &mut Arena, at: u32, after: Points| {
            let placement = a.take(at, want, bytes, stream);
            Answer::Placed(Placed { placement, block: BlockId { arena, block: at }, after })
        };
        // The caller asks for an unknown limit when the arena first grows.
        let room =
            a.limit.map_or(u64::MAX, |l| l / GRANULARITY * GRANULARITY).saturating_sub(a.reserved);
        if let Some((at, placement)) = a.take_exact(want, bytes, stream) {
            let block = BlockId { arena, block: at };
            return Answer::Placed(Placed { placement, block, after: Points::new() });
        }
        let idle = a.own_idle(stream, want, Search::Bounded);
        if let Some(at) = idle.or_else(|| {
            a.merge_all_resting();
            a.known_free(stream, want, Search::Bounded, known)
        }) {
            return placed(a, at, Points::new());
        }
        if want <= room {
            // Without a bound, streams that never synchronize would let memory grow for ever.
            let bound = PENDING.max(a.in_use);
            if a.pending() > bound {
                a.collect_all_covered(known);
                if let Some(at) = a.known_free(stream, want, Search::Bounded, known) {
                    return placed(a, at, Points::new());
                }
                if let Some(point) = a.older_half(bound) {
                    a.steps.host_waits += 1;
                    return Answer::NeedWait(Points::from_slice(&[point]));
                }
            }
            return Answer::NeedGrow { bytes: a.growth(want, room), least: want };
        }
        if let Some(at) = a.known_free(stream, want, Search::Exhaustive, known) {
            return placed(a, at, Points::new());
        }
        if let Some((at, after)) = a.with_waits(stream, want, known) {
            if !after.is_empty() && !known.keeps_waits(stream) {
                a.steps.host_waits += 1;
                return Answer::NeedWait(after);
            }
            let step =
                if after.is_empty() { &mut a.steps.elsewhere } else { &mut a.steps.stream_waits };
            *step += 1;
            return placed(a, at, after);
        }
        if a.could_return(want, room) { Answer::NeedReturn(want) } else { Answer::Full }
    }

    /// Finds `bytes` bytes among the blocks of `stream` that are idle, or have become idle since it
    /// last asked: the first two steps of [`Planner::place`].
    #[inline]
    pub fn place_idle(
        &mut self,
        arena: ArenaId,
        bytes: u64,
        stream: StreamId,
        known: &impl Knowledge,
    ) -> Option<(Placement, BlockId)> {
        let a = &mut self.arenas[arena.index()];
        let want = rounded(bytes)?;
        a.free_of(stream);
        a.collect_covered(stream, known);
        if let Some((at, placement)) = a.take_exact(want, bytes, stream) {
            return Some((placement, BlockId { arena, block: at }));
        }
        let at = a.own_idle_merged(stream, want)?;
        Some((a.take(at, want, bytes, stream), BlockId { arena, block: at }))
    }

    /// Releases a block after its last use and finds `bytes` bytes for the same in-order stream, as
    /// [`Planner::release`] and [`Planner::place_idle`] after it. Returns none if these might find
    /// another block; then nothing was released. `version` is [`Knowledge::version`] of the stream.
    #[inline]
    pub(crate) fn take_over(
        &mut self,
        block: BlockId,
        bytes: u64,
        last_use: Point,
        version: u64,
    ) -> Option<Placement> {
        self.arenas[block.arena.index()].take_over(block.block, bytes, last_use, version)
    }

    /// Counts a wait of the host for everything, which an arena needed.
    pub fn host_waited(&mut self, arena: ArenaId) {
        self.arenas[arena.index()].steps.host_waits += 1;
    }

    /// Counts a refused request.
    pub fn refused(&mut self, arena: ArenaId) {
        self.arenas[arena.index()].steps.refused += 1;
    }

    /// Returns the offset at which the next chunk of `bytes` bytes of an arena will begin.
    pub fn next_chunk(&self, arena: ArenaId, bytes: u64) -> u64 {
        self.arenas[arena.index()].gap(bytes)
    }

    /// Adds `bytes` bytes to an arena, at [`Planner::next_chunk`].
    pub fn grown(&mut self, arena: ArenaId, bytes: u64) {
        self.arenas[arena.index()].grown(bytes);
    }

    /// Returns the start of the chunk to give back next, and the points that the host has to wait
    /// for before; none if all chunks are in use.
    pub fn next_return(&self, arena: ArenaId) -> Option<(u64, Points)> {
        self.arenas[arena.index()].next_return()
    }

    /// Takes a chunk out of an arena, to be given back to the device. Returns false if the chunk is
    /// in use, or was in use until a point that the host has not observed.
    pub fn give_back(&mut self, arena: ArenaId, start: u64, known: &impl Knowledge) -> bool {
        self.arenas[arena.index()].give_back(start, known).is_some()
    }

    /// Returns the stream that a block was placed for.
    pub fn stream_of(&self, block: BlockId) -> StreamId {
        self.arenas[block.arena.index()].blocks[block.block as usize].stream
    }

    /// Returns the offset of a block within its arena.
    pub(crate) fn offset_of(&self, block: BlockId) -> u64 {
        self.arenas[block.arena.index()].blocks[block.block as usize].offset
    }

    /// Returns the placement of a used block's next owner, which takes the whole block without a
    /// release between.
    pub fn renew(&mut self, block: BlockId) -> Placement {
        self.arenas[block.arena.index()].renew(block.block)
    }

    /// Takes back a placed block. `last_uses` holds the points of its last uses.
    pub fn release(&mut self, block: BlockId, last_uses: Frontier, known: &impl Knowledge) {
        self.arenas[block.arena.index()].release(block.block, last_uses, known);
    }

    /// Takes back a placed block that was not used. It becomes what it was before.
    pub fn cancel(&mut self, block: BlockId, known: &impl Knowledge) {
        let a = &mut self.arenas[block.arena.index()];
        let last_uses = a.blocks[block.block as usize].last_uses.clone();
        a.release(block.block, last_uses, known);
    }

    /// Returns the memory use of each device.
    pub fn usage(&self, known: &impl Knowledge) -> Vec<ArenaUse> {
        self.arenas.iter().map(|a| a.usage(known)).collect()
    }
}
