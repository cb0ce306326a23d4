//! The verifier's reading of an instruction: the streams that it names, and how it uses operands.
//!
//! Facts, such as which fields are points and which streams run a kind, come from the master table.
//! Judgements, such as what a kind does to its operands, are made here, so that a mistake of the
//! builder's is found.

use smallvec::SmallVec;

use millstream_instructions::{Body, Effect, Id, Kind};
use millstream_types::{Access, StreamId};

/// Returns the streams that an instruction names, annotations aside.
pub(crate) fn streams(body: &Body) -> SmallVec<[StreamId; 4]> {
    let mut streams = SmallVec::new();
    if body.effect() == Effect::Annotates {
        return streams;
    }
    body.visit_ids(&mut |id, _| match id {
        Id::Stream(stream) => streams.push(stream),
        Id::Point(point) => streams.push(point.stream),
        Id::Tensor(_)
        | Id::Event(_)
        | Id::Arena(_)
        | Id::Op(_)
        | Id::List(_)
        | Id::Read(_)
        | Id::Callback(_) => {}
    });
    streams
}

/// Returns how an instruction uses an operand for which its line says `written`.
pub(crate) const fn access(kind: Kind, written: Access) -> Access {
    match kind {
        Kind::CriticalSectionBegin | Kind::CriticalSectionEnd => Access::ReadWrite,
        // What these do is fixed; a line that says more is taken at its word, as it orders more.
        Kind::TouchTensors | Kind::SyncRead if !written.writes() => Access::Read,
        Kind::TouchTensors
        | Kind::SyncRead
        | Kind::OpCall
        | Kind::AccessBlobByCallback
        | Kind::LazyJobLauncher => written,
        // They have no operands.
        Kind::AllocateTensor
        | Kind::ViewTensor
        | Kind::ReleaseTensor
        | Kind::SoftSyncStream
        | Kind::RecordEvent
        | Kind::StreamWaitEvent
        | Kind::StreamWait
        | Kind::Barrier
        | Kind::GlobalSync
        | Kind::HostObserved => written,
    }
}
