//! Functions of the program whose calls are captured once and then replayed.
//!
//! # How it works
//! 1. The first call with a *key* runs the function. Every call that it makes on this thread is
//!    *noted*: by the names of values, not of tensors, so that another run of the function makes
//!    equal notes.
//! 2. A host read is a *guard*: what the function does next may depend on it. The notes between
//!    guards are *segments*, and each becomes an executable. Its outputs are the tensors that the
//!    function still held at the guard.
//! 3. A later call with the same key launches the first segment and reads as the function did. The
//!    value that was read before leads to the next segment. With any other value the function runs
//!    again, *resumed*: the calls that it makes are compared with the notes and return the tensors
//!    of the replay, until the read; from there on they run. A replay that is verified is compared
//!    so to its end.
//!
//! | module | holds |
//! |---|---|
//! | `traced` | functions, their keys' entries, bounds |
//! | `key` | what a capture depends on |
//! | `draws` | the draws of a function from generators |
//! | `note` | calls by the names of values |
//! | `numbers` | the numbers that change with a symbolic size |
//! | `gradients` | gradients that a function finds and leaves, as state of its captures |
//! | `layer` | what a session does with each request |
//! | `session` | a run of a function whose calls are noted or compared |
//! | `run` | the notes of a run, without the run |
//! | `segment` | the executable of some notes |
//! | `replay` | captures as chains of segments and guards, and their replay |
//! | `comparison` | what runs with different sizes have in common |
//! | `symbolic` | captures for sizes that the function did not run with |
//! | `report` | counts and reasons |
//! | `limits` | the bounds of captures |

mod arguments;
mod comparison;
mod draws;
mod gradients;
mod key;
mod layer;
mod limits;
mod note;
mod numbers;
mod replay;
mod report;
mod run;
mod segment;
mod session;
mod symbolic;
mod traced;

pub use limits::CaptureLimits;
pub use report::TracedReport;
pub use traced::{Traced, TracedCall};
