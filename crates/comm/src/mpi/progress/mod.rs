//! The thread that makes all calls of the library: it passes messages on, matches calls on rank 0,
//! and polls the operations.
//!
//! # Rules
//! 1. A call's data is exchanged only once rank 0 has said that all ranks have made the call. So no
//!    operation of the library waits for a rank that will not come, and the ranks' mistakes are
//!    found before data moves. A small call has no exchange: rank 0 combines it (`small`).
//! 2. Rank 0's messages reach each rank in the order of its decisions. So all ranks start the
//!    operations of a communicator, and create communicators, in one order.
//! 3. The thread ends once all ranks have left. Until then it serves the calls of the others.
//! 4. A rank that is lost ends the work of all: nothing can be expected of an
//!    operation in which it takes part, and MPI does not say which these are.
//! 5. While operations are under way, or calls wait for rank 0's decision, the thread polls and
//!    yields; for a moment also after them, as the next call often follows. Then, and as long as
//!    yields are long (`millstream_backoff`), it sleeps in short and growing steps, up to a
//!    millisecond. A command wakes it; no message of MPI can.
//! 6. A stall of the rank's machine is reported after some polls: most calls that a machine waits
//!    for complete earlier, and then nothing is sent.

mod loss;
mod messages;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};

use millstream_backoff::Backoff;
use millstream_ops::collective::{Channel, ProcessGroup};

use crate::buffer::Buffer;
use crate::call::Call;
use crate::error::CommError;
use crate::matching::{Matching, Notice};
use crate::request::{Completer, Outcome};

use crate::mpi::command::{Command, Counters};
use crate::mpi::control::{Control, WireSlot, brief};
use crate::mpi::exchange::Exchange;
use crate::mpi::library::{Comm, Library, Started};
use crate::mpi::presence::Presence;
use crate::mpi::small::{self, Posted};

/// How often the thread polls in vain before it sleeps, while something is under way and after it.
const POLLS: (u32, u32) = (2000, 100);

/// A call that waits for the decision of rank 0.
type Waiting = (Call, Option<Completer>);

pub(in crate::mpi) struct Progress {
    library: Box<dyn Library>,
    commands: Receiver<Command>,
    counters: Arc<Counters>,
    rank: usize,
    ranks: usize,
    /// The calls of all ranks, on rank 0: each with its rank's number for it.
    matching: Option<Matching<Posted>>,
    /// Messages of this rank to itself.
    own: VecDeque<Control>,
    /// The receipt of the next message.
    incoming: Option<Box<dyn Started>>,
    /// The buffer of the last message, for the next one.
    spare: Option<Buffer>,
    /// Messages on their way.
    outgoing: Vec<Box<dyn Started>>,
    waiting: HashMap<u64, Waiting>,
    next_call: u64,
    exchanges: Vec<(Exchange, Option<Completer>)>,
    /// The communicators of each group.
    groups: HashMap<ProcessGroup, [Comm; 2]>,
    /// The communicator of messages and of all ranks' barriers.
    data: Comm,
    presence: Presence,
    /// The stall that the rank's machine has reported and rank 0 does not know.
    stall: Option<u64>,
    has_left: bool,
    is_over: bool,
    failed: Option<CommError>,
}

impl Progress {
    /// # Errors
    /// The library refuses.
    pub(in crate::mpi) fn new(
        mut library: Box<dyn Library>,
        commands: Receiver<Command>,
        counters: Arc<Counters>,
    ) -> Result<Progress, CommError> {
        let (rank, ranks) = (library.rank(), library.ranks());
        let all: Vec<usize> = (0..ranks).collect();
        let data = library.create(&all)?;
        let group = [library.create(&all)?, library.create(&all)?];
        let presence = Presence::new(rank, loss::addresses(&mut *library, data)?);
        Ok(Progress {
            library,
            commands,
            counters,
            rank,
            ranks,
            matching: (rank == 0).then(|| Matching::new(ranks)),
            own: VecDeque::new(),
            incoming: None,
            spare: None,
            outgoing: Vec::new(),
            waiting: HashMap::new(),
            next_call: 0,
            exchanges: Vec::new(),
            groups: HashMap::from([(ProcessGroup::all(ranks), group)]),
            data,
            presence,
            stall: None,
            has_left: false,
            is_over: false,
            failed: None,
        })
    }

    /// Runs until all ranks have left, then ends the use of the library.
    pub(in crate::mpi) fn run(mut self) {
        // A check costs as much as pauses would.
        let (mut backoff, mut has_napped) = (Backoff::yielding(POLLS.0), false);
        while !self.is_finished() {
            if self.step() {
                backoff.restart(POLLS.0);
                has_napped = false;
                continue;
            }
            let is_long = has_napped || backoff.checks() >= POLLS.1;
            if is_long && self.report_stall() {
                continue;
            }
            let is_awaited = !self.exchanges.is_empty() || !self.waiting.is_empty();
            if (is_awaited || !is_long) && backoff.spin() {
                continue;
            }
            match self.commands.recv_timeout(backoff.next_nap()) {
                Ok(command) => {
                    self.take(command);
                    backoff.restart(POLLS.0);
                    has_napped = false;
                }
                Err(RecvTimeoutError::Timeout) => has_napped = true,
                // The rank's machine is gone without a word.
                Err(RecvTimeoutError::Disconnected) => self.leave(),
            }
        }
        // After a failure the other processes may not get to the end.
        match self.failed {
            None => self.library.finalize(),
            Some(_) => self.send_last(),
        }
        while let Ok(command) = self.commands.try_recv() {
            self.take(command);
        }
    }

