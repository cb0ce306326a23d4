//! Ranks as threads of one process.
//!
//! The ranks share a table of their calls. The rank whose call completes a collective computes the
//! results of all ranks, in the order of the ranks, and completes their requests.
//!
//! # Rules
//! 1. One lock covers the table. Results are computed, and requests completed, without it.
//! 2. The table counts a request as resolved under the lock. It counts as delivered once its
//!    function has run. So a rank that reports a stall when everything resolved was delivered has
//!    nothing to run.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::buffer::Buffer;
use crate::call::{Call, Collective, Slot};
use crate::combine::combine;
use crate::communicator::Communicator;
use crate::error::CommError;
use crate::matching::{Event, Matching, Notice, Place};
use crate::request::{Completer, Outcome, Request, request};

/// A call, and its completer unless it is a send, which has completed.
type Started = (Call, Option<Completer>);

/// The ranks of a program in one process.
#[derive(Debug)]
pub struct LocalGroup {
    ranks: usize,
    state: Mutex<State>,
    delivered: Condvar,
}

#[derive(Debug)]
struct State {
    matching: Matching<Started>,
    /// For each rank how many outcomes its requests were given, without those of sends.
    deliveries: Vec<u64>,
}

impl LocalGroup {
    /// Creates a group of so many ranks and returns the communicator of each.
    pub fn communicators(ranks: usize) -> Vec<LocalCommunicator> {
        let state = State { matching: Matching::new(ranks), deliveries: vec![0; ranks] };
        let state = Mutex::new(state);
        let group = Arc::new(LocalGroup { ranks, state, delivered: Condvar::new() });
        let of_rank = |rank| {
            let (group, compares_calls) = (group.clone(), AtomicBool::new(true));
            LocalCommunicator { group, rank, compares_calls }
        };
        (0..ranks).map(of_rank).collect()
    }

    /// Runs a function on each of so many ranks, which are threads of their own, and returns the
    /// results in the order of the ranks.
    ///
    /// ```
    /// # use millstream_comm::{Communicator, LocalGroup};
    /// let ranks = LocalGroup::run(3, |communicator| Ok::<_, ()>(communicator.rank()));
    /// assert_eq!(ranks, Ok(vec![0, 1, 2]));
    /// ```
    ///
    /// # Errors
    /// The error of the first rank that returns one, once all have returned.
    ///
    /// # Panics
    /// The function panics on a rank.
    pub fn run<T: Send, E: Send>(
        ranks: usize,
        function: impl Fn(LocalCommunicator) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let function = &function;
        thread::scope(|scope| {
            let start = |communicator| scope.spawn(move || function(communicator));
            let threads: Vec<_> = LocalGroup::communicators(ranks).into_iter().map(start).collect();
            let results: Vec<Result<T, E>> = threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect();
            results.into_iter().collect()
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the table, then completes the requests that the change has resolved.
    fn change(&self, change: impl FnOnce(&mut Matching<Started>, &mut Vec<Event<Started>>)) {
        let mut events = Vec::new();
        change(&mut self.lock().matching, &mut events);
        for event in events {
            match event {
                Event::Failed { rank, payload: (_, completer), error } => {
                    self.deliver(rank, completer, Err(error));
                }
                Event::Matched { calls, meetings: Some(numbers), .. } => {
                    for ((rank, (_, completer)), number) in calls.into_iter().zip(numbers) {
                        self.deliver(rank, completer, Buffer::of_number(number).map(|b| vec![b]));
                    }
                }
                Event::Matched { place: Place::Message { .. }, mut calls, .. } => {
                    // The sender comes first.
                    let (to, (_, completer)) = calls.remove(1);
                    let (_, (sent, _)) = calls.remove(0);
                    self.deliver(to, completer, Ok(sent.given));
                }
                Event::Matched { calls, .. } => {
                    let (ranks, calls): (Vec<usize>, Vec<Started>) = calls.into_iter().unzip();
                    let (calls, completers): (Vec<Call>, Vec<_>) = calls.into_iter().unzip();
                    let outcomes = match combine(&calls) {
                        Ok(of_ranks) => of_ranks.into_iter().map(Ok).collect(),
                        Err(error) => vec![Err(error); ranks.len()],
                    };
                    let each = ranks.into_iter().zip(completers).zip(outcomes);
                    each.for_each(|((rank, to), outcome)| self.deliver(rank, to, outcome));
                }
            }
        }
    }

    fn deliver(&self, rank: usize, completer: Option<Completer>, outcome: Outcome) {
        /// Ends the delivery, also if the request's function panics.
        struct Delivery<'a>(&'a LocalGroup, usize);

        impl Drop for Delivery<'_> {
            fn drop(&mut self) {
                self.0.lock().deliveries[self.1] += 1;
                self.0.delivered.notify_all();
            }
        }

        let Some(completer) = completer else { return };
        let _delivery = Delivery(self, rank);
        completer.complete(outcome);
    }
}

/// A rank's connection to the others of its process. Dropping it makes the rank leave.
#[derive(Debug)]
pub struct LocalCommunicator {
    group: Arc<LocalGroup>,
    rank: usize,
    compares_calls: AtomicBool,
}

impl LocalCommunicator {
    /// Makes the rank leave: the calls that wait for it fail, as do its own.
    pub fn leave(&self) {
        self.group.change(|matching, events| matching.leave(self.rank, u64::MAX, events));
    }
}

impl Drop for LocalCommunicator {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Communicator for LocalCommunicator {
    fn kind(&self) -> &'static str {
        "local"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.group.ranks
    }

