//! The times of a run, recorded while it runs.
//!
//! A recording costs nothing while none is under way: each worker checks a field of the stream that
//! it has loaded already. While one is under way, each worker stores times in a buffer of its own,
//! without a lock, and the engine notes the time of each instruction that it records.
//!
//! | module | holds |
//! |---|---|
//! | `clock` | the clock: the processor's counter, where it is reliable |
//! | `samples` | the buffer of a stream |
//! | `recording` | what the threads of a machine share while they record |
//! | `times` | the result |

mod clock;
pub mod recording;
pub(crate) mod samples;
mod times;

pub use times::{
    InstructionTimes, LaunchTimes, Outcome, Pause, Range, RunTimes, StepTimes, StreamTimes,
    TapeTimes,
};
