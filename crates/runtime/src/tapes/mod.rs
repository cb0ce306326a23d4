//! Tapes: the compiled form of lists, as workers read it, and the state of launches.
//!
//! | module | holds |
//! |---|---|
//! | `tape` | tapes: steps, addresses, waits |
//! | `run` | the state of one launch: bases, poison, results |
//! | `cache` | compiled lists that a machine keeps |
//! | `formal` | the tensor given for a formal, compared with the recorded one |
//! | `graph` | tapes that are launched as one command of their device |
//! | `place` | places in tapes, as reports of waits name them |
//! | `recycled` | launches that have ended, to be used again |

pub mod cache;
mod formal;
pub mod graph;
pub(crate) mod place;
pub mod recycled;
pub mod run;
pub mod tape;

use smallvec::SmallVec;

use millstream_instructions::TensorRef;
use millstream_types::StreamKey;

use crate::engine::router::OpenStream;

/// The number of operands up to which a prepared kernel is called. A tape gathers the addresses of
/// a call on its stack.
pub const MAX_OPERANDS: usize = 16;

/// How many addresses are resolved together. Each call has full groups.
pub const GROUP: usize = 4;

/// The resources of a dropped executable.
pub struct Ended {
    pub memory: SmallVec<[TensorRef; 1]>,
    pub tapes: SmallVec<[(StreamKey, OpenStream); 4]>,
}
