//! Whether the ranks of a program meet: their collectives match, and no rank waits for ever.
//!
//! # Method
//! The lists of all ranks become one graph. Its nodes are the instructions; each names the nodes
//! that come before it: the last one of its stream, the point that it waits for, the newest
//! barrier, and the newest wait of the host, since the host emits nothing while it waits. A
//! collective is *issued* once these have completed, and *completes* once the matching collectives
//! of all ranks are issued. A send completes when it is issued, unless sends wait by the
//! [rules](CommunicatorRules) of the communicator.
//!
//! Collectives match by channel and number, both of which the lists fix. So nothing that one
//! instruction does takes away what another one waits for: all executions complete the same
//! instructions, and one decides. What it leaves is stuck in every execution.
//!
//! # Assumptions
//! The runs have room for all instructions and memory for all tensors: a program whose submitter
//! waits for room, or for memory, may be stuck where its list is not. The instructions of a pool
//! count as ordered.
//!
//! | module | holds |
//! |---|---|
//! | `graph` | the instructions of all ranks, and what comes before each |
//! | `call` | what the matching calls of the ranks have to agree on |
//! | `stuck` | the execution, and the smallest set that cannot go on |

mod call;
mod graph;
mod stuck;

use std::collections::BTreeMap;
use std::fmt;

use millstream_instructions::InstructionList;

use graph::{Graph, Meeting, Node, NodeId, Place};
use stuck::Reason;

/// The rules of the communicator that the ranks use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommunicatorRules {
    /// Millstream's own communicators, of threads and over MPI: a send does not wait for its
    /// receive, and the collectives of several groups may be launched in any order.
    #[default]
    Own,
    /// NCCL: a send occupies its stream until its receive is issued, and all ranks launch the
    /// collectives and messages of all communicators in one order. The tensors of one call are a
    /// group; calls are not grouped with one another.
    ///
    /// Source:
    /// <https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html>, "Using
    /// multiple NCCL communicators concurrently", and `usage/p2p.html` there.
    Nccl,
}

/// An instruction of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSite {
    /// The rank.
    pub rank: usize,
    /// The executable of the rank's list that holds the instruction; none for the list itself.
    pub executable: Option<usize>,
    /// The index in that list.
    pub index: usize,
    /// What is called, and at which place of the program.
    pub call: String,
}

impl fmt::Display for RankSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} in {}", self.rank, self.call)
    }
}

/// A reason why the ranks do not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankViolation {
    /// The first call of a channel in which two ranks differ.
    Differs {
        /// The place at which they meet: the number of the call, and its channel.
        place: String,
        /// The call of the lower rank.
        one: RankSite,
        /// The call of the other rank.
        other: RankSite,
    },
    /// A collective names ranks that do not exist, or its own rank is not among them.
    Misaddressed {
        /// The call.
        site: RankSite,
        /// Why.
        message: String,
    },
    /// Instructions that cannot all proceed: each waits for the next one, and the last for the
    /// first, or for a call that no rank makes.
    Stuck {
        /// The instructions, each with what it waits for.
        sites: Vec<(RankSite, String)>,
    },
    /// Ranks that launch calls in different orders, where the rules ask for one order: each rank
    /// launches the first of its two calls before the second, which is the first of the next rank.
    Order {
        /// The two calls of each rank.
        pairs: Vec<[RankSite; 2]>,
    },
}

impl fmt::Display for RankViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankViolation::Differs { place, one, other } => {
                write!(f, "the ranks call different things as {place}: {one}; {other}")
            }
            RankViolation::Misaddressed { site, message } => write!(f, "{site}: {message}"),
            RankViolation::Stuck { sites } => {
                f.write_str("these can never proceed: ")?;
                for (k, (site, reason)) in sites.iter().enumerate() {
                    let comma = if k == 0 { "" } else { "; " };
                    write!(f, "{comma}{site} waits for {reason}")?;
                }
                Ok(())
            }
            RankViolation::Order { pairs } => {
                f.write_str("the ranks launch in different orders: ")?;
                for (k, [first, second]) in pairs.iter().enumerate() {
                    let comma = if k == 0 { "" } else { "; " };
                    write!(f, "{comma}{first} before {}", second.call)?;
                }
                Ok(())
            }
        }
    }
}

/// The result of [`verify_ranks`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RanksVerdict {
    /// Why the ranks do not meet. Empty if they do.
    pub violations: Vec<RankViolation>,
    /// The number of collectives and messages compared, each once for all its ranks.
    pub compared: usize,
    /// The sends that no rank receives, where sends do not wait: they are pending at the end.
    pub pending: Vec<RankSite>,
}

