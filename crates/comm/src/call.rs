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
    /// The ranks only meet: a library of their devices moves the data. Each rank gets the number of
    /// the meeting among its own in the program. The numbers of all ranks have one order.
    Meeting(Box<Meeting>),
}

/// What the ranks of a meeting call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    description: String,
    /// How many elements an all-to-all gives to each rank, and gets from each.
    pub(crate) pairs: Option<(Vec<usize>, Vec<usize>)>,
    is_send: bool,
}

impl Meeting {
    /// Returns the meeting of a collective whose data `library` moves, with the elements that this
    /// rank gives and expects.
    pub fn of(
        collective: &Collective,
        (op, channel): (&str, &Channel),
        (given, expected): (&[Elements], &[Elements]),
        library: &str,
    ) -> Meeting {
        let description = describe(collective, (op, channel), (given, expected));
        let pairs = match collective {
            Collective::AllToAll { sent, received } => Some((sent.clone(), received.clone())),
            _ => None,
        };
        let is_send = matches!(collective, Collective::Send);
        Meeting { description: format!("{description} by {library}"), pairs, is_send }
    }
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
        let given: Vec<Elements> = self.given.iter().map(Buffer::elements).collect();
        let names = (self.op, &self.slot.channel);
        describe(&self.collective, names, (&given, &self.expected))
    }
}

fn describe(
    collective: &Collective,
    (op, channel): (&str, &Channel),
    (given, expected): (&[Elements], &[Elements]),
) -> String {
    let mut text = String::from(match collective {
        Collective::Meeting(meeting) => return meeting.description.clone(),
        Collective::Send => "recv_",
        _ => op,
    });
    text.push('(');
    // Of a rooted collective, the ranks of one side know all that the others do.
    let each: Vec<Elements> = match collective {
        Collective::AllReduce(_) | Collective::Reduce { .. } | Collective::Send => given.to_vec(),
        Collective::Broadcast { .. } if !given.is_empty() => given.to_vec(),
        Collective::Broadcast { .. } | Collective::Receive => expected.to_vec(),
        Collective::AllGather { counts }
        | Collective::ReduceScatter { counts, .. }
        | Collective::Gather { counts, .. }
        | Collective::Scatter { counts, .. } => {
            let some = given.iter().chain(expected).next();
            let part = |&numel: &usize| some.map(|some| Elements { numel, ..*some });
            counts.iter().filter_map(part).collect()
        }
        Collective::AllToAll { .. } | Collective::Barrier | Collective::Meeting(_) => Vec::new(),
    };
    if let (Collective::AllToAll { .. }, Some(x)) = (collective, given.first()) {
        let _ = write!(text, "{}", x.dtype);
    }
    for (k, elements) in each.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{elements}", if k == 0 { "" } else { ", " });
    }
    let program_rank = |position: usize| match channel {
        Channel::Collectives(group) => group.ranks().get(position).copied().unwrap_or(position),
        Channel::Barriers | Channel::Send { .. } | Channel::Receive { .. } => position,
    };
    match collective {
        Collective::AllReduce(reduction) | Collective::ReduceScatter { reduction, .. } => {
            let _ = write!(text, "; {reduction}");
        }
        Collective::Reduce { reduction, root } => {
            let _ = write!(text, "; {reduction}, root {}", program_rank(*root));
        }
        Collective::Broadcast { root }
        | Collective::Gather { root, .. }
        | Collective::Scatter { root, .. } => {
            let _ = write!(text, "; root {}", program_rank(*root));
        }
        Collective::AllGather { .. }
        | Collective::AllToAll { .. }
        | Collective::Barrier
        | Collective::Send
        | Collective::Receive
        | Collective::Meeting(_) => {}
    }
    text.push(')');
    text
}

/// Writes what is called, and where.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let description = self.description();
        match &self.collective {
            Collective::Send => write!(f, "the send for {description}")?,
            Collective::Meeting(meeting) if meeting.is_send => {
                write!(f, "the send for {description}")?;
            }
            _ => f.write_str(&description)?,
        }
        match self.origin.is_unknown() {
            true => Ok(()),
            false => write!(f, " at {}", self.origin),
        }
    }
}
