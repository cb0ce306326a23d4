//! Chakra's execution traces: nodes with what each comes after, as protobuf messages or as JSON.
//!
//! A message has its length before it. The first one is the metadata. A node of the host runs on
//! its thread, another one on its stream; nodes of generators, which name neither, run on a stream
//! for each kind of work. Where the file has durations and no times, a node begins when its stream
//! and everything that it comes after have ended.

mod graph;
mod json;
mod messages;

use std::io::{BufReader, Read};

use millstream_profile::Profile;
use prost::Message;

use crate::input::Input;
use crate::{Result, TimelineError};

use messages::{GlobalMetadata, Node};

/// The most bytes of a message: a node of an op on thousands of tensors has some 100 KB.
const LARGEST: usize = 64 << 20;

/// Reads a trace.
///
/// # Errors
/// The file ends within a message, a message is none of Chakra's, or there is no node.
pub(crate) fn read(input: Input, is_json: bool) -> Result<Profile> {
    let file = input.error("");
    let nodes = match is_json {
        true => json_nodes(input, &file)?,
        false => messages(input, &file)?,
    };
    if nodes.is_empty() {
        let message = "it has no nodes: expected a trace of Chakra's".to_owned();
        return Err(TimelineError { message, ..file });
    }
    let title = file.file.clone();
    graph::profile(&title, nodes).map_err(|message| TimelineError { message, ..file })
}

fn json_nodes(input: Input, file: &TimelineError) -> Result<Vec<Node>> {
    let json = serde_json::Deserializer::from_reader(BufReader::new(input));
    let mut nodes = Vec::new();
    for (k, node) in json.into_iter::<Node>().enumerate() {
        let wrong = |message: String| TimelineError {
            at: format!("object {}", k + 1),
            message,
            ..file.clone()
        };
        let node = node.map_err(|e| wrong(e.to_string()))?;
        if k > 0 || !node.is_metadata() {
            nodes.push(node);
        }
    }
    Ok(nodes)
}

/// Reads all messages.
fn messages(input: Input, file: &TimelineError) -> Result<Vec<Node>> {
    let mut from = BufReader::with_capacity(1 << 18, input);
    let mut nodes = Vec::new();
    let mut bytes = Vec::new();
    let mut number = 0u64;
    loop {
        let wrong = |message: String| TimelineError {
            at: format!("message {}", number + 1),
            message,
            ..file.clone()
        };
        let cut = |e: std::io::Error| wrong(format!("it ends within the message: {e}"));
        let Some(length) = length(&mut from).map_err(cut)? else { return Ok(nodes) };
        if length > LARGEST {
            return Err(wrong(format!("a length of {length} bytes: this is no trace of Chakra's")));
        }
        bytes.clear();
        let read = from.by_ref().take(length as u64).read_to_end(&mut bytes).map_err(cut)?;
        if read < length {
            return Err(wrong(format!("it has {read} of {length} bytes: the file was cut off")));
        }
        let none = |e: prost::DecodeError| wrong(format!("this is no message of Chakra's: {e}"));
        if number == 0 {
            GlobalMetadata::decode(&bytes[..]).map_err(none)?;
        } else {
            nodes.push(Node::decode(&bytes[..]).map_err(none)?);
        }
        number += 1;
    }
}

/// Reads the length of a message; none at the end of the file.
pub(crate) fn length(from: &mut impl Read) -> std::io::Result<Option<usize>> {
    let mut length = 0usize;
    for k in 0..5 {
        let mut byte = [0];
        if from.read(&mut byte)? == 0 {
            let cut = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return if k == 0 { Ok(None) } else { Err(cut) };
        }
        length |= usize::from(byte[0] & 0x7f) << (7 * k);
        if byte[0] & 0x80 == 0 {
            return Ok(Some(length));
        }
    }
    Err(std::io::Error::other("its length has more than five bytes"))
}
