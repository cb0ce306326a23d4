//! Leases of created streams: a stream without handles is reused for the next one of its kind.
//!
//! # Rules
//! 1. Every handle of a created stream holds its lease: clones, tensors made on the stream,
//!    completions of its points. A stream that the program names by a key of its own has no lease
//!    and is never reused.
//! 2. A reused stream keeps its id, its key and its worker, and continues its sequence numbers: a
//!    frontier, an event or a list that names an earlier point means what it meant before.
//! 3. The choice of a stream is a function of the calls: of the [`MOST_EXAMINED`] that were dropped
//!    first, the first whose instructions the host has observed; the oldest, if it has observed
//!    none of so many; a new stream otherwise. What has completed meanwhile plays no part.
//! 4. The workers close the streams that were dropped while [`MOST_EXAMINED`] others were free.
//!    Such a stream is opened again for its next instruction.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};

use millstream_instructions::Builder;
use millstream_types::{DeviceId, StreamId};

use crate::api::machine::{MachineShared, StreamOptions};
use crate::emission::Release;

/// How many free streams of a kind a request examines, and the workers keep open.
const MOST_EXAMINED: usize = 32;

/// The hold of a created stream by its handles. The last one gives the stream back.
pub(crate) struct Lease {
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
pub(crate) type Kind = (DeviceId, StreamOptions);

/// A created stream.
struct Created {
    kind: Kind,
    /// Its lease; none while it is free.
    lease: Option<Weak<Lease>>,
}

/// The created streams of a machine.
#[derive(Default)]
pub(crate) struct Leases {
    streams: HashMap<StreamId, Created>,
    /// The streams without handles, in the order in which they were dropped.
    free: HashMap<Kind, VecDeque<StreamId>>,
}

impl Leases {
    /// Takes the free stream that the next handle of this kind gets, if one is to be reused.
    pub(crate) fn reuse(&mut self, kind: &Kind, builder: &Builder) -> Option<StreamId> {
        let free = self.free.get_mut(kind)?;
        let observed = |id: &StreamId| builder.has_observed(builder.tail(*id));
        let at = free.iter().take(MOST_EXAMINED).position(observed);
        let oldest = (free.len() >= MOST_EXAMINED).then_some(0);
        free.remove(at.or(oldest)?)
    }

    /// Returns the lease of a stream of this kind that has no handle.
    pub(crate) fn begin(
        &mut self,
        machine: &Arc<MachineShared>,
        stream: StreamId,
        kind: Kind,
    ) -> Arc<Lease> {
        let lease = Arc::new(Lease { machine: Arc::downgrade(machine), stream });
        let created = Created { kind, lease: Some(Arc::downgrade(&lease)) };
        self.streams.insert(stream, created);
        lease
    }

    /// Returns the lease for a further handle of a stream; none if the stream was not created.
    pub(crate) fn of(
        &mut self,
        machine: &Arc<MachineShared>,
        stream: StreamId,
    ) -> Option<Arc<Lease>> {
        let Created { kind, lease } = self.streams.get(&stream)?;
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
        let Some(Created { kind, lease }) = self.streams.get_mut(&stream) else { return false };
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
