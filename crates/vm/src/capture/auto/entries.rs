//! The sequences that are known, and their bounds.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use millstream_types::Result;

use crate::api::machine::Machine;
use crate::capture::limits::CaptureLimits;
use crate::capture::note::Value;

use super::repeats::Repeats;
use super::sequence::Sequence;
use super::token::unique;

/// The most sequences that were found and are not ready.
const MAX_FOUND: usize = 64;

/// How often a sequence may end early without ever being complete.
const MAX_FAILURES: u64 = 8;

/// How often a sequence is compiled again, as the program keeps other tensors of it.
const MAX_COMPILATIONS: u32 = 4;

/// After so many calls in which no sequence became ready, calls that are held are no longer
/// searched for longer repeats.
const SEARCHED_CALLS: u64 = 1 << 15;

/// The most found sequences of which it is remembered that they were found.
const MAX_SEEN: usize = 1 << 12;

/// What is known of a sequence.
pub(super) enum Kind {
    /// It has occurred twice.
    Found,
    /// It has been compiled.
    Ready(Arc<Sequence>),
}

/// A sequence that is known.
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) tokens: Arc<[u64]>,
    pub(super) kind: Kind,
    /// How often it was complete, and how often it ended early.
    replays: u64,
    failures: u64,
    compilations: u32,
}

/// The sequences that are known, and the search for more.
pub(super) struct Entries {
    limits: CaptureLimits,
    repeats: Repeats,
    /// Those used longest ago first.
    all: Vec<Entry>,
    next: u64,
    /// The hashes of the token lists that were found so far.
    seen: HashSet<u64>,
    /// The number of breaks so far, each of which is a token of its own.
    breaks: u64,
    /// Whether the newest token is a break.
    is_broken: bool,
    /// The number of calls when a sequence last became ready.
    last_ready: u64,
}

impl Entries {
    pub(super) fn new(limits: CaptureLimits) -> Entries {
        Entries {
            limits,
            repeats: Repeats::new(),
            all: Vec::new(),
            next: 0,
            seen: HashSet::new(),
            breaks: 0,
            is_broken: true,
            last_ready: 0,
        }
    }

    fn position(&self, number: u64) -> Option<usize> {
        self.all.iter().position(|entry| entry.number == number)
    }

    /// Returns the longest sequence that begins with this token.
    pub(super) fn longest_from(&self, token: u64) -> Option<&Entry> {
        let from = self.all.iter().filter(|entry| entry.tokens[0] == token);
        from.max_by_key(|entry| (entry.tokens.len(), entry.number))
    }

    /// Whether a found sequence begins with this token that is longer than `length`.
    pub(super) fn starts_longer(&self, token: u64, length: usize) -> bool {
        let mut found = self.all.iter().filter(|entry| matches!(entry.kind, Kind::Found));
        found.any(|entry| entry.tokens[0] == token && entry.tokens.len() > length)
    }

    /// Ends all sequences of tokens.
    pub(super) fn break_sequence(&mut self) {
        if !std::mem::replace(&mut self.is_broken, true) {
            self.breaks += 1;
            let found = self.repeats.push_break(unique(self.breaks));
            self.add(found);
        }
    }

    /// Adds a token to the search for repeats.
    pub(super) fn observe(&mut self, token: u64) {
        self.is_broken = false;
        let found = self.repeats.push(token);
        self.add(found);
    }

    /// Adds a token of a held call, unless no sequence became ready for long.
    pub(super) fn observe_held(&mut self, token: u64, calls: u64) {
        if calls - self.last_ready < SEARCHED_CALLS {
            self.observe(token);
        } else {
            self.break_sequence();
        }
    }

    /// Adds a sequence that was found, unless it is known.
    fn add(&mut self, found: Option<Vec<u64>>) {
        let Some(tokens) = found else { return };
        let mut hasher = DefaultHasher::new();
        tokens.hash(&mut hasher);
        if self.seen.len() >= MAX_SEEN {
            self.seen.clear();
        }
        let is_new = self.seen.insert(hasher.finish());
        if !is_new || self.all.iter().any(|entry| is_within(&tokens, &entry.tokens)) {
            return;
        }
        let is_found = |entry: &Entry| matches!(entry.kind, Kind::Found);
        if self.all.iter().filter(|entry| is_found(entry)).count() >= MAX_FOUND
            && let Some(oldest) = self.all.iter().position(is_found)
        {
            self.all.remove(oldest);
        }
        let number = self.next;
        self.next += 1;
        let (tokens, kind) = (Arc::from(tokens), Kind::Found);
        self.all.push(Entry { number, tokens, kind, replays: 0, failures: 0, compilations: 1 });
    }

