//! How an instruction uses an operand.

/// How an instruction uses an operand's storage.
///
/// ```
/// # use millstream_types::*;
/// assert!(Access::Read.reads() && !Access::Read.writes());
/// assert!(Access::ReadWrite.reads() && Access::ReadWrite.writes());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The instruction reads elements.
    Read,
    /// The instruction overwrites every element and reads none.
    Write,
    /// The instruction reads and writes elements, or writes only some of them.
    ReadWrite,
}

impl Access {
    /// Returns whether the instruction depends on the operand's earlier value.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Access::ReadWrite.reads());
    /// assert!(!Access::Write.reads()); // all elements are overwritten
    /// ```
    pub const fn reads(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }

    /// Returns whether the instruction changes the operand's value.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert!(Access::Write.writes() && !Access::Read.writes());
    /// ```
    pub const fn writes(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }

    /// Returns the access of an operand that is used in both ways.
    ///
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Access::Read.join(Access::Write), Access::ReadWrite);
    /// ```
    pub const fn join(self, other: Access) -> Access {
        match (self, other) {
            (Access::Read, Access::Read) => Access::Read,
            (Access::Write, Access::Write) => Access::Write,
            _ => Access::ReadWrite,
        }
    }
}

crate::names! {
    /// ```
    /// # use millstream_types::*;
    /// assert_eq!(Access::ReadWrite.name(), "readwrite");
    /// ```
    Access: Read "read", Write "write", ReadWrite "readwrite"
}
