//! A rank whose collectives complete at once, with what it gives: its program without
//! communication.

use millstream::comm::{Buffer, Call, Collective, CommError, Communicator, Request, Slot};

/// A rank of so many.
pub(super) struct Alone {
    pub(super) rank: usize,
    pub(super) ranks: usize,
}

impl Communicator for Alone {
    fn kind(&self) -> &'static str {
        "alone"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn start(&self, call: Call) -> Request {
        let outcome = match call.collective {
            // The tensors stay as they are.
            Collective::AllReduce(_) | Collective::Reduce { .. } => Ok(call.given),
            Collective::Barrier | Collective::Send => Ok(Vec::new()),
            _ => call.expected.iter().map(|elements| Buffer::zeros(*elements)).collect(),
        };
        Request::completed(outcome)
    }

    fn skip(&self, _: Slot, _: &str, _: &str) {}

    fn abort(&self, _: &str) {}

    fn error(&self) -> Option<CommError> {
        None
    }
}
