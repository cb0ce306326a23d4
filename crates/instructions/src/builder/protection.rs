//! The builder's protections, and the promises that switch them off.

/// The protections that the builder gives: all, unless a program takes one over.
///
/// ```
/// # use millstream_instructions::*;
/// # use millstream_types::*;
/// let protection = Protection::default();
/// assert!(protection.waits() && protection.memory());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    waits: bool,
    memory: bool,
}

impl Default for Protection {
    /// Returns both protections: of order and of memory.
    fn default() -> Protection {
        Protection { waits: true, memory: true }
    }
}

impl Protection {
    /// Whether the builder orders uses of one storage on several streams by waits.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::*;
    /// assert!(Protection::default().waits());
    /// ```
    pub const fn waits(self) -> bool {
        self.waits
    }

    /// Whether the builder reuses memory only on streams that know its last uses to have completed.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::*;
    /// assert!(Protection::default().memory());
    /// ```
    pub const fn memory(self) -> bool {
        self.memory
    }

    /// Leaves the order of streams to the program: uses of operands cause no waits. Waits that the
    /// program asks for stay, and a machine's reads and uploads keep their own steps in order.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::*;
    /// // SAFETY: the program orders its streams by events and barriers.
    /// let protection = unsafe { Protection::default().without_waits() };
    /// assert!(!protection.waits() && protection.memory());
    /// ```
    ///
    /// # Safety
    /// The program waits wherever two streams use one storage and one of them writes it. On a
    /// simulated device whose commands one thread runs, a forgotten wait gives wrong numbers and
    /// nothing worse; on any other it is a data race, which is undefined behaviour.
    #[must_use]
    pub const unsafe fn without_waits(self) -> Protection {
        Protection { waits: false, ..self }
    }

    /// Leaves the reuse of memory to the program: any stream may get a released block at once.
    ///
    /// ```
    /// # use millstream_instructions::*;
    /// # use millstream_types::*;
    /// // SAFETY: the program releases its tensors after all their uses.
    /// let protection = unsafe { Protection::default().without_memory() };
    /// assert!(protection.waits() && !protection.memory());
    /// ```
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
