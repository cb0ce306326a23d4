//! The rules that a list can violate.
//!
//! Long because each rule has its data, its name and its message here.

use std::fmt;
use std::ops::Range;

use millstream_instructions::Placement;
use millstream_types::{
    Access, EventId, ListId, Point, StreamId, StreamType, TensorId, TensorSpec,
};

/// An instruction of the list, displayed as its index in brackets and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Its index in the list, from 0.
    pub index: usize,
    /// Its line in the text form, truncated where it is very long.
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
    /// The access to the tensor; none for an allocation or a workspace.
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

/// The wait that would order two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The stream that would wait.
    pub waiter: StreamId,
    /// The point that the stream would wait for.
    pub point: Point,
    /// The highest sequence number of the point's stream that the waiter knows; 0 if none. No path
    /// of waits leads from the point to the waiter.
    pub known: u64,
    /// Whether only a host observation or a barrier would order the uses: an allocation on a pool
    /// does not know the pool's own waits.
    pub fence: bool,
}

impl Missing {
    /// Returns a description of the missing path.
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

/// A rule that a list violates.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Two unordered uses of a storage, one of which writes.
    #[error(
        "race on {}the storage of {storage}: {later}; {earlier}: nothing orders them; {missing}",
        of_bytes(.bytes)
    )]
    Race {
        /// The storage's first tensor.
        storage: TensorId,
        /// Bytes of the storage that both use; none where the check decides by storages.
        bytes: Option<Range<u64>>,
        /// The use that is later in the list.
        later: Box<UseSite>,
        /// The use that is earlier in the list.
        earlier: Box<UseSite>,
        /// The wait that would order them.
        missing: Missing,
    },
    /// Memory reused by an owner that is not ordered after an earlier owner's last use.
    #[error(
        "memory reused too early: {new} takes {place}, the memory of {owner}, last used by {last}: \
         nothing orders them; {missing}"
    )]
    ReusedTooEarly {
        /// The new owner.
        new: Site,
        /// Its placement.
        place: Place,
        /// The earlier owner: a tensor, or the workspace of an instruction.
        owner: String,
        /// The use that may be unfinished.
        last: Box<UseSite>,
        /// The wait that would order them.
        missing: Missing,
    },
    /// Memory assigned to an owner while another owner is live.
    #[error("memory in use: {new} takes {place}, the memory of {owner}, live since {begun}")]
    MemoryInUse {
        /// The new owner.
        new: Site,
        /// Its placement.
        place: Place,
        /// The live tensor.
        owner: TensorId,
        /// The instruction that begins the live tensor.
        begun: Site,
    },
    /// Two owners of one placement with the same generation.
    #[error("{site}: an earlier owner of {place} has the same generation")]
    SameGeneration {
        /// The second owner.
        site: Site,
        /// Its placement.
        place: Place,
    },
    /// A placement that is not aligned, or whose end exceeds 64 bits.
    #[error("{site}: {place} is no placement: offsets are multiples of 512, ends fit in 64 bits")]
    BadPlace {
        /// The instruction.
        site: Site,
        /// The placement.
        place: Place,
    },
    /// A tensor that exceeds its storage.
    #[error("{site}: {spec} spans {} bytes, its storage has {bytes}", .spec.span_bytes())]
    PastStorage {
        /// The instruction that begins the tensor.
        site: String,
        /// Its spec.
        spec: Box<TensorSpec>,
        /// The bytes of its storage.
        bytes: u64,
    },
    /// A use of a tensor that is not live.
    #[error("{site}: {tensor} {}", was_released(.released))]
    NotAlive {
        /// The use.
        site: Site,
        /// The tensor.
        tensor: TensorId,
        /// The tensor's release, if it was released.
        released: Option<Site>,
    },
    /// A tensor that begins under the id of a live tensor.
    #[error("{site}: {tensor} is live already, {}", was_begun(.begun))]
    LivesAlready {
        /// The instruction that begins the second tensor.
        site: Site,
        /// The id.
        tensor: TensorId,
        /// The instruction that begins the first tensor; none for an external.
        begun: Option<Site>,
    },
    /// A reference that the header does not declare.
    #[error("{site}: {what} is not declared")]
    NotDeclared {
        /// The instruction or the part of the header.
        site: String,
        /// The missing declaration.
        what: String,
    },
    /// A launch does not give its executable what that needs.
    #[error("{site}: {what}")]
    BadLaunch {
        /// The launch.
        site: Site,
        /// What is given, and what is needed.
        what: String,
    },
    /// The list of an executable violates a rule.
    #[error("in {list}: {violation}")]
    InExecutable {
        /// The executable.
        list: ListId,
        /// The violation, with places in the executable's list.
        violation: Box<Violation>,
    },
    /// An instruction on a stream whose type cannot run it.
    #[error("{site}: {stream} is of type {found}; expected {expected}")]
    WrongStream {
        /// The instruction.
        site: Site,
        /// The stream.
        stream: StreamId,
        /// Its type.
        found: StreamType,
        /// The types that can run it.
        expected: String,
    },
    /// A sequence number that does not exceed the stream's earlier ones.
    #[error("{site}: {at} does not count up; {}", tail(.last))]
    OutOfOrder {
        /// The instruction.
        site: Site,
        /// Its point.
        at: Point,
        /// The stream's last point before it.
        last: Point,
    },
    /// A wait for a point that is not earlier in the list.
    #[error("{site}: a wait for {until} would never end; {}{}", tail(.last), of_cycle(.cycle))]
    NoSuchPoint {
        /// The wait.
        site: Site,
        /// The point that it waits for.
        until: Point,
        /// The last point of that stream.
        last: Point,
        /// The path from the awaited instruction to the wait, if the former waits for the latter.
        cycle: Vec<usize>,
    },
    /// A wait for an event without an earlier record.
    #[error(
        "{site}: {event} is not recorded before; a wait for it would be no wait{}{}",
        of_later(.later), of_cycle(.cycle)
    )]
    NotRecorded {
        /// The wait.
        site: Site,
        /// The event.
        event: EventId,
        /// The later record, if one exists.
        later: Option<Site>,
        /// The path from that record to the wait, if the record waits for the wait.
        cycle: Vec<usize>,
    },
    /// A wait that names another point than the event's newest record.
    #[error("{site}: waits for {until}, but {event} was last recorded at {at}, by {record}")]
    OtherRecord {
        /// The wait.
        site: Site,
        /// The point that it names.
        until: Point,
        /// The event.
        event: EventId,
        /// The point of the newest record.
        at: Point,
        /// The newest record.
        record: Site,
    },
    /// A critical section that begins on a tensor that another section holds.
    #[error("{site}: {tensor} is held by the section that begins at {begun}")]
    Held {
        /// The section's begin.
        site: Site,
        /// The tensor.
        tensor: TensorId,
        /// The other section's begin.
        begun: Site,
    },
    /// A section's end that matches no open section.
    #[error("{site}: no open section of this stream holds just these tensors")]
    NotOpen {
        /// The section's end.
        site: Site,
    },
    /// A section that the list never ends.
    #[error("{site}: the section is never ended")]
    NotClosed {
        /// The section's begin.
        site: Site,
    },
    /// A host callback in a list that may not have one.
    #[error("{site}: a list with host callbacks cannot be run from its text")]
    Callback {
        /// The instruction.
        site: Site,
    },
}

