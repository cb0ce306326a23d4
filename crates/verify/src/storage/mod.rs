//! The uses of a storage that later conflicting uses must be ordered after.
//!
//! Each footprint has a group: the last write, and the newest read of each stream since then. A
//! clock that covers those covers all earlier uses of the footprint. A write removes the groups
//! that it covers, because it is ordered after them. Most storages have one footprint. From
//! [`INDEX_THRESHOLD`] footprints on, an index finds the groups that a use can overlap.

mod interval_index;

use std::ops::Range;
use std::rc::Rc;

use millstream_types::{Access, Point, StreamId, TensorId};
use smallvec::SmallVec;

use crate::clock::Clock;
use crate::footprint::Footprint;
use crate::streams::Streams;
use interval_index::IntervalIndex;

/// The number of footprints beyond which a storage keeps an index.
const INDEX_THRESHOLD: usize = 8;

/// A use of a storage or of a workspace's memory.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// The point that completes the use.
    pub(crate) point: Point,
    /// Of an allocation: the wait at `point`, and the sequence number in the list without that
    /// wait.
    pub(crate) held: Option<(usize, u64)>,
    /// The instruction's index in the list.
    pub(crate) index: usize,
    pub(crate) tensor: TensorId,
    pub(crate) access: Access,
}

impl Use {
    /// Returns whether memory of this use is free for an instruction of `stream` that knows
    /// `clock`. Inside a pool only operands order, and memory is not an operand: the clock must
    /// cover the point there, too.
    pub(crate) fn is_over(&self, stream: StreamId, clock: &Clock, streams: &Streams) -> bool {
        (self.point.stream == stream && !streams.is_pool(stream)) || clock.covers(self.point)
    }
}

/// The newest use of each stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Newest(SmallVec<[Use; 1]>);

