//! The uses of a storage that later uses must come after.

use std::collections::BTreeMap;

use millstream_types::{Access, Point, StreamId, TensorId};

use crate::clock::Clock;
use crate::streams::Streams;

/// A use of a storage or of a workspace's memory.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    /// After this point it is over.
    pub(crate) point: Point,
    /// The instruction's index in the list.
    pub(crate) index: usize,
    pub(crate) tensor: TensorId,
    pub(crate) access: Access,
    /// On a pool: what the using instruction knew, which flows on to those of the same pool that
    /// conflict with it. Elsewhere the stream's own knowledge says it.
    pub(crate) clock: Option<Clock>,
}

impl Use {
    /// Whether memory that this use was made of is free for who knows `clock` on `stream`. Inside
    /// a pool only operands order, and memory is none: there, too, the point must be known.
    pub(crate) fn is_over(&self, stream: StreamId, clock: &Clock, streams: &Streams) -> bool {
        (self.point.stream == stream && !streams.is_pool(stream)) || clock.covers(self.point)
    }
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
    /// The last write, or the allocation, which counts as one.
    write: Option<Use>,
    /// Since then, the newest read of each stream. All earlier ones there come before it; on a
    /// pool its point covers them and its clock is the union of theirs.
    reads: BTreeMap<StreamId, Use>,
}

impl Storage {
    pub(crate) fn new(
        root: TensorId,
        bytes: u64,
        begun: Option<usize>,
        write: Option<Use>,
    ) -> Storage {
        Storage {
            root,
            bytes,
            begun,
            tensors: 1,
            released: None,
            held: None,
            write,
            reads: BTreeMap::new(),
        }
    }

    /// The uses that one of this access conflicts with. Earlier ones come before these.
    pub(crate) fn conflicts(&self, access: Access) -> impl Iterator<Item = &Use> {
        let reads = access.writes().then(|| self.reads.values());
        self.write.iter().chain(reads.into_iter().flatten())
    }

    /// The uses after which the storage is used no more.
    pub(crate) fn last_uses(&self) -> impl Iterator<Item = &Use> {
        self.conflicts(Access::Write)
    }

    /// Adds what conflicting uses on `stream`, which is a pool, knew: the pool orders them.
    pub(crate) fn follow(&self, stream: StreamId, access: Access, clock: &mut Clock) {
        if let Some(known) = self.write.as_ref().filter(|u| u.point.stream == stream) {
            known.clock.iter().for_each(|c| clock.join(c));
        }
        if let Some(read) = self.reads.get(&stream).filter(|_| access.writes()) {
            read.clock.iter().for_each(|c| clock.join(c));
        }
    }

    /// Notes a use.
    pub(crate) fn note(&mut self, mut new: Use) {
        if new.access.writes() {
            self.reads.clear();
            self.write = Some(new);
            return;
        }
        if let Some(Use { clock: Some(before), .. }) = self.reads.remove(&new.point.stream)
            && let Some(clock) = &mut new.clock
        {
            clock.join(&before);
        }
        self.reads.insert(new.point.stream, new);
    }
}
