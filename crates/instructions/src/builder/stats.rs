//! Counts of what was emitted.

use crate::instruction::Resolution;
use crate::table::Kind;

/// What became of the needs to wait for another stream. One need is one (instruction, stream).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// All needs.
    pub needed: u64,
    /// Waits on the device.
    pub device: u64,
    /// Waits by the host.
    pub host: u64,
    /// None, as the stream knew.
    pub known: u64,
    /// None, as the host had seen it or a barrier stood between.
    pub fenced: u64,
    /// None, as another wait of the same instruction said as much.
    pub implied: u64,
}

impl Waits {
    /// Waits that stand in the list.
    pub const fn emitted(&self) -> u64 {
        self.device + self.host
    }

    /// Needs without a wait.
    pub const fn elided(&self) -> u64 {
        self.known + self.fenced + self.implied
    }
}

/// Counts of what a builder emitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    kinds: [u64; Kind::ALL.len()],
    /// Needs to wait, by what became of them.
    pub waits: Waits,
    /// Event slots made; each is used again and again.
    pub events_created: u64,
    /// Waits that used an event recorded for an earlier one.
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

    /// Needs without a wait: that the stream knew, and that lay behind the fence.
    pub(super) const fn elided(&mut self, known: u64, fenced: u64) {
        self.waits.needed += known + fenced;
        self.waits.known += known;
        self.waits.fenced += fenced;
    }

    /// How many instructions of a kind were emitted.
    pub const fn of(&self, kind: Kind) -> u64 {
        self.kinds[kind as usize]
    }

    /// How many instructions were emitted.
    pub fn total(&self) -> u64 {
        self.kinds.iter().sum()
    }
}
