//! Questions of the builder about streams and memory.

use smallvec::SmallVec;

use millstream_types::{DeviceId, Result, StreamKey, WorkKind, WorkSet};

use crate::planner::ArenaId;

/// The facts about a stream that are known before it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFacts {
    /// The kinds of work that the stream accepts.
    pub work: WorkSet,
    /// The device whose memory holds the tensors that the stream makes.
    pub memory: DeviceId,
    /// Further devices whose memory the stream's instructions read.
    pub reads: SmallVec<[DeviceId; 2]>,
    /// Further devices whose memory the stream's instructions read and write.
    pub writes: SmallVec<[DeviceId; 1]>,
    /// Further devices whose memory the op `copy` reads, and no other op.
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

    /// Adds a device whose memory the stream reads.
    #[must_use]
    pub fn reading(mut self, device: DeviceId) -> StreamFacts {
        self.reads.push(device);
        self
    }

    /// Adds a device whose memory the stream reads and writes.
    #[must_use]
    pub fn writing(mut self, device: DeviceId) -> StreamFacts {
        self.writes.push(device);
        self
    }
}

/// The catalog of streams: their facts, and which stream can wait for which. Asking creates
/// nothing.
pub trait StreamCatalog: Send {
    /// Returns the facts about a stream.
    ///
    /// # Errors
    /// There is no such device or no policy that serves the stream.
    fn describe(&self, key: &StreamKey) -> Result<StreamFacts>;

    /// Whether `waiter` can wait for an event of `source` on the device. The builder asks once for
    /// each pair.
    fn waits_on_device(&self, waiter: &StreamKey, source: &StreamKey) -> bool;
}

/// The memory behind the planner's arenas. The builder's owner calls it without a lock.
pub trait Arenas {
    /// Returns the most bytes that the arenas of `device` may take together.
    ///
    /// # Errors
    /// The device cannot be opened.
    fn limit(&self, device: &DeviceId) -> Result<u64>;

    /// Adds `bytes` bytes to an arena at its offset `start`.
    ///
    /// # Errors
    /// [`millstream_types::Error::OutOfMemory`], or the device is lost.
    fn grow(&self, arena: ArenaId, device: &DeviceId, start: u64, bytes: u64) -> Result<()>;

    /// Gives the memory at an arena's offset `start` back to its device. Neither the host nor the
    /// device uses it.
    fn shrink(&self, arena: ArenaId, start: u64);
}
