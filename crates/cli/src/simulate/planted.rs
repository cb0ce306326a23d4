//! Mistakes that can be planted, to show that the simulator finds them.

use clap::ValueEnum;
use millstream_instructions::Protection;

/// The rule that the builder leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Planted {
    /// The waits between streams that use the same tensor
    Waits,
    /// The order between the uses of memory by successive owners
    Memory,
}

impl Planted {
    /// Returns the remaining protection.
    pub(super) fn protection(self) -> Protection {
        let all = Protection::default();
        match self {
            // SAFETY: the inline and the simulated driver, the only ones here, run all commands of
            // a machine one after another. A missing order gives wrong numbers, but no data race.
            Planted::Waits => unsafe { all.without_waits() },
            // SAFETY: as above.
            Planted::Memory => unsafe { all.without_memory() },
        }
    }

    /// Returns the name on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Planted::Waits => "waits",
            Planted::Memory => "memory",
        }
    }
}
