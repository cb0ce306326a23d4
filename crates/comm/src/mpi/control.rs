//! Messages by which the processes agree on their calls. Rank 0 matches the calls of all ranks.

use millstream_ops::collective::{Channel, ProcessGroup};
use millstream_types::DType;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::buffer::{Buffer, Elements};
use crate::call::Slot;
use crate::error::CommError;
use crate::matching::Notice;

/// The longest text of a message in bytes; an error's text is cut to fit.
const LONGEST: usize = 64 << 10;

/// The most bytes of elements in a message.
const MOST_DATA: usize = 64 << 10;

/// The bytes of the length in front of a message.
const PREFIX: usize = 4;

/// A message to rank 0, or from it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Control {
    /// A rank has started a call, to which it gives a number of its own. The elements that it gives
    /// come along if they are few.
    Start { rank: usize, slot: WireSlot, call: u64, notice: Notice, given: Option<Data> },
    /// A rank does not make a call.
    Skip { rank: usize, slot: WireSlot, error: String },
    /// Nothing can run on a rank before one of its calls is resolved, after so many were.
    Stall { rank: usize, resolved: u64 },
    /// A rank makes no more calls of a program, and of those before.
    Leave { rank: usize, epoch: u64 },
    /// No call can succeed any more.
    Abort { error: String },
    /// Rank 0 says that a rank has ended the program.
    Aborted { error: String },
    /// All calls of a place are there: their data is exchanged, in the order of these messages.
    Matched { call: u64 },
    /// All calls of a place were there, and rank 0 has combined them: what this rank gets.
    Results { call: u64, received: Data },
    /// A call fails.
    Failed { call: u64, error: String },
    /// All ranks have left.
    Over,
    /// A rank exists.
    Heartbeat { rank: usize },
    /// A rank is lost.
    Lost { error: String },
}

impl Control {
    fn data(&mut self) -> &mut [Buffer] {
        match self {
            Control::Start { given: Some(Data(buffers)), .. }
            | Control::Results { received: Data(buffers), .. } => buffers,
            _ => &mut [],
        }
    }
}

/// Elements in a message. The text holds their dtypes and numbers; their bytes follow it.
#[derive(Debug)]
pub(super) struct Data(pub(super) Vec<Buffer>);

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let each = self.0.iter().map(|buffer| (buffer.dtype().to_string(), buffer.numel()));
        serializer.collect_seq(each)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Data, D::Error> {
        let each = Vec::<(String, usize)>::deserialize(deserializer)?;
        let zeros = |(dtype, numel): (String, usize)| {
            let dtype = dtype.parse().map_err(D::Error::custom)?;
            Buffer::zeros(Elements { dtype, numel }).map_err(D::Error::custom)
        };
        each.into_iter().map(zeros).collect::<Result<_, _>>().map(Data)
    }
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
    Buffer::zeros(Elements { dtype: DType::U8, numel: PREFIX + LONGEST + MOST_DATA })
}

/// Returns a buffer of no bytes.
pub(super) fn nothing() -> Result<Buffer, CommError> {
    Buffer::zeros(Elements { dtype: DType::U8, numel: 0 })
}

/// Returns a message as bytes: the length of its text, the text, the bytes of its elements.
///
/// # Errors
/// The message is too long, or memory is exhausted.
pub(super) fn encode(control: &mut Control) -> Result<Buffer, CommError> {
    let text = serde_json::to_vec(control).map_err(CommError::new)?;
    let data = control.data();
    let length: usize = data.iter().map(|buffer| buffer.bytes().len()).sum();
    if text.len() > LONGEST || length > MOST_DATA {
        let (described, most) = (text.len(), LONGEST);
        return Err(CommError::new(format!(
            "a call is described in {described} bytes, more than {most}"
        )));
    }
    let numel = PREFIX + text.len() + length;
    let mut buffer = Buffer::zeros(Elements { dtype: DType::U8, numel })?;
    let (prefix, rest) = buffer.bytes_mut().split_at_mut(PREFIX);
    prefix.copy_from_slice(&(text.len() as u32).to_le_bytes());
    let (to, mut rest) = rest.split_at_mut(text.len());
    to.copy_from_slice(&text);
    for part in data {
        let (to, after) = rest.split_at_mut(part.bytes().len());
        to.copy_from_slice(part.bytes());
        rest = after;
    }
    Ok(buffer)
}

/// Reads a received message. The buffer may be longer.
///
/// # Errors
/// The bytes are no message.
pub(super) fn decode(buffer: &Buffer) -> Result<Control, CommError> {
    let broken = || CommError::new("a message between the processes is broken");
    let (length, rest) = buffer.bytes().split_first_chunk::<PREFIX>().ok_or_else(broken)?;
    let text = rest.split_at_checked(u32::from_le_bytes(*length) as usize);
    let (text, mut rest) = text.ok_or_else(broken)?;
    let mut control: Control = serde_json::from_slice(text).map_err(CommError::new)?;
    for part in control.data() {
        let bytes = part.bytes_mut();
        let (own, after) = rest.split_at_checked(bytes.len()).ok_or_else(broken)?;
        bytes.copy_from_slice(own);
        rest = after;
    }
    Ok(control)
}

/// Returns the text of an error, cut to fit into a message.
pub(super) fn brief(error: &CommError) -> String {
    const MOST: usize = LONGEST / 8;
    error.to_string().chars().take(MOST / 4).collect()
}

#[cfg(test)]
mod tests {
    use millstream_types::DType;

    use super::{Control, Data, decode, encode};
    use crate::buffer::{Buffer, Elements};

    #[test]
    fn elements_travel_behind_the_text() {
        let buffer = |dtype, numel, byte| {
            let mut buffer = Buffer::zeros(Elements { dtype, numel }).unwrap();
            buffer.bytes_mut().fill(byte);
            buffer
        };
        let data =
            vec![buffer(DType::F16, 3, 1), buffer(DType::I64, 0, 2), buffer(DType::U8, 5, 3)];
        let sent = encode(&mut Control::Results { call: 7, received: Data(data.clone()) }).unwrap();
        let Control::Results { call: 7, received: Data(received) } = decode(&sent).unwrap() else {
            panic!("another message");
        };
        assert_eq!(received.len(), data.len());
        for (one, other) in received.iter().zip(&data) {
            assert_eq!((one.elements(), one.bytes()), (other.elements(), other.bytes()));
        }
        let cut = sent.part(0..sent.numel() - 1).unwrap();
        assert!(decode(&cut).unwrap_err().to_string().contains("is broken"));
    }
}
