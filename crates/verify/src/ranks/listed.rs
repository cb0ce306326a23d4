//! The collectives of one rank, in the order in which the other ranks have to make theirs.

use millstream_instructions::InstructionList;

use super::graph::{Graph, Place};

/// The calls of a rank that are numbered together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelCalls {
    /// The name of the channel, which is the same on all its ranks.
    pub channel: String,
    /// The ranks that take part: of messages the sender, then the receiver.
    pub ranks: Vec<usize>,
    /// Whether they are messages, of which a sender may give more than are taken.
    pub is_messages: bool,
    /// The calls in the order of their numbers.
    pub calls: Vec<ListedCall>,
}

/// A call of a list by which a rank meets others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedCall {
    /// In what the calls of one number must be equal: op, dtypes, counts, reduction, root. The
    /// counts of an all-to-all differ by rank, and are not in it.
    pub text: String,
    /// The call and its place in the program.
    pub site: String,
    /// A number that grows with the order of the rank's calls, of all channels together.
    pub order: usize,
}

/// Returns the calls by which a rank of so many meets the others, by channel. They follow from its
/// list alone. Calls that name no channel of the program are left out.
pub fn rank_calls(list: &InstructionList, rank: usize, ranks: usize) -> Vec<ChannelCalls> {
    let graph = Graph::of_rank(list, rank, ranks);
    let mut channels: Vec<ChannelCalls> = Vec::new();
    for (place, meeting) in &graph.meetings {
        let members: Vec<usize> = (0..meeting.calls.len()).map(|at| place.rank_at(at)).collect();
        if members.iter().all(|member| *member == rank) {
            continue;
        }
        let channel = place.channel();
        let is_next = channels.last().is_some_and(|last| last.channel == channel);
        if !is_next {
            let is_messages = matches!(place, Place::Message { .. });
            let calls = Vec::new();
            channels.push(ChannelCalls { channel, ranks: members, is_messages, calls });
        }
        let calls = meeting.calls.iter().flatten().filter_map(|&order| {
            let node = &graph.nodes[order];
            let text = node.call.as_ref()?.text.clone();
            Some(ListedCall { text, site: node.site().call, order })
        });
        if let Some(last) = channels.last_mut() {
            last.calls.extend(calls);
        }
    }
    channels
}
