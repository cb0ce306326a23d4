//! What the builder has to know about streams and memory, asked of others.

use smallvec::SmallVec;

use millstream_types::{DeviceId, Result, StreamKey, WorkKind, WorkSet};

use crate::planner::ArenaId;

/// What there is to know about a stream before it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFacts {
    /// The kinds of work that the stream accepts.
    pub work: WorkSet,
    /// In whose memory tensors lie that instructions make.
    pub memory: DeviceId,
    /// In whose memory, beside that, tensors may lie that instructions only read.
    pub reads: SmallVec<[DeviceId; 2]>,
    /// In whose memory, beside those, tensors may lie that instructions read or change.
    pub writes: SmallVec<[DeviceId; 1]>,
    /// In whose memory, beside those, tensors may lie that the op `copy` reads, and no other.
    pub copies: Vec<DeviceId>,
}

impl StreamFacts {
    /// Returns the facts about a stream of kernels that work on this memory alone.
    pub fn on(memory: DeviceId) -> StreamFacts {
        StreamFacts {
            work: WorkSet::of(&[WorkKind::Compute]),
            memory,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            copies: Vec::new(),
        }
    }

    /// Returns the facts about a stream that accepts this work.
    #[must_use]
    pub const fn accepting(mut self, work: WorkSet) -> StreamFacts {
        self.work = work;
        self
    }

    /// What it only reads may lie there, too.
    #[must_use]
    pub fn reading(mut self, device: DeviceId) -> StreamFacts {
        self.reads.push(device);
        self
    }

    /// What it reads or changes may lie there, too.
    #[must_use]
    pub fn writing(mut self, device: DeviceId) -> StreamFacts {
        self.writes.push(device);
        self
    }
}

/// Which streams there are, and who can wait for whom. Asking creates nothing.
pub trait StreamCatalog: Send {
    /// The facts about a stream.
    ///
    /// # Errors
    /// There is no such device or no policy that serves the stream.
    fn describe(&self, key: &StreamKey) -> Result<StreamFacts>;

    /// Whether `waiter` can wait for an event of `source` on the device. Asked once for each pair.
    fn waits_on_device(&self, waiter: &StreamKey, source: &StreamKey) -> bool;
}

/// The memory behind the planner's arenas. Called with no lock held.
pub trait Arenas {
    /// The most bytes that the arenas of `device` may take together.
    ///
    /// # Errors
    /// The device cannot be opened.
    fn limit(&self, device: &DeviceId) -> Result<u64>;

    /// Adds `bytes` bytes to an arena, from its byte `start` on.
    ///
    /// # Errors
    /// [`millstream_types::Error::OutOfMemory`], or the device is lost.
    fn grow(&self, arena: ArenaId, device: &DeviceId, start: u64, bytes: u64) -> Result<()>;

    /// Gives the memory that begins at an arena's byte `start` back to its device. Nobody uses it,
    /// and nothing on the device does.
    fn shrink(&self, arena: ArenaId, start: u64);
}
