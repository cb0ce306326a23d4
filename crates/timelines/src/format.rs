//! What a file is, by its content.

use std::io::ErrorKind;

use crate::input::Input;
use crate::json::Json;
use crate::{Result, chakra};

/// A format of timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// PyTorch's profiler: Kineto's JSON.
    Kineto,
    /// Chakra's execution traces, as protobuf messages.
    Chakra,
    /// Chakra's execution traces, as its converter to JSON writes them.
    ChakraJson,
    /// The SQLite export of Nsight Systems.
    Nsys,
    /// PyTorch's execution trace, which has no times.
    ExecutionTrace,
    /// The streams of a program, as the recorder writes them, which have no times.
    Streams,
}

/// Returns the format of an input, if it is one of them.
///
/// # Errors
/// The input cannot be read.
pub(crate) fn of(input: Input) -> Result<Option<Format>> {
    let start = input.start();
    if start.starts_with(b"SQLite format 3\0") {
        return Ok(Some(Format::Nsys));
    }
    let text = String::from_utf8_lossy(start);
    match text.trim_start_matches('\u{feff}').trim_start().chars().next() {
        Some('{') => {
            let is_chakra = is_chakra_json(&text);
            of_object(input, is_chakra)
        }
        // The traces of 2020 are lists of events.
        Some('[') if text.contains("\"ph\"") => Ok(Some(Format::Kineto)),
        _ => Ok(is_chakra(start).then_some(Format::Chakra)),
    }
}

/// Returns the format of a JSON text by the keys of its first object. Metadata of any length may
/// come before the key that decides.
fn of_object(input: Input, is_chakra: bool) -> Result<Option<Format>> {
    let cannot = input.error("");
    let mut json = Json::new(input);
    let [mut is_kineto, mut has_schema, mut has_nodes] = [false; 3];
    let mut next = || -> std::io::Result<Option<Format>> {
        json.begin()?;
        json.has(b'{')?;
        while let Some(key) = json.key()? {
            match key.as_str() {
                "traceEvents" => return Ok(Some(Format::Kineto)),
                "millstream_streams" => return Ok(Some(Format::Streams)),
                "deviceProperties" => is_kineto = true,
                "schema" => has_schema = true,
                "nodes" => has_nodes = true,
                _ => {}
            }
            if has_schema && has_nodes {
                return Ok(Some(Format::ExecutionTrace));
            }
            json.value(&mut |_| {})?;
        }
        Ok(None)
    };
    match next() {
        Ok(Some(found)) => Ok(Some(found)),
        Err(e) if e.kind() != ErrorKind::UnexpectedEof => Err(cannot.unreadable(&e)),
        Ok(None) | Err(_) if is_kineto => Ok(Some(Format::Kineto)),
        Ok(None) | Err(_) => Ok(is_chakra.then_some(Format::ChakraJson)),
    }
}

/// Returns whether a JSON text is one of Chakra's. Its first object holds the metadata, the next
/// ones are nodes; numbers of 64 bits are texts.
fn is_chakra_json(text: &str) -> bool {
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    let is_metadata = has("version") || has("attr");
    let has_nodes = has("ctrlDeps") || has("dataDeps") || has("durationMicros");
    let snake = has("ctrl_deps") || has("data_deps") || has("duration_micros");
    is_metadata && (has_nodes || snake || text.contains("_NODE\""))
}
/// Returns whether bytes begin with the length of Chakra's metadata, and the metadata.
fn is_chakra(start: &[u8]) -> bool {
    let mut rest = start;
    let Ok(Some(length)) = chakra::length(&mut rest) else { return false };
    match rest {
        // The version, a text.
        [0x0a, size, version @ ..] => {
            let size = usize::from(*size);
            let version = version.get(..size).unwrap_or_default();
            size + 2 <= length
                && version.len() == size
                && version.iter().all(|byte| byte.is_ascii_graphic())
        }
        // No version: an attribute with a name.
        [0x12, size, 0x0a, ..] => usize::from(*size) + 2 <= length || *size >= 0x80,
        _ => false,
    }
}
