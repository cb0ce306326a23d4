//! Kinds of work that streams accept.

use std::fmt;

/// A kind of work that a stream accepts. The kinds that a type of stream accepts are all that the
/// builder and the verifier know about the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WorkKind {
    /// Kernels.
    Compute,
    /// Copies from host memory to the device.
    CopyIn,
    /// Copies from the device to host memory.
    CopyOut,
    /// Collectives between ranks.
    Collective,
    /// Barriers of the whole machine.
    Barrier,
    /// Critical sections: exclusive holds of operands.
    Section,
    /// Launches of executables.
    Job,
}

crate::names! {
    WorkKind, "kind of work":
    Compute "compute", CopyIn "copy-in", CopyOut "copy-out", Collective "collective",
    Barrier "barrier", Section "section", Job "job"
}

/// A set of kinds of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkSet(u8);

impl WorkSet {
    /// All kinds that run an op's kernel on a device. A stream that accepts none of them only
    /// orders other streams.
    pub const OPS: WorkSet = WorkSet::of(&[
        WorkKind::Compute,
        WorkKind::CopyIn,
        WorkKind::CopyOut,
        WorkKind::Collective,
    ]);

    /// The set of these kinds.
    pub const fn of(kinds: &[WorkKind]) -> WorkSet {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        WorkSet(bits)
    }

    /// Whether the set holds nothing.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `kind` is in the set.
    pub const fn contains(self, kind: WorkKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// Whether the two sets have a kind in common.
    pub const fn intersects(self, other: WorkSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all kinds of this set are in the other.
    pub const fn is_subset(self, other: WorkSet) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether a stream that accepts this runs nothing on its device and only orders other streams.
    pub const fn is_order_only(self) -> bool {
        !self.intersects(WorkSet::OPS)
    }

    /// Returns the set with one kind more.
    #[must_use]
    pub const fn with(self, kind: WorkKind) -> WorkSet {
        WorkSet(self.0 | 1 << kind as u8)
    }

    /// Returns the kinds in the set, in the order of [`WorkKind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = WorkKind> {
        WorkKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

/// Writes the kinds with commas between them, or `nothing`.
impl fmt::Display for WorkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        for (k, kind) in self.iter().enumerate() {
            let comma = if k == 0 { "" } else { ", " };
            write!(f, "{comma}{kind}")?;
        }
        Ok(())
    }
}