    fn start(&self, call: Call) -> Request {
        // Relaxed: a setting, not a message.
        let compared = self.compares_calls.load(Ordering::Relaxed);
        let (slot, notice) = (call.slot.clone(), Notice::of(&call, compared));
        let (request, completer) = match call.collective {
            Collective::Send => (Request::completed(Ok(Vec::new())), None),
            _ => {
                let (request, completer) = request();
                (request, Some(completer))
            }
        };
        self.group.change(|matching, events| {
            matching.start(self.rank, &slot, notice, (call, completer), events);
        });
        request
    }

    fn skip(&self, slot: Slot, op: &str, cause: &str) {
        let error = skipped(self.rank, op, cause);
        self.group.change(|matching, events| matching.skip(self.rank, &slot, error, events));
    }

    fn abort(&self, cause: &str) {
        let error = CommError::new(format!("rank {} has ended the program: {cause}", self.rank));
        self.group.change(|matching, events| matching.abort(error, events));
    }

    fn error(&self) -> Option<CommError> {
        self.group.lock().matching.aborted().cloned()
    }

    fn compare_calls(&self, compared: bool) {
        self.compares_calls.store(compared, Ordering::Relaxed);
    }

    fn deliveries(&self) -> Option<u64> {
        Some(self.group.lock().deliveries[self.rank])
    }

    fn report_stall(&self, deliveries: u64) {
        let report = |matching: &mut Matching<Started>, events: &mut Vec<Event<Started>>| {
            matching.report_stall(self.rank, deliveries, events);
        };
        self.group.change(report);
    }

    fn wait_for_delivery(&self, deliveries: u64) -> bool {
        let mut state = self.group.lock();
        loop {
            let (member, delivered) =
                (state.matching.member(self.rank), state.deliveries[self.rank]);
            if delivered > deliveries {
                return true;
            }
            if member.pending() == 0 && member.resolved() == delivered {
                return false;
            }
            state = self.group.delivered.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Returns the error of the others if a rank does not make a call.
pub(crate) fn skipped(rank: usize, op: &str, cause: &str) -> CommError {
    CommError::new(format!("rank {rank} has skipped {op}: {cause}"))
}
