//! Where tensors lie in memory, decided in program order and from frontiers alone.
//!
//! A released block carries its death: the points of all its last uses. It may be given out again
//! on a stream that knows all of them to have passed. The planner never looks at a device: the
//! same requests get the same places.
//!
//! Best fit over address-ordered free blocks, which split when larger and merge with neighbours
//! when free. Merging joins the deaths.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use smallvec::SmallVec;

use millstream_types::{DeviceId, Point};

use crate::frontier::Frontier;
use crate::instruction::Placement;

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

/// What the planner answers to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Here.
    Placed(Placement),
    /// A block is free once this point has passed: wait for it on the host, tell the builder, ask
    /// again.
    NeedWait(Point),
    /// The arena must grow by this many bytes: grow it, tell the planner, ask again.
    NeedGrow(u64),
    /// No way: the limit is reached and nothing will come back.
    Full,
}

/// Sizes and offsets are multiples of this many bytes.
pub const GRAIN: u64 = 512;

/// An arena grows by at least this many bytes, where its limit allows.
pub const CHUNK: u64 = 1 << 20;

#[derive(Debug)]
enum Block {
    Used,
    Free { death: Frontier },
}

#[derive(Debug)]
struct Arena {
    device: DeviceId,
    /// All blocks by offset, with their sizes. They fill each chunk without gaps.
    blocks: BTreeMap<u64, (u64, Block)>,
    /// The free ones, by size and offset.
    free: BTreeSet<(u64, u64)>,
    /// Where chunks begin: blocks do not merge across.
    chunks: BTreeSet<u64>,
    capacity: u64,
    placed: u64,
    in_use: u64,
    peak: u64,
}

/// How much memory an arena uses, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArenaUse {
    /// The device.
    pub device: DeviceId,
    /// Taken from the device.
    pub reserved: u64,
    /// Held by tensors and workspaces.
    pub in_use: u64,
    /// The most that was ever held.
    pub peak: u64,
}

/// Places storages and workspaces in arenas.
#[derive(Debug, Default)]
pub struct Planner {
    arenas: Vec<Arena>,
    /// The limit of each device, once it is known.
    limits: BTreeMap<DeviceId, u64>,
}