impl Violation {
    /// Returns the index of the instruction that violates the rule; of two, the later one. Returns
    /// `None` if the header violates it.
    pub fn index(&self) -> Option<usize> {
        self.sites().first().map(|(site, _)| site.index)
    }

    /// Returns the rule's name in reports.
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
            Violation::BadLaunch { .. } => "bad-launch",
            Violation::InExecutable { .. } => "in-executable",
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

    /// Returns a short message, for reports that show the instructions beside it.
    pub fn brief(&self) -> String {
        match self {
            Violation::Race { storage, bytes, .. } => {
                format!("race on {}the storage of {storage}", of_bytes(bytes))
            }
            Violation::ReusedTooEarly { place, owner, .. } => {
                format!("memory reused too early: {place}, the memory of {owner}")
            }
            other => other.to_string(),
        }
    }

    /// Returns the instruction that violates the rule and, if there are two, the earlier one; each
    /// with a label of its role.
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
            Violation::PastStorage { .. }
            | Violation::NotDeclared { .. }
            | Violation::InExecutable { .. } => Vec::new(),
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
            | Violation::BadLaunch { site, .. }
            | Violation::WrongStream { site, .. }
            | Violation::OutOfOrder { site, .. }
            | Violation::NoSuchPoint { site, .. }
            | Violation::NotOpen { site }
            | Violation::NotClosed { site }
            | Violation::Callback { site } => vec![(site, String::new())],
        }
    }

    /// Returns the wait that would order two uses.
    pub const fn missing(&self) -> Option<&Missing> {
        match self {
            Violation::Race { missing, .. } | Violation::ReusedTooEarly { missing, .. } => {
                Some(missing)
            }
            _ => None,
        }
    }

    /// Returns bytes of a storage or an arena that both uses share.
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

/// A placement, displayed as in the text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub Placement);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placement { arena, offset, size, .. } = self.0;
        write!(f, "{size} bytes at {arena}+{offset}")
    }
}
