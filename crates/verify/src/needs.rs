//! Determines which waits are needed: a list without a needed wait is refused.
//!
//! Clocks hold the knowledge that would remain without each wait. Every comparison of the walk
//! therefore names the waits that it depends on, and one walk decides all waits.

use millstream_types::Point;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::clock::Clock;
use crate::storage::Use;
use crate::verdict::Reason;

#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Whether the walk determines needed waits.
    enabled: bool,
    /// Whether clocks hold the knowledge that would remain without each wait.
    traced: bool,
    /// The needed waits, each with the first reason found.
    needed: FxHashMap<usize, Reason>,
    /// The waits that added nothing to what was known.
    redundant: FxHashSet<usize>,
    /// The waits that violate a rule themselves.
    invalid: FxHashSet<usize>,
    /// The waits whose need the clocks overestimate; see [`Needs::mark_uncertain`].
    uncertain: Vec<usize>,
}

impl Needs {
    pub(crate) fn new(enabled: bool, traced: bool) -> Needs {
        Needs { enabled, traced: enabled && traced, ..Needs::default() }
    }

    /// Returns whether clocks hold the knowledge that would remain without each wait.
    pub(crate) const fn traced(&self) -> bool {
        self.traced
    }

    /// Marks `wait` as needed, unless it is marked already.
    pub(crate) fn mark_needed(&mut self, wait: usize, reason: Reason) {
        if self.enabled {
            self.needed.entry(wait).or_insert(reason);
        }
    }

    /// Marks a wait that added nothing to what was known.
    pub(crate) fn mark_redundant(&mut self, wait: usize) {
        self.redundant.insert(wait);
    }

    /// Marks a wait that violates a rule itself.
    pub(crate) fn mark_invalid(&mut self, wait: usize) {
        self.invalid.insert(wait);
    }

    /// Marks a wait whose absence adds knowledge elsewhere: the record of a StreamWait consumes the
    /// pending waits of a pool. The clocks may call it needed where it is not.
    pub(crate) fn mark_uncertain(&mut self, wait: usize) {
        if self.enabled {
            self.uncertain.push(wait);
        }
    }

    /// Returns the waits that need a full recheck, in order: `lost` ones not proven needed, and
    /// uncertain ones marked needed.
    pub(crate) fn undecided(&self, lost: Vec<usize>) -> Vec<usize> {
        let lost = lost.into_iter().filter(|w| !self.needed.contains_key(w));
        let uncertain = self.uncertain.iter().copied().filter(|w| self.needed.contains_key(w));
        let mut open: Vec<usize> = lost.chain(uncertain).collect();
        open.sort_unstable();
        open.dedup();
        open
    }

    /// Decides a wait by the outcome of a walk over the list without it.
    pub(crate) fn decide(&mut self, wait: usize, refused: bool) {
        if refused {
            self.mark_needed(wait, Reason::Refused);
        } else {
            self.needed.remove(&wait);
        }
    }

    /// Returns whether `clock` covers an earlier use, also in each list that lacks one of the waits
    /// not marked needed so far.
    pub(crate) fn covers_without_unneeded(&self, clock: &Clock, earlier: &Use) -> bool {
        clock.covers(earlier.point)
            && self.waits_required_for(clock, earlier).all(|wait| self.needed.contains_key(&wait))
    }

    /// Requires that `clock` covers an earlier use, which it does. Marks the waits without which it
    /// would not.
    pub(crate) fn require(
        &mut self,
        clock: &Clock,
        earlier: &Use,
        reason: impl Fn(usize) -> Reason,
    ) {
        if !self.enabled || clock.without(earlier.point.stream).is_empty() {
            return;
        }
        let waits: Vec<usize> = self.waits_required_for(clock, earlier).collect();
        for wait in waits {
            self.mark_needed(wait, reason(wait));
        }
    }

    /// Returns the waits without which `clock` would not cover an earlier use.
    fn waits_required_for<'a>(
        &self,
        clock: &'a Clock,
        earlier: &'a Use,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let Point { stream, seq } = earlier.point;
        let without = clock.without(stream).iter();
        without
            .filter(move |w| {
                let held = earlier.held.filter(|(wait, _)| *wait == w.wait);
                w.seq < held.map_or(seq, |(_, before)| before)
            })
            .map(|w| w.wait)
    }

    /// Returns whether a wait is needed, and the reason.
    pub(crate) fn reason(&self, wait: usize) -> (bool, Reason) {
        match self.needed.get(&wait) {
            Some(reason) => (true, *reason),
            None if self.invalid.contains(&wait) => (false, Reason::Broken),
            None if self.redundant.contains(&wait) => (false, Reason::Known),
            None => (false, Reason::NotAlone),
        }
    }
}
