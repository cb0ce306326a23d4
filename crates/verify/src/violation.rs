//! What is wrong with a list.

use std::fmt;
use std::ops::Range;

use millstream_instructions::Placement;
use millstream_types::{Access, EventId, Point, StreamId, StreamType, TensorId, TensorSpec};

/// An instruction of the list, shown as its index in brackets and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its index in the list, from 0.
    pub index: usize,
    /// Its line in the text form, cut off where it is very long.
    pub line: String,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.index, self.line)
    }
}

/// An instruction's use of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseSite {
    /// The instruction.
    pub site: Site,
    /// The tensor by which it names the storage.
    pub tensor: TensorId,
    /// How it uses it; nothing for an allocation or a workspace.
    pub access: Option<Access>,
}

impl fmt::Display for UseSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.access {
            None => write!(f, "{}", self.site),
            Some(access) => write!(f, "{} {} {}", self.site, verb(access), self.tensor),
        }
    }
}

const fn verb(access: Access) -> &'static str {
    match access {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::ReadWrite => "reads and writes",
    }
}

/// What would have ordered two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The stream that would have to wait.
    pub waiter: StreamId,
    /// The point that it would have to wait for.
    pub point: Point,
    /// The last place of the point's stream that is known there; 0 if none is. From the point to
    /// here there is no path of waits.
    pub known: u64,
    /// Whether only a wait by the host or a barrier would do: what a pool allocates knows nothing
    /// of the pool's own waits.
    pub fence: bool,
}

