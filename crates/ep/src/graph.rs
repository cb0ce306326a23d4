//! Graphs: work that is captured once and launched many times, as one command.
//!
//! # Contract
//! 1. A capture begins on one stream ([`GraphStream::begin_capture`]) and ends on it. Another
//!    stream takes part from its first [`GraphStream::capture_wait`] on, for a position that the
//!    capture has recorded. Before the end, the first stream waits for the last work of every other
//!    one.
//! 2. Captured work does not run: its launches become nodes, in the order of the streams and of the
//!    waits. The memory that it names is that of all launches of the graph, until the next capture.
//! 3. Nothing is allocated, compiled or loaded within a capture, and the host is not called. Work
//!    that would do so fails, and so does the capture. So the same work must have run before on the
//!    same streams, which keep what it needs.
//! 4. The streams run nothing else from [`GraphStream::begin_capture`] until the end of the
//!    capture, and nothing that the graph's work used on them runs beside a launch of the graph.
//! 5. A graph has at most one launch under way. It is neither captured nor launched again before
//!    the launch is reported as completed.
//! 6. A later capture into the same graph updates it in place if the driver can, and replaces it
//!    otherwise.
//! 7. A graph may have words: integers that every launch sets, and that the graph's work reads
//!    where they lie ([`Graph::words`]). So launches differ in them without another capture.

use std::any::Any;
use std::fmt;

use millstream_types::Result;

use crate::device::{Progress, Work, WorkResult};

/// Captured work of a device. Dropping the value frees it.
pub trait Graph: Send {
    /// Returns the number of nodes of the newest capture.
    fn nodes(&self) -> usize;

    /// Returns the address of the words for work of the device. It stays the same. None if the
    /// graph has no words.
    fn words(&self) -> Option<usize>;

    /// Returns the graph itself, for streams of the same backend to downcast.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// The result of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Captured {
    /// The graph is new, or replaces one that could not be updated.
    Instantiated,
    /// The graph was updated in place.
    Updated,
}

/// A stream whose work can be captured, and that launches graphs.
pub trait GraphStream {
    /// Prepares the stream for a capture of at most `works` pieces of work on it. Called before the
    /// capture begins.
    ///
    /// # Errors
    /// The device is lost, or out of memory.
    fn prepare_capture(&mut self, works: usize) -> Result<()>;

    /// Begins a capture on this stream.
    ///
    /// # Errors
    /// The device refuses or is lost, or a launch of the graph has not completed.
    fn begin_capture(&mut self, graph: &mut dyn Graph) -> Result<()>;

    /// Adds work: the next number of the capture, from 0.
    ///
    /// # Errors
    /// The work fails, or it cannot be captured. The capture can only be aborted then.
    fn capture(&mut self, graph: &mut dyn Graph, work: &mut dyn Work) -> WorkResult;

    /// Records a position of the capture: everything on this stream so far, and all that it waits
    /// for.
    ///
    /// # Errors
    /// The device refuses. The capture can only be aborted then.
    fn capture_record(&mut self, graph: &mut dyn Graph, position: usize) -> Result<()>;

    /// Orders later work of this stream after a recorded position.
    ///
    /// # Errors
    /// As [`GraphStream::capture_record`].
    fn capture_wait(&mut self, graph: &mut dyn Graph, position: usize) -> Result<()>;

    /// Ends the capture that began on this stream, and makes the graph ready to be launched.
    ///
    /// # Errors
    /// The device refuses the capture or the graph. The graph cannot be launched then.
    fn end_capture(&mut self, graph: &mut dyn Graph) -> Result<Captured>;

    /// Ends the capture that began on this stream, after an error. The graph cannot be launched.
    fn abort_capture(&mut self, graph: &mut dyn Graph);

    /// Launches the graph as one command of this stream, after setting its words to `words`, of
    /// which there are as many as the graph was created with. The result that
    /// [`Stream::poll`](crate::Stream::poll) reports holds a [`FailedWork`] if work of the graph
    /// has failed.
    ///
    /// # Errors
    /// The device refuses the launch, and nothing of it has run; a launch of the graph has not
    /// completed; or the number of words differs.
    fn launch(&mut self, graph: &mut dyn Graph, words: &[i64]) -> Result<Progress>;
}

/// The error of a graph's launch of which some work has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedWork {
    /// The failed work, by its number in the capture, with the errors.
    pub failures: Vec<(usize, String)>,
}

impl fmt::Display for FailedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.failures.len();
        match self.failures.first() {
            Some((work, error)) => {
                write!(
                    f,
                    "{count} calls of a graph have failed; the first is number {work}: {error}"
                )
            }
            None => f.write_str("no call of a graph has failed"),
        }
    }
}

impl std::error::Error for FailedWork {}
