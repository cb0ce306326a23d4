//! Ranks that take turns, and communicators that hand the turn on.
//!
//! # Rules
//! 1. One rank's thread runs at a time. It hands the turn on within calls of its communicator
//!    alone, the only ones by which ranks see each other. So the seed chooses every order that
//!    ranks can observe, and the same seed chooses the same one.
//! 2. An outcome is late: the seed chooses when a rank gets it, amid the turns of all ranks.
//! 3. If no rank can run and no outcome is late, the ranks are stuck. Then they get their turns
//!    without deliveries, and each finds that nothing can move.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use millstream_comm::request::{Completer, request};
use millstream_comm::{
    Call, Collective, CommError, Communicator, LocalCommunicator, LocalGroup, Outcome, Request,
    Slot,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// What goes wrong on a rank, at which of its calls or steps, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) rank: usize,
    pub(super) at: u64,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The rank communicates no more, from this call on.
    Lost,
    /// The call fails on this rank.
    Fails,
    /// The rank's statements are cancelled before this step.
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    /// Waits for more than so many deliveries.
    Waiting(u64),
    Ended,
}

struct Member {
    status: Status,
    /// How often the rank is chosen, compared with the others: a slow one seldom.
    weight: u32,
    deliveries: u64,
    pending: usize,
    calls: u64,
    is_lost: bool,
}

/// An outcome that its rank has not got.
struct Late {
    rank: usize,
    call: u64,
    completer: Completer,
    outcome: Outcome,
}

struct State {
    rng: ChaCha8Rng,
    running: Option<usize>,
    members: Vec<Member>,
    late: Vec<Late>,
    late_weight: u32,
    fault: Option<Fault>,
    steps: u64,
    log: blake3::Hasher,
    is_stuck: bool,
}

/// Where the ranks of a program take turns.
pub(super) struct Turns {
    state: Mutex<State>,
    turn: Condvar,
}

/// What was seen of the turns.
pub(super) struct Seen {
    /// The number of turns and deliveries, and the hash of their order.
    pub(super) steps: u64,
    pub(super) hash: String,
    /// The calls of each rank.
    pub(super) calls: Vec<u64>,
}

impl Turns {
    /// Returns the communicators of so many ranks, whose turns the seed chooses.
    pub(super) fn communicators(
        ranks: usize,
        seed: u64,
        fault: Option<Fault>,
    ) -> (Arc<Turns>, Vec<Arc<SteppedCommunicator>>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // Differs from the generator streams of the ranks' own schedules and of faults.
        rng.set_stream(3);
        let mut weight = || [1, 4, 16][rng.next_u32() as usize % 3];
        let member = |weight| Member {
            status: Status::Ready,
            weight,
            deliveries: 0,
            pending: 0,
            calls: 0,
            is_lost: false,
        };
        let members = (0..ranks).map(|_| member(weight())).collect();
        let late_weight = weight();
        let state = State {
            rng,
            running: None,
            members,
            late: Vec::new(),
            late_weight,
            fault,
            steps: 0,
            log: blake3::Hasher::new(),
            is_stuck: false,
        };
        let turns = Arc::new(Turns { state: Mutex::new(state), turn: Condvar::new() });
        let group = LocalGroup::communicators(ranks).into_iter().enumerate();
        let own =
            |(rank, inner)| Arc::new(SteppedCommunicator { turns: turns.clone(), rank, inner });
        let communicators = group.map(own).collect();
        (turns, communicators)
    }

    /// Gives the first rank its turn.
    pub(super) fn begin(&self) {
        self.choose();
    }