/// What [`Planner::place`] answers for a request it could not count in 64 bits.
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
        let found = self.arenas.iter().position(|a| a.device == *device);
        let at = found.unwrap_or_else(|| {
            self.arenas.push(Arena {
                device: device.clone(),
                blocks: BTreeMap::new(),
                free: BTreeSet::new(),
                chunks: BTreeSet::new(),
                capacity: 0,
                placed: 0,
                in_use: 0,
                peak: 0,
            });
            self.arenas.len() - 1
        });
        ArenaId(at as u16)
    }

    /// The device whose memory an arena is.
    pub fn device(&self, arena: ArenaId) -> &DeviceId {
        &self.arenas[arena.index()].device
    }

    /// The limit of `device`, if it is known.
    pub fn limit(&self, device: &DeviceId) -> Option<u64> {
        self.limits.get(device).copied()
    }

    /// The bytes that `device`'s arenas have taken.
    pub fn reserved(&self, device: &DeviceId) -> u64 {
        self.arenas.iter().filter(|a| a.device == *device).map(|a| a.capacity).sum()
    }

    /// Fixes the most bytes that `device`'s arenas may take.
    pub fn set_limit(&mut self, device: &DeviceId, bytes: u64) {
        self.limits.insert(device.clone(), bytes);
    }

    /// Looks for a place of `bytes` bytes for a stream that knows `known` to have passed. The
    /// stream's own points must be in `known` if it is in-order, and not if it is a pool.
    pub fn place(&mut self, arena: ArenaId, bytes: u64, knows: impl Fn(Point) -> bool) -> Answer {
        let limit = self.limits.get(&self.arenas[arena.index()].device).copied();
        let a = &mut self.arenas[arena.index()];
        let Some(want) = rounded(bytes) else { return Answer::Full };
        let passed = |death: &Frontier| death.iter().all(&knows);
        let death_of = |offset: u64| match &a.blocks[&offset].1 {
            Block::Free { death } => death,
            Block::Used => unreachable!("a used block is not in the free set"),
        };
        let fit = a.free.range((want, 0)..).find(|&&(_, at)| passed(death_of(at))).copied();
        if let Some((size, offset)) = fit {
            return Answer::Placed(a.take(arena, offset, size, want, bytes));
        }
        // A limit that is not known yet is asked for when the arena first grows.
        let room = limit.map_or(u64::MAX, |l| l / GRAIN * GRAIN).saturating_sub(a.capacity);
        if want <= room {
            return Answer::NeedGrow(want.max(CHUNK.min(room)));
        }
        // The block whose last use lies furthest back, so that the wait is short: the fewest
        // unknown points first, then the lowest sequence number.
        let pending = a.free.range((want, 0)..).map(|&(_, at)| {
            let open: SmallVec<[Point; 4]> = death_of(at).iter().filter(|&p| !knows(p)).collect();
            (open.len(), open[0].seq, open[0])
        });
        if let Some((_, _, point)) = pending.min() {
            return Answer::NeedWait(point);
        }
        // Neighbours that would merge into enough, were it not for a smaller neighbour in use,
        // do not help; any pending block might, once it is known to have passed and merges.
        Answer::Full
    }

    /// Adds `bytes` bytes at the end of an arena.
    pub fn grown(&mut self, arena: ArenaId, bytes: u64) {
        let a = &mut self.arenas[arena.index()];
        a.chunks.insert(a.capacity);
        a.blocks.insert(a.capacity, (bytes, Block::Free { death: Frontier::new() }));
        a.free.insert((bytes, a.capacity));
        a.capacity += bytes;
    }

    /// Takes back what `place` gave. `death` holds the points of its last uses.
    pub fn release(&mut self, placement: Placement, death: Frontier) {
        self.arenas[placement.arena.index()].give_back(placement.offset, death);
    }

    /// How much memory each arena uses.
    pub fn usage(&self) -> Vec<ArenaUse> {
        let one = |a: &Arena| ArenaUse {
            device: a.device.clone(),
            reserved: a.capacity,
            in_use: a.in_use,
            peak: a.peak,
        };
        self.arenas.iter().map(one).collect()
    }
}

impl Arena {
    fn take(&mut self, arena: ArenaId, offset: u64, size: u64, want: u64, bytes: u64) -> Placement {
        self.free.remove(&(size, offset));
        let Some((_, block)) = self.blocks.insert(offset, (want, Block::Used)) else {
            unreachable!("a free block is in the block map")
        };
        if size > want {
            self.blocks.insert(offset + want, (size - want, block));
            self.free.insert((size - want, offset + want));
        }
        self.placed += 1;
        self.in_use += want;
        self.peak = self.peak.max(self.in_use);
        Placement { arena, offset, size: bytes, generation: self.placed }
    }

    fn give_back(&mut self, offset: u64, mut death: Frontier) {
        let Some((mut size, Block::Used)) = self.blocks.remove(&offset) else {
            unreachable!("a block is released once")
        };
        self.in_use -= size;
        let mut start = offset;
        let next = offset + size;
        if !self.chunks.contains(&next)
            && let Some((_, Block::Free { .. })) = self.blocks.get(&next)
            && let Some((length, Block::Free { death: other })) = self.blocks.remove(&next)
        {
            self.free.remove(&(length, next));
            size += length;
            death.join(&other);
        }
        if !self.chunks.contains(&offset)
            && let Some((&before, (_, Block::Free { .. }))) =
                self.blocks.range(..offset).next_back()
            && let Some((length, Block::Free { death: other })) = self.blocks.remove(&before)
        {
            self.free.remove(&(length, before));
            start = before;
            size += length;
            death.join(&other);
        }
        self.blocks.insert(start, (size, Block::Free { death }));
        self.free.insert((size, start));
    }
}
