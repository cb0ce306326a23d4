//! Communication between the ranks of a program.

use std::fmt;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use millstream_types::DType;

/// Elements that one rank sends to another, dense and row-major.
#[derive(Clone)]
pub struct Message {
    /// The type of the elements.
    pub dtype: DType,
    /// The number of elements.
    pub numel: usize,
    /// The bytes of the elements. They are stored in words, which aligns them for every dtype; the
    /// elements may end inside the last word.
    pub words: Arc<Vec<u64>>,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.dtype, self.numel)
    }
}

/// One rank's connection to all ranks of the program.
pub trait Communicator: Send + Sync {
    /// Returns this rank's number, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn ranks(&self) -> usize;

    /// Sends `messages[k]` to rank `k`, for every rank, and waits until all ranks have called this
    /// with the same `round`. Returns the messages for this rank, in the order of their senders.
    /// `what` describes the operation and must be equal on all ranks. Kernels call this on the
    /// worker of a stream, which may block.
    ///
    /// # Errors
    /// Another rank passed a different `what`, or has ended.
    fn exchange(
        &self,
        round: u64,
        what: &str,
        messages: Vec<Vec<Message>>,
    ) -> Result<Vec<Vec<Message>>>;

    /// Sends messages to another rank, without waiting for it to receive them.
    ///
    /// # Errors
    /// There is no such rank.
    fn send(&self, to: usize, tag: i64, messages: Vec<Message>) -> Result<()>;

    /// Waits for messages from another rank. Messages of one tag arrive in the order in which they
    /// were sent.
    ///
    /// # Errors
    /// There is no such rank, or it has ended.
    fn recv(&self, from: usize, tag: i64) -> Result<Vec<Message>>;
}

/// The communicator of a program of one rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleRank;

impl Communicator for SingleRank {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn exchange(&self, _: u64, _: &str, messages: Vec<Vec<Message>>) -> Result<Vec<Vec<Message>>> {
        ensure!(messages.len() == 1, "messages for {} ranks: the program has one", messages.len());
        Ok(messages)
    }

    fn send(&self, to: usize, _: i64, _: Vec<Message>) -> Result<()> {
        bail!("send to rank {to}: the program has one rank")
    }

    fn recv(&self, from: usize, _: i64) -> Result<Vec<Message>> {
        bail!("receive from rank {from}: the program has one rank")
    }
}
