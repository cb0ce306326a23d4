//! A mistake that is planted, to see what the simulator makes of it.

use clap::ValueEnum;
use millstream_instructions::Protection;

/// What the builder is to leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Planted {
    /// The waits between streams that use one tensor.
    Waits,
    /// The order between the uses of memory and its next owner's.
    Memory,
}

impl Planted {
    /// The protection that is left.
    pub(super) fn protection(self) -> Protection {
        let all = Protection::default();
        match self {
            // SAFETY: the inline and the simulated driver, the only ones here, run all commands of
            // a machine one after the other, so an order that is missing gives wrong numbers and
            // no data race.
            Planted::Waits => unsafe { all.without_waits() },
            // SAFETY: as above.
            Planted::Memory => unsafe { all.without_memory() },
        }
    }

    /// As the command line names it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Planted::Waits => "waits",
            Planted::Memory => "memory",
        }
    }
}
