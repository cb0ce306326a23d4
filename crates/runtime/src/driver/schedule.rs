//! The choice of the next step of a simulated machine, by seed.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use millstream_ep::sim::SimStreamId;

/// A step that a simulated machine can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A worker takes the next task of its queue.
    TakeTask(usize),
    /// A worker handles the oldest message of its inbox.
    PollInbox(usize),
    /// A pool worker runs one of the instructions that can run: the first, the second, ….
    Run(usize, usize),
    /// A worker polls its devices without a notification.
    Poll(usize),
    /// A device runs the next command of a stream.
    Device(SimStreamId),
    /// A submitted host function runs.
    Host(usize),
}

/// The party that takes a step. The queue and the inbox of a worker are apart, so that one of them
/// can be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Queue(usize),
    Inbox(usize),
    Pool(usize),
    Stream(SimStreamId),
    Host,
}

impl Step {
    fn actor(self) -> Actor {
        match self {
            Step::TakeTask(worker) => Actor::Queue(worker),
            Step::Run(worker, _) => Actor::Pool(worker),
            Step::PollInbox(worker) | Step::Poll(worker) => Actor::Inbox(worker),
            Step::Device(stream) => Actor::Stream(stream),
            Step::Host(_) => Actor::Host,
        }
    }
}

/// Chooses by seed. Some actors are slow: while others can move, they rarely do. That reaches
/// schedules in which one stream is far behind, which uniform choice hardly ever produces.
pub(super) struct Chooser {
    rng: ChaCha8Rng,
    slow: Vec<(Actor, bool)>,
    /// Of 16 times, how often the machine takes another step while the program does not wait.
    eagerness: u32,
}

/// Slow actors take one of so many steps that they could take beside others.
const SLOWNESS: u32 = 16;

impl Chooser {
    pub(super) fn new(seed: u64) -> Chooser {
        let mut chooser =
            Chooser { rng: ChaCha8Rng::seed_from_u64(seed), slow: Vec::new(), eagerness: 0 };
        chooser.turn();
        chooser
    }

    /// Returns a number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.rng.next_u32()) * bound as u64) >> 32) as usize
    }

    /// Returns true once in `times` calls, on the average.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.below(times as usize) == 0
    }

    fn turn(&mut self) {
        self.eagerness = [0, 4, 8, 14, 16][self.below(5)];
    }

    /// The program has emitted something: the machine's eagerness may change.
    pub(super) fn emitted(&mut self) {
        if self.once_in(16) {
            self.turn();
        }
    }

    /// Returns whether the machine takes another step while the program does not wait for it.
    pub(super) fn keeps_going(&mut self) -> bool {
        (self.below(16) as u32) < self.eagerness
    }

    fn is_slow(&mut self, actor: Actor) -> bool {
        if let Some((_, slow)) = self.slow.iter().find(|(known, _)| *known == actor) {
            return *slow;
        }
        let slow = self.once_in(4);
        self.slow.push((actor, slow));
        slow
    }

    /// Returns one of `steps`, which are not empty, and reorders them.
    pub(super) fn pick(&mut self, steps: &mut [Step]) -> Step {
        let mut quick = 0;
        for k in 0..steps.len() {
            if !self.is_slow(steps[k].actor()) {
                steps.swap(k, quick);
                quick += 1;
            }
        }
        let among = match quick {
            0 => 0..steps.len(),
            all if all == steps.len() => 0..all,
            _ if self.once_in(SLOWNESS) => quick..steps.len(),
            _ => 0..quick,
        };
        steps[among.start + self.below(among.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64) -> Vec<Step> {
        let mut chooser = Chooser::new(seed);
        let stream = |stream| SimStreamId { device: 0, stream };
        let all = [
            Step::TakeTask(0),
            Step::PollInbox(0),
            Step::Device(stream(0)),
            Step::Device(stream(1)),
        ];
        (0..1000).map(|_| chooser.pick(&mut all.clone())).collect()
    }

    #[test]
    fn a_seed_chooses_the_same_every_time() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn every_legal_step_is_taken_some_time() {
        for seed in 0..32 {
            let drawn = drawn(seed);
            let mut count = |step| drawn.iter().filter(|s| **s == step).count();
            let stream = |stream| Step::Device(SimStreamId { device: 0, stream });
            let counts =
                [Step::TakeTask(0), Step::PollInbox(0), stream(0), stream(1)].map(&mut count);
            assert!(counts.iter().all(|n| *n > 0), "seed {seed}: {counts:?}");
        }
    }
}
