//! The one place where commands and the library write files, and commands print.
//!
//! # Contract
//! A file is replaced whole or not at all: the content goes to a temporary file in the same folder,
//! and a rename replaces the old file once everything is on the disk. Whatever stops a write (a
//! full disk, a limit, a signal) leaves the old file as it was. Permissions and the owner of a
//! replaced file are kept, symbolic links too. Another hard link to the old file keeps the old
//! content. Devices, pipes and `-`, which is standard output, are written as they are.
//!
//! A process that is killed while it writes may leave the temporary file, `.millstream-….part`.
//!
//! # Map
//! | module | holds |
//! |---|---|
//! | [`console`] | where a command prints |
//! | [`outputs`] | the files that a command's options name, checked before it runs |
//! | `place` | where a path leads, and whether two paths lead to one file |
//! | [`replace`](mod@replace) | the write |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod console;
pub mod outputs;
mod place;
pub mod replace;

pub use console::Console;
pub use outputs::{OutputError, Outputs};
pub use replace::{write, write_log};

/// Prints a line to standard output, in place of the standard library's macro, which panics if the
/// pipe is closed, as by `| head`.
#[macro_export]
macro_rules! println {
    ($($arguments:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!($crate::Console::Out, $($arguments)*);
    }};
}

/// Prints a line to standard error as [`println`] does to standard output.
#[macro_export]
macro_rules! eprintln {
    ($($arguments:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!($crate::Console::Err, $($arguments)*);
    }};
}
