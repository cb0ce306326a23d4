//! The trait of communicators.

use crate::buffer::{Buffer, Elements};
use crate::call::{Call, Slot};
use crate::error::CommError;
#[cfg(feature = "nccl")]
use crate::nccl::NcclCommunicator;
use crate::request::Request;

/// One rank's connection to all ranks of its program.
///
/// Nothing here blocks, but [`Communicator::wait_for_delivery`].
pub trait Communicator: Send + Sync {
    /// Returns the name of the backend: `single`, `local`, `mpi`, `nccl`.
    fn kind(&self) -> &'static str;

    /// Returns this rank's number, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn ranks(&self) -> usize;

    /// Returns memory for elements that this rank is about to give, with any values.
    ///
    /// # Errors
    /// Memory is exhausted.
    fn buffer(&self, elements: Elements) -> Result<Buffer, CommError> {
        Buffer::zeros(elements)
    }

    /// Starts this rank's part of a collective. The request completes once all ranks of the channel
    /// have started or skipped the call of the same number; a send completes at once. The calls of
    /// one rank may be started in any order.
    ///
    /// The request fails if the ranks call different things, one of them skips the call, or ends,
    /// or all of them wait for one another.
    fn start(&self, call: Call) -> Request;

    /// Tells the other ranks that this one does not make a call, since its operands are invalid.
    /// Their requests fail with this cause. Does nothing if this rank has started the call.
    fn skip(&self, slot: Slot, op: &str, cause: &str);

    /// Fails all requests of all ranks, and all later ones, with this cause.
    fn abort(&self, cause: &str);

    /// Returns the error because of which no more requests can succeed, if there is one.
    fn error(&self) -> Option<CommError>;

    /// Returns the half that moves the data of NVIDIA devices by NCCL, if there is one.
    #[cfg(feature = "nccl")]
    fn nccl(&self) -> Option<&NcclCommunicator> {
        None
    }

    /// Returns whether collectives of devices of a kind run on their streams. Others need their
    /// operands in memory that the host reaches.
    fn reaches(&self, kind: &str) -> bool {
        let _ = kind;
        false
    }

    /// Decides whether later calls of this rank are compared with those of the other ranks, which
    /// they are by default. Of calls that are not, the data decides what happens.
    fn compare_calls(&self, compared: bool) {
        let _ = compared;
    }

    /// Returns how many outcomes this rank's requests were given so far; none if the communicator
    /// does not detect ranks that wait for one another.
    fn deliveries(&self) -> Option<u64> {
        None
    }

    /// Reports that nothing can run on this rank before one of its requests completes, seen after
    /// so many deliveries. Ignored if there were more since. If all ranks that could help have
    /// reported the same, the requests fail: they wait for one another.
    fn report_stall(&self, deliveries: u64) {
        let _ = deliveries;
    }

    /// Blocks until there were more than so many deliveries. Returns false at once if no request of
    /// this rank is pending.
    fn wait_for_delivery(&self, deliveries: u64) -> bool {
        let _ = deliveries;
        false
    }
}
