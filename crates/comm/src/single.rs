//! The communicator of a program of one rank.

use crate::call::{Call, Slot};
use crate::combine::combine;
use crate::communicator::Communicator;
use crate::error::CommError;
use crate::request::Request;

/// The communicator of a program of one rank: every call completes at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleRank;

impl Communicator for SingleRank {
    fn kind(&self) -> &'static str {
        "single"
    }

    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn start(&self, call: Call) -> Request {
        let outcomes = combine(std::slice::from_ref(&call));
        Request::completed(outcomes.map(|mut of_ranks| of_ranks.pop().unwrap_or_default()))
    }

    fn skip(&self, _: Slot, _: &str, _: &str) {}

    fn abort(&self, _: &str) {}

    fn error(&self) -> Option<CommError> {
        None
    }
}
