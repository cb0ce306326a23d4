//! Messages by which the processes agree on their calls. Rank 0 matches the calls of all ranks.

use millstream_ops::collective::{Channel, ProcessGroup};
use millstream_types::DType;
use serde::{Deserialize, Serialize};

use crate::buffer::{Buffer, Elements};
use crate::call::Slot;
use crate::error::CommError;
use crate::matching::Notice;

/// The longest message in bytes; an error's text is cut to fit.
const LONGEST: usize = 64 << 10;

/// The bytes of the length in front of a message.
const PREFIX: usize = 4;

/// A message to rank 0, or from it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Control {
    /// A rank has started a call, to which it gives a number of its own.
    Start { rank: usize, slot: WireSlot, call: u64, notice: Notice },
    /// A rank does not make a call.
    Skip { rank: usize, slot: WireSlot, error: String },
    /// Nothing can run on a rank before one of its calls is resolved, after so many were.
    Stall { rank: usize, resolved: u64 },
    /// A rank makes no more calls of a program, and of those before.
    Leave { rank: usize, epoch: u64 },
    /// No call can succeed any more.
    Abort { error: String },
    /// All calls of a place are there: their data is exchanged, in the order of these messages.
    Matched { call: u64 },
    /// A call fails.
    Failed { call: u64, error: String },
    /// All ranks have left.
    Over,
    /// A rank exists.
    Heartbeat { rank: usize },
    /// A rank is lost.
    Lost { error: String },
}

/// A slot as it is sent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireSlot {
    channel: WireChannel,
    number: u64,
}

#[derive(Debug, Serialize, Deserialize)]
enum WireChannel {
    Collectives { ranks: Vec<usize>, index: u32 },
    Barriers,
    Send { to: usize, tag: i64 },
    Receive { from: usize, tag: i64 },
}

impl WireSlot {
    pub(super) fn of(slot: &Slot) -> WireSlot {
        let channel = match &slot.channel {
            Channel::Collectives(group) => {
                WireChannel::Collectives { ranks: group.ranks().to_vec(), index: group.index() }
            }
            Channel::Barriers => WireChannel::Barriers,
            Channel::Send { to, tag } => WireChannel::Send { to: *to, tag: *tag },
            Channel::Receive { from, tag } => WireChannel::Receive { from: *from, tag: *tag },
        };
        WireSlot { channel, number: slot.number }
    }

    /// Returns the slot, of a program of so many ranks.
    ///
    /// # Errors
    /// The message names a group that cannot exist.
    pub(super) fn slot(self, program: usize) -> Result<Slot, CommError> {
        let channel = match self.channel {
            WireChannel::Collectives { ranks, index } => {
                Channel::Collectives(ProcessGroup::new(&ranks, index, program)?)
            }
            WireChannel::Barriers => Channel::Barriers,
            WireChannel::Send { to, tag } => Channel::Send { to, tag },
            WireChannel::Receive { from, tag } => Channel::Receive { from, tag },
        };
        Ok(Slot { channel, number: self.number })
    }
}

/// Returns a buffer of bytes that holds every message.
pub(super) fn buffer() -> Result<Buffer, CommError> {
    Buffer::zeros(Elements { dtype: DType::U8, numel: LONGEST })
}

/// Returns a buffer of no bytes.
pub(super) fn nothing() -> Result<Buffer, CommError> {
    Buffer::zeros(Elements { dtype: DType::U8, numel: 0 })
}

/// Returns a message as bytes, with its length in front.
///
/// # Errors
/// The message is too long, or memory is exhausted.
pub(super) fn encode(control: &Control) -> Result<Buffer, CommError> {
    let text = serde_json::to_vec(control).map_err(CommError::new)?;
    let numel = PREFIX + text.len();
    if numel > LONGEST {
        let message = format!("a call is described in {numel} bytes, more than {LONGEST}");
        return Err(CommError::new(message));
    }
    let mut buffer = Buffer::zeros(Elements { dtype: DType::U8, numel })?;
    let bytes = buffer.bytes_mut();
    bytes[..PREFIX].copy_from_slice(&(text.len() as u32).to_le_bytes());
    bytes[PREFIX..].copy_from_slice(&text);
    Ok(buffer)
}

/// Reads a received message.
///
/// # Errors
/// The bytes are no message.
pub(super) fn decode(buffer: &Buffer) -> Result<Control, CommError> {
    let broken = || CommError::new("a message between the processes is broken");
    let (length, rest) = buffer.bytes().split_first_chunk::<PREFIX>().ok_or_else(broken)?;
    let text = rest.get(..u32::from_le_bytes(*length) as usize).ok_or_else(broken)?;
    serde_json::from_slice(text).map_err(CommError::new)
}

/// Returns the text of an error, cut to fit into a message.
pub(super) fn brief(error: &CommError) -> String {
    const MOST: usize = LONGEST / 8;
    error.to_string().chars().take(MOST / 4).collect()
}
