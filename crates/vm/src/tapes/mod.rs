//! Tapes: the compiled form of lists, as workers read it, and the state of launches.
//!
//! | module | holds |
//! |---|---|
//! | `tape` | tapes: steps, addresses, waits |
//! | `run` | the state of one launch: bases, poison, results |
//! | `graph` | tapes that are launched as one command of their device |
//! | `place` | places in tapes, as reports of waits name them |
//! | `recycled` | launches that have ended, to be used again |

pub(crate) mod graph;
pub(crate) mod place;
pub(crate) mod recycled;
pub(crate) mod run;
pub(crate) mod tape;

use smallvec::SmallVec;

use millstream_instructions::TensorRef;
use millstream_types::StreamKey;

use run::TapeStream;

/// The number of operands up to which a prepared kernel is called. A tape gathers the addresses of
/// a call on its stack.
pub(crate) const MAX_OPERANDS: usize = 16;

/// How many addresses are resolved together. Each call has full groups.
pub(crate) const GROUP: usize = 4;

/// The resources of a dropped executable.
pub(crate) struct Ended {
    pub(crate) memory: SmallVec<[TensorRef; 1]>,
    pub(crate) tapes: SmallVec<[(StreamKey, TapeStream); 4]>,
}