impl Missing {
    /// The path that is not there.
    pub fn path(&self) -> String {
        let Missing { waiter, point, known, .. } = self;
        let source = point.stream;
        match known {
            0 => format!("no waits lead from {point} to here: {waiter} knows nothing of {source}"),
            _ => format!(
                "no waits lead from {point} to here: {waiter} knows of {source} only up to {}",
                Point::new(source, *known)
            ),
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { waiter, point, .. } = self;
        if self.fence {
            return write!(f, "a HostObserved of {point} or a barrier before it would");
        }
        write!(f, "a wait of {waiter} for {point} before it would")
    }
}

fn was_released(at: &Option<Site>) -> String {
    match at {
        Some(at) => format!("was released by {at}"),
        None => "was never made".to_owned(),
    }
}

fn tail(last: &Point) -> String {
    match last.seq {
        0 => format!("{} has none yet", last.stream),
        _ => format!("the last of {} so far is {last}", last.stream),
    }
}

fn was_begun(at: &Option<Site>) -> String {
    at.as_ref().map_or_else(|| "from outside".to_owned(), |at| format!("made by {at}"))
}

fn of_bytes(bytes: &Option<Range<u64>>) -> String {
    bytes.as_ref().map_or_else(String::new, |b| format!("bytes {}..{} of ", b.start, b.end))
}

fn of_later(later: &Option<Site>) -> String {
    later.as_ref().map_or_else(String::new, |at| format!("; it is recorded later, by {at}"))
}

fn of_cycle(cycle: &[usize]) -> String {
    let steps: Vec<String> = cycle.iter().map(|k| format!("[{k}]")).collect();
    match cycle.len() {
        0 => String::new(),
        1 => "; it waits for itself".to_owned(),
        _ => format!(
            "; a cycle: each of {} comes after the next, and the last is this wait",
            steps.join(", ")
        ),
    }
}

/// A rule that a list breaks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Two uses of a storage, one of which writes, that may happen in either order.
    #[error(
        "race on {}the storage of {storage}: {later}; {earlier}: nothing orders them; {missing}",
        of_bytes(.bytes)
    )]
    Race {
        /// The tensor that the storage began with.
        storage: TensorId,
        /// Bytes of it that both use; nothing where storages are told apart and not bytes.
        bytes: Option<Range<u64>>,
        /// The use that stands later in the list.
        later: Box<UseSite>,
        /// The use that stands earlier.
        earlier: Box<UseSite>,
        /// What would order them.
        missing: Missing,
    },
    /// Memory given out again before an earlier owner's last use is known to be over.
    #[error(
        "memory reused too early: {new} takes {place} that was the memory of {owner}, last used \
         by {last}: nothing orders them; {missing}"
    )]
    ReusedTooEarly {
        /// The new owner.
        new: Site,
        /// Its place.
        place: Place,
        /// The earlier owner: a tensor, or the workspace of an instruction.
        owner: String,
        /// The use that may still be going on.
        last: Box<UseSite>,
        /// What would order them.
        missing: Missing,
    },
    /// Memory given out while it has an owner.
    #[error("memory in use: {new} takes {place} that belongs to {owner}, live since {begun}")]
    MemoryInUse {
        /// The new owner.
        new: Site,
        /// Its place.
        place: Place,
        /// The tensor that lives there.
        owner: TensorId,
        /// Where that began.
        begun: Site,
    },
    /// Two owners of one place that cannot be told apart.
    #[error("{site}: an earlier owner of {place} has the same generation")]
    SameGeneration {
        /// The second owner.
        site: Site,
        /// Its place.
        place: Place,
    },
    /// A place that memory cannot have.
    #[error("{site}: {place} is not a place: offsets are multiples of 512, ends fit in 64 bits")]
    BadPlace {
        /// The instruction.
        site: Site,
        /// The place.
        place: Place,
    },
    /// A tensor that reaches past its storage.
    #[error("{site}: {spec} spans {} bytes, its storage has {bytes}", .spec.span_bytes())]
    PastStorage {
        /// Where the tensor begins.
        site: String,
        /// Its spec.
        spec: Box<TensorSpec>,
        /// The bytes of its storage.
        bytes: u64,
    },
    /// A tensor used before its life, or after it.
    #[error("{site}: {tensor} {}", was_released(.released))]
    NotAlive {
        /// The use.
        site: Site,
        /// The tensor.
        tensor: TensorId,
        /// Where it was released, if it ever lived.
        released: Option<Site>,
    },
    /// A tensor made under the id of a live one.
    #[error("{site}: {tensor} lives already, {}", was_begun(.begun))]
    LivesAlready {
        /// The second one.
        site: Site,
        /// The id.
        tensor: TensorId,
        /// Where the first one was made.
        begun: Option<Site>,
    },
    /// Something that the header does not declare.
    #[error("{site}: {what} is not declared")]
    NotDeclared {
        /// The instruction or the part of the header.
        site: String,
        /// What is missing.
        what: String,
    },
    /// An instruction on a stream that cannot run it.
    #[error("{site}: {stream} is of type {found}; expected {expected}")]
    WrongStream {
        /// The instruction.
        site: Site,
        /// The stream.
        stream: StreamId,
        /// Its type.
        found: StreamType,
        /// The types that can.
        expected: String,
    },
    /// A sequence number that does not follow those before it.
    #[error("{site}: {at} does not count up; {}", tail(.last))]
    OutOfOrder {
        /// The instruction.
        site: Site,
        /// Its place.
        at: Point,
        /// The stream's last place before it.
        last: Point,
    },
    /// A wait for a point that does not stand earlier in the list.
    #[error("{site}: a wait for {until} would never end; {}{}", tail(.last), of_cycle(.cycle))]
    NoSuchPoint {
        /// The wait.
        site: Site,
        /// What it waits for.
        until: Point,
        /// The last place of that stream.
        last: Point,
        /// If what is waited for stands later and waits for the wait: the way from it to here.
        cycle: Vec<usize>,
    },
    /// A wait for an event that was not recorded before.
    #[error(
        "{site}: {event} is not recorded before; a wait for it would be no wait{}{}",
        of_later(.later), of_cycle(.cycle)
    )]
    NotRecorded {
        /// The wait.
        site: Site,
        /// The event.
        event: EventId,
        /// Where it is recorded later.
        later: Option<Site>,
        /// If that record waits for the wait: the way from it to here.
        cycle: Vec<usize>,
    },
    /// A wait that takes an event's record for another.
    #[error("{site}: waits for {until}, but {event} was last recorded at {at}, by {record}")]
    OtherRecord {
        /// The wait.
        site: Site,
        /// What it says it waits for.
        until: Point,
        /// The event.
        event: EventId,
        /// The place of its newest record.
        at: Point,
        /// That record.
        record: Site,
    },
    /// A section that holds what another one holds.
    #[error("{site}: {tensor} is held by the section that begins at {begun}")]
    Held {
        /// The section's begin.
        site: Site,
        /// The tensor.
        tensor: TensorId,
        /// The other section's begin.
        begun: Site,
    },
    /// A section's end that fits no open section.
    #[error("{site}: no open section of this stream holds just these tensors")]
    NotOpen {
        /// The section's end.
        site: Site,
    },
    /// A section that the list leaves open.
    #[error("{site}: the section is never ended")]
    NotClosed {
        /// The section's begin.
        site: Site,
    },
    /// A host callback where none can be.
    #[error("{site}: a list with host callbacks cannot be run from its text")]
    Callback {
        /// The instruction.
        site: Site,
    },
}

impl Violation {
    /// The index of the instruction that breaks the rule: of two, the one that stands later. None
    /// if the header does.
    pub const fn index(&self) -> Option<usize> {
        match self {
            Violation::Race { later, .. } => Some(later.site.index),
            Violation::ReusedTooEarly { new, .. } | Violation::MemoryInUse { new, .. } => {
                Some(new.index)
            }
            Violation::PastStorage { .. } | Violation::NotDeclared { .. } => None,
            Violation::SameGeneration { site, .. }
            | Violation::BadPlace { site, .. }
            | Violation::NotAlive { site, .. }
            | Violation::LivesAlready { site, .. }
            | Violation::WrongStream { site, .. }
            | Violation::OutOfOrder { site, .. }
            | Violation::NoSuchPoint { site, .. }
            | Violation::NotRecorded { site, .. }
            | Violation::OtherRecord { site, .. }
            | Violation::Held { site, .. }
            | Violation::NotOpen { site }
            | Violation::NotClosed { site }
            | Violation::Callback { site } => Some(site.index),
        }
    }

