//! The result of verifying a list.

use std::fmt;

use crate::violation::Violation;

/// The result of [`verify`](crate::verify).
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The rules that the list breaks, in list order.
    pub violations: Vec<Violation>,
    /// The number of conflicting pairs of uses compared, of operands and of memory. They represent
    /// all pairs: each use is compared with the newest ones only, which come after all others.
    pub pairs: u64,
    /// The waits, in list order. If the walk ended at the limit of violations, the waits before its
    /// end.
    pub waits: Vec<Wait>,
}

impl Verdict {
    /// Returns whether the list violates no rule.
    pub fn proven(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns the number of waits that are not needed, each considered alone.
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
    /// Needed: nothing else orders two conflicting uses.
    Orders {
        /// The index of the use that stands later.
        later: usize,
        /// The index of the use that stands earlier.
        earlier: usize,
    },
    /// Needed: memory is reused, and nothing else orders the new owner after an earlier owner's
    /// last use.
    Frees {
        /// The index of the instruction that takes the memory.
        later: usize,
        /// The index of the earlier owner's last use.
        earlier: usize,
    },
    /// Needed: a later wait names its point.
    Named {
        /// The index of that wait.
        by: usize,
    },
    /// Needed: it records an event that a later wait names.
    Records {
        /// The index of that wait.
        by: usize,
    },
    /// Needed: a walk over the list without it finds a violation.
    Refused,
    /// Assumed needed: a decision would take too long.
    Undecided,
    /// Not needed: it violates a rule itself, and so orders nothing.
    Broken,
    /// Not needed: its point is known to have passed already.
    Known,
    /// Not needed: no later order depends on it alone.
    NotAlone,
}

impl Reason {
    /// Returns the reason as text. `name` names an instruction by its index.
    pub fn say<T: fmt::Display>(self, name: impl Fn(usize) -> T) -> String {
        match self {
            Reason::Orders { later, earlier } => {
                format!("nothing else orders {} after {}", name(later), name(earlier))
            }
            Reason::Frees { later, earlier } => format!(
                "{} takes memory that {} uses; nothing else orders it after that use",
                name(later),
                name(earlier)
            ),
            Reason::Named { by } => format!("{} waits for its point", name(by)),
            Reason::Records { by } => format!("{} waits for the event that it records", name(by)),
            Reason::Refused => "the list without it is rejected".to_owned(),
            Reason::Undecided => "not decided: a decision would take too long".to_owned(),
            Reason::Broken => "it violates a rule itself, and orders nothing".to_owned(),
            Reason::Known => {
                "its point is known already; without the waits that show this it may be needed"
                    .to_owned()
            }
            Reason::NotAlone => {
                "no order depends on it alone; without other needless waits it may be needed"
                    .to_owned()
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.say(|index| format!("[{index}]")))
    }
}
