//! Leases of streams: a stream without handles is reused for the next one of its kind.
//!
//! # Rules
//! 1. Every handle of a leased stream holds its lease: clones, tensors made on the stream, events,
//!    completions of its points. Leased are created streams, and in-order streams that the program
//!    names by keys of its own. The first stream of each device and type is not: the machine uses
//!    it itself.
//! 2. A reused stream keeps its id and its worker, and continues its sequence numbers: a frontier,
//!    an event or a list that names an earlier point means what it meant before. A created stream
//!    keeps its key as well; a named one takes the key that is asked for.
//! 3. The choice of a stream is a function of the calls; what has completed meanwhile plays no
//!    part. For a created stream it is, of the [`MOST_EXAMINED`] that were dropped first, the first
//!    whose instructions the host has observed; the oldest, if it has observed none of so many; a
//!    new stream otherwise.
//! 4. A named stream without handles keeps its key while at most [`MOST_EXAMINED`] of its kind have
//!    none. Of more, the first of the oldest whose instructions the host has observed gives its id
//!    to a new key. So the work of a key stays in order: a later stream of that key comes after
//!    what the host has observed. If too many are free and unobserved, the host waits for one.
//! 5. The workers close the streams that were dropped while [`MOST_EXAMINED`] others were free.
//!    Such a stream is opened again for its next instruction.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};

use millstream_instructions::InstructionsBuilder;
use millstream_stream_policy::WorkerGroup;
use millstream_types::{DeviceId, Point, StreamId, StreamType};

use crate::engine::Release;
use crate::engine::StreamOptions;
use crate::engine::shared::MachineShared;
use crate::sync;

/// How many free streams of a kind a request examines, and the workers keep open.
const MOST_EXAMINED: usize = sync::FREE_STREAMS;

/// How many streams of the program's own keys may be free without the host having observed their
/// instructions.
const MOST_UNOBSERVED: usize = 1024;

/// The hold of a stream by its handles. The last one gives the stream back.
pub struct Lease {
    machine: Weak<MachineShared>,
    stream: StreamId,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(machine) = self.machine.upgrade() {
            machine.release(Release::Stream(self.stream));
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({})", self.stream)
    }
}

/// The streams that can stand for one another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Compute streams that were created with options.
    Created(DeviceId, StreamOptions),
    /// In-order streams of one type with keys of the program's own, which the same workers run.
    Named(DeviceId, StreamType, WorkerGroup),
}

/// Where a stream for a new key comes from.
pub enum Source {
    New,
    /// The id of a free stream.
    Free(StreamId),
    /// The host waits for a point of a free stream, and asks again.
    Wait(Point),
}

/// A leased stream.
struct Leased {
    kind: Kind,
    /// Its lease; none while it is free.
    lease: Option<Weak<Lease>>,
}

/// The leased streams of a machine.
#[derive(Default)]
pub struct Leases {
    streams: HashMap<StreamId, Leased>,
    /// The streams without handles, in the order in which they were dropped.
    free: HashMap<Kind, VecDeque<StreamId>>,
}

impl Leases {
    /// Takes the free stream that the next created one of this kind is, if one is to be reused.
    pub fn reuse(&mut self, kind: &Kind, builder: &InstructionsBuilder) -> Option<StreamId> {
        let free = self.free.get_mut(kind)?;
        let observed = |id: &StreamId| builder.has_observed(builder.tail(*id));
        let at = free.iter().take(MOST_EXAMINED).position(observed);
        let oldest = (free.len() >= MOST_EXAMINED).then_some(0);
        free.remove(at.or(oldest)?)
    }

    /// Returns where the stream for a new key of this kind comes from. A free one is taken with its
    /// lease.
    pub fn source(&self, kind: &Kind, builder: &InstructionsBuilder) -> Source {
        let Some(free) = self.free.get(kind) else { return Source::New };
        if free.len() <= MOST_EXAMINED {
            return Source::New;
        }
        let observed = |id: &&StreamId| builder.has_observed(builder.tail(**id));
        match free.iter().take(MOST_EXAMINED).find(observed) {
            Some(id) => Source::Free(*id),
            None if free.len() > MOST_UNOBSERVED => Source::Wait(builder.tail(free[0])),
            None => Source::New,
        }
    }

    /// Returns the kind of a stream; none if the stream was never leased.
    pub fn kind(&self, stream: StreamId) -> Option<&Kind> {
        Some(&self.streams.get(&stream)?.kind)
    }

    /// Returns the lease of a stream of this kind that has no handle.
    pub fn begin(
        &mut self,
        machine: &Arc<MachineShared>,
        stream: StreamId,
        kind: Kind,
    ) -> Arc<Lease> {
        let lease = Arc::new(Lease { machine: Arc::downgrade(machine), stream });
        self.streams.insert(stream, Leased { kind, lease: Some(Arc::downgrade(&lease)) });
        lease
    }

    /// Returns the lease for a further handle of a stream; none if the stream was never
    /// leased.
    pub fn of(&mut self, machine: &Arc<MachineShared>, stream: StreamId) -> Option<Arc<Lease>> {
        let Leased { kind, lease } = self.streams.get(&stream)?;
        if let Some(held) = lease.as_ref().and_then(Weak::upgrade) {
            return Some(held);
        }
        let kind = kind.clone();
        if let Some(free) = self.free.get_mut(&kind) {
            free.retain(|id| *id != stream);
        }
        Some(self.begin(machine, stream, kind))
    }

    /// Takes back a stream whose lease was dropped, unless it has handles again. Returns whether
    /// the workers close it.
    pub(crate) fn give_back(&mut self, stream: StreamId) -> bool {
        let Some(Leased { kind, lease }) = self.streams.get_mut(&stream) else { return false };
        let is_over = lease.as_ref().is_some_and(|lease| lease.strong_count() == 0);
        if !is_over {
            return false;
        }
        *lease = None;
        let free = self.free.entry(kind.clone()).or_default();
        free.push_back(stream);
        free.len() > MOST_EXAMINED
    }
}
