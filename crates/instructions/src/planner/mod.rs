//! Where tensors lie in memory, decided in program order and from frontiers alone.
//!
//! A released block carries its death: the points of all its last uses. It may be given out again
//! on a stream that knows all of them to have passed. The planner never looks at a device: the
//! same requests get the same places.
//!
//! Each stream keeps the blocks that were placed for it, free ones in bins by size. A request is
//! met by the first of these that can:
//!
//! 1. an idle block of the stream;
//! 2. a pending one, whose death the stream has heard of by now;
//! 3. a block of another stream of the device, whose death the stream knows;
//! 4. more memory from the device, while the limit allows; but where more is pending than in use,
//!    and than [`PENDING`], the host waits for the older half of that first, which has mostly passed
//!    long ago;
//! 5. the block that the stream has with the fewest waits, then the oldest; a pool cannot wait for
//!    itself, so the host waits;
//! 6. free memory is given back to the device, to have it in one piece;
//! 7. the host waits for everything: what it then lets go of may do.
//!
//! Else the request is refused. Each step is counted, in [`Steps`].
//!
//! | module | holds |
//! |---|---|
//! | `arena` | a device's memory: chunks, cut into blocks |
//! | `bins` | free blocks by size |
//! | `pool` | a stream's free blocks, idle and pending |
//! | `reclaim` | blocks for a stream that has none |
//! | `usage` | counts |

mod arena;
mod bins;
mod pool;
mod reclaim;
mod usage;

use std::fmt;

use millstream_types::{DeviceId, Point, StreamId};

use crate::frontier::Frontier;
use crate::instruction::Placement;

use arena::Arena;

pub use reclaim::Points;
pub use usage::{ArenaUse, Steps, StreamUse};

/// An arena: memory of one device that the planner hands out. Written `a0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArenaId(pub u16);

impl ArenaId {
    /// The id as an index into a dense table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ArenaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}", self.0)
    }
}

/// A block that was placed, to be named when it is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId {
    arena: ArenaId,
    block: u32,
}

/// A place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where it is.
    pub place: Placement,
    /// What to release.
    pub block: BlockId,
    /// What the stream has to wait for before it uses the place.
    pub after: Points,
}

/// What the planner answers to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Here.
    Placed(Placed),
    /// A block is free once these points have passed: wait for them on the host, tell the builder,
    /// ask again.
    NeedWait(Points),
    /// The arena must grow: grow it, tell the planner, ask again.
    NeedGrow {
        /// By how many bytes it had best grow.
        bytes: u64,
        /// How many do, if the device does not have that many.
        least: u64,
    },
    /// There is memory enough, but not in one piece: give back what [`Planner::next_return`] names
    /// until there is room for this many bytes, ask again.
    NeedReturn(u64),
    /// No way: the limit is reached and nothing will come back.
    Full,
}

/// What streams know. A stream that knew a point knows it for ever.
pub trait Knowledge {
    /// Whether an instruction at the next place of `stream` may use memory that was last used at
    /// `point`. An in-order stream knows its own points, a pool does not.
    fn knows(&self, stream: StreamId, point: Point) -> bool;

    /// Changes whenever `stream` learns something.
    fn version(&self, stream: StreamId) -> u64;

    /// Whether a wait on `stream` is known to all that it does later. Not so on a pool.
    fn keeps_waits(&self, stream: StreamId) -> bool;

    /// Whether the host has seen `point` pass.
    fn seen(&self, point: Point) -> bool;

    /// The first point of `death` that `stream` does not know.
    fn open(&self, stream: StreamId, death: &Frontier) -> Option<Point> {
        death.iter().find(|&p| !self.knows(stream, p))
    }
}

/// Sizes and offsets are multiples of this many bytes.
pub const GRAIN: u64 = 512;

/// Requests of this many bytes or more have chunks of their own, so that what is small and stays
/// long does not cut up what is large.
pub const LARGE: u64 = 1 << 20;

/// This many bytes may always be pending while an arena grows.
pub const PENDING: u64 = 32 << 20;

/// How many blocks of a bin a search looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// A few: there is another way.
    Some,
    All,
}

impl Look {
    const fn most(self) -> usize {
        match self {
            Look::Some => 16,
            Look::All => usize::MAX,
        }
    }
}

/// Places storages and workspaces in arenas.
#[derive(Debug, Default)]
pub struct Planner {
    arenas: Vec<Arena>,
}

/// The bytes that a request takes; none if they cannot be counted in 64 bits.
const fn rounded(bytes: u64) -> Option<u64> {
    match bytes.checked_next_multiple_of(GRAIN) {
        Some(0) => Some(GRAIN),
        other => other,
    }
}

impl Planner {
    /// A planner without arenas.
    pub fn new() -> Planner {
        Planner::default()
    }

    /// The arena of `device`'s memory, made empty on first asking.
    pub fn arena(&mut self, device: &DeviceId) -> ArenaId {
        if let Some(found) = self.arenas.iter().find(|a| a.device == *device) {
            return found.id;
        }
        let id = ArenaId(self.arenas.len() as u16);
        self.arenas.push(Arena::new(id, device.clone()));
        id
    }

