//! The uses of a storage that later uses must come after.
//!
//! They are kept for each footprint apart: the last write, and since then the newest read of each
//! stream. Whoever knows those knows all earlier uses of that footprint. A write forgets the uses
//! of what it covers, as it comes after them. Most storages are used by one footprint; of many, an
//! index finds those that a use can overlap.

mod crowd;

use std::ops::Range;
use std::rc::Rc;

use millstream_types::{Access, Point, StreamId, TensorId};
use smallvec::SmallVec;

use crate::clock::Clock;
use crate::footprint::Footprint;
use crate::streams::Streams;
use crowd::Crowd;

/// From how many footprints on an index is kept.
const MANY: usize = 8;

/// A use of a storage or of a workspace's memory.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// After this point it is over.
    pub(crate) point: Point,
    /// Of an allocation: the wait that holds `point`, and the sequence number in a list without it.
    pub(crate) held: Option<(usize, u64)>,
    /// The instruction's index in the list.
    pub(crate) index: usize,
    pub(crate) tensor: TensorId,
    pub(crate) access: Access,
}

impl Use {
    /// Whether memory that this use was made of is free for who knows `clock` on `stream`. Inside
    /// a pool only operands order, and memory is none: there, too, the point must be known.
    pub(crate) fn is_over(&self, stream: StreamId, clock: &Clock, streams: &Streams) -> bool {
        (self.point.stream == stream && !streams.is_pool(stream)) || clock.covers(self.point)
    }
}

/// The newest use of each stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Newest(SmallVec<[Use; 1]>);

impl Newest {
    fn note(&mut self, new: Use) {
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
    /// Since then, the newest read of each stream. All earlier ones there come before it; on a
    /// pool its point covers them.
    reads: Newest,
}

impl Group {
    fn conflicts(&self, access: Access) -> impl Iterator<Item = &Use> {
        let reads = access.writes().then(|| self.reads.iter());
        self.write.iter().chain(reads.into_iter().flatten())
    }
}

/// What the instructions of a pool that used a storage knew. The pool orders those that conflict.
#[derive(Debug)]
struct Pool {
    stream: StreamId,
    writes: Clock,
    all: Clock,
}

/// A storage: what one or more tensors are views of.
#[derive(Debug)]
pub(crate) struct Storage {
    /// The tensor that it began with.
    pub(crate) root: TensorId,
    pub(crate) bytes: u64,
    /// Where it begins in the list; nowhere if it exists before.
    pub(crate) begun: Option<usize>,
    /// How many tensors live.
    pub(crate) tensors: u32,
    /// Where the last tensor was released.
    pub(crate) released: Option<usize>,
    /// Where the critical section begins that holds it.
    pub(crate) held: Option<usize>,
    groups: SmallVec<[Group; 1]>,
    crowd: Option<Box<Crowd>>,
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
            crowd: None,
            pools: SmallVec::new(),
        }
    }

    /// Calls `compare` with each use that one of this footprint and access conflicts with, and
    /// bytes that both use. Earlier ones come before these. Where there are many footprints, the
    /// newest uses of all of them are looked at first, with `is_known`: if those are known, so are
    /// all. Returns how many uses were looked at.
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
        let Some(crowd) = &self.crowd else {
            self.groups.iter().for_each(of_group);
            return looked;
        };
        let newest = crowd.newest(access);
        if newest.iter().all(&mut is_known) {
            return newest.0.len() as u64;
        }
        crowd.near(footprint).for_each(|group| of_group(&self.groups[group]));
        looked
    }

    /// The uses after which the storage is used no more.
    pub(crate) fn last_uses(&self) -> impl Iterator<Item = &Use> {
        let all = self.crowd.as_ref().map(|crowd| crowd.newest(Access::Write).iter());
        let few = self.crowd.is_none().then_some(&self.groups);
        let few = few.into_iter().flatten().flat_map(|group| group.conflicts(Access::Write));
        all.into_iter().flatten().chain(few)
    }

    /// Adds what conflicting uses on `stream`, which is a pool, knew: the pool orders them.
    pub(crate) fn follow(&self, stream: StreamId, access: Access, clock: &mut Clock) {
        if let Some(pool) = self.pools.iter().find(|p| p.stream == stream) {
            clock.join(if access.writes() { &pool.all } else { &pool.writes });
        }
    }

    /// Notes what an instruction of a pool knew that uses the storage.
    pub(crate) fn lead(
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

    /// Notes a use.
    pub(crate) fn note(&mut self, footprint: &Rc<Footprint>, new: Use) {
        if new.access.writes() && footprint.is_dense() {
            self.forget(footprint);
        }
        let at = self.group(footprint);
        if let Some(crowd) = &mut self.crowd {
            crowd.note(&new);
        }
        let group = &mut self.groups[at];
        if new.access.writes() {
            group.reads = Newest::default();
            group.write = Some(new);
        } else {
            group.reads.note(new);
        }
    }

    /// Forgets the groups that lie within a footprint.
    fn forget(&mut self, footprint: &Rc<Footprint>) {
        let Some(crowd) = &mut self.crowd else {
            self.groups.retain(|group| !footprint.contains(&group.footprint));
            return;
        };
        let within = |&group: &usize| footprint.contains(&self.groups[group].footprint);
        let mut gone: Vec<usize> = crowd.near(footprint).filter(within).collect();
        // From the last on, so that what takes a place is not among those that go.
        gone.sort_unstable_by(|a, b| b.cmp(a));
        for at in gone {
            crowd.remove(&self.groups[at].footprint, at);
            self.groups.swap_remove(at);
            if let Some(moved) = self.groups.get(at) {
                crowd.rename(&moved.footprint, self.groups.len(), at);
            }
        }
        if self.groups.is_empty() {
            self.crowd = None;
        }
    }

    /// The group of a footprint, a new one if there is none.
    fn group(&mut self, footprint: &Rc<Footprint>) -> usize {
        let is_it = |group: &Group| {
            Rc::ptr_eq(&group.footprint, footprint) || group.footprint == *footprint
        };
        let found = match &self.crowd {
            None => self.groups.iter().position(is_it),
            Some(crowd) => crowd.alike(footprint).find(|&at| is_it(&self.groups[at])),
        };
        if let Some(at) = found {
            return at;
        }
        let group = Group { footprint: footprint.clone(), write: None, reads: Newest::default() };
        self.groups.push(group);
        let at = self.groups.len() - 1;
        if let Some(crowd) = &mut self.crowd {
            crowd.add(footprint, at);
        } else if self.groups.len() > MANY {
            let mut crowd = Crowd::default();
            for (at, group) in self.groups.iter().enumerate() {
                crowd.add(&group.footprint, at);
                group.conflicts(Access::Write).for_each(|u| crowd.note(u));
            }
            self.crowd = Some(Box::new(crowd));
        }
        at
    }
}