impl Newest {
    fn record(&mut self, new: Use) {
        match self.0.binary_search_by_key(&new.point.stream, |u| u.point.stream) {
            Ok(at) if self.0[at].point.seq <= new.point.seq => self.0[at] = new,
            Ok(_) => {}
            Err(at) => self.0.insert(at, new),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Use> {
        self.0.iter()
    }
}

/// The uses of one footprint.
#[derive(Clone, Debug)]
struct Group {
    footprint: Rc<Footprint>,
    /// The last write, or the allocation, which counts as one.
    write: Option<Use>,
    /// The newest read of each stream since `write`. All earlier reads of the stream happen before
    /// it; on a pool its point covers them.
    reads: Newest,
}

impl Group {
    fn conflicts(&self, access: Access) -> impl Iterator<Item = &Use> {
        let reads = access.writes().then(|| self.reads.iter());
        self.write.iter().chain(reads.into_iter().flatten())
    }
}

/// The knowledge of a pool's instructions that used a storage. The pool orders conflicting ones.
#[derive(Debug)]
struct Pool {
    stream: StreamId,
    writes: Clock,
    all: Clock,
}

/// A storage: memory that one or more tensors are views of.
#[derive(Debug)]
pub(crate) struct Storage {
    /// The storage's first tensor.
    pub(crate) root: TensorId,
    pub(crate) bytes: u64,
    /// The index of the instruction that begins the storage; none for an external.
    pub(crate) begun: Option<usize>,
    /// The number of live tensors.
    pub(crate) tensors: u32,
    /// The index of the last tensor's release.
    pub(crate) released: Option<usize>,
    /// The index of the begin of the critical section that holds the storage.
    pub(crate) held: Option<usize>,
    groups: SmallVec<[Group; 1]>,
    index: Option<Box<IntervalIndex>>,
    pools: SmallVec<[Pool; 0]>,
}

impl Storage {
    pub(crate) fn new(root: TensorId, bytes: u64, begun: Option<usize>) -> Storage {
        Storage {
            root,
            bytes,
            begun,
            tensors: 1,
            released: None,
            held: None,
            groups: SmallVec::new(),
            index: None,
            pools: SmallVec::new(),
        }
    }

    /// Calls `compare` with each use that a use of this footprint and access conflicts with, and
    /// with bytes that both use. All older conflicting uses happen before those. A storage with an
    /// index first passes the newest uses of all footprints to `is_known`: if all are known, so is
    /// every other use. Returns the number of uses compared.
    pub(crate) fn conflicts(
        &self,
        footprint: &Footprint,
        access: Access,
        mut is_known: impl FnMut(&Use) -> bool,
        mut compare: impl FnMut(&Use, Range<u64>),
    ) -> u64 {
        let mut looked = 0;
        let mut of_group = |group: &Group| {
            let mut uses = group.conflicts(access).peekable();
            if uses.peek().is_none() {
                return;
            }
            let Some(bytes) = group.footprint.overlap(footprint) else { return };
            for earlier in uses {
                looked += 1;
                compare(earlier, bytes.clone());
            }
        };
        let Some(index) = &self.index else {
            self.groups.iter().for_each(of_group);
            return looked;
        };
        let newest = index.newest(access);
        if newest.iter().all(&mut is_known) {
            return newest.0.len() as u64;
        }
        index.candidates(footprint).for_each(|group| of_group(&self.groups[group]));
        looked
    }

    /// Returns the last uses: all other uses happen before them.
    pub(crate) fn last_uses(&self) -> impl Iterator<Item = &Use> {
        let all = self.index.as_ref().map(|index| index.newest(Access::Write).iter());
        let few = self.index.is_none().then_some(&self.groups);
        let few = few.into_iter().flatten().flat_map(|group| group.conflicts(Access::Write));
        all.into_iter().flatten().chain(few)
    }

    /// Joins the knowledge of conflicting uses on the pool `stream` into `clock`: the pool orders
    /// them.
    pub(crate) fn join_pool_knowledge(&self, stream: StreamId, access: Access, clock: &mut Clock) {
        if let Some(pool) = self.pools.iter().find(|p| p.stream == stream) {
            clock.join(if access.writes() { &pool.all } else { &pool.writes });
        }
    }

    /// Adds the knowledge of a pool's instruction that uses the storage.
    pub(crate) fn add_pool_knowledge(
        &mut self,
        stream: StreamId,
        access: Access,
        clock: &Clock,
        nothing: &Clock,
    ) {
        let at = self.pools.iter().position(|p| p.stream == stream).unwrap_or_else(|| {
            let (writes, all) = (nothing.clone(), nothing.clone());
            self.pools.push(Pool { stream, writes, all });
            self.pools.len() - 1
        });
        let pool = &mut self.pools[at];
        pool.all.join(clock);
        if access.writes() {
            pool.writes.join(clock);
        }
    }

    /// Records a use.
    pub(crate) fn record_use(&mut self, footprint: &Rc<Footprint>, new: Use) {
        if new.access.writes() && footprint.is_dense() {
            self.forget(footprint);
        }
        let at = self.group(footprint);
        if let Some(index) = &mut self.index {
            index.record_use(&new);
        }
        let group = &mut self.groups[at];
        if new.access.writes() {
            group.reads = Newest::default();
            group.write = Some(new);
        } else {
            group.reads.record(new);
        }
    }

    /// Removes the groups that lie within a footprint.
    fn forget(&mut self, footprint: &Rc<Footprint>) {
        let Some(index) = &mut self.index else {
            self.groups.retain(|group| !footprint.contains(&group.footprint));
            return;
        };
        let within = |&group: &usize| footprint.contains(&self.groups[group].footprint);
        let mut gone: Vec<usize> = index.candidates(footprint).filter(within).collect();
        // In descending order, so that `swap_remove` never moves a group that is still to be
        // removed.
        gone.sort_unstable_by(|a, b| b.cmp(a));
        for at in gone {
            index.remove(&self.groups[at].footprint, at);
            self.groups.swap_remove(at);
            if let Some(moved) = self.groups.get(at) {
                index.renumber(&moved.footprint, self.groups.len(), at);
            }
        }
        if self.groups.is_empty() {
            self.index = None;
        }
    }

    /// Returns the group of a footprint, which is created if there is none.
    fn group(&mut self, footprint: &Rc<Footprint>) -> usize {
        let is_it = |group: &Group| {
            Rc::ptr_eq(&group.footprint, footprint) || group.footprint == *footprint
        };
        let found = match &self.index {
            None => self.groups.iter().position(is_it),
            Some(index) => index.with_bounds_like(footprint).find(|&at| is_it(&self.groups[at])),
        };
        if let Some(at) = found {
            return at;
        }
        let group = Group { footprint: footprint.clone(), write: None, reads: Newest::default() };
        self.groups.push(group);
        let at = self.groups.len() - 1;
        if let Some(index) = &mut self.index {
            index.insert(footprint, at);
        } else if self.groups.len() > INDEX_THRESHOLD {
            let mut index = IntervalIndex::default();
            for (at, group) in self.groups.iter().enumerate() {
                index.insert(&group.footprint, at);
                group.conflicts(Access::Write).for_each(|u| index.record_use(u));
            }
            self.index = Some(Box::new(index));
        }
        at
    }
}
