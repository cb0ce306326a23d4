//! The execution of the graph, and the smallest set of instructions that cannot go on.

use std::collections::VecDeque;

use super::graph::{Graph, NodeId};
use rustc_hash::{FxHashMap, FxHashSet};

/// What a waiting collective waits for: a call that another rank has not issued.
#[derive(Clone, Copy)]
pub(super) struct Reason {
    pub(super) rank: usize,
    /// The call; none if the rank does not make it.
    pub(super) call: Option<NodeId>,
    /// The waiting collective before the call.
    pub(super) behind: Option<NodeId>,
}

/// Executes the graph. Returns the smallest set that remains, if anything does: collectives, each
/// with what it waits for.
pub(super) fn find(graph: &Graph) -> Option<Vec<(NodeId, Reason)>> {
    let execution = Execution::of(graph);
    // Issued collectives that never complete: every stuck instruction is one, or is behind one.
    let waiting: Vec<NodeId> =
        (0..graph.nodes.len()).filter(|&n| execution.issued[n] && !execution.done[n]).collect();
    let reasons: FxHashMap<NodeId, Vec<Reason>> =
        waiting.iter().map(|&n| (n, execution.reasons(n))).collect();
    let ways = waiting.iter().filter_map(|&from| shortest(from, &reasons));
    ways.min_by_key(Vec::len)
}

/// Returns the shortest way from a waiting collective back to itself, or to a call that no rank
/// makes: its collectives, each with what it waits for. Returns none if there is no such way.
fn shortest(
    from: NodeId,
    reasons: &FxHashMap<NodeId, Vec<Reason>>,
) -> Option<Vec<(NodeId, Reason)>> {
    let mut ways: VecDeque<(NodeId, Vec<(NodeId, Reason)>)> = VecDeque::from([(from, Vec::new())]);
    let mut seen = FxHashSet::from_iter([from]);
    while let Some((at, way)) = ways.pop_front() {
        for &reason in reasons.get(&at).into_iter().flatten() {
            let mut longer = way.clone();
            longer.push((at, reason));
            match reason.behind {
                None => return Some(longer),
                Some(next) if next == from => return Some(longer),
                Some(next) if seen.insert(next) => ways.push_back((next, longer)),
                Some(_) => {}
            }
        }
    }
    None
}

struct Execution<'g> {
    graph: &'g Graph,
    /// Everything before the instruction has completed.
    issued: Vec<bool>,
    done: Vec<bool>,
}

impl<'g> Execution<'g> {
    fn of(graph: &'g Graph) -> Execution<'g> {
        let count = graph.nodes.len();
        let mut after: Vec<Vec<NodeId>> = vec![Vec::new(); count];
        let mut open: Vec<usize> = vec![0; count];
        for (node, of) in graph.nodes.iter().enumerate() {
            open[node] = of.before.len();
            of.before.iter().for_each(|&before| after[before].push(node));
        }
        let (issued, done) = (vec![false; count], vec![false; count]);
        let mut execution = Execution { graph, issued, done };
        let mut ready: Vec<NodeId> = (0..count).filter(|&node| open[node] == 0).collect();
        while let Some(node) = ready.pop() {
            execution.issued[node] = true;
            for completed in execution.completed_by(node) {
                execution.done[completed] = true;
                for &next in &after[completed] {
                    open[next] -= 1;
                    if open[next] == 0 {
                        ready.push(next);
                    }
                }
            }
        }
        execution
    }

    /// Returns the nodes that complete as this one is issued.
    fn completed_by(&self, node: NodeId) -> Vec<NodeId> {
        let Some(place) = &self.graph.nodes[node].place else { return vec![node] };
        let Some(meeting) = self.graph.meetings.get(place) else { return vec![node] };
        let is_send = self.graph.nodes[node].is_send;
        let all = meeting.calls.iter().all(|call| call.is_some_and(|call| self.issued[call]));
        if !all {
            return if is_send { vec![node] } else { Vec::new() };
        }
        let calls = meeting.calls.iter().flatten().copied();
        calls.filter(|&call| call == node || !self.done[call]).collect()
    }

    /// Returns what a waiting collective waits for.
    fn reasons(&self, node: NodeId) -> Vec<Reason> {
        let Some(place) = &self.graph.nodes[node].place else { return Vec::new() };
        let Some(meeting) = self.graph.meetings.get(place) else { return Vec::new() };
        let calls = meeting.calls.iter().enumerate();
        let open = calls.filter(|(_, call)| call.is_none_or(|call| !self.issued[call]));
        let reason = |(position, &call): (usize, &Option<NodeId>)| Reason {
            rank: place.rank_at(position),
            call,
            behind: call.and_then(|call| self.blocker(call)),
        };
        open.map(reason).collect()
    }

    /// Returns the nearest waiting collective before a node that is not issued.
    fn blocker(&self, node: NodeId) -> Option<NodeId> {
        let mut at = node;
        loop {
            let before = &self.graph.nodes[at].before;
            at = before.iter().copied().find(|&before| !self.done[before])?;
            if self.issued[at] {
                debug_assert_eq!(self.graph.nodes[at].rank(), self.graph.nodes[node].rank());
                return Some(at);
            }
        }
    }
}
