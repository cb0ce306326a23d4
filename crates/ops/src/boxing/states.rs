//! The shardings that a tensor may take, by number, and the steps between them with their costs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use millstream_types::sharding::part;
use millstream_types::{Dims, Mesh, NdSbp, Reduction, Sbp};

/// What each axis may hold, in order.
pub(super) type Choices = Vec<SmallVec<[Sbp; 8]>>;

/// The shardings with these choices. The order of their numbers is theirs.
pub(super) struct States {
    mesh: Mesh,
    shape: Dims,
    pub(super) choices: Choices,
    /// By state; none before a search has come to it.
    steps: Vec<Option<Steps>>,
}

/// The states after one step, each with the elements that all ranks receive in it.
type Steps = Box<[(usize, u64)]>;

/// How a search has come to a state. The least is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Way {
    /// The elements that all ranks receive.
    pub(super) received: u64,
    steps: u32,
    /// The state before; at the start, itself.
    pub(super) before: usize,
}

impl States {
    pub(super) fn new(mesh: &Mesh, shape: &[usize], choices: Choices) -> States {
        let count = choices.iter().map(SmallVec::len).product();
        States { mesh: mesh.clone(), shape: shape.into(), choices, steps: vec![None; count] }
    }

    /// Returns how many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.steps.len()
    }

    /// Returns the number of a sharding, if it has these choices.
    pub(super) fn number(&self, sbp: &[Sbp]) -> Option<usize> {
        let mut axes = self.choices.iter().zip(sbp);
        axes.try_fold(0, |number, (choices, sbp)| {
            Some(number * choices.len() + choices.binary_search(sbp).ok()?)
        })
    }

    /// Returns the sharding of a number.
    pub(super) fn sbp(&self, number: usize) -> NdSbp {
        let mut rest = number;
        let last_first = self.choices.iter().rev().map(|choices| {
            let at = rest % choices.len();
            rest /= choices.len();
            choices[at]
        });
        let mut sbp: NdSbp = last_first.collect();
        sbp.reverse();
        sbp
    }

    /// Searches the best ways from a state to a goal, or to all states, by E. Dijkstra's algorithm
    /// of 1959: those with the fewest received elements, then with the fewest steps, then through
    /// the first states.
    pub(super) fn ways(&mut self, from: usize, goal: Option<usize>) -> Vec<Option<Way>> {
        let mut ways: Vec<Option<Way>> = vec![None; self.steps.len()];
        let mut queue = BinaryHeap::new();
        let start = Way { received: 0, steps: 0, before: from };
        ways[from] = Some(start);
        queue.push(Reverse((start.received, start.steps, from)));
        while let Some(Reverse((received, steps, state))) = queue.pop() {
            let is_best = |way: &Way| (way.received, way.steps) == (received, steps);
            if !ways[state].as_ref().is_some_and(is_best) {
                continue;
            }
            if goal == Some(state) {
                break;
            }
            for &(after, cost) in self.steps(state) {
                let received = received.saturating_add(cost);
                let way = Way { received, steps: steps + 1, before: state };
                if ways[after].is_none_or(|known| way < known) {
                    ways[after] = Some(way);
                    queue.push(Reverse((way.received, way.steps, after)));
                }
            }
        }
        ways
    }

    /// Returns the states after one step, each with the elements that all ranks receive in it.
    pub(super) fn steps(&mut self, state: usize) -> &[(usize, u64)] {
        if self.steps[state].is_none() {
            self.steps[state] = Some(self.steps_from(state));
        }
        self.steps[state].as_deref().unwrap_or_default()
    }

    fn steps_from(&self, state: usize) -> Steps {
        let own = self.sbp(state);
        let mut steps = Vec::new();
        let mut weight = self.steps.len();
        for (axis, choices) in self.choices.iter().enumerate() {
            weight /= choices.len();
            let at = state / weight % choices.len();
            for (k, next) in choices.iter().enumerate().filter(|(k, _)| *k != at) {
                if let Some(cost) = self.cost(&own, axis, *next) {
                    steps.push((state - at * weight + k * weight, cost));
                }
            }
        }
        steps.into()
    }

    /// Returns the elements that all ranks receive in a step; `None` if there is no such step.
    fn cost(&self, state: &[Sbp], axis: usize, next: Sbp) -> Option<u64> {
        let (own, later) = (state[axis], &state[axis + 1..]);
        let is_last = |dim| !later.contains(&Sbp::Split(dim));
        let ranks = self.mesh.shape()[axis] as u64;
        if [own, next].into_iter().filter_map(Sbp::dim).any(|dim| !is_last(dim)) {
            return None;
        }
        let reductions = state.iter().enumerate().filter(|(k, _)| *k != axis);
        let mut reductions = reductions.filter_map(|(_, sbp)| sbp.reduction());
        if let Some(reduction) = next.reduction()
            && reductions.any(|other| other != reduction)
        {
            return None;
        }
        // The elements of the groups' tensors, over all groups along the axis.
        let lengths = self.shape.iter().map(|length| *length as u64);
        let numel = lengths.fold(1, u64::saturating_mul);
        let others = state.iter().zip(self.mesh.shape()).enumerate();
        let copies = others
            .filter(|(k, (sbp, _))| *k != axis && sbp.dim().is_none())
            .map(|(_, (_, ranks))| *ranks as u64);
        let total = numel.saturating_mul(copies.product::<u64>());
        Some(match (own, next) {
            (Sbp::Broadcast, _) => 0,
            (Sbp::Split(_), Sbp::Partial(Reduction::Sum)) => 0,
            (Sbp::Split(_), Sbp::Broadcast) | (Sbp::Partial(_), Sbp::Split(_)) => {
                total.saturating_mul(ranks - 1)
            }
            (Sbp::Partial(_), Sbp::Broadcast) => total.saturating_mul(2 * (ranks - 1)),
            (Sbp::Split(_), Sbp::Split(_)) if total == 0 => 0,
            (Sbp::Split(dim), Sbp::Split(other)) => {
                let whole = (self.shape[dim] * self.shape[other]) as u64;
                total - total / whole * self.kept(state, axis, dim, other)
            }
            (Sbp::Split(_) | Sbp::Partial(_), Sbp::Partial(_)) => return None,
        })
    }

    /// Returns the elements that ranks have both before and after a step from the split of a
    /// dimension to that of another, of a tensor that has these two dimensions alone and that no
    /// other axis copies. An axis splits the parts of the axes before it.
    fn kept(&self, state: &[Sbp], axis: usize, dim: usize, other: usize) -> u64 {
        let ranks = self.mesh.shape();
        let parts = |dim: usize| {
            let mut lengths = vec![self.shape[dim]];
            for (sbp, ranks) in state[..axis].iter().zip(ranks) {
                if *sbp == Sbp::Split(dim) {
                    let split = |of: usize| (0..*ranks).map(move |k| part(of, *ranks, k).len());
                    lengths = lengths.into_iter().flat_map(split).collect();
                }
            }
            lengths
        };
        let (of_dim, of_other) = (parts(dim), parts(other));
        let of_rank = |lengths: &[usize], k: usize| -> u64 {
            lengths.iter().map(|length| part(*length, ranks[axis], k).len() as u64).sum()
        };
        (0..ranks[axis]).map(|k| of_rank(&of_dim, k) * of_rank(&of_other, k)).sum()
    }
}
