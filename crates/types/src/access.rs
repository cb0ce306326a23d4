//! How an instruction uses an operand.

use std::fmt;

/// How an instruction uses an operand's storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Its elements are read.
    Read,
    /// Every element is overwritten, none is read.
    Write,
    /// Elements are read and written, or only some are written.
    ReadWrite,
}

impl Access {
    /// Whether the operand's earlier value matters.
    pub const fn reads(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }

    /// Whether the operand's value changes.
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }

    /// The access of something that is used in both ways.
    pub const fn join(self, other: Access) -> Access {
        match (self, other) {
            (Access::Read, Access::Read) => Access::Read,
            (Access::Write, Access::Write) => Access::Write,
            _ => Access::ReadWrite,
        }
    }

    /// The name used in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::ReadWrite => "readwrite",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