impl RanksVerdict {
    /// Returns whether the ranks meet, and every send is received.
    pub fn proven(&self) -> bool {
        self.violations.is_empty() && self.pending.is_empty()
    }
}

/// Decides whether the ranks of a program meet, by the lists of all of them in their order and the
/// rules of their communicator. Each list is accepted by [`verify`](crate::verify).
pub fn verify_ranks(lists: &[&InstructionList], rules: CommunicatorRules) -> RanksVerdict {
    let mut violations = Vec::new();
    let mut graph = Graph::of(lists, &mut violations);
    let sends_wait = rules == CommunicatorRules::Nccl;
    if sends_wait {
        graph.nodes.iter_mut().for_each(|node| node.is_send = false);
    }
    let mut first: BTreeMap<String, RankViolation> = BTreeMap::new();
    for (place, meeting) in &graph.meetings {
        if let Some(violation) = differs(&graph, place, meeting) {
            first.entry(place.channel()).or_insert(violation);
        }
    }
    violations.extend(first.into_values());
    if let Some(set) = stuck::find(&graph) {
        violations.push(stuck(&graph, &set));
    } else if rules == CommunicatorRules::Nccl {
        // Ranks that wait for one another mostly launch in different orders too.
        graph.launch_in_order();
        violations.extend(stuck::find(&graph).map(|set| order(&graph, &set)));
    }
    let pending = if sends_wait { Vec::new() } else { pending(&graph) };
    RanksVerdict { violations, compared: graph.meetings.len(), pending }
}

/// Describes instructions that cannot proceed, each with what it waits for.
fn stuck(graph: &Graph, set: &[(NodeId, Reason)]) -> RankViolation {
    let site = |&(node, Reason { rank, call, .. }): &(NodeId, Reason)| {
        let awaited = call.map(|call| graph.nodes[call].site().to_string());
        let absent = || format!("rank {rank}, which does not make the call");
        (graph.nodes[node].site(), awaited.unwrap_or_else(absent))
    };
    RankViolation::Stuck { sites: set.iter().map(site).collect() }
}

/// Describes ranks that are stuck once each launches its calls one by one. Each rank of the cycle
/// launches the call that waits before the one that the previous call of the cycle waits for.
fn order(graph: &Graph, cycle: &[(NodeId, Reason)]) -> RankViolation {
    let site = |node: NodeId| graph.nodes[node].site();
    let pair = |(_, reason): &(NodeId, Reason)| Some([reason.behind?, reason.call?].map(site));
    let mut pairs: Vec<[RankSite; 2]> = cycle.iter().rev().filter_map(pair).collect();
    let lowest = (0..pairs.len()).min_by_key(|k| pairs[*k][0].rank);
    pairs.rotate_left(lowest.unwrap_or(0));
    RankViolation::Order { pairs }
}

/// Returns the calls by which a rank of so many meets the others, in the order of its list: the
/// channel of each, and in what the matching calls have to be equal. Ranks whose calls are equal
/// meet, but for the counts of an all-to-all, which differ by rank and are left out.
pub fn rank_calls(list: &InstructionList, rank: usize, ranks: usize) -> Vec<String> {
    let graph = Graph::of_rank(list, rank, ranks);
    let call = |node: &Node| {
        let (place, call) = node.place.as_ref().zip(node.call.as_ref())?;
        Some(format!("{}: {}", place.channel(), call.text))
    };
    graph.nodes.iter().filter_map(call).collect()
}

/// Returns the sends without a receive.
fn pending(graph: &Graph) -> Vec<RankSite> {
    let messages =
        graph.meetings.iter().filter(|(place, _)| matches!(place, Place::Message { .. }));
    let unreceived = messages.filter_map(|(_, meeting)| match meeting.calls[..] {
        [Some(send), None] => Some(graph.nodes[send].site()),
        _ => None,
    });
    unreceived.collect()
}

/// Compares the calls of a meeting with that of its lowest rank.
fn differs(graph: &Graph, place: &Place, meeting: &Meeting) -> Option<RankViolation> {
    let mut calls = meeting.calls.iter().flatten().map(|&node| &graph.nodes[node]);
    let one = calls.next()?;
    let own = one.call.as_ref()?;
    let other = calls.find(|other| other.call.as_ref().is_some_and(|call| !own.agrees(call)))?;
    let place = format!("number {} of {}", place.number(), place.channel());
    Some(RankViolation::Differs { place, one: one.site(), other: other.site() })
}
