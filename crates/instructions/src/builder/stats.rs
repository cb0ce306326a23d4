//! Counts of emitted instructions and of waits.

use crate::instruction::Resolution;
use crate::table::Kind;

/// Needs to wait for another stream, by how they were resolved. A need is one pair of an
/// instruction and a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// All needs.
    pub needed: u64,
    /// Waits on the device.
    pub device: u64,
    /// Waits by the host.
    pub host: u64,
    /// Needs without a wait, because the stream knew the point.
    pub known: u64,
    /// Needs without a wait, because the host had observed the point or a barrier stood between.
    pub fenced: u64,
    /// Needs without a wait, because another wait of the same instruction implied it.
    pub implied: u64,
}

impl Waits {
    /// Returns the number of emitted waits.
    pub const fn emitted(&self) -> u64 {
        self.device + self.host
    }

    /// Returns the number of needs without a wait.
    pub const fn elided(&self) -> u64 {
        self.known + self.fenced + self.implied
    }
}

/// Counts of a builder's emissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    kinds: [u64; Kind::ALL.len()],
    /// Needs to wait, by how they were resolved.
    pub waits: Waits,
    /// The number of event slots. Each is reused many times.
    pub events_created: u64,
    /// Waits for an event that was recorded for an earlier wait.
    pub events_reused: u64,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            kinds: [0; Kind::ALL.len()],
            waits: Waits::default(),
            events_created: 0,
            events_reused: 0,
        }
    }
}

impl Stats {
    pub(super) const fn count(&mut self, kind: Kind) {
        self.kinds[kind as usize] += 1;
    }

    pub(super) const fn resolved(&mut self, resolution: Resolution) {
        self.waits.needed += 1;
        match resolution {
            Resolution::Device => self.waits.device += 1,
            Resolution::Host => self.waits.host += 1,
            Resolution::Known => self.waits.known += 1,
            Resolution::Fenced => self.waits.fenced += 1,
            Resolution::Implied(_) => self.waits.implied += 1,
        }
    }

    /// Counts needs without a wait: points that the stream knew, and points behind the fence.
    pub(super) const fn elided(&mut self, known: u64, fenced: u64) {
        self.waits.needed += known + fenced;
        self.waits.known += known;
        self.waits.fenced += fenced;
    }

    /// Returns the number of emitted instructions of a kind.
    pub const fn of(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }

    /// Returns the number of emitted instructions.
    pub fn total(&self) -> u64 {
        self.kinds.iter().sum()
    }
}

/// How often calls were found in the inference cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InferenceStats {
    /// Calls that were emitted without asking their schema.
    pub hits: u64,
    /// Calls that could have been kept, and were not found.
    pub misses: u64,
    /// Calls that are never kept, by reason, in the order of [`NotKept::ALL`].
    pub passed: [u64; NotKept::ALL.len()],
    /// Entries that gave their place to another call.
    pub replaced: u64,
}

impl InferenceStats {
    /// Returns the number of calls that are never kept.
    pub fn all_passed(&self) -> u64 {
        self.passed.iter().sum()
    }

    /// Returns the counts since `earlier` ones of the same builder.
    #[must_use]
    pub fn since(self, earlier: InferenceStats) -> InferenceStats {
        self.combined(earlier, |now, before| now - before)
    }

    /// Returns the sums of both counts.
    #[must_use]
    pub fn plus(self, other: InferenceStats) -> InferenceStats {
        self.combined(other, |a, b| a + b)
    }

    fn combined(self, other: InferenceStats, of: fn(u64, u64) -> u64) -> InferenceStats {
        InferenceStats {
            hits: of(self.hits, other.hits),
            misses: of(self.misses, other.misses),
            passed: std::array::from_fn(|k| of(self.passed[k], other.passed[k])),
            replaced: of(self.replaced, other.replaced),
        }
    }
}

/// Why the inference cache never keeps a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// It writes into given tensors.
    Into,
    /// It is within a critical section.
    Section,
    /// It has more inputs than an entry has room for.
    Inputs,
    /// A wait that the program requested stands before it.
    Requested,
    /// An operand is of another device's memory, held, or not a tensor that lives.
    Operand,
}

millstream_types::names! {
    NotKept: Into "into given tensors", Section "within critical sections",
    Inputs "with many inputs", Requested "behind requested waits",
    Operand "on operands of other memory"
}