    /// Returns what happened.
    pub(super) fn seen(&self) -> Seen {
        let state = self.lock();
        Seen {
            steps: state.steps,
            hash: state.log.finalize().to_hex().to_string(),
            calls: state.members.iter().map(|member| member.calls).collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers late outcomes, as the seed chooses, and gives a rank its turn.
    fn choose(&self) {
        loop {
            let Some(Late { rank, completer, outcome, .. }) = self.lock().next() else { break };
            // No lock is held: the function of a request may take a while.
            completer.complete(outcome);
            let mut state = self.lock();
            let member = &mut state.members[rank];
            member.deliveries += 1;
            member.pending -= 1;
            if let Status::Waiting(seen) = member.status
                && member.deliveries > seen
            {
                member.status = Status::Ready;
            }
        }
        self.turn.notify_all();
    }

    /// Hands the turn on and waits for the next one, unless the rank has ended.
    fn hand_on(&self, rank: usize, status: Status) {
        self.lock().members[rank].status = status;
        self.choose();
        if status != Status::Ended {
            self.await_turn(rank);
        }
    }

    fn await_turn(&self, rank: usize) {
        let mut state = self.lock();
        while state.running != Some(rank) {
            state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    /// Chooses the next rank, which then runs, or returns the outcome that is delivered first.
    fn next(&mut self) -> Option<Late> {
        // The order in which outcomes become late may differ from run to run; their set does not.
        self.late.sort_by_key(|late| (late.rank, late.call));
        let weight = |member: &Member| match member.status {
            Status::Ready => member.weight,
            Status::Waiting(_) | Status::Ended => 0,
        };
        let mut ranks: Vec<u32> = self.members.iter().map(weight).collect();
        let mut of_ranks: u32 = ranks.iter().sum();
        if of_ranks == 0 && self.late.is_empty() {
            self.is_stuck = true;
            for member in &mut self.members {
                if let Status::Waiting(_) = member.status {
                    member.status = Status::Ready;
                }
            }
            ranks = self.members.iter().map(weight).collect();
            of_ranks = ranks.iter().sum();
        }
        let of_late = if self.late.is_empty() { 0 } else { self.late_weight };
        if of_ranks + of_late == 0 {
            self.running = None;
            return None;
        }
        self.steps += 1;
        let mut at = self.rng.next_u32() % (of_ranks + of_late);
        for (rank, weight) in ranks.into_iter().enumerate() {
            if at < weight {
                self.log.update(format!("turn {rank}\n").as_bytes());
                self.running = Some(rank);
                return None;
            }
            at -= weight;
        }
        let chosen = self.rng.next_u32() as usize % self.late.len();
        let late = self.late.remove(chosen);
        self.log.update(format!("delivery {} {}\n", late.rank, late.call).as_bytes());
        Some(late)
    }
}

/// A rank's connection to the others, which hands the turn on.
pub(super) struct SteppedCommunicator {
    turns: Arc<Turns>,
    rank: usize,
    inner: LocalCommunicator,
}

impl SteppedCommunicator {
    /// Waits for the rank's first turn.
    pub(super) fn enter(&self) {
        self.turns.await_turn(self.rank);
    }

    /// Ends the rank's part.
    pub(super) fn leave(&self) {
        self.inner.leave();
        self.turns.hand_on(self.rank, Status::Ended);
    }

    /// Counts a call. Returns why it is not made, if the rank is lost or the call fails.
    fn count(&self, slot: &Slot, op: &str) -> Result<u64, CommError> {
        let (fault, call, was_lost) = {
            let mut state = self.turns.lock();
            let fault = state.fault;
            let member = &mut state.members[self.rank];
            member.calls += 1;
            (fault, member.calls, member.is_lost)
        };
        let lost = || CommError::new(format!("rank {} is lost", self.rank));
        let fault = fault.filter(|fault| (fault.rank, fault.at) == (self.rank, call));
        match fault.map(|fault| fault.kind) {
            _ if was_lost => Err(lost()),
            Some(Kind::Lost) => {
                self.turns.lock().members[self.rank].is_lost = true;
                self.inner.leave();
                Err(lost())
            }
            Some(Kind::Fails) => {
                self.inner.skip(slot.clone(), op, "the network has failed");
                let rank = self.rank;
                Err(CommError::new(format!("rank {rank}: the network has failed in {op}")))
            }
            Some(Kind::Cancelled) | None => Ok(call),
        }
    }
}

impl Communicator for SteppedCommunicator {
    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.inner.ranks()
    }

    fn start(&self, call: Call) -> Request {
        let number = match self.count(&call.slot, call.op) {
            Ok(number) => number,
            Err(error) => return Request::completed(Err(error)),
        };
        if matches!(call.collective, Collective::Send) {
            let sent = self.inner.start(call);
            self.turns.hand_on(self.rank, Status::Ready);
            return sent;
        }
        self.turns.lock().members[self.rank].pending += 1;
        let (own, completer) = request();
        let (turns, rank) = (self.turns.clone(), self.rank);
        self.inner.start(call).then(move |outcome| {
            turns.lock().late.push(Late { rank, call: number, completer, outcome });
        });
        self.turns.hand_on(self.rank, Status::Ready);
        own
    }

    fn skip(&self, slot: Slot, op: &str, cause: &str) {
        if self.count(&slot, op).is_ok() {
            self.inner.skip(slot, op, cause);
            self.turns.hand_on(self.rank, Status::Ready);
        }
    }

    fn abort(&self, cause: &str) {
        self.inner.abort(cause);
    }

    fn error(&self) -> Option<CommError> {
        self.inner.error()
    }

    fn deliveries(&self) -> Option<u64> {
        Some(self.turns.lock().members[self.rank].deliveries)
    }

    fn report_stall(&self, deliveries: u64) {
        self.inner.report_stall(deliveries);
    }

    fn wait_for_delivery(&self, deliveries: u64) -> bool {
        {
            let state = self.turns.lock();
            let member = &state.members[self.rank];
            if member.deliveries > deliveries || member.pending == 0 || state.is_stuck {
                return member.deliveries > deliveries;
            }
        }
        self.turns.hand_on(self.rank, Status::Waiting(deliveries));
        self.turns.lock().members[self.rank].deliveries > deliveries
    }
}
