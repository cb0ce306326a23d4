//! Storages: the memory behind tensors, and its last uses.

use millstream_types::{Access, Point, StreamId, TensorId};

use crate::builder::region::SectionId;
use crate::frontier::Frontier;
use crate::planner::{ArenaId, BlockId};

/// The memory that one or more tensors are views of, and its last uses. The fields that every use
/// reads come first and fill a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(super) struct Storage {
    pub(super) last_write: Point,
    /// The newest read since the last write by the stream that was first to read; none if its
    /// sequence number is 0. A read on a pool stands for everything on the pool up to it.
    first_read: Point,
    /// The newest reads by other streams, sorted by stream. Few storages are read by several
    /// streams between writes; constants may be read by a thousand.
    further_reads: Vec<Point>,
    pub(super) held: Option<SectionId>,
    /// The last use of any kind, if [`SlotTable::keeps_last_uses`].
    pub(super) last_use: Point,
    /// The number of live tensors that are views of it.
    pub(super) tensors: u32,
    /// The tensor that it was made with.
    pub(super) root: TensorId,
    pub(super) bytes: u64,
    /// A number that no other storage of the builder ever has.
    pub(super) number: u64,
    pub(super) arena: ArenaId,
    /// Whether somebody will ask for its failure after its last tensor has ended.
    pub(super) is_watched: bool,
    /// None if the planner does not manage the memory, or the storage has no bytes.
    pub(super) block: Option<BlockId>,
}

// One cache line for the fields that every use reads, and one for the rest.
const _: () = assert!(std::mem::offset_of!(Storage, last_use) == 64 && size_of::<Storage>() == 128);

impl Storage {
    /// Returns a storage that is allocated at the point `allocated` and has no uses.
    pub(super) fn new(
        allocated: Point,
        bytes: u64,
        arena: ArenaId,
        block: Option<BlockId>,
    ) -> Storage {
        Storage {
            last_write: allocated,
            first_read: Point::new(allocated.stream, 0),
            further_reads: Vec::new(),
            held: None,
            last_use: allocated,
            tensors: 0,
            bytes,
            arena,
            block,
            root: TensorId(u32::MAX),
            number: 0,
            is_watched: false,
        }
    }

    /// Begins it again at the point `allocated`, in the same memory and with one tensor.
    #[inline]
    pub(super) fn renew(&mut self, allocated: Point, number: u64) {
        self.last_write = allocated;
        self.first_read = Point::new(allocated.stream, 0);
        self.last_use = allocated;
        self.tensors = 1;
        self.number = number;
    }

    /// Returns the point of the last use if all uses since its allocation were on one stream.
    #[inline]
    pub(super) fn last_use_on_one_stream(&self) -> Option<Point> {
        let reads = self.first_read.seq == 0 || self.first_read.stream == self.last_write.stream;
        if !reads || !self.further_reads.is_empty() {
            return None;
        }
        let read_last = self.first_read.seq > self.last_write.seq;
        Some(if read_last { self.first_read } else { self.last_write })
    }

    /// Returns the newest read of each stream since the last write.
    pub(super) fn reads(&self) -> impl Iterator<Item = Point> + '_ {
        let first = (self.first_read.seq > 0).then_some(self.first_read);
        first.into_iter().chain(self.further_reads.iter().copied())
    }

    /// Calls `found` with each of [`Storage::reads`], and perhaps with the start of a stream, which
    /// has always completed.
    #[inline]
    pub(super) fn each_read(&self, mut found: impl FnMut(Point)) {
        found(self.first_read);
        self.further_reads.iter().copied().for_each(found);
    }

    /// Returns the points of all last uses.
    pub(super) fn last_use_frontier(&self) -> Frontier {
        match self.last_use_on_one_stream() {
            Some(last) => Frontier::of(last),
            None => self.reads().chain([self.last_write]).collect(),
        }
    }

    /// Whether all earlier uses that a use on `stream` must come after are on `stream` itself, so
    /// that the stream's own order suffices.
    #[inline]
    pub(super) fn is_ordered_by(&self, stream: StreamId, writes: bool) -> bool {
        // Branch-free where possible, because the outcomes are hard to predict.
        let here = |p: Point| (p.stream == stream) | (p.seq == 0);
        let reads = here(self.first_read) & self.further_reads.is_empty();
        here(self.last_write) & (reads | !writes)
    }

    /// Records a use at `point` in the first cache line.
    #[inline]
    pub(super) fn used(&mut self, point: Point, access: Access) {
        if self.last_write == point {
            // An instruction that both reads and writes a storage counts as a write.
        } else if access.writes() {
            self.last_write = point;
            self.first_read.seq = 0;
            if !self.further_reads.is_empty() {
                self.further_reads.clear();
            }
        } else if (self.first_read.stream == point.stream) | (self.first_read.seq == 0) {
            self.first_read = point;
        } else {
            self.read_further(point);
        }
    }

    #[cold]
    fn read_further(&mut self, point: Point) {
        match self.further_reads.binary_search_by_key(&point.stream, |read| read.stream) {
            Ok(at) => self.further_reads[at] = point,
            Err(at) => self.further_reads.insert(at, point),
        }
    }
}
