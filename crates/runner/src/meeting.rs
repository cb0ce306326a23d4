//! Where the ranks of a program meet, all in one process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail, ensure};
use millstream_kernels::{Communicator, Message};
use millstream_vm::RankBarrier;

/// Where ranks meet. A rank that ends leaves; whoever waits for it then is told so.
#[derive(Debug)]
pub(crate) struct Meeting {
    ranks: usize,
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many have come to the synchronisation that is under way.
    arrived: usize,
    /// Counts the synchronisations that took place.
    synchronised: u64,
    /// The ranks that will not come again.
    gone: Vec<usize>,
    /// Exchanges that not all ranks have been to, by number.
    exchanges: HashMap<u64, Exchange>,
    /// For each rank the exchange that it came to last.
    reached: HashMap<usize, u64>,
    /// By sender, receiver and tag.
    mail: HashMap<(usize, usize, i64), VecDeque<Vec<Message>>>,
}

/// What ranks bring to a round. The first index is the sender's, the second the receiver's.
#[derive(Debug)]
struct Exchange {
    what: String,
    by: usize,
    brought: Vec<Option<Vec<Vec<Message>>>>,
    /// How many have taken what is theirs.
    served: usize,
}

impl Meeting {
    pub(crate) fn new(ranks: usize) -> Meeting {
        Meeting { ranks, state: Mutex::default(), change: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.change.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn leave(&self, rank: usize) {
        self.lock().gone.push(rank);
        self.change.notify_all();
    }

    fn synchronise(&self) -> Result<()> {
        let mut state = self.lock();
        let round = state.synchronised;
        state.arrived += 1;
        if state.arrived == self.ranks {
            state.arrived = 0;
            state.synchronised += 1;
            self.change.notify_all();
            return Ok(());
        }
        while state.synchronised == round {
            if let Some(rank) = state.gone.first().copied() {
                state.arrived -= 1;
                bail!("rank {rank} has ended and will not come to this meeting");
            }
            state = self.wait(state);
        }
        Ok(())
    }

    fn exchange(
        &self,
        rank: usize,
        round: u64,
        what: &str,
        parcels: Vec<Vec<Message>>,
    ) -> Result<Vec<Vec<Message>>> {
        ensure!(parcels.len() == self.ranks, "{} parcels for {} ranks", parcels.len(), self.ranks);
        let mut state = self.lock();
        let exchange = state.exchanges.entry(round).or_insert_with(|| Exchange {
            what: what.to_owned(),
            by: rank,
            brought: vec![None; self.ranks],
            served: 0,
        });
        // The first to come says what it is; what another means stays an error for all.
        let agreed = exchange.what == what;
        let other = (exchange.what.clone(), exchange.by);
        exchange.brought[rank] = Some(if agreed { parcels } else { Vec::new() });
        state.reached.insert(rank, round);
        self.change.notify_all();
        ensure!(agreed, "rank {rank} comes to {what}, and rank {} to {}", other.1, other.0);
        loop {
            let all =
                state.exchanges.get(&round).is_none_or(|e| e.brought.iter().all(Option::is_some));
            if all {
                break;
            }
            let came = |r: &usize| state.exchanges[&round].brought[*r].is_some();
            let missing: Vec<usize> = (0..self.ranks).filter(|r| !came(r)).collect();
            for missing in missing {
                ensure!(
                    !state.gone.contains(&missing),
                    "rank {missing} has ended, {what} lacks it"
                );
                let passed = state.reached.get(&missing).is_some_and(|at| *at > round);
                ensure!(!passed, "rank {missing} has skipped {what}");
            }
            state = self.wait(state);
        }
        let Some(exchange) = state.exchanges.get_mut(&round) else {
            bail!("{what} has taken place without rank {rank}");
        };
        let mut mine = Vec::with_capacity(self.ranks);
        for (from, brought) in exchange.brought.iter_mut().enumerate() {
            let parcel = brought.as_mut().and_then(|b| b.get_mut(rank)).map(std::mem::take);
            let Some(parcel) = parcel else {
                bail!("rank {from} came to something else than {what}")
            };
            mine.push(parcel);
        }
        exchange.served += 1;
        if exchange.served == self.ranks {
            state.exchanges.remove(&round);
        }
        Ok(mine)
    }
}

/// A rank's place at a meeting, which it leaves when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    meeting: Arc<Meeting>,
    rank: usize,
    /// The round that this rank came to last, and how many rounds earlier runs of the program had.
    last: Mutex<(Option<u64>, u64)>,
}

impl Seat {
    pub(crate) fn new(meeting: Arc<Meeting>, rank: usize) -> Seat {
        Seat { meeting, rank, last: Mutex::new((None, 0)) }
    }

    /// A number that counts on when the program runs again and its rounds begin anew.
    fn number(&self, round: u64) -> u64 {
        /// More rounds than a program has.
        const RUN: u64 = 1 << 32;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0.is_some_and(|before| round <= before) {
            last.1 += RUN;
        }
        last.0 = Some(round);
        last.1 + round
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.meeting.leave(self.rank);
    }
}

impl RankBarrier for Seat {
    fn wait(&self) -> Result<()> {
        self.meeting.synchronise()
    }
}

impl Communicator for Seat {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.meeting.ranks
    }

