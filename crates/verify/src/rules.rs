//! The verifier's reading of an instruction: the streams that it names, and how it uses operands.
//!
//! Facts, such as which fields are points, which streams run a kind, and what it does to operands
//! whatever they say, come from the master table. The builder states accesses without that fact, so
//! a mistake of the builder's is found here.

use smallvec::SmallVec;

use millstream_instructions::{Accesses, Body, Class, Id, Kind};
use millstream_types::{Access, StreamId};

/// Returns the streams that an instruction names, annotations aside.
pub(crate) fn streams(body: &Body) -> SmallVec<[StreamId; 4]> {
    let mut streams = SmallVec::new();
    if body.class() == Class::Annotates {
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
    match kind.accesses() {
        Accesses::Holds => Access::ReadWrite,
        // A line that says more is taken at its word, as it orders more.
        Accesses::Reads if !written.writes() => Access::Read,
        Accesses::Reads | Accesses::Stated | Accesses::Nothing => written,
    }
}
