//! Streams and points in their order.

use std::fmt;
use std::str::FromStr;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::id::StreamId;
use crate::nearest::nearest;
use crate::work::{WorkKind, WorkSet};

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StreamType {
    /// Kernels.
    Compute,
    /// Copies from host memory to the device.
    Host2Device,
    /// Copies from the device to host memory.
    Device2Host,
    /// Collectives between ranks.
    Ccl,
    /// Barriers of the whole machine.
    Barrier,
    /// Exclusive holds of operands.
    CriticalSection,
    /// Stored lists that run as one instruction.
    LazyJobLauncher,
    /// Kernels whose outputs lie in pinned host memory.
    PinnedCompute,
}

impl StreamType {
    /// Every stream type, in the order of the documentation.
    pub const ALL: [StreamType; 8] = [
        StreamType::Compute,
        StreamType::Host2Device,
        StreamType::Device2Host,
        StreamType::Ccl,
        StreamType::Barrier,
        StreamType::CriticalSection,
        StreamType::LazyJobLauncher,
        StreamType::PinnedCompute,
    ];

    /// The name used in text forms and files.
    pub const fn name(self) -> &'static str {
        match self {
            StreamType::Compute => "compute",
            StreamType::Host2Device => "host2device",
            StreamType::Device2Host => "device2host",
            StreamType::Ccl => "ccl",
            StreamType::Barrier => "barrier",
            StreamType::CriticalSection => "critical-section",
            StreamType::LazyJobLauncher => "lazy-job",
            StreamType::PinnedCompute => "pinned-compute",
        }
    }

    /// The kinds of work that streams of this type accept.
    pub const fn work(self) -> WorkSet {
        WorkSet::of(match self {
            StreamType::Compute | StreamType::PinnedCompute => &[WorkKind::Compute],
            StreamType::Host2Device => &[WorkKind::CopyIn],
            StreamType::Device2Host => &[WorkKind::CopyOut],
            StreamType::Ccl => &[WorkKind::Collective],
            StreamType::Barrier => &[WorkKind::Barrier],
            StreamType::CriticalSection => &[WorkKind::Section],
            StreamType::LazyJobLauncher => &[WorkKind::Job],
        })
    }
}

impl fmt::Display for StreamType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for StreamType {
    type Err = Error;

    fn from_str(text: &str) -> Result<StreamType> {
        StreamType::ALL.into_iter().find(|t| t.name() == text).ok_or_else(|| Error::Unknown {
            what: "stream type",
            name: text.to_owned(),
            nearest: nearest(text, StreamType::ALL.iter().map(|t| t.name())),
        })
    }
}

/// Whether a stream runs its instructions in the order they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamMode {
    /// First in, first out.
    InOrder,
    /// Any ready instruction may run; only operands order instructions within the stream.
    Pool,
}

impl StreamMode {
    /// The name used in text forms and files.
    pub const fn name(self) -> &'static str {
        match self {
            StreamMode::InOrder => "in-order",
            StreamMode::Pool => "pool",
        }
    }
}

/// A stream's identity: device, type, index.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamKey {
    /// The device the stream belongs to.
    pub device: DeviceId,
    /// What it is for.
    pub ty: StreamType,
    /// Which one of the device's streams of that type.
    pub index: u32,
}

impl StreamKey {
    /// The stream `index` of `ty` on `device`.
    pub const fn new(device: DeviceId, ty: StreamType, index: u32) -> StreamKey {
        StreamKey { device, ty, index }
    }

    /// The compute stream `index` of `device`.
    pub const fn compute(device: DeviceId, index: u32) -> StreamKey {
        StreamKey::new(device, StreamType::Compute, index)
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.device, self.ty, self.index)
    }
}

/// A point in a stream's order: after its instruction number `seq`, and after all before it.
///
/// Sequence numbers start at 1; `seq` 0 is the point before a stream's first instruction, which
/// every instruction comes after. Written `s2:17`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// The stream.
    pub stream: StreamId,
    /// The sequence number on it.
    pub seq: u64,
}

impl Point {
    /// The point after instruction `seq` of `stream`.
    pub const fn new(stream: StreamId, seq: u64) -> Point {
        Point { stream, seq }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.stream, self.seq)
    }
}