    fn is_finished(&self) -> bool {
        let is_quiet = self.outgoing.is_empty() && self.incoming.is_none();
        // After a failure what is under way may never end.
        self.failed.is_some() || (self.is_over && is_quiet && self.exchanges.is_empty())
    }

    /// Does what can be done at once. Returns whether there was anything.
    fn step(&mut self) -> bool {
        let mut moved = false;
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.take(command),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.leave();
                    break;
                }
            }
            moved = true;
        }
        match self.communicate() {
            Ok(received) => moved |= received | self.advance(),
            // The loss of a rank explains what the library reports.
            Err(error) => match self.presence.look(self.longest_pause(), true) {
                Some((lost, message)) => self.fail_by_loss(lost, message),
                None => self.fail(&error),
            },
        }
        self.look_for_lost_ranks();
        moved
    }

    /// Takes a command of the rank's machine.
    fn take(&mut self, command: Command) {
        let rank = self.rank;
        match command {
            Command::Start { call, completer, compared } => {
                if let Some(error) = self.failed.clone() {
                    self.complete(completer, Err(error));
                    return;
                }
                self.stall = None;
                let (number, slot) = (self.next_call, WireSlot::of(&call.slot));
                self.next_call += 1;
                let notice = Notice::of(&call, compared);
                let given = small::given(&call, compared);
                self.waiting.insert(number, (*call, completer));
                self.tell(0, Control::Start { rank, slot, call: number, notice, given });
            }
            Command::Skip(slot, error) => {
                let (slot, error) = (WireSlot::of(&slot), brief(&error));
                self.tell(0, Control::Skip { rank, slot, error });
            }
            Command::Abort(error) => self.tell(0, Control::Abort { error: brief(&error) }),
            Command::Stall(resolved) => self.stall = Some(resolved),
            Command::EndProgram(epoch) => self.tell(0, Control::Leave { rank, epoch }),
            Command::Leave => self.leave(),
        }
    }

    /// Reports the stall of the rank's machine, unless a call has been resolved since. Returns
    /// whether it has.
    fn report_stall(&mut self) -> bool {
        let Some(resolved) = self.stall.take() else { return false };
        // SeqCst: as in `complete`.
        let is_stalled = self.counters.deliveries.load(Ordering::SeqCst) == resolved;
        if is_stalled {
            self.tell(0, Control::Stall { rank: self.rank, resolved });
        }
        is_stalled
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.has_left, true) {
            // Rank 0 may not know the cause yet. Without it, this rank would be the lost one there.
            if let Some(error) = self.failed.as_ref().filter(|_| self.rank != 0) {
                let error = brief(error);
                self.tell(0, Control::Abort { error });
            }
            self.tell(0, Control::Leave { rank: self.rank, epoch: u64::MAX });
        }
    }

    /// Starts the exchange of a call's data.
    fn exchange(&mut self, call: u64) -> Result<(), CommError> {
        let Some((call, completer)) = self.waiting.remove(&call) else { return Ok(()) };
        let (rank, ranks) = (self.rank, self.ranks);
        let started = match call.slot.channel.clone() {
            Channel::Barriers => {
                Exchange::start(&mut *self.library, call, [self.data; 2], (rank, ranks))
            }
            Channel::Send { to, .. } => {
                Exchange::message(&mut *self.library, call, self.data, (rank, to))
            }
            Channel::Receive { from, .. } => {
                Exchange::message(&mut *self.library, call, self.data, (from, rank))
            }
            Channel::Collectives(group) => {
                let comms = match self.groups.get(&group) {
                    Some(comms) => *comms,
                    None => {
                        let mut create = || self.library.create(group.ranks());
                        let comms = [create()?, create()?];
                        self.groups.insert(group.clone(), comms);
                        comms
                    }
                };
                let position = group.position(rank).unwrap_or_default();
                let at = (position, group.size());
                Exchange::start(&mut *self.library, call, comms, at)
            }
        };
        match started {
            Ok(exchange) => self.exchanges.push((exchange, completer)),
            Err(error) => {
                self.complete(completer, Err(error.clone()));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Polls the exchanges. Returns whether one has completed.
    fn advance(&mut self) -> bool {
        let mut moved = false;
        let mut under_way = Vec::with_capacity(self.exchanges.len());
        // The communicators on which an earlier call has not begun its second stage.
        let mut held: Vec<Comm> = Vec::new();
        for (mut exchange, completer) in std::mem::take(&mut self.exchanges) {
            let comm = exchange.comm();
            match exchange.advance(&mut *self.library, !held.contains(&comm)) {
                Ok(None) => {
                    if exchange.is_first_of_two() {
                        held.push(comm);
                    }
                    under_way.push((exchange, completer));
                }
                Ok(Some(received)) => {
                    self.complete(completer, Ok(received));
                    moved = true;
                }
                Err(error) => {
                    self.complete(completer, Err(error));
                    moved = true;
                }
            }
        }
        under_way.append(&mut self.exchanges);
        self.exchanges = under_way;
        moved
    }

    fn complete(&self, completer: Option<Completer>, outcome: Outcome) {
        let Some(completer) = completer else { return };
        completer.complete(outcome);
        // SeqCst: whoever sees the delivery sees what its function has done.
        self.counters.pending.fetch_sub(1, Ordering::SeqCst);
        self.counters.deliveries.fetch_add(1, Ordering::SeqCst);
    }
}
