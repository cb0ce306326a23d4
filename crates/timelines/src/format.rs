//! What a file is, by its content.

use crate::input::Input;

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
}

/// Returns the format of a file that begins with these bytes, if it is one of them.
pub(crate) fn of_start(start: &[u8]) -> Option<Format> {
    if start.starts_with(b"SQLite format 3\0") {
        return Some(Format::Nsys);
    }
    let text = String::from_utf8_lossy(start);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    match text.chars().next() {
        Some('{') => of_object(text),
        // The traces of 2020 are lists of events.
        Some('[') if text.contains("\"ph\"") => Some(Format::Kineto),
        _ => is_chakra(start).then_some(Format::Chakra),
    }
}

/// Returns the format of a JSON text that begins with an object.
fn of_object(text: &str) -> Option<Format> {
    let has = |key: &str| text.contains(&format!("\"{key}\""));
    if has("traceEvents") || has("deviceProperties") || (has("ph") && has("ts")) {
        return Some(Format::Kineto);
    }
    if has("schema") && has("nodes") {
        return Some(Format::ExecutionTrace);
    }
    // The first object holds the metadata, the next ones are nodes; numbers of 64 bits are texts.
    let is_metadata = has("version") || has("attr");
    let has_nodes = has("ctrlDeps") || has("dataDeps") || has("durationMicros");
    let snake = has("ctrl_deps") || has("data_deps") || has("duration_micros");
    let is_node = has("_NODE") || text.contains("_NODE\"");
    let is_chakra = has_nodes || snake || is_node;
    (is_metadata && is_chakra && !has("traceEvents")).then_some(Format::ChakraJson)
}

/// Returns whether bytes begin with the length of Chakra's metadata, and the metadata.
fn is_chakra(start: &[u8]) -> bool {
    let Some((length, rest)) = length(start) else { return false };
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

/// Returns the number at the start of bytes, in the form that has its length before a message.
pub(crate) fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut length = 0usize;
    for (k, byte) in bytes.iter().enumerate().take(5) {
        length |= usize::from(byte & 0x7f) << (7 * k);
        if byte & 0x80 == 0 {
            return Some((length, &bytes[k + 1..]));
        }
    }
    None
}

/// Returns the format of an input.
pub(crate) fn of(input: &Input) -> Option<Format> {
    of_start(input.start())
}
