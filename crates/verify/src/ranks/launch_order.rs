//! Whether all ranks launch their collectives in one order, as NCCL's communicators need.
//!
//! A rank launches in the order of its list. The ranks have one order if the calls of all of them
//! can be sorted, so a cycle of calls, each of which some rank launches before the next, is a
//! counterexample.

use std::collections::{BTreeMap, VecDeque};

use super::RankViolation;
use super::graph::{Graph, NodeId, Place};

/// Returns the calls of a shortest cycle, if there is one.
pub(super) fn find(graph: &Graph) -> Option<RankViolation> {
    let launches = Launches::of(graph);
    let first = launches.unsorted()?;
    let cycles = first.into_iter().filter_map(|place| launches.shortest_cycle(place));
    let cycle = cycles.min_by_key(Vec::len)?;
    let site = |node: NodeId| graph.nodes[node].site();
    Some(RankViolation::Order { pairs: cycle.into_iter().map(|pair| pair.map(site)).collect() })
}

/// The launches of all ranks.
struct Launches<'g> {
    /// The calls of each place, in the order of the places.
    calls: Vec<Vec<NodeId>>,
    /// For each rank the places of its launches, in order, each with its call.
    by_rank: BTreeMap<usize, Vec<(usize, NodeId)>>,
    /// For each call, its position among its rank's launches.
    positions: BTreeMap<NodeId, usize>,
    graph: &'g Graph,
}

impl<'g> Launches<'g> {
    fn of(graph: &'g Graph) -> Launches<'g> {
        // The host alone takes part in barriers of all ranks.
        let meetings = graph.meetings.iter();
        let meetings = meetings.filter(|(place, _)| !matches!(place, Place::Barrier { .. }));
        let calls = meetings.map(|(_, meeting)| meeting.calls.iter().flatten().copied().collect());
        let calls: Vec<Vec<NodeId>> = calls.collect();
        let mut by_rank: BTreeMap<usize, Vec<(usize, NodeId)>> = BTreeMap::new();
        for (place, calls) in calls.iter().enumerate() {
            for &call in calls {
                by_rank.entry(graph.nodes[call].rank()).or_default().push((place, call));
            }
        }
        let mut positions = BTreeMap::new();
        for launches in by_rank.values_mut() {
            // The nodes of a rank are numbered in the order of its list.
            launches.sort_unstable_by_key(|(_, call)| *call);
            let numbered = launches.iter().enumerate().map(|(k, (_, call))| (*call, k));
            positions.extend(numbered);
        }
        Launches { calls, by_rank, positions, graph }
    }

    /// Returns the launches of the call's rank that come after it.
    fn later(&self, call: NodeId) -> &[(usize, NodeId)] {
        let all = &self.by_rank[&self.graph.nodes[call].rank()];
        &all[self.positions[&call] + 1..]
    }

    /// Sorts the places. Returns the unsorted ones, of which some form a cycle; none if all are.
    fn unsorted(&self) -> Option<Vec<usize>> {
        let mut open: Vec<usize> = vec![0; self.calls.len()];
        let next = |call: &NodeId| self.later(*call).first().map(|(place, _)| *place);
        self.calls.iter().flatten().filter_map(next).for_each(|place| open[place] += 1);
        let mut ready: Vec<usize> = (0..open.len()).filter(|place| open[*place] == 0).collect();
        let mut sorted = vec![false; open.len()];
        while let Some(place) = ready.pop() {
            sorted[place] = true;
            for later in self.calls[place].iter().filter_map(next) {
                open[later] -= 1;
                if open[later] == 0 {
                    ready.push(later);
                }
            }
        }
        let left: Vec<usize> = (0..open.len()).filter(|place| !sorted[*place]).collect();
        (!left.is_empty()).then_some(left)
    }

    /// Returns the shortest cycle through a place: for each step the call of a rank, and its later
    /// call at the next place.
    fn shortest_cycle(&self, from: usize) -> Option<Vec<[NodeId; 2]>> {
        let mut came: Vec<Option<[NodeId; 2]>> = vec![None; self.calls.len()];
        // Of each rank, the first launch whose later ones have been reached: each is reached once.
        let mut reached: BTreeMap<usize, usize> =
            self.by_rank.iter().map(|(rank, all)| (*rank, all.len())).collect();
        let mut places = VecDeque::from([from]);
        while let Some(place) = places.pop_front() {
            for &call in &self.calls[place] {
                let end = reached.get_mut(&self.graph.nodes[call].rank())?;
                let begin = self.positions[&call] + 1;
                let fresh = end.saturating_sub(begin);
                *end = begin.min(*end);
                for &(later, its_call) in &self.later(call)[..fresh] {
                    if came[later].is_none() {
                        came[later] = Some([call, its_call]);
                        places.push_back(later);
                    }
                    if later == from {
                        return Some(self.way_back(from, &came));
                    }
                }
            }
        }
        None
    }

    fn way_back(&self, from: usize, came: &[Option<[NodeId; 2]>]) -> Vec<[NodeId; 2]> {
        let place_of = |call: NodeId| self.calls.iter().position(|calls| calls.contains(&call));
        let (mut way, mut at) = (Vec::new(), from);
        while let Some(step) = came[at] {
            way.push(step);
            let Some(before) = place_of(step[0]) else { break };
            at = before;
            if at == from {
                break;
            }
        }
        way.reverse();
        way
    }
}
