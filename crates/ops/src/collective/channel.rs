//! Groups of ranks, and the channels within which their calls are numbered.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use millstream_types::{Attrs, Error, Result};

/// A set of ranks that communicate with one another. Two groups of the same ranks differ by their
/// index.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProcessGroup {
    ranks: Arc<[usize]>,
    index: u32,
}

impl ProcessGroup {
    /// Returns the group of all ranks of a program.
    pub fn all(ranks: usize) -> ProcessGroup {
        ProcessGroup { ranks: (0..ranks).collect(), index: 0 }
    }

    /// Returns a group of these ranks, which must ascend, of a program of `program` ranks.
    ///
    /// # Errors
    /// The ranks do not ascend, there are none, or the program has fewer.
    pub fn new(ranks: &[usize], index: u32, program: usize) -> Result<ProcessGroup> {
        let refused = |message: String| Err(Error::Invalid { what: "group of ranks", message });
        if ranks.is_empty() || !ranks.is_sorted_by(|a, b| a < b) {
            return refused(format!("expected different ranks in ascending order, got {ranks:?}"));
        }
        match ranks.iter().find(|rank| **rank >= program) {
            Some(rank) => refused(format!("rank {rank}: the program has {program} rank(s)")),
            None => Ok(ProcessGroup { ranks: ranks.into(), index }),
        }
    }

    /// Returns the group that the arguments `group` and `group_index` of a call name: all ranks of
    /// the program by default.
    ///
    /// # Errors
    /// As [`ProcessGroup::new`], or an argument is of another type.
    pub fn of(attrs: &Attrs, program: usize) -> Result<ProcessGroup> {
        match named(attrs)? {
            (None, index) => Ok(ProcessGroup { index, ..ProcessGroup::all(program) }),
            (Some(ranks), index) => ProcessGroup::new(&ranks, index, program),
        }
    }

    /// Checks the arguments `group` and `group_index` of a call, without the number of ranks of the
    /// program.
    ///
    /// # Errors
    /// As [`ProcessGroup::of`] for a program of any number of ranks.
    pub fn check(attrs: &Attrs) -> Result<()> {
        match named(attrs)? {
            (None, _) => Ok(()),
            (Some(ranks), index) => ProcessGroup::new(&ranks, index, usize::MAX).map(drop),
        }
    }

    /// Returns the ranks, in ascending order.
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }

    /// Returns the number among the groups of the same ranks.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Returns the position of a rank of the program in the group, if it belongs to it.
    pub fn position(&self, rank: usize) -> Option<usize> {
        self.ranks.binary_search(&rank).ok()
    }
}

/// Returns the ranks and the index that the arguments of a call name.
fn named(attrs: &Attrs) -> Result<(Option<Vec<usize>>, u32)> {
    let invalid = |message: String| Error::Invalid { what: "argument", message };
    let index = attrs.int("group_index")?.unwrap_or(0);
    let index = u32::try_from(index)
        .map_err(|_| invalid(format!("group_index: expected 0 or more, got {index}")))?;
    let rank = |rank: i64| {
        usize::try_from(rank).map_err(|_| invalid(format!("group: there is no rank {rank}")))
    };
    let Some(given) = attrs.ints("group")? else { return Ok((None, index)) };
    Ok((Some(given.into_iter().map(rank).collect::<Result<_>>()?), index))
}

impl fmt::Display for ProcessGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {:?}", self.ranks)?;
        if self.index > 0 {
            write!(f, " number {}", self.index)?;
        }
        Ok(())
    }
}

/// The calls that are numbered together: those of one channel match in the order of each rank's
/// program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Channel {
    /// The collectives of a group.
    Collectives(ProcessGroup),
    /// The barriers of all ranks, `GlobalSync`.
    Barriers,
    /// The messages from this rank to another one.
    Send {
        /// The receiver.
        to: usize,
        /// The messages' tag.
        tag: i64,
    },
    /// The messages from another rank to this one.
    Receive {
        /// The sender.
        from: usize,
        /// The messages' tag.
        tag: i64,
    },
}

impl Channel {
    /// Returns the channel of a call of an op, of a program of so many ranks; none if the op is no
    /// collective.
    ///
    /// # Errors
    /// The arguments name no group or rank of the program.
    pub fn of(op: &str, attrs: &Attrs, ranks: usize) -> Result<Option<Channel>> {
        let peer = |name: &str| -> Result<(usize, i64)> {
            let given = attrs.int(name)?.unwrap_or(-1);
            let peer = usize::try_from(given).ok().filter(|peer| *peer < ranks);
            let peer = peer.ok_or_else(|| Error::Invalid {
                what: "argument",
                message: format!("{name}: expected a rank below {ranks}, got {given}"),
            })?;
            Ok((peer, attrs.int("tag")?.unwrap_or(0)))
        };
        Ok(Some(match op {
            "send" => {
                let (to, tag) = peer("to")?;
                Channel::Send { to, tag }
            }
            "recv_" => {
                let (from, tag) = peer("from")?;
                Channel::Receive { from, tag }
            }
            _ if super::is(op) => Channel::Collectives(ProcessGroup::of(attrs, ranks)?),
            _ => return Ok(None),
        }))
    }
}

/// The numbers of the calls of each channel, in the order of a rank's program.
#[derive(Debug, Default)]
pub struct Numbering {
    next: HashMap<Channel, u64>,
}

impl Numbering {
    /// Takes the next `count` numbers of a channel and returns the first.
    pub fn take(&mut self, channel: Channel, count: u64) -> u64 {
        let next = self.next.entry(channel).or_default();
        let first = *next;
        *next += count;
        first
    }
}
