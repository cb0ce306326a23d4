//! Dense ids. Each kind prints with its own prefix, so that text forms can be parsed.

use std::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($repr:ty) $mark:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $repr);

        impl $name {
            /// The prefix of a written id.
            pub const MARK: &'static str = $mark;

            /// Returns the id as an index into a dense table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}{}", $mark, self.0)
            }
        }
    )*};
}

ids! {
    /// A stream of a machine or of a list's header.
    StreamId(u16) "s";
    /// A tensor. In a machine, a slot that is reused once the tensor's release has retired.
    TensorId(u32) "%";
    /// A storage: the memory that one or more tensors are views of.
    StorageId(u32) "m";
    /// An event slot.
    EventId(u32) "e";
    /// An op, as an index into a registry or a list's header.
    OpId(u32) "op";
    /// A host callback in a machine's table.
    CallbackId(u32) "cb";
    /// An executable.
    ListId(u32) "list";
    /// A host read in a machine's table.
    ReadId(u32) "read";
    /// A scalar formal of a list: a number that each launch gives.
    ScalarId(u32) "$";
}
