//! What the thread does about ranks that are lost.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millstream_backoff::Backoff;
use millstream_types::DType;

use crate::buffer::{Buffer, Elements};
use crate::error::CommError;
use crate::mpi::control::{Control, brief};
use crate::mpi::library::{Comm, Library, Operation};
use crate::mpi::presence::Address;

use super::{POLLS, Progress};

/// How long the last messages may take after a failure.
const LAST: Duration = Duration::from_millis(500);

impl Progress {
    /// Sends a heartbeat when it is time, and looks for lost ranks.
    pub(super) fn look_for_lost_ranks(&mut self) {
        if self.ranks == 1 || self.is_over {
            return;
        }
        if self.presence.is_due() {
            let rank = self.rank;
            let others = if rank == 0 { 1..self.ranks } else { 0..1 };
            others.for_each(|to| self.tell(to, Control::Heartbeat { rank }));
        }
        if let Some((lost, message)) = self.presence.look(self.longest_pause(), false) {
            self.fail_by_loss(lost, message);
        }
    }

    pub(super) fn longest_pause(&self) -> Duration {
        // Relaxed: a setting, not a message.
        Duration::from_millis(self.counters.longest_pause.load(Ordering::Relaxed))
    }

    /// Fails all calls, on all ranks, because one of them is lost.
    pub(super) fn fail_by_loss(&mut self, lost: usize, message: String) {
        let error = CommError::new(message);
        if self.rank == 0 {
            let others = (1..self.ranks).filter(|other| *other != lost);
            let error = brief(&error);
            others.for_each(|to| self.tell(to, Control::Lost { error: error.clone() }));
        }
        let outgoing = std::mem::take(&mut self.outgoing);
        self.fail(&error);
        self.outgoing = outgoing;
    }

    /// Fails all calls, now and later, and ends the thread: the library has failed.
    pub(super) fn fail(&mut self, error: &CommError) {
        self.is_over = true;
        (self.incoming, self.outgoing) = (None, Vec::new());
        self.failed.get_or_insert_with(|| error.clone());
        let error = self.counters.failure.get_or_init(|| error.clone());
        let error = &error.clone();
        for (_, (_, completer)) in std::mem::take(&mut self.waiting) {
            self.complete(completer, Err(error.clone()));
        }
        for (_, completer) in std::mem::take(&mut self.exchanges) {
            self.complete(completer, Err(error.clone()));
        }
    }

    /// Gives the last messages a moment to get away.
    pub(super) fn send_last(&mut self) {
        let (begun, mut backoff) = (Instant::now(), Backoff::yielding(POLLS.1));
        while begun.elapsed() < LAST && !self.outgoing.is_empty() {
            self.outgoing.retain_mut(|message| matches!(message.test(), Ok(None)));
            backoff.snooze();
        }
    }
}

/// Returns the addresses of all processes. Blocks until all have given theirs.
pub(super) fn addresses(library: &mut dyn Library, comm: Comm) -> Result<Vec<Address>, CommError> {
    let mut own = Buffer::zeros(Elements { dtype: DType::U8, numel: Address::BYTES })?;
    own.bytes_mut().copy_from_slice(&Address::own().bytes());
    let counts = vec![Address::BYTES; library.ranks()];
    let all = Elements { dtype: DType::U8, numel: counts.iter().sum() };
    let operation = Operation::AllGather { counts };
    let mut started = library.start(comm, &operation, own, Buffer::zeros(all)?)?;
    let mut backoff = Backoff::yielding(POLLS.0);
    loop {
        if let Some(all) = started.test()? {
            return Ok(all.bytes().chunks_exact(Address::BYTES).map(Address::of).collect());
        }
        backoff.snooze();
    }
}
