//! The library's own collectives, which measurements compare with. They block, and reduce floats in
//! an order of the library's own.

use std::ffi::c_int;

use super::functions::Handle;
use super::loaded::{Loaded, check, count};
use super::{BareCollective, WORLD};
use crate::buffer::Buffer;
use crate::error::CommError;

/// Calls the library once.
///
/// # Errors
/// The library fails, or the buffers do not fit the collective.
pub(super) fn call<H: Handle>(
    library: &Loaded<H>,
    collective: BareCollective,
    given: &Buffer,
    received: &mut Buffer,
) -> Result<(), CommError> {
    let Loaded { functions: f, abi, comms, rank, ranks, .. } = library;
    let (comm, float, sum) = (comms[WORLD.0], abi.float, abi.sum);
    let (own, other) = (given.numel(), received.numel());
    let fits = match collective {
        BareCollective::Barrier => true,
        BareCollective::AllReduce
        | BareCollective::Reduce
        | BareCollective::Broadcast
        | BareCollective::AllToAll
        | BareCollective::SendReceive => own == other,
        BareCollective::AllGather | BareCollective::Gather => own * ranks == other,
        BareCollective::ReduceScatter | BareCollective::Scatter => own == other * ranks,
    };
    let is_float = [given, &*received].iter().all(|b| b.dtype() == millstream_types::DType::F32);
    if !fits || !is_float || !own.is_multiple_of(*ranks) && collective == BareCollective::AllToAll {
        return Err(CommError::new(format!(
            "{collective:?} of {ranks} ranks: {given:?} and {received:?} do not fit"
        )));
    }
    let (own_count, other_count, part) = (count(own)?, count(other)?, count(own / ranks)?);
    let (next, before): (c_int, c_int) =
        (count((rank + 1) % ranks)?, count((rank + ranks - 1) % ranks)?);
    let from = given.bytes().as_ptr().cast();
    let to = received.bytes_mut().as_mut_ptr().cast();
    // SAFETY: handles of this library; the buffers have as many floats as the counts say, which was
    // checked above, and live until the calls return.
    let code = unsafe {
        match collective {
            BareCollective::Barrier => (f.barrier)(comm),
            BareCollective::AllReduce => (f.allreduce)(from, to, own_count, float, sum, comm),
            BareCollective::Reduce => (f.reduce)(from, to, own_count, float, sum, 0, comm),
            BareCollective::Broadcast => (f.bcast)(to, other_count, float, 0, comm),
            BareCollective::AllGather => {
                (f.allgather)(from, own_count, float, to, own_count, float, comm)
            }
            BareCollective::ReduceScatter => {
                (f.reduce_scatter_block)(from, to, other_count, float, sum, comm)
            }
            BareCollective::AllToAll => (f.alltoall)(from, part, float, to, part, float, comm),
            BareCollective::Gather => {
                (f.gather)(from, own_count, float, to, own_count, float, 0, comm)
            }
            BareCollective::Scatter => {
                (f.scatter)(from, other_count, float, to, other_count, float, 0, comm)
            }
            BareCollective::SendReceive => (f.sendrecv)(
                from,
                own_count,
                float,
                next,
                1,
                to,
                other_count,
                float,
                before,
                1,
                comm,
                abi.status_ignore,
            ),
        }
    };
    check(f, "a measured collective", code)
}
