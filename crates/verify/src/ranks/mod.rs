//! Whether the ranks of a program meet: their collectives match, and no rank waits for ever.
//!
//! # Method
//! The lists of all ranks become one graph. Its nodes are the instructions; each names the nodes
//! that come before it: the last one of its stream, the point that it waits for, the newest
//! barrier, and the newest wait of the host, since the host emits nothing while it waits. A
//! collective is *issued* once these have completed, and *completes* once the matching collectives
//! of all ranks are issued. A send completes when it is issued.
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
//! | `listed` | the collectives of one rank |
//! | `stuck` | the execution, and the smallest set that cannot go on |

mod call;
mod graph;
mod listed;
mod stuck;

use std::collections::BTreeMap;
use std::fmt;

use millstream_instructions::InstructionList;

use graph::{Graph, Meeting};

pub use listed::{ChannelCalls, ListedCall, rank_calls};

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
}

impl fmt::Display for RankViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankViolation::Differs { one, other } => {
                write!(f, "the ranks call different things: {one}; {other}")
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
}

impl RanksVerdict {
    /// Returns whether the ranks meet.
    pub fn proven(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Decides whether the ranks of a program meet, by the lists of all of them in their order. Each
/// list is accepted by [`verify`](crate::verify).
pub fn verify_ranks(lists: &[&InstructionList]) -> RanksVerdict {
    let mut violations = Vec::new();
    let graph = Graph::of(lists, &mut violations);
    let mut first: BTreeMap<String, RankViolation> = BTreeMap::new();
    for (place, meeting) in &graph.meetings {
        if let Some(violation) = differs(&graph, meeting) {
            first.entry(place.channel()).or_insert(violation);
        }
    }
    violations.extend(first.into_values());
    violations.extend(stuck::find(&graph));
    RanksVerdict { violations, compared: graph.meetings.len() }
}

/// Compares the calls of a meeting with that of its lowest rank.
fn differs(graph: &Graph, meeting: &Meeting) -> Option<RankViolation> {
    let mut calls = meeting.calls.iter().flatten().map(|&node| &graph.nodes[node]);
    let one = calls.next()?;
    let own = one.call.as_ref()?;
    let other = calls.find(|other| other.call.as_ref().is_some_and(|call| !own.agrees(call)))?;
    Some(RankViolation::Differs { one: one.site(), other: other.site() })
}
