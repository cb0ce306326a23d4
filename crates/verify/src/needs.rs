//! Which waits are needed: without which the list would be refused.
//!
//! Clocks say what would be known without each wait. So every comparison that the walk makes also
//! tells which waits it rests on alone, and one walk judges them all.

use std::collections::{HashMap, HashSet};

use millstream_types::Point;

use crate::clock::Clock;
use crate::storage::Use;
use crate::verdict::Reason;

#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// Whether it is asked.
    asked: bool,
    /// Whether clocks say what is known without each wait.
    traced: bool,
    /// The waits that are needed, each with the first reason found.
    needed: HashMap<usize, Reason>,
    /// The waits that brought nothing which was not known.
    stale: HashSet<usize>,
    /// The waits that break a rule themselves.
    broken: HashSet<usize>,
    /// The waits of which the clocks say too much; see [`Needs::doubt`].
    doubtful: Vec<usize>,
}

impl Needs {
    pub(crate) fn new(asked: bool, traced: bool) -> Needs {
        Needs { asked, traced: asked && traced, ..Needs::default() }
    }

    /// Whether clocks say what is known without each wait.
    pub(crate) const fn traced(&self) -> bool {
        self.traced
    }

    /// Without `wait`, the list is refused.
    pub(crate) fn need(&mut self, wait: usize, reason: Reason) {
        if self.asked {
            self.needed.entry(wait).or_insert(reason);
        }
    }

    /// A wait brought nothing new.
    pub(crate) fn stale(&mut self, wait: usize) {
        self.stale.insert(wait);
    }

    /// A wait breaks a rule itself.
    pub(crate) fn broken(&mut self, wait: usize) {
        self.broken.insert(wait);
    }

    /// A wait whose absence lets others know more: the record of a StreamWait takes up what a pool
    /// has waited for. It may be needed less than the clocks say.
    pub(crate) fn doubt(&mut self, wait: usize) {
        if self.asked {
            self.doubtful.push(wait);
        }
    }

    /// The waits, in order, that the clocks cannot judge: of those that are `lost` the ones that are
    /// not known to be needed, of the doubtful ones those that seem to be.
    pub(crate) fn open(&self, lost: Vec<usize>) -> Vec<usize> {
        let lost = lost.into_iter().filter(|w| !self.needed.contains_key(w));
        let doubtful = self.doubtful.iter().copied().filter(|w| self.needed.contains_key(w));
        let mut open: Vec<usize> = lost.chain(doubtful).collect();
        open.sort_unstable();
        open.dedup();
        open
    }

    /// The list without `wait` has been walked: it is refused, or it is not.
    pub(crate) fn decide(&mut self, wait: usize, refused: bool) {
        if refused {
            self.need(wait, Reason::Refused);
        } else {
            self.needed.remove(&wait);
        }
    }

    /// Whether `clock` covers an earlier use with each wait taken out that is not needed so far.
    pub(crate) fn is_safe(&self, clock: &Clock, earlier: &Use) -> bool {
        clock.covers(earlier.point)
            && self.lacking(clock, earlier).all(|wait| self.needed.contains_key(&wait))
    }

    /// `clock`, which covers an earlier use, has to. Notes the waits without which it would not.
    pub(crate) fn rest(&mut self, clock: &Clock, earlier: &Use, reason: impl Fn(usize) -> Reason) {
        if !self.asked || clock.without(earlier.point.stream).is_empty() {
            return;
        }
        let waits: Vec<usize> = self.lacking(clock, earlier).collect();
        for wait in waits {
            self.need(wait, reason(wait));
        }
    }

    /// The waits without which `clock` would not cover an earlier use.
    fn lacking<'a>(
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

    /// Whether a wait is needed, and why or why not.
    pub(crate) fn of(&self, wait: usize) -> (bool, Reason) {
        match self.needed.get(&wait) {
            Some(reason) => (true, *reason),
            None if self.broken.contains(&wait) => (false, Reason::Broken),
            None if self.stale.contains(&wait) => (false, Reason::Known),
            None => (false, Reason::NotAlone),
        }
    }
}