    /// The device whose memory an arena is.
    pub fn device(&self, arena: ArenaId) -> &DeviceId {
        &self.arenas[arena.index()].device
    }

    /// The devices of all arenas, by arena.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceId> {
        self.arenas.iter().map(|a| &a.device)
    }

    /// The limit of `device`, if it is known.
    pub fn limit(&self, device: &DeviceId) -> Option<u64> {
        self.arenas.iter().find(|a| a.device == *device)?.limit
    }

    /// The bytes that an arena has taken.
    pub fn reserved(&self, arena: ArenaId) -> u64 {
        self.arenas[arena.index()].reserved
    }

    /// The bytes of an arena that are held.
    pub fn in_use(&self, arena: ArenaId) -> u64 {
        self.arenas[arena.index()].in_use
    }

    /// Fixes the most bytes that `device`'s arena may take.
    pub fn set_limit(&mut self, device: &DeviceId, bytes: u64) {
        let arena = self.arena(device);
        self.arenas[arena.index()].limit = Some(bytes);
    }

    /// Looks for a place of `bytes` bytes for `stream`.
    pub fn place(
        &mut self,
        arena: ArenaId,
        bytes: u64,
        stream: StreamId,
        known: &impl Knowledge,
    ) -> Answer {
        let a = &mut self.arenas[arena.index()];
        let Some(want) = rounded(bytes) else { return Answer::Full };
        a.pool(stream);
        a.hear(stream, known);
        let placed = |a: &mut Arena, at: u32, after: Points| {
            let place = a.take(at, want, bytes, stream);
            Answer::Placed(Placed { place, block: BlockId { arena, block: at }, after })
        };
        // A limit that is not known yet is asked for when the arena first grows.
        let room = a.limit.map_or(u64::MAX, |l| l / GRAIN * GRAIN).saturating_sub(a.reserved);
        if let Some(at) = a.known_free(stream, want, Look::Some, known) {
            return placed(a, at, Points::new());
        }
        if want <= room {
            // Streams that never hear of one another would let memory grow without end.
            let bound = PENDING.max(a.in_use);
            if a.pending() > bound {
                a.hear_all(known);
                if let Some(at) = a.known_free(stream, want, Look::Some, known) {
                    return placed(a, at, Points::new());
                }
                if let Some(point) = a.older_half(bound) {
                    a.steps.host_waits += 1;
                    return Answer::NeedWait(Points::from_slice(&[point]));
                }
            }
            return Answer::NeedGrow { bytes: a.growth(want, room), least: want };
        }
        if let Some(at) = a.known_free(stream, want, Look::All, known) {
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

    /// Counts a wait of the host's for everything, for an arena's sake.
    pub fn host_waited(&mut self, arena: ArenaId) {
        self.arenas[arena.index()].steps.host_waits += 1;
    }

    /// Counts a request that was refused.
    pub fn refused(&mut self, arena: ArenaId) {
        self.arenas[arena.index()].steps.refused += 1;
    }

    /// Where the next `bytes` bytes of an arena will begin.
    pub fn next_chunk(&self, arena: ArenaId, bytes: u64) -> u64 {
        self.arenas[arena.index()].gap(bytes)
    }

    /// Adds `bytes` bytes to an arena, at [`Planner::next_chunk`], for `stream`.
    pub fn grown(&mut self, arena: ArenaId, bytes: u64, stream: StreamId) {
        self.arenas[arena.index()].grown(bytes, stream);
    }

    /// The chunk of an arena that is best given back, by where it begins, and the points to wait
    /// for before; none if all are in use.
    pub fn next_return(&self, arena: ArenaId) -> Option<(u64, Points)> {
        self.arenas[arena.index()].next_return()
    }

    /// Takes a chunk out, to be given back to the device. False if it is in use, or was until a
    /// point that the host has not seen pass.
    pub fn give_back(&mut self, arena: ArenaId, start: u64, known: &impl Knowledge) -> bool {
        self.arenas[arena.index()].give_back(start, known).is_some()
    }

    /// The stream that a block was placed for.
    pub fn stream_of(&self, block: BlockId) -> StreamId {
        self.arenas[block.arena.index()].blocks[block.block as usize].stream
    }

    /// All of a block that is held, for a next owner, without a release between.
    pub fn hand_on(&mut self, block: BlockId) -> Placement {
        self.arenas[block.arena.index()].hand_on(block.block)
    }

    /// Takes back what `place` gave. `death` holds the points of its last uses.
    pub fn release(&mut self, block: BlockId, death: Frontier, known: &impl Knowledge) {
        self.arenas[block.arena.index()].release(block.block, death, known);
    }

    /// Takes back what `place` gave and nobody used: it is what it was before.
    pub fn cancel(&mut self, block: BlockId, known: &impl Knowledge) {
        let a = &mut self.arenas[block.arena.index()];
        let death = a.blocks[block.block as usize].death.clone();
        a.release(block.block, death, known);
    }

    /// The memory of each device.
    pub fn usage(&self, known: &impl Knowledge) -> Vec<ArenaUse> {
        self.arenas.iter().map(|a| a.usage(known)).collect()
    }
}
