//! The group of a program's ranks in one process: their barrier, exchanges and messages.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail, ensure};
use millstream_kernels::{Communicator, Message};
use millstream_vm::RankBarrier;

/// The shared state of the ranks. A rank that ends leaves the group; every rank that waits for it
/// then gets an error.
#[derive(Debug)]
pub(crate) struct RankGroup {
    ranks: usize,
    state: Mutex<State>,
    change: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of ranks at the current barrier.
    arrived: usize,
    /// The number of barriers that all ranks have passed.
    barriers: u64,
    /// The ranks that have left.
    left: Vec<usize>,
    /// The exchanges that not all ranks have completed, by number.
    exchanges: HashMap<u64, Exchange>,
    /// The last exchange that each rank has entered.
    reached: HashMap<usize, u64>,
    /// The messages that are on their way, by sender, receiver and tag.
    messages: HashMap<(usize, usize, i64), VecDeque<Vec<Message>>>,
}

/// The messages of one round. The first index is the sender's, the second the receiver's.
#[derive(Debug)]
struct Exchange {
    what: String,
    by: usize,
    sent: Vec<Option<Vec<Vec<Message>>>>,
    /// The number of ranks that have taken their messages.
    done: usize,
}

impl RankGroup {
    pub(crate) fn new(ranks: usize) -> RankGroup {
        RankGroup { ranks, state: Mutex::default(), change: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.change.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn leave(&self, rank: usize) {
        self.lock().left.push(rank);
        self.change.notify_all();
    }

    fn barrier(&self) -> Result<()> {
        let mut state = self.lock();
        let round = state.barriers;
        state.arrived += 1;
        if state.arrived == self.ranks {
            state.arrived = 0;
            state.barriers += 1;
            self.change.notify_all();
            return Ok(());
        }
        while state.barriers == round {
            if let Some(rank) = state.left.first().copied() {
                state.arrived -= 1;
                bail!("rank {rank} has ended and does not reach this barrier");
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
        messages: Vec<Vec<Message>>,
    ) -> Result<Vec<Vec<Message>>> {
        ensure!(
            messages.len() == self.ranks,
            "{} messages for {} ranks",
            messages.len(),
            self.ranks
        );
        let mut state = self.lock();
        let exchange = state.exchanges.entry(round).or_insert_with(|| Exchange {
            what: what.to_owned(),
            by: rank,
            sent: vec![None; self.ranks],
            done: 0,
        });
        // The first rank defines the operation. Another one is an error for all ranks.
        let agreed = exchange.what == what;
        let other = (exchange.what.clone(), exchange.by);
        exchange.sent[rank] = Some(if agreed { messages } else { Vec::new() });
        state.reached.insert(rank, round);
        self.change.notify_all();
        ensure!(agreed, "rank {rank} calls {what}, and rank {} calls {}", other.1, other.0);
        loop {
            let all =
                state.exchanges.get(&round).is_none_or(|e| e.sent.iter().all(Option::is_some));
            if all {
                break;
            }
            let has_sent = |r: &usize| state.exchanges[&round].sent[*r].is_some();
            let missing: Vec<usize> = (0..self.ranks).filter(|r| !has_sent(r)).collect();
            for missing in missing {
                ensure!(!state.left.contains(&missing), "rank {missing} has ended before {what}");
                let passed = state.reached.get(&missing).is_some_and(|at| *at > round);
                ensure!(!passed, "rank {missing} has skipped {what}");
            }
            state = self.wait(state);
        }
        let Some(exchange) = state.exchanges.get_mut(&round) else {
            bail!("{what} was completed without rank {rank}");
        };
        let mut mine = Vec::with_capacity(self.ranks);
        for (from, sent) in exchange.sent.iter_mut().enumerate() {
            let message = sent.as_mut().and_then(|b| b.get_mut(rank)).map(std::mem::take);
            let Some(message) = message else {
                bail!("rank {from} called another operation than {what}")
            };
            mine.push(message);
        }
        exchange.done += 1;
        if exchange.done == self.ranks {
            state.exchanges.remove(&round);
        }
        Ok(mine)
    }
}

/// A rank's handle of its group. Dropping it leaves the group.
#[derive(Debug)]
pub(crate) struct RankHandle {
    group: Arc<RankGroup>,
    rank: usize,
    /// The last round of this rank, and the offset of the current run's rounds.
    last: Mutex<(Option<u64>, u64)>,
}

impl RankHandle {
    pub(crate) fn new(group: Arc<RankGroup>, rank: usize) -> RankHandle {
        RankHandle { group, rank, last: Mutex::new((None, 0)) }
    }

    /// Returns a round number that is unique over the runs of a program, each of which starts at 0.
    fn number(&self, round: u64) -> u64 {
        /// An upper bound of the rounds of a program.
        const RUN: u64 = 1 << 32;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0.is_some_and(|before| round <= before) {
            last.1 += RUN;
        }
        last.0 = Some(round);
        last.1 + round
    }
}

impl Drop for RankHandle {
    fn drop(&mut self) {
        self.group.leave(self.rank);
    }
}

impl RankBarrier for RankHandle {
    fn wait(&self) -> Result<()> {
        self.group.barrier()
    }
}

impl Communicator for RankHandle {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.group.ranks
    }

    fn exchange(
        &self,
        round: u64,
        what: &str,
        messages: Vec<Vec<Message>>,
    ) -> Result<Vec<Vec<Message>>> {
        self.group.exchange(self.rank, self.number(round), what, messages)
    }

    fn send(&self, to: usize, tag: i64, messages: Vec<Message>) -> Result<()> {
        ensure!(to < self.group.ranks, "there is no rank {to} of {}", self.group.ranks);
        let mut state = self.group.lock();
        state.messages.entry((self.rank, to, tag)).or_default().push_back(messages);
        drop(state);
        self.group.change.notify_all();
        Ok(())
    }

    fn recv(&self, from: usize, tag: i64) -> Result<Vec<Message>> {
        ensure!(from < self.group.ranks, "there is no rank {from} of {}", self.group.ranks);
        let mut state = self.group.lock();
        loop {
            let messages = state.messages.get_mut(&(from, self.rank, tag));
            if let Some(messages) = messages.and_then(VecDeque::pop_front) {
                return Ok(messages);
            }
            let ended = state.left.contains(&from);
            ensure!(!ended, "rank {from} has ended and sent nothing more of tag {tag}");
            state = self.group.wait(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_types::DType;
    use std::thread;

    fn message(value: u64) -> Vec<Message> {
        vec![Message { dtype: DType::I64, numel: 1, words: Arc::new(vec![value]) }]
    }

    fn handles(count: usize) -> Vec<RankHandle> {
        let group = Arc::new(RankGroup::new(count));
        (0..count).map(|rank| RankHandle::new(group.clone(), rank)).collect()
    }

    fn values(messages: Vec<Vec<Message>>) -> Vec<u64> {
        messages.iter().map(|p| p[0].words[0]).collect()
    }

    #[test]
    fn every_rank_gets_its_messages_in_every_run() {
        let handles = handles(3);
        thread::scope(|scope| {
            for (rank, handle) in handles.iter().enumerate() {
                scope.spawn(move || {
                    for run in 0..50 {
                        for round in 0..4 {
                            let base = run * 1000 + round * 100 + rank as u64 * 10;
                            let mine = (0..3).map(|to| message(base + to)).collect();
                            let has_sent = handle.exchange(round, "x", mine).unwrap();
                            let expected =
                                |from: u64| run * 1000 + round * 100 + from * 10 + rank as u64;
                            assert_eq!(values(has_sent), (0..3).map(expected).collect::<Vec<_>>());
                        }
                    }
                });
            }
        });
        assert!(handles[0].group.lock().exchanges.is_empty());
    }

    #[test]
    fn a_rank_that_ends_skips_or_calls_another_operation_blocks_no_rank() {
        let mine = || vec![message(0), message(1)];
        let mut two = handles(2);
        drop(two.pop());
        let error = two[0].exchange(0, "x", mine()).unwrap_err().to_string();
        assert!(error.contains("rank 1 has ended"), "{error}");
        assert!(two[0].recv(1, 0).unwrap_err().to_string().contains("rank 1 has ended"));

        let two = handles(2);
        let errors: Vec<String> = thread::scope(|scope| {
            let run = |handle: &RankHandle, round, what: &str| {
                handle.exchange(round, what, mine()).unwrap_err().to_string()
            };
            let (zero, one) = (&two[0], &two[1]);
            let zero = scope.spawn(move || run(zero, 0, "x"));
            let one = scope.spawn(move || {
                let error = one.exchange(1, "x", mine());
                error.map(drop)
            });
            let first = zero.join().unwrap();
            // Rank 0 has failed in round 0; it enters round 1.
            two[0].exchange(1, "x", mine()).unwrap();
            one.join().unwrap().unwrap();
            vec![first]
        });
        assert!(errors[0].contains("rank 1 has skipped x"), "{errors:?}");

        let two = handles(2);
        thread::scope(|scope| {
            for (handle, what) in two.iter().zip(["sum", "product"]) {
                scope.spawn(move || {
                    let error = handle.exchange(0, what, mine()).unwrap_err().to_string();
                    assert!(error.contains("sum") || error.contains("product"), "{error}");
                });
            }
        });
    }

    #[test]
    fn messages_of_one_tag_keep_their_order() {
        let handles = handles(2);
        for (tag, value) in [(0, 1), (1, 2), (0, 3)] {
            handles[0].send(1, tag, message(value)).unwrap();
        }
        let next = |tag| handles[1].recv(0, tag).unwrap()[0].words[0];
        assert_eq!([next(1), next(0), next(0)], [2, 1, 3]);
        assert!(handles[0].send(2, 0, Vec::new()).is_err());
    }
}
