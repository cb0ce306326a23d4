//! Which of the legal steps is taken next: what a seed chooses.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use millstream_ep::sim::SimStreamId;

/// A step that a simulated machine can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A worker takes the next task of its queue.
    TakeTask(usize),
    /// A worker hears the oldest messages of its inbox.
    PollInbox(usize),
    /// A worker of the pools runs one of the instructions that can run: the first, the second, ….
    Run(usize, usize),
    /// A worker asks its devices, though none has told it to.
    Poll(usize),
    /// A device runs the next command of a stream.
    Device(SimStreamId),
    /// A function of the host's runs, of those that were given away.
    Host(usize),
}

/// Whose step it is. The hands of a worker are told apart, so that one of them can be slow.
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

/// Chooses by seed. Some actors are slow: while others can move, they seldom do. That reaches
/// schedules in which one stream is far behind, which even odds hardly ever give.
pub(super) struct Chooser {
    rng: ChaCha8Rng,
    slow: Vec<(Actor, bool)>,
    /// Of 16 times, how often the machine goes on for another step while the program does not wait.
    eagerness: u32,
}

/// Of so many steps that slow actors could take beside others, they take one.
const SLOWNESS: u32 = 16;

impl Chooser {
    pub(super) fn new(seed: u64) -> Chooser {
        let mut chooser =
            Chooser { rng: ChaCha8Rng::seed_from_u64(seed), slow: Vec::new(), eagerness: 0 };
        chooser.turn();
        chooser
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.rng.next_u32()) * bound as u64) >> 32) as usize
    }

    /// Whether something that happens once in `times` happens now.
    pub(super) fn once_in(&mut self, times: u32) -> bool {
        self.below(times as usize) == 0
    }

    fn turn(&mut self) {
        self.eagerness = [0, 4, 8, 14, 16][self.below(5)];
    }

    /// The program has emitted something: how eager the machine is may change.
    pub(super) fn emitted(&mut self) {
        if self.once_in(16) {
            self.turn();
        }
    }

    /// Whether the machine takes another step while the program does not wait for it.
    pub(super) fn goes_on(&mut self) -> bool {
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

    /// One of `steps`, which are not empty. They are left in another order.
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
