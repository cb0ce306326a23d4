//! What the builder sees to by itself, and the promise that switches it off.

/// What the builder sees to by itself: all of it, unless a program takes something over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    waits: bool,
    memory: bool,
}

impl Default for Protection {
    /// Waits and memory.
    fn default() -> Protection {
        Protection { waits: true, memory: true }
    }
}

impl Protection {
    /// Whether uses of one storage on several streams are ordered by waits.
    pub const fn waits(self) -> bool {
        self.waits
    }

    /// Whether memory is given out again only to streams that know its last uses to have passed.
    pub const fn memory(self) -> bool {
        self.memory
    }

    /// Leaves the order of streams to the program: uses of operands cause no waits. Those that the
    /// program asks for stay, and a machine's reads and uploads keep their own steps in order.
    ///
    /// # Safety
    /// The program waits wherever two streams use one storage and one of them writes it. On a
    /// simulated device whose commands one thread runs, a forgotten wait gives wrong numbers and
    /// nothing worse; on any other it is a data race, which is undefined behaviour.
    #[must_use]
    pub const unsafe fn without_waits(self) -> Protection {
        Protection { waits: false, ..self }
    }

    /// Leaves the reuse of memory to the program: a released block is given out at once, to any
    /// stream.
    ///
    /// # Safety
    /// The program releases a tensor only when every later owner of its memory comes after all its
    /// uses. On a simulated device whose commands one thread runs, a mistake gives wrong numbers
    /// and nothing worse; on any other it is a data race, which is undefined behaviour.
    #[must_use]
    pub const unsafe fn without_memory(self) -> Protection {
        Protection { memory: false, ..self }
    }
}
