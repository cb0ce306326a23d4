//! What the master table of instructions says that the checker needs to know.

use smallvec::SmallVec;

use millstream_instructions::{Body, Kind, Placement};
use millstream_types::{Access, StreamId, StreamType};

/// The streams that an instruction names, annotations aside.
pub(crate) fn streams(body: &Body) -> SmallVec<[StreamId; 4]> {
    let mut streams: SmallVec<[StreamId; 4]> = body.at().map(|at| at.stream).into_iter().collect();
    match body {
        Body::AllocateTensor { on, .. } => streams.push(*on),
        Body::StreamWaitEvent { until, .. } | Body::StreamWait { until, .. } => {
            streams.push(until.stream);
        }
        Body::HostObserved { points } => streams.extend(points.iter().map(|p| p.stream)),
        _ => {}
    }
    streams
}

/// The memory that an instruction gives out.
pub(crate) fn placement(body: &Body) -> Option<&Placement> {
    match body {
        Body::AllocateTensor { placement, .. } => Some(placement),
        Body::OpCall { workspace, .. } => workspace.as_deref(),
        _ => None,
    }
}

/// The types of streams that run an instruction; nothing where any does.
pub(crate) const fn types(kind: Kind) -> Option<&'static [StreamType]> {
    use StreamType::*;
    match kind {
        Kind::OpCall => Some(&[Compute, Host2Device, Device2Host, Ccl, PinnedCompute]),
        Kind::AccessBlobByCallback | Kind::SyncRead => Some(&[Compute, Device2Host, PinnedCompute]),
        Kind::Barrier | Kind::GlobalSync => Some(&[Barrier]),
        Kind::CriticalSectionBegin | Kind::CriticalSectionEnd => Some(&[CriticalSection]),
        Kind::LazyJobLauncher => Some(&[LazyJobLauncher]),
        Kind::AllocateTensor
        | Kind::ViewTensor
        | Kind::ReleaseTensor
        | Kind::TouchTensors
        | Kind::SoftSyncStream
        | Kind::RecordEvent
        | Kind::StreamWaitEvent
        | Kind::StreamWait
        | Kind::HostObserved => None,
    }
}

/// How an instruction uses an operand for which its line says `written`.
pub(crate) const fn access(kind: Kind, written: Access) -> Access {
    match kind {
        Kind::CriticalSectionBegin | Kind::CriticalSectionEnd => Access::ReadWrite,
        // What these do is fixed; a line that says more is taken at its word, as it orders more.
        Kind::TouchTensors | Kind::SyncRead if !written.writes() => Access::Read,
        _ => written,
    }
}
