//! A rank's connection that notes what its machine asks of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use millstream::comm::{Call, CommError, Communicator, LocalCommunicator, Request, Slot};

/// A rank of threads that notes its collectives, and how often its machine has looked for a stall.
pub struct ObservedRank {
    rank: LocalCommunicator,
    calls: Mutex<Vec<String>>,
    looks: AtomicU64,
}

impl ObservedRank {
    /// Observes a rank.
    pub fn new(rank: LocalCommunicator) -> ObservedRank {
        ObservedRank { rank, calls: Mutex::default(), looks: AtomicU64::new(0) }
    }

    /// Returns the kinds of the collectives since the last call, in the order of their starts.
    pub fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns how often the machine has looked for a stall.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::SeqCst)
    }
}

/// Returns the name of a collective.
fn kind(call: &Call) -> String {
    let all = format!("{:?}", call.collective);
    all.split([' ', '(']).next().unwrap_or_default().to_owned()
}

impl Communicator for ObservedRank {
    fn kind(&self) -> &'static str {
        self.rank.kind()
    }

    fn rank(&self) -> usize {
        self.rank.rank()
    }

    fn ranks(&self) -> usize {
        self.rank.ranks()
    }

    fn start(&self, call: Call) -> Request {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(kind(&call));
        self.rank.start(call)
    }

    fn skip(&self, slot: Slot, op: &str, cause: &str) {
        self.rank.skip(slot, op, cause);
    }

    fn abort(&self, cause: &str) {
        self.rank.abort(cause);
    }

    fn error(&self) -> Option<CommError> {
        self.rank.error()
    }

    fn compare_calls(&self, compared: bool) {
        self.rank.compare_calls(compared);
    }

    fn deliveries(&self) -> Option<u64> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.rank.deliveries()
    }

    fn report_stall(&self, deliveries: u64) {
        self.rank.report_stall(deliveries);
    }

    fn wait_for_delivery(&self, deliveries: u64) -> bool {
        self.rank.wait_for_delivery(deliveries)
    }
}