    fn exchange(
        &self,
        round: u64,
        what: &str,
        parcels: Vec<Vec<Message>>,
    ) -> Result<Vec<Vec<Message>>> {
        self.meeting.exchange(self.rank, self.number(round), what, parcels)
    }

    fn send(&self, to: usize, tag: i64, parcels: Vec<Message>) -> Result<()> {
        ensure!(to < self.meeting.ranks, "there is no rank {to} of {}", self.meeting.ranks);
        let mut state = self.meeting.lock();
        state.mail.entry((self.rank, to, tag)).or_default().push_back(parcels);
        drop(state);
        self.meeting.change.notify_all();
        Ok(())
    }

    fn recv(&self, from: usize, tag: i64) -> Result<Vec<Message>> {
        ensure!(from < self.meeting.ranks, "there is no rank {from} of {}", self.meeting.ranks);
        let mut state = self.meeting.lock();
        loop {
            let mail = state.mail.get_mut(&(from, self.rank, tag));
            if let Some(parcels) = mail.and_then(VecDeque::pop_front) {
                return Ok(parcels);
            }
            let ended = state.gone.contains(&from);
            ensure!(!ended, "rank {from} has ended and sent nothing more of tag {tag}");
            state = self.meeting.wait(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_types::DType;
    use std::thread;

    fn parcel(value: u64) -> Vec<Message> {
        vec![Message { dtype: DType::I64, numel: 1, words: Arc::new(vec![value]) }]
    }

    fn seats(count: usize) -> Vec<Seat> {
        let meeting = Arc::new(Meeting::new(count));
        (0..count).map(|rank| Seat::new(meeting.clone(), rank)).collect()
    }

    fn values(parcels: Vec<Vec<Message>>) -> Vec<u64> {
        parcels.iter().map(|p| p[0].words[0]).collect()
    }

    #[test]
    fn everyone_gets_what_is_meant_for_them_in_every_run() {
        let seats = seats(3);
        thread::scope(|scope| {
            for (rank, seat) in seats.iter().enumerate() {
                scope.spawn(move || {
                    for run in 0..50 {
                        for round in 0..4 {
                            let base = run * 1000 + round * 100 + rank as u64 * 10;
                            let mine = (0..3).map(|to| parcel(base + to)).collect();
                            let came = seat.exchange(round, "x", mine).unwrap();
                            let expected =
                                |from: u64| run * 1000 + round * 100 + from * 10 + rank as u64;
                            assert_eq!(values(came), (0..3).map(expected).collect::<Vec<_>>());
                        }
                    }
                });
            }
        });
        assert!(seats[0].meeting.lock().exchanges.is_empty());
    }

    #[test]
    fn a_rank_that_ends_skips_or_means_something_else_holds_nobody() {
        let mine = || vec![parcel(0), parcel(1)];
        let mut two = seats(2);
        drop(two.pop());
        let error = two[0].exchange(0, "x", mine()).unwrap_err().to_string();
        assert!(error.contains("rank 1 has ended"), "{error}");
        assert!(two[0].recv(1, 0).unwrap_err().to_string().contains("rank 1 has ended"));

        let two = seats(2);
        let errors: Vec<String> = thread::scope(|scope| {
            let run = |seat: &Seat, round, what: &str| {
                seat.exchange(round, what, mine()).unwrap_err().to_string()
            };
            let (zero, one) = (&two[0], &two[1]);
            let zero = scope.spawn(move || run(zero, 0, "x"));
            let one = scope.spawn(move || {
                let error = one.exchange(1, "x", mine());
                error.map(drop)
            });
            let first = zero.join().unwrap();
            // Rank 0 has given up on round 0; it comes to round 1.
            two[0].exchange(1, "x", mine()).unwrap();
            one.join().unwrap().unwrap();
            vec![first]
        });
        assert!(errors[0].contains("rank 1 has skipped x"), "{errors:?}");

        let two = seats(2);
        thread::scope(|scope| {
            for (seat, what) in two.iter().zip(["sum", "product"]) {
                scope.spawn(move || {
                    let error = seat.exchange(0, what, mine()).unwrap_err().to_string();
                    assert!(error.contains("sum") || error.contains("product"), "{error}");
                });
            }
        });
    }

    #[test]
    fn mail_of_one_tag_comes_in_its_order() {
        let seats = seats(2);
        for (tag, value) in [(0, 1), (1, 2), (0, 3)] {
            seats[0].send(1, tag, parcel(value)).unwrap();
        }
        let next = |tag| seats[1].recv(0, tag).unwrap()[0].words[0];
        assert_eq!([next(1), next(0), next(0)], [2, 1, 3]);
        assert!(seats[0].send(2, 0, Vec::new()).is_err());
    }
}
