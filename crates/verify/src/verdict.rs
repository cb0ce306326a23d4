//! What is found out about a list.

use std::fmt;

use crate::violation::Violation;

/// What [`verify`](crate::verify) finds out about a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The rules that the list breaks, in list order.
    pub violations: Vec<Violation>,
    /// How many pairs of conflicting uses were compared, of operands and of memory. They stand for
    /// all pairs: each use is compared with the newest ones only, which come after all others.
    pub pairs: u64,
    /// The waits, in list order. Of a list with too many violations, those before the last.
    pub waits: Vec<Wait>,
}

impl Verdict {
    /// Whether the list keeps all rules.
    pub fn proven(&self) -> bool {
        self.violations.is_empty()
    }

    /// How many waits are not needed, each for itself.
    pub fn not_needed(&self) -> usize {
        self.waits.iter().filter(|w| !w.needed).count()
    }
}

/// A wait of a list: StreamWaitEvent, StreamWait or HostObserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Its index in the list, from 0.
    pub index: usize,
    /// Whether the list is refused without it and with all others. Two waits may each be needless
    /// because the other one is there.
    pub needed: bool,
    /// Why, or why not.
    pub reason: Reason,
}

/// Why a wait is needed, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Needed: two conflicting uses are ordered by nothing else.
    Orders {
        /// The index of the use that stands later.
        later: usize,
        /// The index of the use that stands earlier.
        earlier: usize,
    },
    /// Needed: memory is given out again, and nothing else says that an earlier owner's use is over.
    Frees {
        /// The index of the instruction that takes the memory.
        later: usize,
        /// The index of the earlier owner's last use.
        earlier: usize,
    },
    /// Needed: a later wait names its place.
    Named {
        /// The index of that wait.
        by: usize,
    },
    /// Needed: it records an event that a later wait is for.
    Records {
        /// The index of that wait.
        by: usize,
    },
    /// Needed: a walk over the list without it finds a violation.
    Refused,
    /// Taken for needed: it would take too long to find out.
    Undecided,
    /// Not needed: it breaks a rule itself, and so brings nothing.
    Broken,
    /// Not needed: what it waits for is known at its place.
    Known,
    /// Not needed: nothing that follows rests on it alone.
    NotAlone,
}

impl Reason {
    /// The reason in words, with instructions as `name` calls them.
    pub fn say<T: fmt::Display>(self, name: impl Fn(usize) -> T) -> String {
        match self {
            Reason::Orders { later, earlier } => {
                format!("nothing else orders {} after {}", name(later), name(earlier))
            }
            Reason::Frees { later, earlier } => format!(
                "{} takes memory that {} uses; nothing else says that this is over",
                name(later),
                name(earlier)
            ),
            Reason::Named { by } => format!("{} waits for its place", name(by)),
            Reason::Records { by } => format!("{} waits for the event that it records", name(by)),
            Reason::Refused => "the list without it is refused".to_owned(),
            Reason::Undecided => "not decided: too long to find out".to_owned(),
            Reason::Broken => "it breaks a rule itself, and brings nothing".to_owned(),
            Reason::Known => {
                "what it waits for is known already, as long as the waits that say so are there"
                    .to_owned()
            }
            Reason::NotAlone => {
                "nothing rests on it alone; if other needless waits go, it may be needed".to_owned()
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.say(|index| format!("[{index}]")))
    }
}