    /// Makes a found sequence ready. Returns how many ready ones were given up for the limits.
    pub(super) fn make_ready(&mut self, number: u64, made: Arc<Sequence>, calls: u64) -> u64 {
        let Some(at) = self.position(number) else { return 0 };
        self.last_ready = calls;
        let mut entry = self.all.remove(at);
        (entry.kind, entry.failures) = (Kind::Ready(made), 0);
        // What lies within a longer sequence would be held in its place.
        self.all.retain(|other| !is_within(&other.tokens, &entry.tokens));
        self.all.push(entry);
        let mut given_up = 0;
        loop {
            let (count, bytes) = self.size();
            if count <= self.limits.entries.max(1) && (count <= 1 || bytes <= self.limits.bytes) {
                return given_up;
            }
            let is_ready = |entry: &Entry| matches!(entry.kind, Kind::Ready(_));
            let Some(oldest) = self.all.iter().position(is_ready) else { return given_up };
            self.all.remove(oldest);
            given_up += 1;
        }
    }

    /// Compiles a ready sequence again, to leave these values behind as well.
    ///
    /// # Errors
    /// It cannot be compiled, or was too often. It is no longer known.
    pub(super) fn keep_also(
        &mut self,
        number: u64,
        machine: &Machine,
        values: &[Value],
    ) -> Result<()> {
        let Some(at) = self.position(number) else { return Ok(()) };
        let entry = &mut self.all[at];
        entry.compilations += 1;
        let compiled = match &mut entry.kind {
            Kind::Ready(sequence) if entry.compilations <= MAX_COMPILATIONS => {
                // The calls held were made, so nothing else shares it.
                Arc::get_mut(sequence).map(|sequence| sequence.keep_also(machine, values))
            }
            Kind::Ready(_) | Kind::Found => None,
        };
        match compiled {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                self.all.remove(at);
                Err(error)
            }
            None => {
                self.all.remove(at);
                Ok(())
            }
        }
    }

    /// Notes that a sequence was complete.
    pub(super) fn note_replay(&mut self, number: u64) {
        if let Some(at) = self.position(number) {
            self.all[at].replays += 1;
            self.all[at..].rotate_left(1);
        }
    }

    /// Notes that a sequence ended early. Returns why it is given up, if it is.
    pub(super) fn fail(&mut self, number: u64) -> Option<String> {
        let at = self.position(number)?;
        let entry = &mut self.all[at];
        entry.failures += 1;
        if entry.failures <= MAX_FAILURES + entry.replays {
            return None;
        }
        let calls = entry.tokens.len();
        self.all.remove(at);
        Some(format!("given up: a sequence of {calls} calls that was rarely complete"))
    }

    /// Removes a sequence.
    pub(super) fn remove(&mut self, number: u64) {
        self.all.retain(|entry| entry.number != number);
    }

    /// Removes all ready sequences, and returns them.
    pub(super) fn take_ready(&mut self) -> Vec<Entry> {
        let is_ready = |entry: &mut Entry| matches!(entry.kind, Kind::Ready(_));
        self.all.extract_if(.., is_ready).collect()
    }

    /// Returns the number of ready sequences, and the bytes of their private memory.
    pub(super) fn size(&self) -> (usize, u64) {
        let ready = self.all.iter().filter_map(|entry| match &entry.kind {
            Kind::Ready(sequence) => Some(sequence.bytes()),
            Kind::Found => None,
        });
        ready.fold((0, 0), |(count, all), bytes| (count + 1, all + bytes))
    }
}

/// Whether a sequence lies within the repetition of another one.
fn is_within(inner: &[u64], outer: &[u64]) -> bool {
    let length = outer.len();
    inner.len() <= length
        && (0..length)
            .any(|start| (0..inner.len()).all(|k| inner[k] == outer[(start + k) % length]))
}
