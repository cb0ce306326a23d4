//! Small collectives, which rank 0 combines: their elements travel with the messages by which the
//! ranks match their calls, so nothing else is sent.
//!
//! # Rules
//! 1. A rank adds the elements that it gives to its `Start` if they are few and the call is
//!    compared. It keeps them, too.
//! 2. Rank 0 alone decides. It combines a matched call if every rank has added its elements, which
//!    for a collective of a group takes rank 0 to be in the group: its own call says what is
//!    called. Else it tells all ranks to exchange their data. So no two ranks can decide
//!    differently, whatever limits they have.
//! 3. The elements are combined by the same function as in one process.
//! 4. What fails a call, such as a rank that skips it, is decided before, by the matching of calls.

use crate::buffer::Buffer;
use crate::call::{Call, Collective};
use crate::combine::combine;
use crate::error::CommError;
use crate::matching::Place;

use super::control::Data;

/// The most bytes that a rank adds to its message.
const MOST_GIVEN: usize = 8 << 10;

/// The most bytes that a rank gets in a message.
const MOST_RECEIVED: usize = 32 << 10;

/// The most tensors of a message.
const MOST_TENSORS: usize = 64;

/// A rank's call as rank 0 knows it: the rank's number for it, and the elements that came along.
pub(super) type Posted = (u64, Option<Data>);

fn bytes(buffers: &[Buffer]) -> usize {
    buffers.iter().map(|buffer| buffer.bytes().len()).sum()
}

/// Returns the elements that a call adds to its message, if it does.
pub(super) fn given(call: &Call, compared: bool) -> Option<Data> {
    let is_combined = match call.collective {
        Collective::AllReduce(_)
        | Collective::Reduce { .. }
        | Collective::Broadcast { .. }
        | Collective::AllGather { .. }
        | Collective::ReduceScatter { .. }
        | Collective::Gather { .. }
        | Collective::Scatter { .. }
        | Collective::Send
        | Collective::Receive => true,
        // Each rank's counts are its own. A barrier has no elements to combine.
        Collective::AllToAll { .. } | Collective::Barrier | Collective::Meeting(_) => false,
    };
    let is_small = call.given.len() <= MOST_TENSORS && bytes(&call.given) <= MOST_GIVEN;
    (compared && is_combined && is_small).then(|| Data(call.given.clone()))
}

/// Returns what each rank of a matched call gets, in the order of the place, if rank 0 can combine
/// it. `own` is the call of rank 0 by its number.
pub(super) fn results<'a>(
    place: &Place,
    calls: &[(usize, Posted)],
    own: impl Fn(u64) -> Option<&'a Call>,
) -> Option<Result<Vec<Vec<Buffer>>, CommError>> {
    let given: Option<Vec<Vec<Buffer>>> = calls
        .iter()
        .map(|(_, (_, given))| given.as_ref().map(|Data(buffers)| buffers.clone()))
        .collect();
    let mut given = given?;
    let results = match place {
        // The sender comes first.
        Place::Message { .. } => {
            given.rotate_left(1);
            Ok(given)
        }
        Place::Barrier(_) => return None,
        Place::Collective(..) => {
            let (_, (number, _)) = calls.iter().find(|(rank, _)| *rank == 0)?;
            let own = own(*number)?;
            let of_rank = |given| Call { given, ..own.clone() };
            combine(&given.into_iter().map(of_rank).collect::<Vec<_>>())
        }
    };
    let fits = |results: &Vec<Vec<Buffer>>| {
        results
            .iter()
            .all(|received| received.len() <= MOST_TENSORS && bytes(received) <= MOST_RECEIVED)
    };
    match results {
        Ok(results) if !fits(&results) => None,
        results => Some(results),
    }
}