    /// The rule's name, as reports have it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Violation::Race { .. } => "race",
            Violation::ReusedTooEarly { .. } => "memory-reused-too-early",
            Violation::MemoryInUse { .. } => "memory-in-use",
            Violation::SameGeneration { .. } => "same-generation",
            Violation::BadPlace { .. } => "bad-place",
            Violation::PastStorage { .. } => "past-storage",
            Violation::NotAlive { .. } => "not-alive",
            Violation::LivesAlready { .. } => "lives-already",
            Violation::NotDeclared { .. } => "not-declared",
            Violation::WrongStream { .. } => "wrong-stream",
            Violation::OutOfOrder { .. } => "out-of-order",
            Violation::NoSuchPoint { .. } => "no-such-point",
            Violation::NotRecorded { .. } => "not-recorded",
            Violation::OtherRecord { .. } => "other-record",
            Violation::Held { .. } => "held",
            Violation::NotOpen { .. } => "not-open",
            Violation::NotClosed { .. } => "not-closed",
            Violation::Callback { .. } => "callback",
        }
    }

    /// The rule in short, where the instructions are shown beside it.
    pub fn brief(&self) -> String {
        match self {
            Violation::Race { storage, bytes, .. } => {
                format!("race on {}the storage of {storage}", of_bytes(bytes))
            }
            Violation::ReusedTooEarly { place, owner, .. } => {
                format!("memory reused too early: {place}, that was the memory of {owner}")
            }
            other => other.to_string(),
        }
    }

    /// The instruction that breaks the rule and, where there are two, the earlier one; each with
    /// what it does, if that is a use.
    pub fn sites(&self) -> Vec<(&Site, String)> {
        let used = |at: &UseSite| match at.access {
            Some(access) => format!("{} {}", verb(access), at.tensor),
            None => "uses this memory".to_owned(),
        };
        match self {
            Violation::Race { later, earlier, .. } => {
                vec![(&later.site, used(later)), (&earlier.site, used(earlier))]
            }
            Violation::ReusedTooEarly { new, last, .. } => {
                vec![(new, "takes this memory".to_owned()), (&last.site, used(last))]
            }
            Violation::MemoryInUse { new, begun, .. } => {
                vec![(new, "takes this memory".to_owned()), (begun, "has it".to_owned())]
            }
            Violation::PastStorage { .. } | Violation::NotDeclared { .. } => Vec::new(),
            Violation::NotAlive { site, released, .. } => {
                let released = released.as_ref().map(|at| (at, "released here".to_owned()));
                std::iter::once((site, String::new())).chain(released).collect()
            }
            Violation::LivesAlready { site, begun, .. } => {
                let begun = begun.as_ref().map(|at| (at, "made here".to_owned()));
                std::iter::once((site, String::new())).chain(begun).collect()
            }
            Violation::NotRecorded { site, later, .. } => {
                let later = later.as_ref().map(|at| (at, "recorded here".to_owned()));
                std::iter::once((site, String::new())).chain(later).collect()
            }
            Violation::OtherRecord { site, record, .. } => {
                vec![(site, String::new()), (record, "the newest record".to_owned())]
            }
            Violation::Held { site, begun, .. } => {
                vec![(site, String::new()), (begun, "held from here".to_owned())]
            }
            Violation::SameGeneration { site, .. }
            | Violation::BadPlace { site, .. }
            | Violation::WrongStream { site, .. }
            | Violation::OutOfOrder { site, .. }
            | Violation::NoSuchPoint { site, .. }
            | Violation::NotOpen { site }
            | Violation::NotClosed { site }
            | Violation::Callback { site } => vec![(site, String::new())],
        }
    }

    /// The order that is missing between two uses.
    pub const fn missing(&self) -> Option<&Missing> {
        match self {
            Violation::Race { missing, .. } | Violation::ReusedTooEarly { missing, .. } => {
                Some(missing)
            }
            _ => None,
        }
    }

    /// Bytes that two uses have in common: of a storage, or of an arena.
    pub fn bytes(&self) -> Option<Range<u64>> {
        match self {
            Violation::Race { bytes, .. } => bytes.clone(),
            Violation::ReusedTooEarly { place, .. } | Violation::MemoryInUse { place, .. } => {
                Some(place.0.offset..place.0.offset.saturating_add(place.0.size))
            }
            _ => None,
        }
    }
}

/// A placement, shown as the text form shows its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub Placement);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placement { arena, offset, size, .. } = self.0;
        write!(f, "{size} bytes at {arena}+{offset}")
    }
}
