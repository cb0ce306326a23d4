//! Calls: one rank's part of a collective, as its kernel starts it.

use std::fmt::{self, Write};

use millstream_ops::collective::{Channel, ReduceOp};
use millstream_types::Origin;

use crate::buffer::{Buffer, Elements};

/// The place of a call among the calls of its rank: calls of one place match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The channel.
    pub channel: Channel,
    /// The number of the call on the channel, in the order of the rank's program: from 0, or from
    /// [`Slot::EPOCH`] times the number of the programs before.
    pub number: u64,
}

impl Slot {
    /// The distance between the first numbers of two programs that run one after the other.
    pub const EPOCH: u64 = 1 << 40;
}

/// A kind of collective with its arguments. Roots are positions in the group, counts are numbers of
/// elements by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Every rank gets the reduction of each buffer.
    AllReduce(ReduceOp),
    /// The root gets the reduction of each buffer.
    Reduce {
        /// The reduction.
        reduction: ReduceOp,
        /// The rank that gets it.
        root: usize,
    },
    /// Every rank but the root gets the root's buffers.
    Broadcast {
        /// The rank that sends them.
        root: usize,
    },
    /// Every rank gets the buffers of all, one after the other.
    AllGather {
        /// How many elements each rank gives.
        counts: Vec<usize>,
    },
    /// Each rank gets its part of the reduction.
    ReduceScatter {
        /// The reduction.
        reduction: ReduceOp,
        /// How many elements each rank gets.
        counts: Vec<usize>,
    },
    /// Each rank gets a part of every rank's buffer.
    AllToAll {
        /// How many elements this rank gives to each.
        sent: Vec<usize>,
        /// How many elements this rank gets from each.
        received: Vec<usize>,
    },
    /// The root gets the buffers of all, one after the other.
    Gather {
        /// The rank that gets them.
        root: usize,
        /// How many elements each rank gives.
        counts: Vec<usize>,
    },
    /// Each rank gets its part of the root's buffer.
    Scatter {
        /// The rank that gives it.
        root: usize,
        /// How many elements each rank gets.
        counts: Vec<usize>,
    },
    /// No rank continues before all have got here.
    Barrier,
    /// Gives buffers to another rank, without waiting for it to take them.
    Send,
    /// Takes the buffers that another rank gives.
    Receive,
}

/// One rank's part of a collective.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its place among the calls of this rank.
    pub slot: Slot,
    /// What is called.
    pub collective: Collective,
    /// The name of the op, for errors.
    pub op: &'static str,
    /// The buffers that this rank gives.
    pub given: Vec<Buffer>,
    /// The elements that this rank expects, in the order of the op's operands.
    pub expected: Vec<Elements>,
    /// The place in the program, for errors.
    pub origin: Origin,
}

impl Call {
    /// Describes everything in which the calls of one place must be equal: op, dtypes, numbers of
    /// elements, reduction, root. The counts of an all-to-all are compared pair by pair instead.
    pub fn description(&self) -> String {
        let mut text = String::from(match self.collective {
            Collective::Send => "recv_",
            _ => self.op,
        });
        text.push('(');
        let given = self.given.iter().map(Buffer::elements);
        // Of a rooted collective, the ranks of one side know all that the others do.
        let each: Vec<Elements> = match &self.collective {
            Collective::AllReduce(_) | Collective::Reduce { .. } | Collective::Send => {
                given.collect()
            }
            Collective::Broadcast { .. } if !self.given.is_empty() => given.collect(),
            Collective::Broadcast { .. } | Collective::Receive => self.expected.clone(),
            Collective::AllGather { counts }
            | Collective::ReduceScatter { counts, .. }
            | Collective::Gather { counts, .. }
            | Collective::Scatter { counts, .. } => {
                let some = given.chain(self.expected.iter().copied()).next();
                let part = |&numel: &usize| some.map(|some| Elements { numel, ..some });
                counts.iter().filter_map(part).collect()
            }
            Collective::AllToAll { .. } | Collective::Barrier => Vec::new(),
        };
        if let (Collective::AllToAll { .. }, Some(x)) = (&self.collective, self.given.first()) {
            let _ = write!(text, "{}", x.dtype());
        }
        for (k, elements) in each.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = write!(text, "{}{elements}", if k == 0 { "" } else { ", " });
        }
        match &self.collective {
            Collective::AllReduce(reduction) | Collective::ReduceScatter { reduction, .. } => {
                let _ = write!(text, "; {reduction}");
            }
            Collective::Reduce { reduction, root } => {
                let _ = write!(text, "; {reduction}, root {}", self.program_rank(*root));
            }
            Collective::Broadcast { root }
            | Collective::Gather { root, .. }
            | Collective::Scatter { root, .. } => {
                let _ = write!(text, "; root {}", self.program_rank(*root));
            }
            Collective::AllGather { .. }
            | Collective::AllToAll { .. }
            | Collective::Barrier
            | Collective::Send
            | Collective::Receive => {}
        }
        text.push(')');
        text
    }

    fn program_rank(&self, position: usize) -> usize {
        match &self.slot.channel {
            Channel::Collectives(group) => group.ranks().get(position).copied().unwrap_or(position),
            Channel::Barriers | Channel::Send { .. } | Channel::Receive { .. } => position,
        }
    }
}

/// Writes what is called, and where.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let description = self.description();
        match self.collective {
            Collective::Send => write!(f, "the send for {description}")?,
            _ => f.write_str(&description)?,
        }
        match self.origin.is_unknown() {
            true => Ok(()),
            false => write!(f, " at {}", self.origin),
        }
    }
}
